"""The device that commands with a model choose, whatever machine the tests run on."""

from collections.abc import Callable

import pytest
import torch
from pipeline_runs import printed

from pipelines.commands.model_options import Device, chosen_device


@pytest.fixture
def with_gpus(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    def found(here: bool) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: here)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H100")

    return found


@pytest.mark.parametrize(
    ("device", "has_gpu", "address", "chosen"),
    [
        ("auto", True, "", "cuda"),
        ("auto", False, "", "cpu"),
        ("auto", True, "auto", "cpu"),
        ("cpu", True, "", "cpu"),
        ("cuda", True, "", "cuda"),
        ("cuda", False, "auto", "cuda"),
    ],
)
def test_a_gpu_is_taken_where_there_is_one_and_said_where_nobody_asked_for_it(
    with_gpus: Callable[[bool], None], device: Device, has_gpu: bool, address: str, chosen: str
) -> None:
    with_gpus(has_gpu)
    found, text = printed(lambda console: chosen_device(device, console, address))
    assert found == chosen
    assert text == (
        "on the GPU, NVIDIA H100; --device cpu uses the CPU\n" if (device, chosen) == ("auto", "cuda") else ""
    )

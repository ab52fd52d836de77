"""What is read from the processor and the machine, and that freed memory stays with the process."""

import os
import subprocess
import sys

import pytest
import torch

from proser_core.config import ClusterConfig, Recipe
from proser_core.errors import ConfigError
from proser_core.processor import (
    bound_threads,
    has_bf16,
    ieee_convolutions,
    processor_name,
    resolve_precision,
    usable_device,
)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("flags\t\t: fpu avx2 avx512_bf16", True),
        ("flags\t\t: fpu amx_bf16 amx_tile", True),
        ("Features\t: fp asimd bf16", True),
        ("flags\t\t: fpu avx2 avx512f", False),
        ("model name\t: bf16 in the name only", False),
        ("", False),
    ],
)
def test_bf16_is_read_from_the_flags_of_the_processor(tmp_path, flags, expected):
    path = tmp_path / "cpuinfo"
    path.write_text(f"processor\t: 0\n{flags}\n")
    assert has_bf16(path) is expected


def test_a_processor_has_a_name_where_linux_has_no_model_for_it(monkeypatch, tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nBogoMIPS\t: 2100.00\nCPU part\t: 0xd40\n")  # as on Arm
    monkeypatch.setattr("proser_core.processor.Path", lambda path: cpuinfo)
    monkeypatch.setattr("platform.processor", lambda: "aarch64")
    assert processor_name() == "aarch64"


def test_a_gpu_that_is_not_there_is_refused_with_those_that_are(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert usable_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(ConfigError, match=r"device got cuda:2, and torch's GPUs here are cuda:0 to cuda:1"):
        usable_device("cuda:2")


def test_a_processor_that_does_not_tell_its_flags_has_no_bf16(tmp_path):
    assert has_bf16(tmp_path / "none") is False


@pytest.mark.parametrize("cpu_has_it", [False, True])
@pytest.mark.parametrize("gpus", [0.0, 1.0])
def test_a_named_precision_is_taken_as_it_is_and_auto_is_bf16_where_the_hardware_has_it(monkeypatch, gpus, cpu_has_it):
    monkeypatch.setattr("proser_core.processor.has_bf16", lambda: cpu_has_it)
    cluster = ClusterConfig(gpus_per_worker=gpus)
    found = [resolve_precision(Recipe(precision=each, cluster=cluster)) for each in ("fp32", "bf16", "auto")]
    assert found == [False, True, gpus > 0 or cpu_has_it]


@pytest.mark.parametrize(
    ("quota", "given", "threads"),
    [
        ("50000 100000\n", None, "1"),
        ("100001 100000\n", None, str(min(2, os.cpu_count() or 1))),
        ("6400000 100000\n", None, str(min(64, os.cpu_count() or 1))),
        ("50000 100000\n", "3", "3"),
        ("max 100000\n", None, None),
        (None, None, None),
    ],
)
def test_torch_takes_the_cores_of_a_container(tmp_path, monkeypatch, quota, given, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", given or "")
    if given is None:
        monkeypatch.delenv("OMP_NUM_THREADS")
    if quota is not None:
        (tmp_path / "cpu.max").write_text(quota)
    bound_threads(tmp_path / "cpu.max")
    assert os.environ.get("OMP_NUM_THREADS") == threads


def test_no_thread_takes_the_precision_of_convolutions_from_another() -> None:
    """The flags of cuDNN are those of the process, and are there without a GPU, too."""
    cuda, cudnn = torch.device("cuda"), torch.backends.cudnn
    with cudnn.flags(allow_tf32=True, deterministic=False):
        batch, loading = ieee_convolutions(cuda), ieee_convolutions(cuda)
        for step in (loading.__enter__, batch.__enter__, lambda: loading.__exit__(None, None, None)):
            step()
            assert (cudnn.allow_tf32, cudnn.deterministic) == (False, True)
        batch.__exit__(None, None, None)
        assert (cudnn.allow_tf32, cudnn.deterministic) == (True, False)


FAULTS_OF_LATER_STEPS = """
import platform
import resource
import torch
from proser_core.processor import keep_freed_memory
assert keep_freed_memory()
sizes = [*range(1, 30)]
if tuple(map(int, platform.libc_ver()[1].split("."))) >= (2, 35):
    sizes += [60, 120]
def step():
    blocks = [torch.ones(size << 20, dtype=torch.uint8) for size in sizes]
    del blocks
for _ in range(3):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_large_blocks_are_reused_without_page_faults() -> None:
    done = subprocess.run([sys.executable, "-c", FAULTS_OF_LATER_STEPS], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 1000, "five steps of 435 MiB have 557,000 pages to fetch where nothing is kept"

import pickle

import numpy as np
import pytest
import torch
from small_tasks import bit_equal, tiny_closed_set_net, tiny_net

from proser_core.errors import CheckpointError
from proser_core.networks.weights import load_weights, save_weights


def test_saved_weights_come_back_bit_equal(tmp_path):
    net = tiny_net(seed=1).to(memory_format=torch.channels_last)
    save_weights(net, tmp_path / "net.safetensors")
    other = tiny_net(seed=2)
    load_weights(other, tmp_path / "net.safetensors")
    assert bit_equal(net.state_dict(), other.state_dict())


@pytest.mark.parametrize("wrap", [lambda s: s, lambda s: {"state_dict": s, "epoch": 3}, lambda s: {"model": s}])
@pytest.mark.parametrize("prefix", ["", "module."])
def test_a_state_dict_of_torch_is_accepted_with_or_without_the_prefix_of_ddp(tmp_path, wrap, prefix):
    net, other = tiny_net(seed=1), tiny_net(seed=2)
    torch.save(wrap({prefix + name: value for name, value in net.state_dict().items()}), tmp_path / "net.pt")
    load_weights(other, tmp_path / "net.pt")
    assert bit_equal(net.state_dict(), other.state_dict())


def test_another_number_of_classes_is_refused_with_both_shapes(tmp_path):
    save_weights(tiny_closed_set_net(4), tmp_path / "net.safetensors")
    net = tiny_closed_set_net(3)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    with pytest.raises(CheckpointError, match=r"classifier.weight has shape \(4, 10\), the network \(3, 10\)"):
        load_weights(net, tmp_path / "net.safetensors")
    assert bit_equal(before, net.state_dict())


def test_a_missing_and_a_surplus_name_are_refused_by_name(tmp_path):
    save_weights(tiny_closed_set_net(), tmp_path / "closed.safetensors")
    with pytest.raises(CheckpointError, match=r"dummies.weight is missing; dummies.bias is missing\. Give"):
        load_weights(tiny_net(), tmp_path / "closed.safetensors")
    save_weights(tiny_net(), tmp_path / "net.safetensors")
    with pytest.raises(CheckpointError, match=r"dummies.weight is not in the network"):
        load_weights(tiny_closed_set_net(), tmp_path / "net.safetensors")


def test_of_many_problems_three_are_named_and_the_rest_counted(tmp_path):
    torch.save({}, tmp_path / "empty.pt")
    with pytest.raises(CheckpointError, match=f"and {len(tiny_net().state_dict()) - 3} more"):
        load_weights(tiny_net(), tmp_path / "empty.pt")


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"\x80\x02garbage", b"PK\x03\x04garbage", bytes(100)])
def test_a_garbage_file_is_refused(tmp_path, suffix, content):
    path = tmp_path / f"net{suffix}"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_weights(tiny_net(), path)


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_truncated_file_is_refused(tmp_path, suffix, share):
    path = tmp_path / f"net{suffix}"
    net = tiny_net()
    save_weights(net, path) if suffix == ".safetensors" else torch.save(net.state_dict(), path)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_weights(tiny_net(), path)


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_random_bytes_never_end_in_another_error(tmp_path):
    generator = np.random.default_rng(0)
    for index in range(100):
        path = tmp_path / "net.pt"
        protocol = b"\x80\x02" if index % 2 else b""
        path.write_bytes(protocol + generator.bytes(int(generator.integers(1, 60))))
        with pytest.raises(CheckpointError):
            load_weights(tiny_net(), path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match=r"there is no checkpoint .*none\.pt; need a \.safetensors file"):
        load_weights(tiny_net(), tmp_path / "none.pt")


@pytest.mark.parametrize(
    "content", [[1, 2], {"epoch": 3}, torch.zeros(3), {"state_dict": {"a": "text"}}, {0: torch.zeros(3)}]
)
def test_a_file_without_a_state_dict_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "other.pt")
    with pytest.raises(CheckpointError, match="holds no state_dict"):
        load_weights(tiny_net(), tmp_path / "other.pt")


class WritesAFile:
    """Unpickled by the ordinary means, this writes a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


@pytest.mark.parametrize("by_torch", [True, False])
def test_a_pickle_with_code_is_refused_and_not_executed(tmp_path, by_torch):
    trace, path = tmp_path / "trace", tmp_path / "net.pt"
    evil = WritesAFile(str(trace))
    if by_torch:
        torch.save({"state_dict": evil}, path)
    else:
        path.write_bytes(pickle.dumps(evil, protocol=2))
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_weights(tiny_net(), path)
    assert not trace.exists()
    pickle.loads(pickle.dumps(evil)).close()
    assert trace.exists()

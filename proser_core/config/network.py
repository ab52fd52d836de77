"""The closed-set network."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from proser_core.config.checks import Block

SplitPoint = Literal["early", "middle", "late"]
Features = Literal["auto", "frozen", "head-first", "trained"]
DEFAULT_WEIGHTS, NO_WEIGHTS = "DEFAULT", "none"


@dataclass(frozen=True, kw_only=True)
class NetworkConfig(Block):
    """The closed-set network phi and W."""

    prefix: ClassVar[str] = "network."

    backbone: str = "classifier32"
    """Embedding network. For 32 pixels: classifier32 (128-d, average-pooled, as in ARPL and MLS), classifier32_flat
    (flattened, as in Neal et al. 2018), classifier32_2d (2-d, for plots), resnet18, wide_resnet28_10 (the authors'
    released code). For larger images: torchvision:NAME, any classifier of torchvision.models, and timm:NAME (needs the
    package timm), pretrained unless network.weights is none."""
    dropout: float = 0.0
    """Dropout rate: of the three spatial dropouts of classifier32 (0.2 in Neal et al. 2018; 0 suits
    short schedules, which input dropout slows down), or in each block of wide_resnet28_10 (0.3 as
    released). The other backbones have none, or keep their own."""
    split: SplitPoint = "middle"
    """Where phi is cut into phi_pre and phi_post (eq. 6): before the last stage (middle, as in the
    authors' released code), one stage earlier (early), or before the last block (late)."""
    weights: str = DEFAULT_WEIGHTS
    """Initial weights of torchvision:NAME or timm:NAME, by the library's own name for them, such as IMAGENET1K_V1 or
    ra_in1k. They are downloaded once. DEFAULT is the library's choice, none starts from random weights. weights_file
    takes their place."""
    weights_file: str = ""
    """Initial weights for torchvision:NAME or timm:NAME, as the library saves them: a local .pth or .safetensors file
    that all machines see, unless the storage is a URI. `proser job` copies it next to JOB.json. The content of the file
    counts in the key of a training, not its path."""

    features: Features = "auto"
    """What happens to a pretrained backbone. frozen keeps it: the embeddings of all images are computed once, and only
    W and the dummies are trained on them, without augmentation. head-first pretrains W on them, then fine-tunes the
    whole network, which needs a lower learning rate; its BatchNorm keeps its statistics. trained trains all of it.
    auto is frozen for torchvision:NAME and timm:NAME with weights. On a GPU with 2,000 training images or more it is
    head-first instead, at a tenth of finetune.lr and a weight decay of at most 0.0005, or trained where finetune.start
    is scratch. For other backbones auto is trained."""

    @property
    def is_of_library(self) -> bool:
        """Whether the backbone is that of another library, torchvision:NAME or timm:NAME."""
        return ":" in self.backbone

    @property
    def has_library_weights(self) -> bool:
        """Whether it is such a backbone with weights."""
        return self.is_of_library and bool(self.weights_file)

    def is_frozen(self, kind: str) -> bool:
        """Whether a pretraining or a fine-tune sees embeddings in the place of images; other kinds never do."""
        return self.features in {"pretrain": ("frozen", "head-first"), "finetune": ("frozen",)}.get(kind, ())

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("dropout", 0 <= self.dropout < 1, "at least 0 and below 1")

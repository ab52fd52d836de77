"""What every backbone brings: phi = phi_post(phi_pre(x)) and the size of the embedding."""

from torch import Tensor, nn


class Backbone(nn.Module):
    """Embedding network [B, 3, H, W] -> [B, d], cut at a named point in the middle (eq:mixup)."""

    def __init__(self, pre: nn.Module, post: nn.Module, embedding_size: int, split_point: str) -> None:
        super().__init__()
        self.pre, self.post = pre, post
        self.embedding_size, self.split_point = embedding_size, split_point

    def forward(self, images: Tensor) -> Tensor:
        return self.post(self.pre(images))

"""Which process of a training this is."""

import torch.distributed as dist


def current_world() -> tuple[int, int]:
    """(rank, number of ranks) of the process group; (0, 1) without one."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1

import torch

torch.set_num_threads(1)  # more threads slow down tensors as small as these

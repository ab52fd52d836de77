import torch
from hypothesis import settings

torch.set_num_threads(1)  # more threads slow down tensors as small as these
settings.register_profile("quick", deadline=None, max_examples=40, derandomize=True, database=None)
settings.load_profile("quick")

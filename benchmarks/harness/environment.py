"""The machine and the versions that a measurement belongs to."""

import os
import platform

import numpy as np
import sklearn
import torch
import torchvision

from proser_core.processor import has_bf16, processor_name


def environment() -> dict[str, str | int | bool | None]:
    """What is printed above the tables and stored with them."""
    return {
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "usable cores": len(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        "bf16 in hardware": has_bf16(),
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "not set"),
        "load average": " ".join(f"{value:.1f}" for value in os.getloadavg()),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }

"""PROSER: learning placeholders for open-set recognition (CVPR 2021), as a library.

The packages import downward only: data and networks, then learning, recognition, baselines, jobs.
Nothing in here knows of Ray, MLflow or Hamilton.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proser_core.recognition.open_set_classifier import OpenSetClassifier

__all__ = ["OpenSetClassifier"]


def __getattr__(name: str) -> Any:
    """Import the public classes on first use, so that reading a recipe does not load torch."""
    if name == "OpenSetClassifier":
        from proser_core.recognition.open_set_classifier import OpenSetClassifier

        return OpenSetClassifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""The methods of the tables behind one interface, and what is computed of them side by side."""

from proser_core.baselines.method import Method
from proser_core.baselines.methods import METHODS

__all__ = ["METHODS", "Method"]

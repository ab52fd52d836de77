"""How networks of methods' own are trained. No field of a recipe: that would change the keys of all other trainings."""

from typing import Literal

ScheduleName = Literal["quick", "full"]
"""quick is for two CPU cores, full as published."""

"""How often a user's own images are walked over: on a network drive each time takes minutes."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from proser_core.data.readers import listed_folder

Walks = Counter[str]
"""Listings of each folder of images (not of the few names above them), and looks at each file, by path."""


@contextmanager
def counted_walks(root: Path) -> Iterator[Walks]:
    """Those of what is done in the block, below `root`."""
    walks = Walks()
    with pytest.MonkeyPatch.context() as patch:
        for place, name in ((os, "scandir"), (listed_folder, "status_of")):
            asked = getattr(place, name)

            def counting(path: Any = ".", asked: Any = asked) -> Any:
                if not isinstance(path, int):  # a folder that is open, as while it is deleted
                    walks[os.path.abspath(path)] += 1
                return asked(path)

            patch.setattr(place, name, counting)
        yield walks
    for path in [path for path in walks if not Path(path).is_relative_to(root)]:
        del walks[path]


def twice_walked(walks: Walks) -> list[str]:
    """What was listed or looked at more than once, but for the first class: a look into it says whether a data
    directory has images at all."""
    folders = sorted(path for path in walks if os.path.isdir(path))
    return [path for path, count in walks.items() if count > (2 if path == folders[0] else 1)]

"""What a run on one's own images says of them before it trains, and where to see more."""

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from proser_core.config import DataConfig
from proser_core.data.data_sets import DataRoot, path_of
from proser_core.data.findings import FEW, IMBALANCE, few_images, largest_to_smallest
from proser_core.data.group_notes import GROUPS, MIXED, WARNINGS
from proser_core.data.mirroring import FLIPS
from proser_core.data.repeats import LABELS, REPEATS
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import DataError
from proser_core.titles import counted, first_names

PAGE = "inspection.html"


def what_needs_a_look(task: OpenSetTask, data: DataConfig, data_dir: DataRoot) -> list[str]:
    """One line, where anything does; the run prints the task's notes with the numbers later."""
    notes, counts = parts_of_notes(task.notes, data), np.bincount(task.train.targets)
    ratio, few = largest_to_smallest(counts), [task.class_names[number] for number in few_images(counts)]
    found = [_counted_groups(each) for each in notes[GROUPS] if any(words in each for words in WARNINGS)]
    found += [f"{REPEATS}: {'; '.join(notes[REPEATS])}"] if notes[REPEATS] else []
    found += [f"classes of fewer than {FEW} training images: {first_names(few)}"] if few else []
    found += [f"classes of unequal size ({ratio:.1f} to 1)"] if ratio >= IMBALANCE else []
    return [f"look at the images first ({'; '.join(found)}): {_inspection(data, data_dir)}"] if found else []


def parts_of_notes(notes: Mapping[str, str], data: DataConfig) -> dict[str, list[str]]:
    """Parts of a task's notes on groups, flips and repeated images; an image of several classes is in one of them."""
    parts = {name: notes[name].split("; ") if name in notes else [] for name in (GROUPS, FLIPS, REPEATS)}
    # look-alikes are grouped, and so are images that are equal
    if data.group_near_duplicates and any(MIXED in each for each in parts[GROUPS]):
        parts[REPEATS] = [each for each in parts[REPEATS] if LABELS not in each]
    return parts


def _counted_groups(note: str) -> str:
    """A part of the note on groups, by itself."""
    number = note.removesuffix(f" {MIXED}")
    return note if number == note else f"{counted(int(number.replace(',', '')), 'group')} {MIXED}"


@contextmanager
def pointing_to_inspection(data: DataConfig, data_dir: DataRoot) -> Iterator[None]:
    """What is wrong with a user's own images is raised with the command that lists all of it."""
    try:
        yield
    except DataError as error:
        if not data.is_own:
            raise
        raise DataError(f"{error}. `{_inspection(data, data_dir)}` shows all that is wrong with the images") from error


def _inspection(data: DataConfig, data_dir: DataRoot) -> str:
    return shlex.join(["proser", "inspect", str(path_of(data_dir)), "-o", PAGE, *group_options(data)])


def group_options(data: DataConfig) -> list[str]:
    """What a command line says of the groups of images, where that is not the usual."""
    options = ["--data.group-by", data.group_by] if data.group_by else []
    return options if data.group_near_duplicates else [*options, "--data.no-group-near-duplicates"]

"""What MLflow's databases hold of a text: the rest of a longer one is cut where people see that it is."""

LONGEST_TAG = 8000  # characters; MLflow cuts what is longer in mid-word
LONGEST_NAME = 250  # of a run, where the database is PostgreSQL; SQLite takes any
LONGEST_DESCRIPTION = 5000  # of a model's version, as of a name


def fitting(text: str, room: int, file: str) -> str:
    """As many whole sections of Markdown as there is room for, and that the rest is in `file`."""
    if len(text) <= room:
        return text
    rest = f"\n\nThe other sections are in {file}, among the artifacts.\n"
    kept = text[: room - len(rest)]
    return kept[: max(kept.rfind("\n## "), 0) or None].rstrip() + rest


def shortened(name: str) -> str:
    """A name that a run can have."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 3]}..."

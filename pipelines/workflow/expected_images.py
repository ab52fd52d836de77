"""How many images a class split will have, before it is prepared."""

from proser_core.config import Recipe
from proser_core.data.data_sets import DataRoot, open_data_set


def expected_images(recipe: Recipe, data_dir: DataRoot) -> dict[str, int]:
    """Images by role, as if classes had equally many."""
    data = recipe.data
    known = open_data_set(data.name, data_dir)
    num_known = data.num_known or known.num_classes
    train = known.num_images("train") * num_known // known.num_classes
    if "val" in known.drawn_parts:
        val = round(data.val_fraction * train)
        train -= val
    else:
        val = known.num_images("val") * num_known // known.num_classes
    test = sum(open_data_set(each, data_dir).num_images("test") for each in (data.name, data.unknown) if each)
    return {
        "train": train,
        "val": val,
        "development": val if data.has_development else 0,
        "test": test * (1 + len(data.outliers)),
    }

"""Photos of CIFAR10 as a folder of one's own images, with wrong labels and duplicates put in by a seed.

python docs/mislabelled_photos.py DATA FOLDER [SEED]

80 photos each of airplane, automobile, cat, deer, dog and ship lie in FOLDER/CLASS/; of all, 5 % in that of another
class. Copies are added, whole files and JPEGs of another size: of 8 photos each in their own class, of 8 each in
another. FOLDER.json says what was done.
"""

import json
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from proser_core.data.data_sets import open_data_set

CLASSES = ("airplane", "automobile", "cat", "deer", "dog", "ship")
COUNT, WRONG, COPIES = 80, 24, 8


def write_photos(data_dir: Path, folder: Path, seed: int = 0) -> dict[str, list[list[str]]]:
    """Write FOLDER and FOLDER.json; by kind the files with wrong labels, or pairs of an original and its copy."""
    source = open_data_set("cifar10", data_dir).load("test", size=32)
    assert isinstance(source.images, np.ndarray)
    draw, photos = np.random.default_rng(seed), list[tuple[str, np.ndarray]]()
    for name in CLASSES:
        rows = np.flatnonzero(source.labels == source.class_names.index(name))
        photos += [(name, source.images[row]) for row in draw.permutation(rows)[:COUNT]]
    order = draw.permutation(len(photos)).tolist()
    done: dict[str, list[list[str]]] = {"wrong": []}
    files = {}
    for number, (name, pixels) in enumerate(photos):
        label = _other(name, draw) if number in order[:WRONG] else name
        files[number] = folder / label / f"{number:03}.png"
        files[number].parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(files[number])
        if label != name:
            done["wrong"].append([_below(files[number], folder)])
    rest = iter(order[WRONG:])
    for kind in ("exact within", "near within", "exact across", "near across"):
        done[kind] = []
        for number in (next(rest) for _ in range(COPIES)):
            name = photos[number][0]
            label = name if kind.endswith("within") else _other(name, draw)
            copy = folder / label / f"copy of {number:03}{'.png' if kind.startswith('exact') else '.jpg'}"
            if kind.startswith("exact"):
                copy.write_bytes(files[number].read_bytes())
            else:
                Image.open(files[number]).resize((48, 48), Image.Resampling.BICUBIC).save(copy, quality=80)
            done[kind].append([_below(files[number], folder), _below(copy, folder)])
    folder.with_suffix(".json").write_text(json.dumps(done, indent=1))
    return done


def _other(name: str, draw: np.random.Generator) -> str:
    return str(draw.choice([each for each in CLASSES if each != name]))


def _below(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


if __name__ == "__main__":
    write_photos(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:]))

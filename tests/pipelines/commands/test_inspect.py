"""`proser inspect`: what it prints and writes of folders with faults, and of labels that a model's embeddings doubt."""

import os
import re
from functools import partial
from pathlib import Path

import pytest
from PIL import Image
from pipeline_runs import Proser
from scenes import scene, write_scenes

from proser_core.data.readers import digits
from proser_core.recognition.open_set_classifier import OpenSetClassifier

HTML = "<img src=x onerror=alert(1)>"
ACTING = "[red]寺\x1b[31m\nline"  # on a terminal
write_photos = partial(write_scenes, name="{scene}.png", scenes=6, frames=1)


@pytest.fixture(scope="module")
def saved(classifier: OpenSetClassifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classifier")
    classifier.save(folder)
    return folder


def test_a_clean_folder_is_described_and_has_no_findings(tmp_path: Path, proser: Proser) -> None:
    write_photos(tmp_path / "own")
    code, text, error = proser("inspect", str(tmp_path / "own"))
    assert (code, error) == (0, "")
    for part in (
        "12 in 2 classes; those for validation and test are drawn from the training images",
        "all 120 x 120 pixels",
        "PNG 12",
        "12, the largest of 1 image; none is divided",
        "flips    judged harmless: ",
        "(50 % expected) (by all training images; a run judges those that it trains on)",
        "No findings.",
    ):
        assert part in re.sub(r" *\n +", " ", text), part
    assert "-o PAGE.html" not in text
    assert text.endswith(f"\nTrain: proser run folder-pretrained --data-dir {tmp_path / 'own'} (or folder)\n")


def test_findings_are_no_error_and_the_page_has_their_pictures(tmp_path: Path, proser: Proser) -> None:
    root = write_photos(tmp_path / "own")
    (root / "temple/copy.png").write_bytes((root / "flower/1.png").read_bytes())
    (root / "flower/broken.gif").write_bytes(b"GIF")
    code, text, _ = proser("inspect", str(root), "-o", str(tmp_path / "page.html"))
    assert code == 0
    assert text.index("files that cannot be read") < text.index("the same file in different classes")
    assert f"written: {tmp_path / 'page.html'}" in text
    assert max(map(len, text.replace(str(tmp_path), "").splitlines())) <= 80
    page = (tmp_path / "page.html").read_text()
    assert page.count("data:image/jpeg;base64,") == 2
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    assert "flower/<wbr>1.png" in page
    assert "flower/broken.gif: the image cannot be decoded" in page


def test_files_that_a_run_stops_at_are_all_named_by_their_place_in_the_folder(tmp_path: Path, proser: Proser) -> None:
    root = write_photos(tmp_path / "own")
    for number in range(22):
        (root / f"flower/broken{number:02}.gif").write_bytes(b"")
    text = re.sub(r" *\n +", " ", proser("inspect", str(root))[1])
    assert text.count(": the image cannot be decoded (it is empty)") == 20
    assert "files that cannot be read flower/broken00.gif: the image" in text
    assert "and 2 more, which -o PAGE.html lists" in text


def test_names_in_any_script_are_shown_and_those_that_would_act_are_escaped(tmp_path: Path, proser: Proser) -> None:
    root = write_photos(tmp_path / "own", classes=(ACTING, HTML))
    copy = os.fsencode(root / ACTING) + b"/\xff\x1b]0;title.png"
    with open(copy, "wb") as file:
        file.write((root / HTML / "1.png").read_bytes())
    code, text, _ = proser("inspect", str(root), "--output", str(tmp_path / "page.html"))
    assert code == 0
    assert "\x1b" not in text
    assert r"[red]寺\x1b[31m\x0aline" in text
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert HTML not in page
    assert "\x1b" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert r"寺\x1b[31m\x0aline/<wbr>\xff\x1b]0;title.png" in page


def test_groups_are_made_as_a_run_makes_them(tmp_path: Path, proser: Proser) -> None:
    root = write_photos(tmp_path / "own")
    scene(5, frame=1).save(root / "flower/frame.png")
    assert "look-alikes in one class" in proser("inspect", str(root))[1]
    assert "look-alikes" not in proser("inspect", str(root), "--data.no-group-near-duplicates")[1]
    grouped = proser("inspect", str(root), "--data.group-by", r"^(\d)")[1]  # 1, 10 and 11; 5 and its frame
    assert "\ngroups   10, the largest of 3 images" in grouped
    assert (
        f"\nThen train: proser run folder-pretrained --data-dir {root} --data.group-by '^(\\d)' (or folder" in grouped
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["nowhere"], "nowhere is not a folder; need a folder of images for each class"),
        (["own", "--data.group-by", "("], "data.group_by is"),
        (["own", "--data.group-by", "session"], "is found in no name"),
        (["own", "-o", "page.pdf"], "need a file that ends in .html"),
        (["own", "--model", "nowhere"], "nowhere"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    options: list[str], message: str, tmp_path: Path, proser: Proser, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_photos(tmp_path / "own")
    monkeypatch.chdir(tmp_path)
    code, _, error = proser("inspect", *options)
    assert code == 2
    assert message in error
    assert len(error.splitlines()) == 1
    assert os.listdir(tmp_path) == ["own"]


def test_labels_are_doubted_by_the_embeddings_of_a_model(
    tmp_path: Path, proser: Proser, saved: Path, classifier: OpenSetClassifier
) -> None:
    """The folder has a class that the model does not know, and one that is too small to be judged."""
    images = digits.read("test", 8)
    values = (*(images.class_names.index(name) for name in classifier.class_names[:2]), 9)
    for value in values:
        for number, image in enumerate(images.images[images.labels == value][:30]):
            path = tmp_path / "own" / f"digit {value}" / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(path)
    first, second, _ = (tmp_path / "own" / f"digit {value}" for value in values)
    (first / "0.png").rename(second / "wrong.png")
    (tmp_path / "own/few").mkdir()
    for number, image in enumerate(images.images[images.labels == 7][:3]):
        Image.fromarray(image).save(tmp_path / "own/few" / f"{number}.png")
    code, text, _ = proser(
        "inspect", str(tmp_path / "own"), "--model", str(saved), "-o", str(tmp_path / "page.html"),
        "--data.no-group-near-duplicates",
    )  # fmt: skip
    assert code == 0
    assert "doubtful labels" in text
    assert "labels not judged, as the class has too few images or groups: few" in text
    page = (tmp_path / "page.html").read_text()
    doubts = page[page.index("<h2>doubtful labels") :]
    found = re.search(r"<bdi>(\d+) % ([\w ]+)</bdi><br><bdi>digit \d/<wbr>wrong\.png", doubts)
    assert found is not None
    assert found[2] == first.name
    assert int(found[1]) > 50

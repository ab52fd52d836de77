"""The page of `/` on which a person tries the model: as the server sends it, and in a browser."""

import base64
import hashlib
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import Page
from http_servers import server_answering
from served_models import Start, as_json, ask, half_sent, large_image, servers_of
from waiting import PATIENCE_S, until

from pipelines.serving import messages
from pipelines.serving.access import Access, token_digest
from pipelines.serving.limits import Limits
from proser_core.recognition.open_set_classifier import OpenSetClassifier

BROWSERS = "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8"
HOSTILE = "<img src=x onerror=alert(1)>"
TOKEN = "a-token"
FAR = 1e6
"""A bias with which no image is known, and every probability of a known class is 0."""


@pytest.fixture(scope="module")
def hostile(classifier: OpenSetClassifier) -> OpenSetClassifier:
    """A classifier with a class whose name is markup."""
    return replace(classifier, class_names=(HOSTILE, *classifier.class_names[1:]))


@pytest.fixture(scope="module")
def start(hostile: OpenSetClassifier, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    limits = Limits(max_megabytes=0.2, max_megapixels=0.01)
    with servers_of(hostile, tmp_path_factory.mktemp("somewhere") / "digits model", limits) as start:
        yield start


@pytest.fixture(scope="module")
def address(start: Start) -> str:
    return start()


@pytest.fixture(scope="module")
def strict(start: Start, hostile: OpenSetClassifier, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A server to whose model every image is far from known."""
    folder = tmp_path_factory.mktemp("strict")
    replace(hostile, calibration=replace(hostile.calibration, bias=FAR)).save(folder)
    return start(model=str(folder))


@pytest.fixture(scope="module")
def guarded(start: Start) -> str:
    """A server that needs the token."""
    return start(access=Access(("127.0.0.1",), token_digest(TOKEN)))


def get(address: str, **headers: str) -> tuple[int, Any, str]:
    """Status, headers and text."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=PATIENCE_S) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


class TestAsItIsSent:
    @pytest.mark.parametrize("accept", [None, "*/*", "application/json", "application/json, text/html", "image/png"])
    def test_who_does_not_ask_for_html_gets_json_as_before(self, address: str, accept: str | None) -> None:
        status, headers, text = get(f"{address}/", **({} if accept is None else {"Accept": accept}))
        assert (status, headers["Content-Type"], headers["Vary"]) == (200, "application/json", "Accept, Origin")
        messages.About.model_validate_json(text)

    def test_it_may_run_and_load_nothing_but_what_is_in_it(self, address: str) -> None:
        status, headers, text = get(f"{address}/", Accept=BROWSERS)
        assert (status, headers["Content-Type"], headers["Vary"]) == (200, "text/html; charset=utf-8", "Accept, Origin")
        policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
        assert policy["default-src"] == "'none'"
        for kind in ("style", "script"):
            (inline,) = re.findall(f"<{kind}>(.*?)</{kind}>", text, re.DOTALL)
            digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
            assert policy[f"{kind}-src"] == f"'sha256-{digest}'"
        assert [each for each in re.findall(r'(?:src|href)="([^"]*)"', text) if not each.startswith("data:")] == [
            "docs"
        ]

    def test_it_needs_no_token_and_tells_nothing_of_the_model(self, guarded: str, hostile: OpenSetClassifier) -> None:
        status, _, text = get(f"{guarded}/", Accept=BROWSERS)
        assert status == 200
        assert not any(word in text for word in ("digits model", "somewhere", *(f">{n}<" for n in hostile.class_names)))
        assert get(f"{guarded}/", Accept="application/json")[0] == 401
        assert [get(f"{guarded}{path}", Accept=BROWSERS)[0] for path in ("/docs", "/metrics", "//")] == [401] * 3

    def test_a_foreign_host_gets_no_page(self, address: str) -> None:
        assert get(f"{address}/", Accept=BROWSERS, Host="evil.example")[0] == 403

    def test_nine_in_ten_known_validation_images_score_between_the_known_scores(
        self, address: str, hostile: OpenSetClassifier
    ) -> None:
        low, high = json.loads(get(f"{address}/")[2])["known_scores"]
        validation = hostile.validation_scores
        assert validation is not None
        scores = validation.scores[validation.is_known] + hostile.calibration.bias
        assert np.mean((scores >= low) & (scores <= high)) == pytest.approx(0.9, abs=2 / len(scores))


def test_of_an_image_that_is_far_from_known_the_likeliest_class_is_told(
    strict: str, hostile: OpenSetClassifier, pixels: np.ndarray, encoded: list[bytes]
) -> None:
    want = [hostile.class_names[number] for number in hostile.logits(pixels[:8]).known.argmax(axis=1)]
    status, answer = ask(f"{strict}/predict", as_json(encoded[:8]))
    assert (status, {row["probabilities"]["unknown"] for row in answer["predictions"]}) == (200, {1.0})
    assert [row["nearest_class"] for row in answer["predictions"]] == want
    assert len(set(want)) > 2


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, encoded: list[bytes]) -> list[Path]:
    """Eight digits, the name of the first one markup; a text; an empty file; and images of too many pixels, and of a
    byte too many."""
    folder = tmp_path_factory.mktemp("files")
    contents = {f"{number}.png": content for number, content in enumerate(encoded[:8])}
    contents["0 <b>&amp;.png"] = contents.pop("0.png")
    contents |= {"text.png": b"no image", "wide.png": large_image(), "long.png": bytes(200_001), "none.png": b""}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in sorted(contents)]


CARDS = """cards.map(({item, file}) => ({
  state: item.className, title: item.querySelector("h2").textContent, words: item.querySelector(".words").textContent,
  name: item.querySelector("figcaption").textContent, score: item.querySelector(".score").innerText,
  rows: [...item.querySelectorAll("tr")].map((row) => [...row.cells].map((cell) => cell.textContent)),
  left: item.querySelector(".length").getBoundingClientRect().left,
  zero: item.querySelector(".zero").getBoundingClientRect().left,
}))"""
DONE = "cards.length && cards.every(({item}) => item.className && item.className !== 'waiting')"


class TestInABrowser:
    def test_every_image_gets_a_card_with_the_librarys_answer_and_every_refusal_its_words(
        self, page: Page, address: str, files: list[Path], hostile: OpenSetClassifier, pixels: np.ndarray
    ) -> None:
        page.open(f"{address}/")
        page.until("document.title === 'digits model: try it'")
        assert page.value("document.querySelector('#classes li').textContent") == HOSTILE
        page.choose("#files", *files)
        page.until(DONE)
        cards = {card["name"]: card for card in page.value(CARDS)}
        assert list(cards) == [file.name for file in files]
        want = hostile.predict(pixels[:8])
        for number, name in enumerate(["0 <b>&amp;.png", *(f"{number}.png" for number in range(1, 8))]):
            card, unknown = cards[name], want.labels[number] == "unknown"
            assert (card["state"], card["title"]) == ("unknown" if unknown else "known", want.labels[number])
            assert ("not above the threshold" in card["score"]) == (not unknown)
            assert (card["left"] < card["zero"]) == (want.unknown_scores[number] < 0)
            shown = float(card["score"].split()[1].rstrip(",").replace("\u2212", "-"))
            assert shown == pytest.approx(want.unknown_scores[number], rel=0.01)
            shares = dict(zip([*hostile.class_names, "unknown"], want.probabilities[number], strict=True))
            for title, _, share in card["rows"]:
                if title in shares and not share.startswith(("<", ">")):
                    assert float(share.removesuffix(" %")) == pytest.approx(100 * shares[title], abs=0.06)
        assert {card["state"] for card in cards.values()} == {"known", "unknown", "failed"}
        refused = {"text.png": "not an image", "wide.png": "too large", "long.png": "too large", "none.png": "cannot"}
        for name, words in refused.items():
            assert (cards[name]["state"], words in cards[name]["title"]) == ("failed", True)
            assert cards[name]["words"]
        assert cards["long.png"]["words"] == "It has 0.3 MB; the server takes 0.2 MB or less."
        assert cards["none.png"]["words"] == "It is empty."
        assert page.value("document.querySelectorAll('.again:not([hidden])').length") == 0
        assert page.value("document.getElementById('summary').textContent").startswith("12 images: ")
        assert all("status of 4" in problem for problem in page.problems), page.problems  # no violation of the policy

    def test_an_image_that_is_far_from_known_is_said_to_be_like_its_likeliest_class(
        self, page: Page, strict: str, files: list[Path], hostile: OpenSetClassifier, pixels: np.ndarray
    ) -> None:
        page.open(f"{strict}/")
        page.until("about")
        page.choose("#files", *files[1:8])
        page.until(DONE)
        for card, number in zip(page.value(CARDS), hostile.logits(pixels[1:8]).known.argmax(axis=1), strict=True):
            name = hostile.class_names[number]
            assert card["words"] == f"Of the known classes it is most like {name}."
            assert [row[0] for row in card["rows"]][:2] == ["unknown", name]

    @pytest.mark.parametrize(("count", "last"), [(4, []), (5, []), (6, ["2 others"]), (9, ["5 others"])])
    def test_classes_are_counted_together_where_that_saves_a_row(
        self, page: Page, address: str, count: int, last: list[str]
    ) -> None:
        page.open(f"{address}/")
        page.until("about")
        names = [f"class {number}" for number in range(count)]
        shares = {"unknown": 0.5} | {name: 0.5 / (number + 2) for number, name in enumerate(names)}
        prediction = {"label": "unknown", "unknown": True, "unknown_score": 1, "nearest_class": names[0]}
        page.value(f"""
            const made = makeCard(new File([], "a.png"));
            made.prediction = {json.dumps(prediction | {"probabilities": shares})};
            showPrediction(made);
        """)
        rows = page.value("[...made.item.querySelectorAll('th')].map((cell) => cell.textContent)")
        assert rows == ["unknown", *names[: count if not last else 4], *last]

    def test_dropped_images_are_classified_and_clear_forgets_them(
        self, page: Page, address: str, files: list[Path]
    ) -> None:
        page.open(f"{address}/")
        page.until("about")
        content = base64.b64encode(files[1].read_bytes()).decode()
        page.value(f"""
            const given = new DataTransfer();
            given.items.add(new File([Uint8Array.from(atob("{content}"), (c) => c.charCodeAt())], "dropped.png"));
            for (const kind of ["dragover", "drop"])
              document.body.dispatchEvent(new DragEvent(kind, {{bubbles: true, dataTransfer: given}}));
        """)
        page.until(DONE)
        assert page.value(CARDS)[0]["state"] in ("known", "unknown")
        text = "new DragEvent('drop', {bubbles: true, cancelable: true, dataTransfer: new DataTransfer()})"
        assert page.value(f"document.body.dispatchEvent({text})"), "text goes where it is dropped"
        page.value("document.getElementById('clear').click()")
        assert page.value("document.querySelectorAll('#results li').length") == 0

    def test_it_is_named_reached_by_keys_and_as_wide_as_a_phone(
        self, page: Page, address: str, files: list[Path]
    ) -> None:
        page.open(f"{address}/", width=360, height=700)
        page.until("about")
        page.choose("#files", *files)
        page.until(DONE)
        assert page.value("document.documentElement.scrollWidth") == 360
        page.value("document.body.focus()")
        reached = set()
        for _ in range(6):
            page.press("Tab")
            reached.add(page.value("document.activeElement.id"))
        assert {"files", "clear", "routes"} <= reached
        nodes = page.call("Accessibility.getFullAXTree")["nodes"]
        controls = [node for node in nodes if node["role"]["value"] in ("button", "link", "textbox", "LabelText")]
        assert len(controls) > 3
        assert [node for node in controls if node["role"]["value"] != "LabelText" and not node["name"]["value"]] == []

    @pytest.mark.parametrize(
        ("status", "answer", "words"),
        [
            (502, "<html>", "The server failed (502)"),
            (200, "<html>", "Something else answers"),
            (200, "{}", "Something else answers"),
        ],
    )
    def test_what_a_gateway_answers_instead_of_the_server_is_told_and_can_be_tried_again(
        self, page: Page, address: str, files: list[Path], status: int, answer: str, words: str
    ) -> None:
        with server_answering((status, answer), before=address) as gateway:
            page.open(f"{gateway}/")
            page.until("about")
            page.choose("#files", files[1])
            page.until(DONE)
        card = page.value(CARDS)[0]
        assert card["state"] == "failed"
        assert words in f"{card['title']}. {card['words']}"
        assert not page.value("document.querySelector('.again').hidden")

    def test_a_busy_server_is_asked_again(self, page: Page, start: Start, files: list[Path]) -> None:
        """With one request that waits for the rest of its body."""
        address, content = start(max_waiting=1), files[1].read_bytes()
        page.open(f"{address}/")
        page.until("about")
        half = half_sent(address, content)
        until(lambda: get(f"{address}/v2/health/ready")[0] != 200)
        page.choose("#files", files[1])
        page.until("cards.length && cards[0].item.matches('.waiting') && cards[0].item.innerText.includes('busy')")
        half.send(content[10:])
        assert half.getresponse().status == 200
        page.until("cards[0].prediction")

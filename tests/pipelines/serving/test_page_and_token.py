"""The page on which a person tries the model asks for the token of its server, also when one expires under way."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Page
from served_models import servers_of

from pipelines.serving.access import Access, token_digest
from proser_core.recognition.open_set_classifier import OpenSetClassifier

TOKEN = "a-token"
FAILED = "cards.filter(({item}) => item.className === 'failed').length"
ASKED = "!document.getElementById('access').hidden"


@pytest.fixture(scope="module")
def guarded(classifier: OpenSetClassifier, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that needs the token."""
    with servers_of(classifier, tmp_path_factory.mktemp("model")) as start:
        yield start(access=Access(("127.0.0.1",), token_digest(TOKEN)))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, encoded: list[bytes]) -> list[Path]:
    """Seven digits, more than the page sends at a time."""
    folder = tmp_path_factory.mktemp("files")
    for number in range(7):
        (folder / f"{number}.png").write_bytes(encoded[number])
    return sorted(folder.iterdir())


def test_it_asks_for_the_token_and_tries_what_was_refused_again_without_losing_the_keyboards_place(
    page: Page, guarded: str, files: list[Path]
) -> None:
    page.open(f"{guarded}/")
    page.until(ASKED)
    assert page.value("document.activeElement.id") == "token"
    page.write("another-token")
    page.press("Enter")
    page.until("document.getElementById('problem').textContent.includes('does not accept')")
    page.write(TOKEN)
    page.press("Enter")
    page.until("about")
    assert page.value("document.activeElement.id") == "files"
    assert page.value("document.getElementById('routes').hidden")
    page.value("token = 'expired'")
    page.choose("#files", *files[:3])
    page.until(f"{FAILED} === 3")
    page.write(TOKEN)
    page.press("Enter")
    page.until(f"!({ASKED})")
    page.value("document.querySelector('.again').click()")
    assert page.value("document.activeElement === cards[0].item")
    page.until("cards[0].prediction")
    page.value("document.getElementById('all-again').click()")
    assert page.value("document.activeElement.id") == "files"
    page.until("cards.every(({prediction}) => prediction) && document.getElementById('all-again').hidden")


@pytest.mark.parametrize("token", ["expired", ""])
def test_images_that_were_sent_with_no_valid_token_do_not_disturb_who_enters_one(
    page: Page, guarded: str, files: list[Path], token: str
) -> None:
    page.open(f"{guarded}/")
    page.until(ASKED)
    page.write(TOKEN)
    page.press("Enter")
    page.until("about")
    page.value("""
        sent = 0, late = [], real = fetch;
        window.fetch = async (path, options) => {
          const answer = await real(path, options);
          if (path === "predict") await new Promise((arrives) => { sent += 1; late.push(arrives); });
          return answer;
        };
    """)
    page.value(f"token = '{token}'")
    page.choose("#files", *files)
    page.until("late.length === 4")
    page.value("late.shift()()")
    page.until(ASKED)
    page.until(f"{FAILED} === 4")  # it, and the three that waited for their turn
    page.write(TOKEN[:3])
    page.value("late.shift()()")
    page.until(f"{FAILED} === 5")
    page.write(TOKEN[3:])
    page.press("Enter")
    page.until(f"!({ASKED})")
    page.value("late.splice(0).forEach((arrives) => arrives())")
    page.until(f"{FAILED} === 7")
    assert page.value("sent") == 4
    assert page.value(f"[{ASKED}, token]") == [False, TOKEN]
    page.value("window.fetch = real; document.getElementById('all-again').click()")
    page.until("cards.every(({prediction}) => prediction)")

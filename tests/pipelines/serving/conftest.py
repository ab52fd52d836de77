"""A browser in which the page of a server is opened."""

from collections.abc import Iterator

import pytest
import screenshots
from browser import Page, open_browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    program = screenshots.find_browser()
    if program is None:
        pytest.skip("no Chromium on PATH")
    with open_browser(program, tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def page(browser: Page) -> Page:
    """The browser, with nothing reported yet."""
    browser.problems.clear()
    return browser

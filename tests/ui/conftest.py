"""A browser and a daemon for each file of tests, and no more browsers at once than processors."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.browser_slots import BrowserSlot
from tests.support.daemon import Serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.ui.support import Person, TalkingEngine

# So that their assertions show what was found.
pytest.register_assert_rewrite("tests.ui.support", "tests.ui.accessibility")

_HERE = Path(__file__).parent
_slot = BrowserSlot(os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid())))

MORE_THAN_PAGES = (
    "test_browser.py",
    "test_composer.py",
    "test_controls.py",
    "test_install.py",
    "test_live.py",
)
"""Files that need what is around the pages: notifications, a microphone, installed applications."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Hold the slot for a whole file; what waits for it is not within the time of a test.

    pytest calls this for the tests of all folders.
    """
    if not item.path.is_relative_to(_HERE):
        return (yield)
    if not _slot.is_held:
        _slot.acquire()
    try:
        return (yield)
    finally:
        if nextitem is None or nextitem.path != item.path:
            _slot.release()


@pytest.fixture(scope="module")
def browser(request: pytest.FixtureRequest) -> "Iterator[Browser]":
    """A real Chromium; without the windows around its pages where these are all that is needed.

    It ends with its file: while Playwright's synchronous interface is open, an event loop runs in
    this thread, and the tests of other files could not start theirs.
    """
    from tests.ui.support import ARGUMENTS, CHROMIUM, HEADLESS_SHELL

    program = CHROMIUM if request.path.name in MORE_THAN_PAGES else HEADLESS_SHELL
    if not program:
        pytest.skip("needs: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def talking() -> "TalkingEngine":
    """The engine of the file's daemon."""
    from tests.ui.support import TalkingEngine

    return TalkingEngine()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, talking: "TalkingEngine") -> Iterator[Serving]:
    """The file's daemon."""
    with Serving(tmp_path_factory.mktemp("site"), talking) as serving:
        yield serving


@pytest.fixture
def ada(browser: "Browser", site: Serving) -> "Iterator[Person]":
    """An administrator at a desk."""
    from tests.ui.support import person

    with person(browser, site) as somebody:
        yield somebody

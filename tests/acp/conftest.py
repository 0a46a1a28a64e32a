"""Editors over the folder of a test's daemon."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.acp.support import AskingEngine, Editor
from tests.support.daemon import KEY, Serving

Start = Callable[..., Editor]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Serving]:
    """A daemon whose agent asks."""
    with Serving(tmp_path, AskingEngine()) as serving:
        yield serving


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start editors; all of them end with the test."""
    with ExitStack() as stack:

        def begin(*words: str, key: str | None = KEY) -> Editor:
            return stack.enter_context(Editor(tmp_path, *words, key=key))

        yield begin


@pytest.fixture
def editor(house: Serving, start: Start) -> Editor:
    """An editor that has sent its first request."""
    editor = start()
    editor.begin()
    return editor

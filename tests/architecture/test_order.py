"""The files that begin first are there."""

from pathlib import Path

import tests.conftest
from tests.conftest import LONG


def test_every_long_file_is_there_and_named_once() -> None:
    folder = Path(tests.conftest.__file__).parent
    assert [name for name in LONG if not (folder / name).is_file()] == []
    assert len(set(LONG)) == len(LONG)

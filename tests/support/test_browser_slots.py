"""Browsers wait for a slot only while all are taken."""

import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.browser_slots import BrowserSlot
from tests.ui import conftest


@pytest.fixture
def slots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[BrowserSlot]:
    """Three processes of a run with two slots."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return [BrowserSlot("run", 2) for _ in range(3)]


def test_any_two_processes_have_browsers_at_once(slots: list[BrowserSlot]) -> None:
    for one, other in ((0, 1), (0, 2), (1, 2)):
        slots[one].acquire()
        slots[other].acquire()
        assert [slot.is_held for slot in slots].count(True) == 2
        slots[one].release()
        slots[other].release()
        assert not any(slot.is_held for slot in slots)


def test_a_third_one_waits_until_a_slot_is_free(slots: list[BrowserSlot]) -> None:
    slots[0].acquire()
    slots[1].acquire()
    waiting = threading.Thread(target=slots[2].acquire)
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    slots[1].release()
    waiting.join(60)
    assert not waiting.is_alive()


@pytest.mark.parametrize(("name", "held"), [("ui/test_chat.py", True), ("auth/test_key.py", False)])
def test_only_files_of_browser_tests_take_a_slot(
    slots: list[BrowserSlot], monkeypatch: pytest.MonkeyPatch, name: str, held: bool
) -> None:
    monkeypatch.setattr(conftest, "_slot", slots[0])
    item: Any = SimpleNamespace(path=Path(conftest.__file__).parents[1] / name)
    protocol: Any = conftest.pytest_runtest_protocol(item, None)
    next(protocol)
    assert slots[0].is_held == held
    with suppress(StopIteration):
        protocol.send(True)
    assert not slots[0].is_held

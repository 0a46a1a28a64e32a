"""Notes are written soon, in order, without secrets; the oldest go, and pages do not mind."""

import errno
import os
import threading
from pathlib import Path

import msgspec
import pytest

from agentd.core.clock import FrozenClock
from agentd.core.errors import BadRequest, Unavailable
from agentd.gateway.service_log import store as module
from agentd.gateway.service_log.note import ServiceLogFilter
from agentd.gateway.service_log.store import ServiceLog, read_page

ALL = ServiceLogFilter()


@pytest.fixture
def service_log(layout):
    log = ServiceLog(layout, FrozenClock())
    yield log
    log.close()


def wait_until_written(log: ServiceLog) -> None:
    log._thread.submit(lambda: None).result(100)


def read_texts(layout, wanted=ALL, limit=1000) -> list[str]:
    return [note.text for note in read_page(layout, wanted, limit).entries]


def test_a_note_is_one_line_of_json(layout, service_log):
    service_log.add("warning", "channel_down", "it\nstalls", channel="one", remote="10.0.0.1")
    wait_until_written(service_log)
    path = Path(layout.service_log)
    assert msgspec.json.decode(path.read_bytes()) == {
        "n": 1,
        "at": "2026-01-01T00:00:00.000Z",
        "level": "warning",
        "kind": "channel_down",
        "text": "it\\nstalls",
        "channel": "one",
        "remote": "10.0.0.1",
    }
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_looks_like_a_secret_is_taken_out(layout, service_log):
    secret = "sk-agentd-abcdefghijkl-" + "A1b2" * 8
    service_log.add("info", "sign_in_failed", f"with {secret} and Bearer abcdefghijklmnop")
    wait_until_written(service_log)
    assert read_texts(layout) == ["with sk-*** and Bearer ***"]


def test_the_log_turns_over_and_pages_go_through_all_that_is_left(layout, service_log, monkeypatch):
    monkeypatch.setattr(module, "MAX_FILE_BYTES", 1000)
    for n in range(100):
        service_log.add("info", "test", str(n))
    wait_until_written(service_log)
    files = sorted(path.name for path in Path(layout.service_log).parent.glob("service.log*"))
    assert files == ["service.log", *(f"service.log.{n}" for n in range(1, module.MAX_FILES))]
    assert all(path.stat().st_size < 1200 for path in Path(layout.service_log).parent.iterdir())
    found, cursor = [], ""
    while True:
        part = read_page(layout, ALL, 7, cursor)
        found += [note.text for note in part.entries]
        cursor = part.next
        if not cursor:
            break
        if len(found) == 14:  # a turn in between moves every file
            monkeypatch.setattr(module, "MAX_FILE_BYTES", 1)
            service_log.add("info", "test", "later")
            wait_until_written(service_log)
    assert 30 < len(found) < 100
    assert found == [str(n) for n in range(99, 99 - len(found), -1)]


def test_numbers_go_on_in_the_next_life_after_a_torn_end(layout, service_log):
    service_log.add("info", "test", "one")
    wait_until_written(service_log)
    with open(layout.service_log, "ab") as file:
        file.write(b'{"n":2,"at')
    again = ServiceLog(layout, FrozenClock())
    again.add("info", "test", "two")
    again.close()
    assert [(note.n, note.text) for note in read_page(layout, ALL).entries] == [
        (2, "two"),
        (1, "one"),
    ]


def test_a_page_is_of_what_is_wanted(layout, service_log):
    service_log.add("info", "a", "1", channel="one")
    service_log.add("error", "b", "2", key="k")
    wait_until_written(service_log)
    assert read_texts(layout, ServiceLogFilter(level="error")) == ["2"]
    assert read_texts(layout, ServiceLogFilter(kind="a")) == ["1"]
    assert read_texts(layout, ServiceLogFilter(channel="one")) == ["1"]
    assert read_texts(layout, ServiceLogFilter(key="k")) == ["2"]
    assert read_texts(layout, ServiceLogFilter(key="k", kind="a")) == []


def test_there_is_an_empty_page_before_the_first_note(layout):
    assert read_page(layout, ALL).entries == []


@pytest.mark.parametrize("cursor", ["x", "-1", "1.5", "9" * 30, "²"])
def test_what_is_no_cursor_is_refused(layout, cursor):
    with pytest.raises(BadRequest):
        read_page(layout, ALL, cursor=cursor)


def test_too_many_at_once_and_a_full_disk_are_counted_and_nobody_waits(
    layout, service_log, monkeypatch
):
    monkeypatch.setattr(module, "MAX_WAITING", 5)
    held = threading.Event()
    service_log._thread.submit(held.wait, 100)
    for n in range(8):
        service_log.add("info", "test", str(n))
    held.set()
    wait_until_written(service_log)
    assert service_log.dropped == 3
    assert read_texts(layout) == ["4", "3", "2", "1", "0"]
    real = os.write

    def raise_disk_full(*_):
        raise OSError(errno.ENOSPC, "")

    monkeypatch.setattr(module.os, "write", raise_disk_full)
    service_log.add("info", "test", "lost")
    wait_until_written(service_log)
    monkeypatch.setattr(module.os, "write", real)
    service_log.add("info", "test", "again")
    wait_until_written(service_log)
    assert service_log.dropped == 4
    assert read_texts(layout)[0] == "again"


def test_what_cannot_be_read_is_unavailable(layout, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EIO, "")

    monkeypatch.setattr(module.os, "open", refuse)
    with pytest.raises(Unavailable):
        read_page(layout, ALL)


def test_a_log_that_turns_over_while_it_is_read_tells_each_note_once(layout, service_log):
    for n in range(3):
        service_log.add("info", "test", str(n))
    wait_until_written(service_log)
    notes = module._iter_backwards(layout)
    found = [next(notes).text]
    service_log._thread.submit(service_log._rotate).result(100)
    service_log.add("info", "test", "later")
    wait_until_written(service_log)
    assert found + [note.text for note in notes] == ["2", "1", "0"]

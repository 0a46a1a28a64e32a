"""Bodies are kept off the loop, within their size and time; what is dropped is told."""

import errno
import os
import threading
from pathlib import Path

import pytest

from agentd.disk import bodies as module
from agentd.disk.bodies import BodyFiles
from agentd.disk.layout import Layout

DAY, NEXT = "2026-01-01", "2026-01-02"
AT = f"{DAY}T07:00:00.000Z"


@pytest.fixture
def told():
    return []


@pytest.fixture
def bodies(layout, told):
    bodies = BodyFiles(layout, told.append)
    yield bodies
    bodies.close()


def settled(bodies: BodyFiles) -> None:
    bodies.retain("")


def kept(layout: Layout) -> set[str]:
    return {f"{path.parent.name}/{path.stem}" for path in Path(layout.bodies).glob("*/*")}


def test_an_exchange_is_kept_and_read_again(layout, bodies, told):
    bodies.keep("r-1", AT, b'{"model":"x"}', "grüß".encode())
    settled(bodies)
    found = bodies.read("r-1", DAY)
    assert (found.request, found.response, found.base64) == ('{"model":"x"}', "grüß", False)
    path = Path(layout.bodies, DAY, "r-1.json")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert bodies.read("r-2", DAY) is None
    assert not told


def test_what_is_no_text_is_kept_in_base64(bodies):
    bodies.keep("r-1", AT, b"\xff\xfe", b"text")
    settled(bodies)
    found = bodies.read("r-1", DAY)
    assert (found.request, found.response, found.base64) == ("//4=", "dGV4dA==", True)


def test_each_side_is_cut_to_its_most_even_within_a_letter(bodies):
    bodies.most = 3
    bodies.keep("r-1", AT, "aaß".encode(), b"abcdef")
    settled(bodies)
    found = bodies.read("r-1", DAY)
    assert (found.request, found.response, found.base64) == ("aa", "abc", False)


def test_the_oldest_day_makes_room_and_what_has_none_is_dropped_and_told(layout, bodies, told):
    bodies.limit = 1000
    bodies.keep("old", AT, b"x" * 400, b"")
    bodies.keep("new", f"{NEXT}T00:00:00.000Z", b"x" * 700, b"")
    settled(bodies)
    assert kept(layout) == {f"{NEXT}/new"}
    bodies.keep("more", f"{NEXT}T00:00:01.000Z", b"x" * 700, b"")
    settled(bodies)
    assert kept(layout) == {f"{NEXT}/new"}
    assert bodies.dropped == 1
    assert told == ["1 bodies of requests were not kept so far: they may take no more than 1000 "
                    "bytes in all"]  # fmt: skip


def test_what_an_earlier_life_kept_counts(layout, bodies, told):
    bodies.keep("old", AT, b"x" * 400, b"")
    settled(bodies)
    again = BodyFiles(layout, told.append, limit=600)
    again.keep("r-2", f"{NEXT}T00:00:00.000Z", b"x" * 400, b"")
    again.close()
    assert kept(layout) == {f"{NEXT}/r-2"}


def test_old_days_go(layout, bodies):
    bodies.keep("old", AT, b"", b"")
    bodies.keep("new", f"{NEXT}T00:00:00.000Z", b"", b"")
    assert bodies.retain(NEXT) == [DAY]
    assert kept(layout) == {f"{NEXT}/new"}


def test_what_comes_faster_than_the_disk_takes_it_is_dropped_and_told(
    layout, bodies, told, monkeypatch
):
    monkeypatch.setattr(module, "WAITING_BYTES", 100)
    held = threading.Event()
    bodies._thread.submit(held.wait, 100)
    for n in range(150):
        bodies.keep(f"r-{n}", AT, b"x" * 90, b"")
    held.set()
    settled(bodies)
    assert kept(layout) == {f"{DAY}/r-0"}
    assert bodies.dropped == 149
    assert len(told) == 2


def test_a_full_disk_is_told_and_passes(layout, bodies, told, monkeypatch):
    real = os.open

    def full(*_):
        raise OSError(errno.ENOSPC, "")

    monkeypatch.setattr(module.os, "open", full)
    bodies.keep("r-1", AT, b"", b"")
    settled(bodies)
    monkeypatch.setattr(module.os, "open", real)
    bodies.keep("r-2", AT, b"", b"")
    settled(bodies)
    assert "disk full" in told[0]
    assert f"{DAY}/r-2" in kept(layout)


@pytest.mark.parametrize("name", ["../../x", "", "a/b", "x" * 101])
def test_no_name_leads_out_of_the_folder(bodies, name):
    with pytest.raises(ValueError, match="no id"):
        bodies.keep(name, AT, b"", b"")
    assert bodies.read(name, DAY) is None
    assert bodies.read("r-1", "../x") is None

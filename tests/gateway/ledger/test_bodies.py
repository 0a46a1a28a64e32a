"""Bodies are kept off the loop, within their size and time; what is dropped is told."""

import errno
import os
import threading
from pathlib import Path

import pytest

from agentd.gateway.ledger import bodies as module
from agentd.gateway.ledger.bodies import BodyStore
from agentd.storage.layout import Layout

DAY, NEXT = "2026-01-01", "2026-01-02"
AT = f"{DAY}T07:00:00.000Z"


@pytest.fixture
def reported():
    return []


@pytest.fixture
def bodies(layout, reported):
    bodies = BodyStore(layout, reported.append)
    yield bodies
    bodies.close()


def wait_until_written(bodies: BodyStore) -> None:
    bodies.delete_before("")


def list_kept(layout: Layout) -> set[str]:
    return {f"{path.parent.name}/{path.stem}" for path in Path(layout.bodies).glob("*/*")}


def test_an_exchange_is_kept_and_read_again(layout, bodies, reported):
    bodies.store("r-1", AT, b'{"model":"x"}', "grüß".encode())
    wait_until_written(bodies)
    found = bodies.read("r-1", DAY)
    assert (found.request, found.response, found.base64) == ('{"model":"x"}', "grüß", False)
    path = Path(layout.bodies, DAY, "r-1.json")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert bodies.read("r-2", DAY) is None
    assert not reported


def test_what_is_no_text_is_kept_in_base64(bodies):
    bodies.store("r-1", AT, b"\xff\xfe", b"text")
    wait_until_written(bodies)
    found = bodies.read("r-1", DAY)
    assert (found.request, found.response, found.base64) == ("//4=", "dGV4dA==", True)


def test_each_side_is_cut_to_its_most_even_within_a_letter(bodies):
    bodies.most = 3
    bodies.store("r-1", AT, "aaß".encode(), b"abcdef")
    wait_until_written(bodies)
    found = bodies.read("r-1", DAY)
    assert (found.request, found.response, found.base64) == ("aa", "abc", False)


def test_secrets_are_taken_out_before_a_side_is_cut(bodies):
    """Else the part of a secret that is left of the cut is no secret to any rule."""
    bodies.most = 6
    bodies.store("r-1", AT, b"a secret", b"my secret", lambda body: body.replace(b"secret", b"*"))
    wait_until_written(bodies)
    found = bodies.read("r-1", DAY)
    assert (found.request, found.response) == ("a *", "my *")


@pytest.mark.parametrize("failure", [ValueError, RecursionError])
def test_what_cannot_be_freed_of_its_secrets_is_not_kept_and_reported(
    layout, bodies, reported, failure
):
    def fail(body: bytes) -> bytes:
        raise failure

    bodies.store("r-1", AT, b"a secret", b"", fail)
    bodies.store("r-2", AT, b"none", b"")
    wait_until_written(bodies)
    assert list_kept(layout) == {f"{DAY}/r-2"}
    assert bodies.dropped == 1
    assert "their secrets could not be removed" in reported[0]


def test_the_oldest_day_makes_room_and_what_has_none_is_dropped_and_reported(
    layout, bodies, reported
):
    bodies.limit = 1000
    bodies.store("old", AT, b"x" * 400, b"")
    bodies.store("new", f"{NEXT}T00:00:00.000Z", b"x" * 700, b"")
    wait_until_written(bodies)
    assert list_kept(layout) == {f"{NEXT}/new"}
    bodies.store("more", f"{NEXT}T00:00:01.000Z", b"x" * 700, b"")
    wait_until_written(bodies)
    assert list_kept(layout) == {f"{NEXT}/new"}
    assert bodies.dropped == 1
    assert reported == ["1 bodies of requests were not kept so far: they may use at most 1000 "
                    "bytes in total"]  # fmt: skip


def test_what_an_earlier_life_kept_counts(layout, bodies, reported):
    bodies.store("old", AT, b"x" * 400, b"")
    wait_until_written(bodies)
    again = BodyStore(layout, reported.append)
    again.limit = 600
    again.store("r-2", f"{NEXT}T00:00:00.000Z", b"x" * 400, b"")
    again.close()
    assert list_kept(layout) == {f"{NEXT}/r-2"}


def test_old_days_go(layout, bodies):
    bodies.store("old", AT, b"", b"")
    bodies.store("new", f"{NEXT}T00:00:00.000Z", b"", b"")
    assert bodies.delete_before(NEXT) == [DAY]
    assert list_kept(layout) == {f"{NEXT}/new"}


def test_what_comes_faster_than_the_disk_takes_it_is_dropped_and_reported(
    layout, bodies, reported, monkeypatch
):
    monkeypatch.setattr(module, "MAX_WAITING_BYTES", 100)
    held = threading.Event()
    bodies._thread.submit(held.wait, 100)
    for n in range(150):
        bodies.store(f"r-{n}", AT, b"x" * 90, b"")
    held.set()
    wait_until_written(bodies)
    assert list_kept(layout) == {f"{DAY}/r-0"}
    assert bodies.dropped == 149
    assert len(reported) == 2


def test_a_full_disk_is_reported_and_passes(layout, bodies, reported, monkeypatch):
    real = os.open

    def raise_disk_full(*_):
        raise OSError(errno.ENOSPC, "")

    monkeypatch.setattr(module.os, "open", raise_disk_full)
    bodies.store("r-1", AT, b"", b"")
    wait_until_written(bodies)
    monkeypatch.setattr(module.os, "open", real)
    bodies.store("r-2", AT, b"", b"")
    wait_until_written(bodies)
    assert "disk full" in reported[0]
    assert f"{DAY}/r-2" in list_kept(layout)


@pytest.mark.parametrize("name", ["../../x", "", "a/b", "x" * 101])
def test_no_name_leads_out_of_the_folder(bodies, name):
    with pytest.raises(ValueError, match="id of a request"):
        bodies.store(name, AT, b"", b"")
    assert bodies.read(name, DAY) is None
    assert bodies.read("r-1", "../x") is None

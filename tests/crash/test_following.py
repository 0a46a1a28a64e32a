"""A client that follows the live events through ``kill -9`` receives each once, in order."""

import json
import random
import shutil
import signal
import threading
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from agentd.core.sse import ServerSentEvent, SseReader
from agentd.live.cursor import parse_cursor
from tests.crash.keeper import PATIENCE, DaemonProcess, Keeper
from tests.crash.keys import KEY
from tests.support.waiting import until

ENOUGH = (1, 10, 5, 40, 3, 30)
"""Answers, somewhat after which each of the daemons is killed."""
BROKEN = (OSError, HTTPException)
HEADERS = {"X-API-Key": KEY, "Content-Type": "application/json"}


class Follower:
    """Comes back after each break with the last mark that it saw."""

    def __init__(self) -> None:
        self.told: list[ServerSentEvent] = []
        self.last = "0"

    def follow(self, process: DaemonProcess) -> threading.Thread:
        """Listen until the connection breaks."""
        thread = threading.Thread(target=self._listen, args=(process,))
        thread.start()
        return thread

    def _listen(self, process: DaemonProcess) -> None:
        with suppress(*BROKEN):
            for events, mark in _read_events(process, self.last):
                self.last = mark or self.last
                self.told += [event for event in events if event.name != "resumed"]


def _read_events(
    process: DaemonProcess, since: str
) -> Generator[tuple[list[ServerSentEvent], str], None, None]:
    """Yield the events of each read, and the cursor after them."""
    reader = SseReader()
    with _asked(process, "GET", f"/api/events?since={since}") as answer:
        while data := answer.read1(65536):
            yield list(reader.feed(data)), reader.last_id


def _read_history(process: DaemonProcess) -> list[ServerSentEvent]:
    """Return all events that a new client is sent, up to then."""
    found: list[ServerSentEvent] = []
    with closing(_read_events(process, "0")) as portions:
        for events, mark in portions:
            found += events
            if found and parse_cursor(mark).seq >= json.loads(found[0].data)["to"]:
                break
    assert found[0].name == "resumed"
    return found[1:]


@contextmanager
def _asked(
    process: DaemonProcess, method: str, path: str, body: object = None
) -> Iterator[HTTPResponse]:
    with closing(HTTPConnection(urlsplit(process.url).netloc, timeout=PATIENCE)) as connection:
        connection.request(method, path, None if body is None else json.dumps(body), HEADERS)
        with connection.getresponse() as answer:
            assert answer.status in (200, 201)
            yield answer


def _talk(process: DaemonProcess, chance: random.Random, enough: int) -> None:
    """Make events until the daemon is killed, which it is somewhat after so many answers."""
    killer = threading.Timer(chance.uniform(0, 0.05), process.end, [signal.SIGKILL])
    with suppress(*BROKEN):
        chats = []
        for number in count():
            if number == enough:
                killer.start()
            if len(chats) < 3:
                with _asked(process, "POST", "/api/remote/chats", {"title": "x"}) as answer:
                    chats.append(json.loads(answer.read())["chatId"])
            path = f"/api/remote/chats/{chance.choice(chats)}/queue"
            with _asked(process, "POST", path, {"prompt": "x" * chance.randrange(1, 500)}):
                pass
    killer.join()


def _damage_log(folder: Path, harm: str, chance: random.Random) -> None:
    """Damage the log of events as a crash, or a person, may do."""
    if harm == "deleted":
        shutil.rmtree(folder, ignore_errors=True)
    for path in sorted(folder.glob("*")) if folder.exists() else ():
        data = bytearray(path.read_bytes())
        if harm == "torn":
            del data[chance.randrange(len(data) + 1) :]
        elif harm == "altered" and data:
            data[chance.randrange(len(data))] ^= 1
        path.write_bytes(data)


@pytest.mark.parametrize("harm", ["none", "torn", "altered", "deleted"])
def test_each_event_is_received_once_and_in_order_through_kills(tmp_path: Path, harm: str) -> None:
    chance = random.Random(harm)  # noqa: S311
    follower = Follower()
    with Keeper(str(tmp_path)) as keeper:
        events = Path(keeper.state, "events")
        for number, enough in enumerate(ENOUGH):
            process = keeper.start()
            assert process.wait_until_answering()
            if number % 3 == 2:
                _read_history(process)  # so the log has all of it
            thread = follower.follow(process)
            _talk(process, chance, enough)
            thread.join()
            _damage_log(events, harm, chance)
        process = keeper.start()
        assert process.wait_until_answering()
        thread = follower.follow(process)
        told = _read_history(process)
        until(lambda: len(follower.told) >= len(told))
        process.end(signal.SIGKILL)
        thread.join()
        shutil.rmtree(events)
        process = keeper.start()
        assert process.wait_until_answering()
        assert _read_history(process)[: len(told)] == told, (
            "the journals say otherwise than the log"
        )
        process.end(signal.SIGKILL)
    assert len(told) > 50
    assert follower.told[: len(told)] == told

"""Whoever follows the live events through ``kill -9`` hears each once, in order."""

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

from agentd.web.mark import read_mark
from agentd.wire.sse import Reader, Received
from tests.crash.daemon_with_ledger import KEY
from tests.crash.keeper import PATIENCE, Keeper, Life, until_true

ENOUGH = (1, 10, 5, 40, 3, 30)
"""Answers, somewhat after which each of the daemons is killed."""
BROKEN = (OSError, HTTPException)
HEADERS = {"X-API-Key": KEY, "Content-Type": "application/json"}


class Follower:
    """Comes back after each break with the last mark that it saw."""

    def __init__(self) -> None:
        self.told: list[Received] = []
        self.last = "0"

    def follow(self, life: Life) -> threading.Thread:
        """Listen until the connection breaks."""
        thread = threading.Thread(target=self._listen, args=(life,))
        thread.start()
        return thread

    def _listen(self, life: Life) -> None:
        with suppress(*BROKEN):
            for events, mark in _events(life, self.last):
                self.last = mark or self.last
                self.told += [event for event in events if event.name != "resumed"]


def _events(life: Life, since: str) -> Generator[tuple[list[Received], str], None, None]:
    """What comes, and the mark after it."""
    reader = Reader()
    with _asked(life, "GET", f"/api/events?since={since}") as answer:
        while data := answer.read1(65536):
            yield list(reader.feed(data)), reader.last_id


def _history(life: Life) -> list[Received]:
    """All that is told to who comes for the first time, up to then."""
    found: list[Received] = []
    with closing(_events(life, "0")) as portions:
        for events, mark in portions:
            found += events
            if found and read_mark(mark).seq >= json.loads(found[0].data)["to"]:
                break
    assert found[0].name == "resumed"
    return found[1:]


@contextmanager
def _asked(life: Life, method: str, path: str, body: object = None) -> Iterator[HTTPResponse]:
    with closing(HTTPConnection(urlsplit(life.url).netloc, timeout=PATIENCE)) as connection:
        connection.request(method, path, None if body is None else json.dumps(body), HEADERS)
        with connection.getresponse() as answer:
            assert answer.status in (200, 201)
            yield answer


def _talk(life: Life, chance: random.Random, enough: int) -> None:
    """Make events until the daemon is killed, which it is somewhat after so many answers."""
    killer = threading.Timer(chance.uniform(0, 0.05), life.end, [signal.SIGKILL])
    with suppress(*BROKEN):
        chats = []
        for number in count():
            if number == enough:
                killer.start()
            if len(chats) < 3:
                with _asked(life, "POST", "/api/remote/chats", {"title": "x"}) as answer:
                    chats.append(json.loads(answer.read())["chatId"])
            path = f"/api/remote/chats/{chance.choice(chats)}/queue"
            with _asked(life, "POST", path, {"prompt": "x" * chance.randrange(1, 500)}):
                pass
    killer.join()


def _harm(folder: Path, harm: str, chance: random.Random) -> None:
    """What a crash, or a person, may do to the log of events."""
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
def test_each_event_is_heard_once_and_in_order_through_kills(tmp_path: Path, harm: str) -> None:
    chance = random.Random(harm)  # noqa: S311
    follower = Follower()
    with Keeper(str(tmp_path)) as keeper:
        events = Path(keeper.state, "events")
        for number, enough in enumerate(ENOUGH):
            life = keeper.start()
            assert life.answers()
            if number % 3 == 2:
                _history(life)  # so the log has all of it
            thread = follower.follow(life)
            _talk(life, chance, enough)
            thread.join()
            _harm(events, harm, chance)
        life = keeper.start()
        assert life.answers()
        thread = follower.follow(life)
        told = _history(life)
        until_true(lambda: len(follower.told) >= len(told))
        life.end(signal.SIGKILL)
        thread.join()
        shutil.rmtree(events)
        life = keeper.start()
        assert life.answers()
        assert _history(life)[: len(told)] == told, "the journals say otherwise than the log"
        life.end(signal.SIGKILL)
    assert len(told) > 50
    assert follower.told[: len(told)] == told

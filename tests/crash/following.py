"""A client that follows the live events through ``kill -9``, and the history that it must have."""

import json
import threading
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from urllib.parse import urlsplit

from agentd.core.sse import ServerSentEvent, SseReader
from agentd.live.cursor import EventCursor, parse_cursor
from tests.crash.keeper import PATIENCE, DaemonProcess
from tests.crash.keys import KEY

BROKEN = (OSError, HTTPException)
HEADERS = {"X-API-Key": KEY, "Content-Type": "application/json"}


class Follower:
    """Comes back after each break with the last mark that it saw."""

    def __init__(self) -> None:
        self.told: list[ServerSentEvent] = []
        self.last = "0"
        self.gaps: list[tuple[EventCursor, EventCursor]] = []
        """What it was told to load anew, after one cursor up to another."""

    def follow(self, process: DaemonProcess) -> threading.Thread:
        """Listen on a thread until the connection breaks."""
        thread = threading.Thread(target=self.listen, args=(process,))
        thread.start()
        return thread

    def listen(self, process: DaemonProcess) -> None:
        """Listen until the connection breaks."""
        with suppress(*BROKEN):
            for events, mark in _read_events(process, self.last):
                if events and events[0].name == "gap":
                    self.gaps.append((parse_cursor(self.last), parse_cursor(events[0].id)))
                self.last = mark or self.last
                self.told += [event for event in events if event.name not in ("resumed", "gap")]

    def has_loaded(self, event: ServerSentEvent) -> bool:
        """Return whether an event was in a gap."""
        at = parse_cursor(event.id)
        return any(after.precedes(at) and not upto.precedes(at) for after, upto in self.gaps)


def _read_events(
    process: DaemonProcess, since: str
) -> Generator[tuple[list[ServerSentEvent], str], None, None]:
    """Yield the events of each read, and the cursor after them."""
    reader = SseReader()
    with connect(process, "GET", f"/api/events?since={since}") as answer:
        while data := answer.read1(65536):
            yield list(reader.feed(data)), reader.last_id


def read_history(process: DaemonProcess) -> list[ServerSentEvent]:
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
def connect(
    process: DaemonProcess, method: str, path: str, body: object = None
) -> Iterator[HTTPResponse]:
    """Send a request; close the connection after the block."""
    with closing(HTTPConnection(urlsplit(process.url).netloc, timeout=PATIENCE)) as connection:
        connection.request(method, path, None if body is None else json.dumps(body), HEADERS)
        with connection.getresponse() as answer:
            assert answer.status in (200, 201)
            yield answer

"""Bodies of requests that are kept, with what they were answered: ``bodies/YYYY-MM-DD/<id>.json``.

Whoever hands them in has hidden the secrets in them. They are kept off the loop, within a size: the
oldest day goes first. What comes faster than the disk takes it is dropped, counted, and told.
"""

import base64
import codecs
import logging
import os
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec
from msgspec import Struct

from agentd.clock import Timestamp
from agentd.disk.document import make_folder, read, trouble
from agentd.disk.layout import Layout
from agentd.errors import AgentdError

log = logging.getLogger(__name__)

WAITING_BYTES = 64 * 1024 * 1024
"""Bytes that may wait for the disk before more are dropped."""
TOLD_EVERY = 100
"""Of so many drops, the first is told."""
_LIMIT = 512 * 1024 * 1024
_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class Body(Struct, frozen=True, omit_defaults=True):
    """One exchange, as the caller saw it, secrets hidden."""

    id: str
    at: Timestamp
    request: str = ""
    response: str = ""
    base64: bool = False
    """Whether the two stand in base64, since they are not UTF-8."""


class BodyFiles:
    """Keeps bodies up to ``limit`` bytes in all, and ``most`` of each. Nobody waits for it.

    ``told`` hears of what was dropped, in one sentence; it is called on another thread.
    """

    def __init__(
        self, layout: Layout, told: Callable[[str], None], *, limit: int = 2**30, most: int = 2**20
    ) -> None:
        self._layout = layout
        self._told = told
        self.limit = limit
        self.most = most
        self._thread = ThreadPoolExecutor(1, "bodies")
        self._given = 0
        """Bytes that were handed in ..."""
        self._taken = 0
        """... and those that the thread has seen to."""
        self._days: dict[str, int] | None = None
        """Bytes by day; None before the folder was looked at."""
        self.dropped = 0
        """Bodies that were not kept."""

    def keep(
        self,
        id_: str,
        at: Timestamp,
        request: bytes,
        response: bytes,
        clean: Callable[[bytes], bytes] = lambda body: body,
    ) -> None:
        """Have an exchange kept soon, each side cut to its ``most`` bytes.

        ``id_`` is the request's: letters, digits, ``_`` and ``-``. ``clean`` takes the secrets out
        of each side, on the other thread.
        """
        if not _ID.fullmatch(id_):
            raise ValueError(f"{id_!r} is no id of a request")
        size = len(request) + len(response)
        waiting = self._given - self._taken
        if waiting and waiting + size > WAITING_BYTES:
            self._thread.submit(self._drop, "the disk does not keep up")
            return
        self._given += size
        self._thread.submit(self._clean, id_, at, request, response, clean)

    def read(self, id_: str, day: str) -> Body | None:
        """An exchange of a day, if it is kept. Blocking."""
        if not (_ID.fullmatch(id_) and _DAY.fullmatch(day)):
            return None
        found = read(self._path(day, id_), _LIMIT)
        return msgspec.json.decode(found.data, type=Body) if found else None

    def retain(self, oldest: str) -> list[str]:
        """Delete the days before ``oldest``, such as ``2026-01-31``; which these were. Blocking."""
        return self._thread.submit(self._retain, oldest).result()

    def close(self) -> None:
        """Write what waits, and end. Blocking."""
        self._thread.shutdown()

    # What follows is on the one thread.

    def _clean(
        self,
        id_: str,
        at: Timestamp,
        request: bytes,
        response: bytes,
        clean: Callable[[bytes], bytes],
    ) -> None:
        try:
            self._keep(id_, at, clean(request)[: self.most], clean(response)[: self.most])
        except (ValueError, RecursionError):  # rather nothing is kept than a secret
            log.exception("a body could not be freed of its secrets, and is not kept")
            self._drop("they could not be freed of their secrets")
        finally:
            self._taken += len(request) + len(response)

    def _keep(self, id_: str, at: Timestamp, request: bytes, response: bytes) -> None:
        day = at[:10]
        data = msgspec.json.encode(_body(id_, at, request, response)) + b"\n"
        try:
            days = self._known()
            self._make_room(days, day, len(data))
            if sum(days.values()) + len(data) > self.limit:
                self._drop(f"they may take no more than {self.limit} bytes in all")
                return
            make_folder(os.path.dirname(self._path(day, id_)))
            with open(os.open(self._path(day, id_), _WRITE, 0o600), "wb") as file:
                file.write(data)
            days[day] = days.get(day, 0) + len(data)
        except OSError as error:
            self._drop(trouble(self._path(day, id_), "write", error).message)
        except AgentdError as error:
            self._drop(error.message)

    def _make_room(self, days: dict[str, int], day: str, size: int) -> None:
        """Remove the oldest days, but not this one, until there is room."""
        for older in sorted(one for one in days if one < day):
            if sum(days.values()) + size <= self.limit:
                return
            self._remove(days, older)

    def _retain(self, oldest: str) -> list[str]:
        days = self._known()
        gone = sorted(day for day in days if day < oldest)
        for day in gone:
            self._remove(days, day)
        return gone

    def _remove(self, days: dict[str, int], day: str) -> None:
        shutil.rmtree(os.path.join(self._layout.bodies, day), ignore_errors=True)
        del days[day]

    def _known(self) -> dict[str, int]:
        if self._days is None:
            self._days = {}
            if os.path.isdir(self._layout.bodies):
                for day in os.scandir(self._layout.bodies):
                    if _DAY.fullmatch(day.name) and day.is_dir(follow_symlinks=False):
                        sizes = (file.stat(follow_symlinks=False).st_size
                                 for file in os.scandir(day.path))  # fmt: skip
                        self._days[day.name] = sum(sizes)
        return self._days

    def _drop(self, why: str) -> None:
        self.dropped += 1
        if self.dropped % TOLD_EVERY == 1:
            self._told(f"{self.dropped} bodies of requests were not kept so far: {why}")

    def _path(self, day: str, id_: str) -> str:
        return os.path.join(self._layout.bodies, day, f"{id_}.json")


def _body(id_: str, at: Timestamp, request: bytes, response: bytes) -> Body:
    try:
        return Body(id_, at, _text(request), _text(response))
    except UnicodeDecodeError:
        asked, answered = (base64.b64encode(one).decode() for one in (request, response))
        return Body(id_, at, asked, answered, base64=True)


def _text(data: bytes) -> str:
    """UTF-8, of which the end may be cut off."""
    return codecs.getincrementaldecoder("utf-8")().decode(data)

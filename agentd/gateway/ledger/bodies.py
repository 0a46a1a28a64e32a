"""Stored request and response bodies: ``bodies/YYYY-MM-DD/<id>.json``.

Secrets in them are masked first. They are written off the event loop, within a total size: the
oldest day is deleted first. What arrives faster than the disk accepts is dropped and counted.
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

from agentd.core.clock import Timestamp
from agentd.core.errors import AgentdError
from agentd.storage.document import explain_os_error, make_folder, read_document
from agentd.storage.layout import Layout

log = logging.getLogger(__name__)

MAX_WAITING_BYTES = 64 * 1024 * 1024
"""Bytes that may wait for the disk before more are dropped."""
REPORT_EVERY = 100
"""The first of this many drops is reported."""
_MAX_FILE_BYTES = 512 * 1024 * 1024
_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class StoredExchange(Struct, frozen=True, omit_defaults=True):
    """A request and its response as the caller saw them, secrets masked."""

    id: str
    at: Timestamp
    request: str = ""
    response: str = ""
    base64: bool = False
    """True if both are base64, because they are not UTF-8."""


class BodyStore:
    """Stores bodies in the background.

    ``on_dropped`` is called with a sentence about dropped bodies, on another thread.
    """

    def __init__(self, layout: Layout, on_dropped: Callable[[str], None]) -> None:
        self._layout = layout
        self._on_dropped = on_dropped
        self.limit = 2**30
        """The most bytes of all together; may be changed ..."""
        self.most = 2**20
        """... and so may the most of each."""
        self._thread = ThreadPoolExecutor(1, "bodies")
        self._submitted_bytes = 0
        """Bytes submitted ..."""
        self._handled_bytes = 0
        """... and bytes the thread has handled."""
        self._days: dict[str, int] | None = None
        """Bytes by day; None before the folder was scanned."""
        self.dropped = 0
        """Number of bodies that were not stored."""

    def store(
        self,
        id_: str,
        at: Timestamp,
        request: bytes,
        response: bytes,
        clean: Callable[[bytes], bytes] = lambda body: body,
    ) -> None:
        """Store an exchange in the background, each side truncated to ``most`` bytes.

        ``id_`` is the request id: letters, digits, ``_`` and ``-``. ``clean`` removes the secrets
        from each side, on the other thread.
        """
        if not _ID.fullmatch(id_):
            raise ValueError(f"{id_!r} is not the id of a request")
        size = len(request) + len(response)
        waiting = self._submitted_bytes - self._handled_bytes
        if waiting and waiting + size > MAX_WAITING_BYTES:
            self._thread.submit(self._drop, "the disk does not keep up")
            return
        self._submitted_bytes += size
        self._thread.submit(self._clean_and_store, id_, at, request, response, clean)

    def read(self, id_: str, day: str) -> StoredExchange | None:
        """Return an exchange of a day, or None if it is not stored. Blocking."""
        if not (_ID.fullmatch(id_) and _DAY.fullmatch(day)):
            return None
        found = read_document(self._get_path(day, id_), _MAX_FILE_BYTES)
        return msgspec.json.decode(found.data, type=StoredExchange) if found else None

    def delete_before(self, oldest: str) -> list[str]:
        """Delete the days before ``oldest`` (such as ``2026-01-31``); return them. Blocking."""
        return self._thread.submit(self._delete_before, oldest).result()

    def close(self) -> None:
        """Write what is waiting and stop the thread. Blocking."""
        self._thread.shutdown()

    # The methods below run on the one thread.

    def _clean_and_store(
        self,
        id_: str,
        at: Timestamp,
        request: bytes,
        response: bytes,
        clean: Callable[[bytes], bytes],
    ) -> None:
        try:
            self._store(id_, at, clean(request)[: self.most], clean(response)[: self.most])
        except (ValueError, RecursionError):  # store nothing rather than a secret
            log.exception("a body was not stored because its secrets could not be removed")
            self._drop("their secrets could not be removed")
        finally:
            self._handled_bytes += len(request) + len(response)

    def _store(self, id_: str, at: Timestamp, request: bytes, response: bytes) -> None:
        day = at[:10]
        data = msgspec.json.encode(_build_exchange(id_, at, request, response)) + b"\n"
        try:
            days = self._get_days()
            self._make_room(days, day, len(data))
            if sum(days.values()) + len(data) > self.limit:
                self._drop(f"they may use at most {self.limit} bytes in total")
                return
            make_folder(os.path.dirname(self._get_path(day, id_)))
            with open(os.open(self._get_path(day, id_), _WRITE_FLAGS, 0o600), "wb") as file:
                file.write(data)
            days[day] = days.get(day, 0) + len(data)
        except OSError as error:
            self._drop(explain_os_error(self._get_path(day, id_), "write", error).message)
        except AgentdError as error:
            self._drop(error.message)

    def _make_room(self, days: dict[str, int], day: str, size: int) -> None:
        """Delete the oldest days, but not this one, until there is room."""
        for older in sorted(one for one in days if one < day):
            if sum(days.values()) + size <= self.limit:
                return
            self._remove(days, older)

    def _delete_before(self, oldest: str) -> list[str]:
        days = self._get_days()
        gone = sorted(day for day in days if day < oldest)
        for day in gone:
            self._remove(days, day)
        return gone

    def _remove(self, days: dict[str, int], day: str) -> None:
        shutil.rmtree(os.path.join(self._layout.bodies, day), ignore_errors=True)
        del days[day]

    def _get_days(self) -> dict[str, int]:
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
        if self.dropped % REPORT_EVERY == 1:
            self._on_dropped(f"{self.dropped} bodies of requests were not kept so far: {why}")

    def _get_path(self, day: str, id_: str) -> str:
        return os.path.join(self._layout.bodies, day, f"{id_}.json")


def _build_exchange(id_: str, at: Timestamp, request: bytes, response: bytes) -> StoredExchange:
    try:
        return StoredExchange(id_, at, _decode_text(request), _decode_text(response))
    except UnicodeDecodeError:
        asked, answered = (base64.b64encode(one).decode() for one in (request, response))
        return StoredExchange(id_, at, asked, answered, base64=True)


def _decode_text(data: bytes) -> str:
    """Decode UTF-8 whose end may be truncated."""
    return codecs.getincrementaldecoder("utf-8")().decode(data)

"""``sessions.json``: who is signed in. Deleting it signs everybody out at the next start."""

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from agentd.access.login import Session
from agentd.disk import document
from agentd.disk.layout import Layout
from agentd.errors import Misconfigured, Mistake

LIMIT = 64 * 1024 * 1024


class SessionsJson(Struct, frozen=True):
    """The content of ``sessions.json``."""

    format: Literal[1] = 1
    sessions: tuple[Session, ...] = ()


class SessionFile:
    """The ``SessionStore`` of a state folder. Everything blocks."""

    def __init__(self, layout: Layout) -> None:
        self._path = layout.sessions

    def load(self) -> Sequence[Session]:
        """All that were saved last. ``Misconfigured`` when others may write the file, or did."""
        found = document.read(self._path, LIMIT, guarded=True)
        if found is None:
            return ()
        try:
            return msgspec.json.decode(found.data, type=SessionsJson).sessions
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Misconfigured([Mistake(self._path, 0, f"is damaged: {error}")]) from error

    def save(self, sessions: Sequence[Session]) -> None:
        """Keep these instead; ``Unavailable`` when the disk does not take them."""
        data = msgspec.json.encode(SessionsJson(sessions=tuple(sessions)))
        document.replace(self._path, data + b"\n")

"""``sessions.json``: the logins. Deleting it signs out everybody at the next start."""

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from agentd.auth.roles import LoginSession
from agentd.core.errors import ConfigError, ConfigProblem
from agentd.storage import document
from agentd.storage.layout import Layout

LIMIT = 64 * 1024 * 1024


class SessionsJson(Struct, frozen=True):
    """The content of ``sessions.json``."""

    format: Literal[1] = 1
    sessions: tuple[LoginSession, ...] = ()


class SessionFile:
    """The ``SessionStore`` of a state folder. All methods block."""

    def __init__(self, layout: Layout) -> None:
        self._path = layout.sessions

    def load(self) -> Sequence[LoginSession]:
        """Return the stored sessions. ``ConfigError`` when the file is damaged or unsafe."""
        found = document.read_document(self._path, LIMIT, own=True)
        if found is None:
            return ()
        try:
            return msgspec.json.decode(found.data, type=SessionsJson).sessions
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            what = f"is damaged: {error}; restore it, or delete it and everybody signs in again"
            raise ConfigError([ConfigProblem(self._path, 0, what)]) from error

    def save(self, sessions: Sequence[LoginSession]) -> None:
        """Store these sessions instead; ``Unavailable`` when they cannot be written."""
        data = msgspec.json.encode(SessionsJson(sessions=tuple(sessions)))
        document.replace_document(self._path, data + b"\n")

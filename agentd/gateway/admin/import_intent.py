"""What an import is about to write, noted until all of its files are written.

``proxy/import.json`` is there only while an import, or the undo of one, is under way. It holds
names and keyed hashes: no secret.
"""

import asyncio
import logging
import os
from contextlib import suppress
from typing import Literal

import msgspec
from msgspec import Struct

from agentd.core.errors import AgentdError
from agentd.storage import document
from agentd.storage.layout import Layout

_LIMIT = 1024 * 1024

_log = logging.getLogger("agentd.proxy")


class ImportIntent(Struct, frozen=True, kw_only=True):
    """An import, or the undo of one, that is under way."""

    format: Literal[1] = 1
    number: int
    """The number that the change will have."""
    by: str
    remote: str
    action: str
    """``create`` or ``undo``."""
    undoes: int = 0
    """The number of the change that is undone; 0: none."""
    adds: bool
    """True if the entries are written, false if they are removed."""
    channels: dict[str, str]
    """A keyed hash of each channel, by name."""
    models: tuple[str, ...]
    """The names of the models."""
    budgets: dict[str, str] = {}
    """A keyed hash of each budget, by name."""


class ImportIntentFile:
    """The file of the intent."""

    def __init__(self, layout: Layout) -> None:
        self._path = layout.import_intent

    async def save(self, intent: ImportIntent) -> None:
        """Write the intent. ``Unavailable``."""
        await asyncio.to_thread(self._write, msgspec.json.encode(intent))

    async def load(self) -> ImportIntent | None:
        """Read the intent of before this start. A file that cannot be read is only logged."""
        try:
            found = await asyncio.to_thread(
                document.read_document, self._path, _LIMIT, own=True, private=True
            )
            return msgspec.json.decode(found.data, type=ImportIntent) if found else None
        except (AgentdError, msgspec.DecodeError, UnicodeDecodeError) as error:
            _log.error(
                "%s cannot be read; look for channels or budgets of an import: %s",
                self._path,
                error,
            )
            return None

    async def clear(self) -> None:
        """Remove the intent: nothing is under way."""
        await asyncio.to_thread(self._remove)

    def _write(self, data: bytes) -> None:
        document.make_folder(os.path.dirname(self._path))
        document.replace_document(self._path, data)

    def _remove(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._path)

"""``export.json``: how far each day of the ledger was sent; and days that a terminal asks for.

Without ``export.json`` all days are sent anew, each in the place of what was sent before.
"""

import hashlib
import logging
import os
from collections.abc import Sequence
from typing import Literal

import msgspec

from agentd.disk import document
from agentd.disk.layout import Layout
from agentd.disk.ledger_file import days_in
from agentd.disk.lock import held
from agentd.disk.secret_rules import seed
from agentd.proxy.export.days import Span, to_do
from agentd.proxy.export.needs import Kept
from agentd.proxy.settings import Export

log = logging.getLogger(__name__)

LIMIT = 64 * 1024 * 1024


class ExportJson(Kept, frozen=True):
    """The content of ``export.json``."""

    format: Literal[1] = 1


class ExportFile:
    """Satisfies ``proxy.export.needs.Book``. Everything blocks."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._lock = f"{layout.export_wanted}.lock"

    def source(self) -> str:
        """The name of this state folder's ledger in the database, made from its seed."""
        return hashlib.sha256(b"export of " + seed(self._layout)).hexdigest()[:16]

    def load(self) -> Kept:
        """What was saved last; nothing where the file is damaged, which is logged."""
        path = self._layout.export
        found = document.read(path, LIMIT)
        if found is None:
            return Kept()
        try:
            told = msgspec.json.decode(found.data, type=ExportJson)
            return Kept(told.target, told.days)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            log.warning("%s is damaged, all days are sent anew: %s", path, error)
            return Kept()

    def save(self, kept: Kept) -> None:
        """Keep this instead; ``Unavailable`` when the disk does not take it."""
        document.make_folder(os.path.dirname(self._layout.export))
        data = msgspec.json.encode(ExportJson(kept.target, kept.days))
        document.replace(self._layout.export, data + b"\n")

    def ask(self, span: Span) -> None:
        """Have the daemon send what is missed between two days: now, or once it runs."""
        with held(self._lock, "what is to be exported"):
            spans = [*self._wanted(), span]
            document.replace(self._layout.export_wanted, msgspec.json.encode(spans) + b"\n")

    def asked(self) -> list[Span]:
        """What was asked for, and is not answered yet."""
        return self._wanted() if document.stamp(self._layout.export_wanted) else []

    def answered(self, spans: Sequence[Span]) -> None:
        """Forget that these were asked for."""
        path = self._layout.export_wanted
        with held(self._lock, "what is to be exported"), document.told(path, "remove"):
            left = self._wanted()[len(spans) :]
            if left:
                document.replace(path, msgspec.json.encode(left) + b"\n")
            else:
                os.unlink(path)

    def _wanted(self) -> list[Span]:
        path = self._layout.export_wanted
        found = document.read(path, LIMIT)
        try:
            return msgspec.json.decode(found.data, type=list[Span]) if found else []
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            log.warning("%s is not understood: %s", path, error)
            return []


def first_unsent(layout: Layout, to: Export) -> str:
    """The first day of the ledger that is still to be sent; empty: there is none. Blocking.

    Until it is sent, its requests must not be deleted. Raises ``Unavailable``.
    """
    if not to.active:
        return ""
    days = ExportFile(layout).load().days
    ever = Span(to.since or "", "9999-12-31")
    return next(to_do(days, days_in(layout.ledger), ever), "")

"""``export.json``: how far each day of the ledger was sent; and days that a terminal asks for.

Without ``export.json`` all days are sent again, each replacing what was sent before.
"""

import hashlib
import logging
import os
from collections.abc import Sequence
from typing import Literal

import msgspec

from agentd.core.errors import AgentdError
from agentd.gateway.export.days import DaySpan, iter_due
from agentd.gateway.export.ports import ExportProgress
from agentd.gateway.ledger.day_file import list_days
from agentd.gateway.secrets.rule_file import load_seed
from agentd.gateway.settings.model import ExportSettings
from agentd.storage import document
from agentd.storage.layout import Layout
from agentd.storage.lock import hold_lock

log = logging.getLogger(__name__)

MAX_BYTES = 64 * 1024 * 1024


class ExportFileContents(ExportProgress, frozen=True):
    """The content of ``export.json``."""

    format: Literal[1] = 1


class ExportStateFile:
    """Satisfies ``gateway.export.ports.ExportStore``. Everything blocks."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._lock = f"{layout.export_requests}.lock"

    def get_source(self) -> str:
        """Return the name of this state folder's ledger in the database, made from its seed."""
        return hashlib.sha256(b"export of " + load_seed(self._layout)).hexdigest()[:16]

    def load(self) -> ExportProgress:
        """Return the progress saved last; log why a file cannot be used and return an empty one."""
        path = self._layout.export
        try:
            found = document.read_document(path, MAX_BYTES)
            if found is None:
                return ExportProgress()
            contents = msgspec.json.decode(found.data, type=ExportFileContents)
            return ExportProgress(contents.target, contents.days)
        except AgentdError as error:
            log.warning("all days are sent again: %s", error.message)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            log.warning("%s is damaged, all days are sent again: %s", path, error)
        return ExportProgress()

    def save(self, kept: ExportProgress) -> None:
        """Keep this instead; ``Unavailable`` when the disk does not take it."""
        document.make_folder(os.path.dirname(self._layout.export))
        data = msgspec.json.encode(ExportFileContents(kept.target, kept.days))
        document.replace_document(self._layout.export, data + b"\n")

    def add_backfill(self, span: DaySpan) -> None:
        """Request what is missing between two days: sent now, or once the daemon runs."""
        with hold_lock(self._lock, "what is to be exported"):
            spans = [*self._read_backfills(), span]
            document.replace_document(
                self._layout.export_requests, msgspec.json.encode(spans) + b"\n"
            )

    def list_backfills(self) -> list[DaySpan]:
        """Return the backfills that were requested and are not started yet."""
        return self._read_backfills() if document.get_stamp(self._layout.export_requests) else []

    def remove_backfills(self, spans: Sequence[DaySpan]) -> None:
        """Forget that these were asked for."""
        path = self._layout.export_requests
        with (
            hold_lock(self._lock, "what is to be exported"),
            document.translate_os_errors(path, "remove"),
        ):
            left = self._read_backfills()[len(spans) :]
            if left:
                document.replace_document(path, msgspec.json.encode(left) + b"\n")
            else:
                os.unlink(path)

    def _read_backfills(self) -> list[DaySpan]:
        path = self._layout.export_requests
        found = document.read_document(path, MAX_BYTES)
        try:
            return msgspec.json.decode(found.data, type=list[DaySpan]) if found else []
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            log.warning("%s is not understood: %s", path, error)
            return []


def find_first_unsent(layout: Layout, to: ExportSettings) -> str:
    """Return the first day of the ledger that is not sent yet; empty: none. Blocking.

    Until it is sent, its requests must not be deleted. Raises ``Unavailable``.
    """
    if not to.is_active:
        return ""
    days = ExportStateFile(layout).load().days
    ever = DaySpan(to.since or "", "9999-12-31")
    return next(iter_due(days, list_days(layout.ledger), ever), "")

"""The runs of the daemon over a state folder, by which a restored copy of it is recognised.

A listener comes back with a seq and the run that sent it. A restored copy knows no run that began
after it was made, and of the one that it was made in only what it holds.
"""

import logging

import msgspec
from msgspec import Struct

from agentd.core import ids
from agentd.core.errors import AgentdError
from agentd.core.ids import DaemonRun, RunHistory
from agentd.storage.checksummed_json import ChecksumMismatch, decode_checksummed, encode_checksummed
from agentd.storage.document import read_document, replace_document

log = logging.getLogger(__name__)

MAX_RUNS = 1000
"""Older runs are dropped: a listener that returns with one of their cursors gets ``gap``."""
_LIMIT = 1024 * 1024


class _RunsFile(Struct, frozen=True):
    """The content of ``runs.json``."""

    runs: list[DaemonRun] = []
    removed: int = 0
    """The last seq of a chat that was removed for ever: who has not come so far gets ``gap``."""


def begin_run(path: str, used: int, there: int, *, writable: bool) -> RunHistory:
    """End the last run at ``there``, the highest seq in a journal, and begin one after ``used``.

    Blocking. A run that cannot be stored continues, but a later start does not know it.
    """
    known = _read_runs(path)
    runs = known.runs
    if runs and runs[-1].upto is None:
        last = runs.pop()
        runs.append(DaemonRun(last.name, last.after, max(last.after, there)))
    runs = [*runs, DaemonRun(ids.generate_run_name(), used)][-MAX_RUNS:]
    if writable:
        try:
            replace_document(path, encode_checksummed(_RunsFile(runs, known.removed)))
        except AgentdError as error:
            log.warning("listeners will get a gap after the next start: %s", error)
    return RunHistory(runs, known.removed)


def record_removal(path: str, seq: int) -> None:
    """Record, before a chat is removed for ever, the seq of its last record. Blocking.

    Where it cannot be stored, for example on a full disk, the chat is removed all the same: a
    listener that comes back after the next start is then not told that the chat is gone.
    """
    known = _read_runs(path)
    if seq <= known.removed:
        return
    try:
        replace_document(path, encode_checksummed(_RunsFile(known.runs, seq)))
    except AgentdError as error:
        log.warning("some listeners will not hear that a chat was removed: %s", error)


def _read_runs(path: str) -> _RunsFile:
    try:
        document = read_document(path, _LIMIT)
        return (
            msgspec.json.decode(decode_checksummed(document.data), type=_RunsFile)
            if document
            else _RunsFile()
        )
    except (AgentdError, ChecksumMismatch, msgspec.DecodeError) as error:
        log.warning("%s is not used, and earlier listeners get a gap: %s", path, error)
        return _RunsFile()

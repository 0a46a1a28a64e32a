"""Completes a count of what was spent by what is recorded while it is made."""

from collections.abc import Mapping
from contextlib import suppress

from agentd.gateway.ledger.balances import CountedSpend
from agentd.gateway.ledger.day_file import ReadPosition, read_records
from agentd.gateway.ledger.pending_calls import is_pending_file
from agentd.gateway.ledger.record import RequestRecord
from agentd.gateway.ledger.writer import LedgerWriter
from agentd.gateway.limits.spend_by_quarter_hour import SpendByQuarterHour
from agentd.storage.layout import Layout


class SpendCounting:
    """Keeps the requests that are recorded during a count; one count at a time."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._added: list[RequestRecord] | None = None

    def add(self, record: RequestRecord) -> None:
        """Keep a request if a count needs it; it is about to be written."""
        if self._added is not None:
            self._added.append(record)

    async def finish(self, writer: LedgerWriter, counted: CountedSpend) -> SpendByQuarterHour:
        """Add all requests that were recorded since the files were counted, and up to now."""
        sums, sizes = counted
        since = self._added = []
        try:  # between groups: after everything recorded before this moment, before the rest
            behind = await writer.run_between_groups(lambda: self._read_behind(writer, sizes))
        finally:
            self._added = None
        for entry in (*behind, *since):
            sums.add_record(entry)
        return sums

    def _read_behind(self, writer: LedgerWriter, sizes: Mapping[str, int]) -> list[RequestRecord]:
        """Read what was appended after these sizes of the days' files. On the writing thread."""
        found: list[RequestRecord] = []
        for day, size in writer.get_sizes().items():
            if not is_pending_file(day):
                position = ReadPosition(sizes.get(day, 0))
                with suppress(FileNotFoundError):  # the day was deleted since it was opened
                    found += read_records(self._layout.get_ledger_day_path(day), position, size)
        return found

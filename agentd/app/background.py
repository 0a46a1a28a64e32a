"""Background tasks that run as long as the daemon."""

import asyncio
import gc
import logging
import os
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Protocol

from agentd.app.inspect import find_silent_corruption
from agentd.app.state import State
from agentd.auth.key_service import KeyService
from agentd.chats.service import ChatService
from agentd.core.clock import Timestamp, format_iso, parse_iso
from agentd.core.errors import AgentdError, ConfigError, Unavailable
from agentd.gateway.catalogue.service import PriceCatalogueService
from agentd.gateway.export.state_store import find_first_unsent
from agentd.gateway.keys.store import AccessKeyRepository
from agentd.gateway.ledger.bodies import BodyStore
from agentd.gateway.ledger.ledger import Ledger
from agentd.gateway.limits.meters import KeyMeters
from agentd.gateway.management_keys.store import ManagementKeyRepository
from agentd.gateway.settings.model import GatewaySettings
from agentd.live.feed import Feed
from agentd.storage.folder_watcher import FolderWatcher
from agentd.storage.journal import GroupCommitter
from agentd.storage.layout import Layout
from agentd.storage.settled_clock import SettledClock
from agentd.storage.watched_file import WatchedFile
from agentd.system.sd_notify import Notifier
from agentd.system.self_process import get_resident_size, trim_memory

log = logging.getLogger(__name__)

INDEX_SECONDS = 60.0
"""The interval at which a changed index is stored."""
MEMORY_SECONDS = 60.0
"""The interval of checks whether memory can be returned to the system ..."""
MEMORY_GROWN = 16 * 1024 * 1024
"""... which it does when it has grown by so much."""
CLOCK_SECONDS = 600.0
"""The interval at which the settled time is stored: what a crash forgets of it."""
EVENTS_SECONDS = 1.0
"""The interval at which recent events are written to the event log."""
ROLLUP_SECONDS = 300.0
"""The interval of checks whether days of the ledger are over, or were changed."""
PURGE_SECONDS = 3600.0
"""The interval at which old files of the gateway are removed."""
RECOUNT_SECONDS = 5.0
"""The interval of checks whether spending was counted while the clock was wrong."""
PRICES_DELAY = 300.0
"""The seconds after the start before the price catalogue is read: starts are left alone."""
PRICES_SECONDS = 3600.0
"""The interval of checks whether the price catalogue is older than a day."""
KEYS_SECONDS = 1.0
"""Seconds between checks of the key file without requests and without watcher events."""
LOCK_SECONDS = 5.0
"""The interval of checks that the folder's lock is still held."""
LOST_LOCK_EXIT_CODE = 75
"""Exit code after the lock was removed by others: systemd restarts the daemon."""


async def log_silent_corruption(layout: Layout) -> None:
    """Log once which stored files are damaged without any other error having reported it."""
    for problem in await asyncio.to_thread(find_silent_corruption, layout):
        log.error("%s", problem)


async def save_index_regularly(state: State, chats: ChatService) -> None:
    """Save the chat index regularly, for a fast start."""
    saved = state.sequences.used.seq
    while True:
        await asyncio.sleep(INDEX_SECONDS)
        if state.sequences.used.seq != saved:
            saved = state.sequences.used.seq
            await asyncio.to_thread(state.save, chats.list_all_summaries())


async def trim_memory_regularly() -> None:
    """Give memory back that was needed once.

    Closed connections keep their buffers until the garbage collector finds reference cycles, which
    otherwise happens only after millions of requests.
    """
    least = get_resident_size()
    while True:
        await asyncio.sleep(MEMORY_SECONDS)
        if get_resident_size() > least + MEMORY_GROWN:
            gc.collect()
            await asyncio.to_thread(trim_memory)
            least = get_resident_size()
        least = min(least, get_resident_size())


async def save_events_regularly(feed: Feed) -> None:
    """Keep the last events encoded, for who comes back."""
    while True:
        await asyncio.sleep(EVENTS_SECONDS)
        await feed.persist()


async def save_settled_clock_regularly(settled: SettledClock) -> None:
    """Keep the time by which things are destroyed for their age."""
    while True:
        await settled.save()
        await asyncio.sleep(CLOCK_SECONDS)


async def guard_lock(state: State, stop: Callable[[int], None]) -> None:
    """Stop when the lock file was removed or replaced: a second daemon could start."""
    while True:
        await asyncio.sleep(LOCK_SECONDS)
        if not await asyncio.to_thread(state.holds_lock):
            log.critical("%s is no longer ours; stopping", state.layout.daemon_lock)
            stop(LOST_LOCK_EXIT_CODE)


async def purge_old_data(
    layout: Layout,
    settled: SettledClock,
    ledger: Ledger,
    bodies: BodyStore,
    settings: WatchedFile[GatewaySettings],
) -> None:
    """Delete ledger days and stored bodies of the gateway that are past their retention.

    Nothing is, while ``settings`` were never valid: the file may say that all is kept for years.
    """
    while True:
        try:
            if settings.was_valid:
                await _purge(layout, settled.now(), ledger, bodies, settings.current)
        except (Unavailable, ConfigError) as error:
            log.warning("old files of the gateway are not gone: %s", error.message)
        await asyncio.sleep(PURGE_SECONDS)


async def _purge(
    layout: Layout, now: Timestamp, ledger: Ledger, bodies: BodyStore, settings: GatewaySettings
) -> None:
    if settings.keep_days:
        unsent = await asyncio.to_thread(find_first_unsent, layout, settings.export)
        await ledger.delete_old(settings.keep_days, now[:10], unsent)
    oldest = parse_iso(now) - timedelta(days=settings.bodies.keep_days)
    await asyncio.to_thread(bodies.delete_before, format_iso(oldest)[:10])


async def build_rollups(ledger: Ledger) -> None:
    """Build rollups of closed days: after the start, and after the end of each day."""
    while True:
        try:
            await ledger.build_rollups()
        except Unavailable as error:
            log.warning("long reports are not made ahead: %s", error.message)
        await asyncio.sleep(ROLLUP_SECONDS)


async def recount_after_wrong_clock(
    meters: KeyMeters, recount: Callable[[], Awaitable[None]]
) -> None:
    """Count spending again if it was counted while the clock showed another day.

    So a start while the clock is ahead or behind, which counts for that day, forgives nothing.
    """
    while True:
        await asyncio.sleep(RECOUNT_SECONDS)
        if meters.is_counted_for_another_day:
            try:
                await recount()
            except AgentdError as error:
                log.warning("what was spent is not counted again yet: %s", error.message)


async def refresh_prices_daily(prices: PriceCatalogueService) -> None:
    """Read the price catalogue from its library once a day, in a process of its own."""
    await asyncio.sleep(PRICES_DELAY)
    while True:
        await prices.refresh_if_old()
        await asyncio.sleep(PRICES_SECONDS)


class Reloadable(Protocol):
    """A file that is hand-edited; ``WatchedFile`` is one."""

    def on_file_changed(self, name: str) -> None:
        """Note that a file of this name was edited."""
        ...

    async def refresh(self) -> None:
        """Look at the file."""
        ...


async def watch(
    layout: Layout,
    keys: KeyService,
    gateway_keys: tuple[AccessKeyRepository, ManagementKeyRepository],
    *written: Reloadable,
) -> None:
    """Watch hand-edited files, so that edits take effect also without requests."""
    access, management_keys = gateway_keys
    ours = {os.path.basename(layout.keys), os.path.basename(layout.revoked)}

    def notify_files(name: str) -> None:
        for file in written:
            file.on_file_changed(name)

    def on_gateway_file_changed(name: str) -> None:
        access.on_file_changed(name)
        management_keys.on_file_changed(name)

    watcher = FolderWatcher()
    watcher.add(layout.state, lambda name: keys.schedule_reload() if name in ours else None)
    watcher.add(os.path.dirname(layout.access_keys), on_gateway_file_changed)
    watcher.add(layout.config, notify_files)
    try:
        await watcher.start()
        keys.schedule_reload()  # what was edited before the watch began
        for file in written:
            await file.refresh()
        while True:  # keys added and removed between two scans may have admitted callers
            await asyncio.sleep(KEYS_SECONDS)
            await keys.ensure_current()
            await access.poll()
            await management_keys.ensure_current()
    finally:
        await watcher.stop()


async def ping(notifier: Notifier, committer: GroupCommitter) -> None:
    """Notify the service manager's watchdog that the loop and the disk thread both work."""
    interval = notifier.get_watchdog_interval()
    while interval:
        await committer.ping()
        notifier.ping_watchdog()
        await asyncio.sleep(interval)

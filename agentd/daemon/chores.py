"""What a daemon does by itself as long as it lives: each a task that is ended with it."""

import asyncio
import contextlib
import gc
import logging
import os
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from agentd.access.service import KeyService
from agentd.chats.service import ChatService
from agentd.clock import Clock, iso, parse_iso
from agentd.disk.access_key_book import AccessKeyBook
from agentd.disk.bodies import BodyFiles
from agentd.disk.export_state import first_unsent
from agentd.disk.inspect import silent_damage
from agentd.disk.journal import Committer
from agentd.disk.layout import Layout
from agentd.disk.ledger import Ledger
from agentd.disk.state import State
from agentd.disk.watch import Watcher
from agentd.errors import Misconfigured, Unavailable
from agentd.outside.own_process import resident_size, return_free_memory
from agentd.outside.service_manager import Notifier
from agentd.proxy.settings import GatewaySettings
from agentd.web.feed import Feed

log = logging.getLogger(__name__)

INDEX_SECONDS = 60.0
"""How often the index is stored while something changes."""
MEMORY_SECONDS = 60.0
"""How often it is looked whether memory can go back to the system ..."""
MEMORY_GROWN = 16 * 1024 * 1024
"""... which it does when it has grown by so much."""
EVENTS_SECONDS = 1.0
"""How often the last events go into the log of events."""
SUMS_SECONDS = 300.0
"""How often it is looked whether days of the ledger are over, or were changed."""
HOUSE_SECONDS = 3600.0
"""How often old files of the gateway are looked for."""
KEYS_SECONDS = 1.0
"""How often the keys' file is looked at though nobody calls and nothing was heard of it."""
LOCK_SECONDS = 5.0
"""How often the daemon makes sure that the folder's lock is still its own."""
LOST_LOCK = 75
"""Exit code when another hand removed the lock: systemd starts the daemon anew."""


async def end(task: "asyncio.Task[None]") -> None:
    """End a chore."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def tell_damage(layout: Layout) -> None:
    """Log, once, which kept files lost something that nobody would be told of otherwise."""
    for mistake in await asyncio.to_thread(silent_damage, layout):
        log.error("%s", mistake)


async def keep_index(state: State, chats: ChatService) -> None:
    """Store the index now and then, for a cheap start."""
    saved = state.sequences.used.seq
    while True:
        await asyncio.sleep(INDEX_SECONDS)
        if state.sequences.used.seq != saved:
            saved = state.sequences.used.seq
            await asyncio.to_thread(state.save, chats.recorded())


async def keep_memory_small() -> None:
    """Give memory back that was needed once.

    Connections that are over hold their buffers until all rings of objects are looked for, which
    by itself happens after millions of requests only.
    """
    least = resident_size()
    while True:
        await asyncio.sleep(MEMORY_SECONDS)
        if resident_size() > least + MEMORY_GROWN:
            gc.collect()
            await asyncio.to_thread(return_free_memory)
            least = resident_size()
        least = min(least, resident_size())


async def keep_events(feed: Feed) -> None:
    """Keep the last events encoded, for who comes back."""
    while True:
        await asyncio.sleep(EVENTS_SECONDS)
        await feed.keep()


async def guard_lock(state: State, stop: Callable[[int], None]) -> None:
    """Stop when the lock file was removed or replaced: a second daemon could be let in."""
    while True:
        await asyncio.sleep(LOCK_SECONDS)
        if not await asyncio.to_thread(state.holds_lock):
            log.critical("%s is no longer ours; stopping", state.layout.daemon_lock)
            stop(LOST_LOCK)


async def keep_house(
    layout: Layout,
    clock: Clock,
    ledger: Ledger,
    bodies: BodyFiles,
    settings: Callable[[], GatewaySettings],
) -> None:
    """Let go of what the gateway wrote and is not to keep any longer."""
    while True:
        now = settings()
        try:
            if now.keep_days:
                unsent = await asyncio.to_thread(first_unsent, layout, now.export)
                await ledger.retain(now.keep_days, unsent)
            oldest = parse_iso(clock.now()) - timedelta(days=now.bodies.keep_days)
            await asyncio.to_thread(bodies.retain, iso(oldest)[:10])
        except (Unavailable, Misconfigured) as error:
            log.warning("old files of the gateway are not gone: %s", error.message)
        await asyncio.sleep(HOUSE_SECONDS)


async def keep_sums(ledger: Ledger) -> None:
    """Have what closed days add up to ready: after the start, and after the end of each day."""
    while True:
        try:
            await ledger.make_ahead()
        except Unavailable as error:
            log.warning("long reports are not made ahead: %s", error.message)
        await asyncio.sleep(SUMS_SECONDS)


class Followed(Protocol):
    """A file that is hand-edited; ``Reloaded`` is one."""

    def noticed(self, name: str) -> None:
        """A file of this name was edited."""
        ...

    async def refresh(self) -> None:
        """Look at the file."""
        ...


async def watch(
    layout: Layout, keys: KeyService, access: AccessKeyBook, *written: Followed
) -> None:
    """Notice files that a person edited at once, even while nobody calls."""
    ours = {os.path.basename(layout.keys), os.path.basename(layout.revoked)}

    def noticed(name: str) -> None:
        for file in written:
            file.noticed(name)

    watcher = Watcher()
    watcher.add(layout.state, lambda name: keys.wake() if name in ours else None)
    watcher.add(os.path.dirname(layout.access_keys), access.noticed)
    watcher.add(layout.config, noticed)
    try:
        await watcher.start()
        keys.wake()  # what was edited before the watch began
        for file in written:
            await file.refresh()
        while True:  # keys that came and went between two scans are known to those they let in
            await asyncio.sleep(KEYS_SECONDS)
            await keys.fresh()
            await access.look()
    finally:
        await watcher.stop()


async def ping(notifier: Notifier, committer: Committer) -> None:
    """Tell the service manager that the loop and the disk thread both live."""
    interval = notifier.watchdog_interval()
    while interval:
        await committer.beat()
        notifier.watchdog()
        await asyncio.sleep(interval)

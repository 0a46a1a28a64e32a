"""The rest of the load under kills: callers of all kinds of things, model calls, a follower."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Self

from agentd.core.sse import ServerSentEvent
from agentd.live.cursor import parse_cursor
from tests.crash.callers import NoAnswer, Wire, World
from tests.crash.following import Follower, read_history
from tests.crash.keeper import DaemonProcess
from tests.crash.model_callers import ModelCallers, answer
from tests.crash.resource_callers import KINDS, Organizer
from tests.crash.spend_sums import compare_sums
from tests.gateway.conftest import GatewaySetup
from tests.supplier.supplier import Supplier
from tests.support.waiting import until

CONNECTIONS = 4
"""Of model calls, half of them streams."""
SUMS_EVERY = 10
"""Kills from one recount of the ledger to the next."""


class MixedLoad:
    """The callers beside those of chats' queues, from ``with`` to its end."""

    def __init__(self, folder: str, world: World, seed: int) -> None:
        self.world = world
        self.follower = Follower()
        self._folder = folder
        self._seed = seed
        self._starts = 0
        self._supplier = Supplier()

    def __enter__(self) -> Self:
        """Start the supplier, and write the gateway's files before the first daemon starts."""
        self._supplier.__enter__()
        self._supplier.answer_always(answer)
        self._setup = GatewaySetup(Path(self._folder), self._supplier)
        self._setup.settings["sync_ledger"] = True
        self.models = ModelCallers(self._setup, CONNECTIONS)
        self._setup.write()
        state = self._setup.layout.state
        self.resources = [kind(self.world, self._seed, state) for kind in KINDS]
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the supplier."""
        self._supplier.__exit__(None, None, None)

    def build_threads(
        self, process: DaemonProcess, stop: threading.Event
    ) -> list[threading.Thread]:
        """Return what loads a daemon until it dies, not started yet."""
        url = process.url
        work: list[Callable[[], None]] = [
            *(partial(caller.run_until_death, url, stop) for caller in self.resources),
            partial(self.follower.listen, process),
            partial(self._call_models, url),
        ]
        return [threading.Thread(target=self._run, args=(one,)) for one in work]

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self.world.complain("checker", [f"{work} broke: {error!r}"])

    def compare(self, process: DaemonProcess) -> None:
        """Compare what a daemon that was just started shows."""
        with contextlib.closing(Wire(process.url)) as wire:
            for caller in self.resources:
                try:
                    caller.compare(wire)
                except NoAnswer:
                    self.world.complain(caller.name, ["the daemon died by itself"])
        self._starts += 1
        if self._starts % SUMS_EVERY == 0:
            self._compare_sums(process)

    def compare_at_end(self, process: DaemonProcess) -> None:
        """Compare sums and events, and take everything out of the trash for the others."""
        self._compare_sums(process)
        with contextlib.closing(Wire(process.url)) as wire:
            for caller in self.resources:
                if isinstance(caller, Organizer):
                    caller.restore_all(wire)
        self.follower.follow(process)
        self.world.complain("events", self._find_missed_events(process))

    def format_figures(self) -> str:
        """Return what was done in words."""
        doubts = sum(caller.expected.doubts for caller in self.resources)
        return (
            f"; beside queues {doubts} changes in doubt, {len(self.models.whole)} model calls"
            f" ({self.models.cut} cut off), {len(self.follower.told)} events"
        )

    def _call_models(self, url: str) -> None:
        async def call() -> None:
            never = asyncio.get_running_loop().create_future()
            await self.models.load(url, 10**9, never)

        asyncio.run(call())

    def _compare_sums(self, process: DaemonProcess) -> None:
        lines = self._setup.read_records()
        self.world.complain("model calls", self.models.find_violations(lines))
        requests = list(self._supplier.requests)
        self.world.complain("model calls", self.models.find_unrecorded(lines, requests))
        self.world.complain("sums", compare_sums(self._setup, process.url))

    def _find_missed_events(self, process: DaemonProcess) -> Iterator[str]:
        """Yield the differences between the history and what the follower was told."""
        history = read_history(process)
        end = parse_cursor(history[-1].id).seq
        until(lambda: parse_cursor(self.follower.last).seq >= end)
        told = list(self.follower.told)
        numbers = [parse_cursor(event.id).seq for event in told if event.id]
        if numbers != sorted(numbers):
            yield "they came out of order"
        if self.follower.gaps and not self.world.removed:
            yield "there was a gap, though no chat was removed for ever"
        lasting = {event.name for event in history}
        history = [event for event in history if not self.follower.has_loaded(event)]
        there = list(self._list_comparable(history))
        told = [event for event in told if event.name in lasting]
        seen = list(self._list_comparable(told))[: len(there)]
        if seen != there:
            place = next(
                (n for n, pair in enumerate(zip(seen, there, strict=False)) if pair[0] != pair[1]),
                min(len(seen), len(there)),
            )
            yield (
                f"of {len(there)} the follower has {len(seen)}; at {place} it was told"
                f" {seen[place : place + 2]}, expected {there[place : place + 2]}"
            )

    def _list_comparable(self, events: list[ServerSentEvent]) -> Iterator[tuple[str, str]]:
        """Yield the events of chats that were not removed for ever: only they are in a history."""
        for event in events:
            first = json.loads(event.data)[0]
            chat = first.get("chatId") if isinstance(first, dict) else first
            if chat not in self.world.removed:
                yield event.name, event.data

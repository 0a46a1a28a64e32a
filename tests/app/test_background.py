"""What the daemon does beside requests: old data of the gateway is deleted, and no other."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from agentd.app import background
from agentd.core.clock import SystemClock, format_iso, parse_iso
from agentd.gateway.ledger.bodies import BodyStore
from agentd.gateway.ledger.ledger import Ledger
from agentd.gateway.settings.model import GatewaySettings
from agentd.gateway.settings.store import load
from agentd.storage.layout import Layout
from agentd.storage.settled_clock import SettledClock
from agentd.storage.watched_file import WatchedFile
from tests.conftest import until

pytestmark = pytest.mark.gen_test


async def test_bodies_are_kept_while_the_file_that_says_for_how_long_was_never_valid(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "PURGE_SECONDS", 0.01)
    clock, path = SystemClock(), Path(layout.gateway_settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    days = [format_iso(parse_iso(clock.now()) - timedelta(days=age))[:10] for age in (500, 100, 0)]
    bodies, ledger = BodyStore(layout, print), Ledger(layout, clock)
    for day in days:
        bodies.store("r-1", f"{day}T07:00:00.000Z", b"{}", b"{}")
    bodies.delete_before("")

    def list_kept() -> list[str]:
        return sorted(folder.name for folder in Path(layout.bodies).iterdir())

    path.write_text("bodies: {keep_days: 365}\nnonsense: ]\n")
    settings = WatchedFile(str(path), partial(load, layout), GatewaySettings())
    await settings.refresh()
    assert settings.problems
    settled = SettledClock(layout.clock, clock)
    purging = asyncio.create_task(
        background.purge_old_data(layout, settled, ledger, bodies, settings)
    )
    await asyncio.to_thread(bodies.delete_before, "")  # a purge of now would be before this
    path.write_text("bodies: {keep_days: 365}\n")
    await settings.refresh()
    await until(lambda: list_kept() == days[1:])
    path.write_text("bodies: {keep_days: 50}\n")
    await settings.refresh()
    await until(lambda: list_kept() == days[2:])
    purging.cancel()
    with suppress(asyncio.CancelledError):
        await purging
    bodies.close()

"""The page of requests stays as small as it is, however many requests pass it live."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, ClassVar

import pytest

from agentd.core.clock import format_iso
from agentd.gateway.ledger.ledger import Ledger
from tests.gateway.ledger.entries import build_record
from tests.ui.gateway_site import GatewaySite, open_gateway
from tests.ui.support import Person, person
from tests.ui.test_every_page import wait_until_loaded

from playwright.sync_api import Browser, Page  # isort: skip

ROWS = 100_000
BATCH = 5000
"""Rows between two looks of the page."""
FIRST = 20_000
"""Rows until the page has all that it will ever keep."""


class CapturedLedger(Ledger):
    """The daemon's ledger, as it is, for a test that adds to it."""

    opened: ClassVar[list[Ledger]] = []

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.opened.append(self)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewaySite]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agentd.app.gateway.Ledger", CapturedLedger)
        with open_gateway(tmp_path_factory.mktemp("gateway")) as site:
            site.admin.patch("/api/agent/settings", {"sync_ledger": False})
            yield site


@pytest.fixture
def gus(browser: Browser, gateway: GatewaySite) -> Iterator[Person]:
    with person(browser, gateway.serving) as somebody:
        yield somebody


def add_rows(gateway: GatewaySite, first: int, count: int) -> None:
    """Record so many requests."""
    now = format_iso(datetime.now(UTC))

    async def add() -> None:
        records = (build_record(number, now) for number in range(first, first + count))
        await asyncio.gather(*(CapturedLedger.opened[-1].add_record(one) for one in records))

    loop = gateway.serving._loop
    assert loop
    asyncio.run_coroutine_threadsafe(add(), loop).result(120)


def weigh(page: Page) -> dict[str, float]:
    """Return the sizes of a page after a collection of garbage."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    for _ in range(2):
        session.send("HeapProfiler.collectGarbage")
    metrics = session.send("Performance.getMetrics")["metrics"]
    session.detach()
    found = {one["name"]: one["value"] for one in metrics}
    return {name: found[name] for name in ("JSHeapUsedSize", "Nodes", "JSEventListeners")}


@pytest.mark.parametrize("reads_below", [False, True])
def test_the_page_stays_as_small_while_100_000_requests_pass(
    gus: Person, gateway: GatewaySite, reads_below: bool
) -> None:
    begin = 1_000_000 * (1 + reads_below)
    add_rows(gateway, begin, 500)
    page = gus.open("/gateway/requests")
    wait_until_loaded(page)
    page.locator("tbody tr").first.wait_for()
    if reads_below:
        page.get_by_role("region", name="Requests").evaluate("node => node.scrollTop = 300")
    before: dict[str, float] = {}
    for done in range(BATCH, ROWS + 1, BATCH):
        with page.expect_response("**/api/agent/requests?*"):
            add_rows(gateway, begin + done, BATCH)
        if done == FIRST:
            before = weigh(page)
    after = weigh(page)
    assert after["Nodes"] <= before["Nodes"] * 1.1 + 100
    assert after["JSEventListeners"] <= before["JSEventListeners"] * 1.1 + 20
    assert after["JSHeapUsedSize"] <= before["JSHeapUsedSize"] * 1.1 + 300_000

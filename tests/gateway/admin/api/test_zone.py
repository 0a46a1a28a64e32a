"""A time zone for limits, reports, the summary and the command, and each of them names it."""

import contextlib
import io
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest

from agentd.cli.main import main
from agentd.core.clock import SystemClock
from agentd.storage.checksummed_json import encode_checksummed
from agentd.storage.layout import Layout
from tests.gateway.admin.api.described import Manager
from tests.gateway.admin.conftest import HASH
from tests.gateway.conftest import GatewaySetup
from tests.gateway.ledger.entries import build_record
from tests.gateway.relay.callers import Caller
from tests.supplier.steps import Answer, Say, Tokens
from tests.support.daemon import Serving

HALF_PAST_MIDNIGHT = "2026-07-14T22:30:00.000Z"
BEFORE = "2026-07-14T21:45:00.000Z"
"""In Berlin the day before."""
COST = Decimal("0.0045")
ZONE = "Europe/Berlin"


def test_half_an_hour_after_midnight_everybody_shows_the_same_day(
    setup: GatewaySetup, start_gateway: Callable[..., Serving], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SystemClock, "now", lambda _: HALF_PAST_MIDNIGHT)
    setup.settings["time_zone"] = ZONE
    letters, key = setup.add_key(name="laptop", limits={"day": "1"}), setup.keys[-1]
    _write_past_record(setup.layout, key)
    setup.supplier.script(Answer((Say("well"),), Tokens(input=1000, output=100)))
    daemon = start_gateway(environ={"PROXY_APP_HASH": HASH})
    assert Caller(daemon.port, letters).ask("openai-chat", "by-chat").status == 200
    with closing(Manager(daemon.url, "manage-0123456789abcdef")) as manager:
        summary = manager.get("/api/agent/summary").json()
        by_day = manager.get("/api/agent/reports/by-day").json()
        by_hour = manager.get("/api/agent/reports/by-hour?from=2026-07-15").json()
        limits = manager.get("/api/agent/reports/limits").json()
        shown = manager.get("/api/agent/keys/laptop").json()
        log = manager.get("/api/agent/requests?from=2026-07-15").json()
    result = (summary, by_day, by_hour, limits, shown["spent"])
    assert [one["zone"] for one in result] == [ZONE] * len(result)
    assert by_day["to"] == "2026-07-15"
    days = {one["name"]: Decimal(str(one["cost"])) for one in by_day["items"]}
    assert days == {"2026-07-14": Decimal("0.126"), "2026-07-15": COST}
    assert [one["name"] for one in by_hour["items"]] == ["2026-07-15T00"]
    today = (summary["today"]["cost"], limits["items"][0]["used"], shown["spent"]["day"])
    assert [Decimal(str(one)) for one in today] == [COST] * 3
    assert limits["items"][0]["resets"] == "2026-07-15T22:00:00.000Z"
    assert [one["at"] for one in log["items"]] == [HALF_PAST_MIDNIGHT]
    out = _run_spend_command(setup.layout)
    assert f"2026-07-15 to 2026-07-15, days in {ZONE}" in out
    assert "2026-07-15" in out and "0.004500" in out and "0.126" not in out


def _write_past_record(layout: Layout, key: str) -> None:
    path = Path(layout.get_ledger_day_path(BEFORE[:10]))
    path.parent.mkdir(parents=True, mode=0o700)
    for folder in (path.parent.parent, Path(layout.state)):
        folder.chmod(0o700)
    path.write_bytes(encode_checksummed(build_record(1, BEFORE, key=key, cost=Decimal("0.126"))))
    path.chmod(0o600)


def _run_spend_command(layout: Layout) -> str:
    places = ["--state", layout.state, "--config", layout.config]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(["proxy", "spend", "--by", "day", "--days", "1", *places]) == 0
    return out.getvalue()

"""The sums of what was spent, by every report, beside a recount of the ledger's lines."""

import contextlib
import io
import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from typing import Any

from agentd.cli.main import main
from agentd.gateway.ledger.record import RequestRecord
from tests.crash.keys import MANAGEMENT_KEY
from tests.gateway.conftest import GatewaySetup
from tests.support.daemon import Client


def compare_sums(setup: GatewaySetup, url: str) -> Iterator[str]:
    """Yield the differences between the sums that are shown and those of the ledger's lines."""
    spent = sum_by_key(setup.read_records())
    with closing(Client(url, MANAGEMENT_KEY)) as manager:
        enforced = get_report(manager, "limits", "key", "used")
        result = {"the report": get_report(manager, "by-key", "name", "cost")}
        result["spenders"] = get_report(manager, "top-spenders", "key", "cost")
        reserved = get_report(manager, "limits", "key", "reserved")
    result["the command"] = run_spend(setup)
    result["what limits enforce"] = {key: used for key, used in enforced.items() if used}
    yield from (f"{who}: {sums}, but {spent}" for who, sums in result.items() if sums != spent)
    yield from (f"{key} has {one} reserved" for key, one in reserved.items() if one)


def sum_by_key(entries: list[RequestRecord]) -> dict[str, Decimal]:
    """Return each key's spend by the ledger's lines."""
    spent: defaultdict[str, Decimal] = defaultdict(Decimal)
    for entry in entries:
        spent[entry.key] += entry.cost
    return dict(spent)


def get_report(manager: Client, report: str, name: str, amount: str) -> dict[str, Decimal]:
    """Return an amount of each key, by a report of the management."""
    reply = manager.get(f"/api/agent/reports/{report}")
    assert reply.status == 200, reply.body
    items: list[dict[str, Any]] = reply["items"]
    return {one[name]: Decimal(str(one[amount])) for one in items}


def run_spend(setup: GatewaySetup) -> dict[str, Decimal]:
    """Return each key's spend by ``agentd proxy spend``."""
    places = ["--state", setup.layout.state, "--config", setup.layout.config]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(["proxy", "spend", "--json", *places]) == 0
    return {one["name"]: Decimal(str(one["cost"])) for one in json.loads(out.getvalue())}

"""Ledger entries for tests: one by hand, or any that may come up."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from agentd.core.clock import format_iso
from agentd.gateway.ledger.record import FailedTry, RequestRecord, Timings
from agentd.llm.price import Usage

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def build_record(
    number: int = 1, at: str = "2026-01-01T00:00:00.000Z", **more: Any
) -> RequestRecord:
    """Build the record of a request that succeeded."""
    known: dict[str, Any] = {
        "key": "abcdefghijkl",
        "endpoint": "/v1/chat/completions",
        "model": "large",
        "channel": "one",
        "status": 200,
        "outcome": "ok",
        "usage": Usage(input=10, output=5),
        "cost": Decimal("0.25"),
        "timings": Timings(1, 20, 30, 40),
    }
    return RequestRecord(id=f"r-{number}", at=at, **known | more)


def _build_record_at(number: int, seconds: int, **more: Any) -> RequestRecord:
    if not more["channel"]:
        more["failed_tries"] = ()
    cost = sum((one.cost for one in more["failed_tries"]), start=more.pop("cost"))
    return build_record(number, format_iso(BEGIN + timedelta(seconds=seconds)), cost=cost, **more)


_GIVEN_UP = FailedTry("two", "unreachable", usage=Usage(input=7), cost=Decimal("0.125"))

_COUNTS = st.integers(0, 10**6)

ENTRIES = st.lists(
    st.builds(
        _build_record_at,
        st.integers(1, 10**9),
        st.integers(0, 4 * 86400),
        key=st.sampled_from(["", "a" * 12, "b" * 12, "c" * 12]),
        key_name=st.sampled_from(["", "laptop", "=robot"]),
        owner=st.sampled_from(["", "ann", "bob"]),
        tags=st.sampled_from([(), ("nightly",), ("nightly", "ann")]),
        model=st.sampled_from(["", "large", "small"]),
        channel=st.sampled_from(["", "one", "two"]),
        failed_tries=st.sampled_from([(), (FailedTry("one", "server"), _GIVEN_UP)]),
        stream=st.booleans(),
        outcome=st.sampled_from(["ok", "refused", "failed", "broken", "left"]),
        error=st.sampled_from(["", "rate_limit", "limit_day"]),
        usage=st.builds(Usage, _COUNTS, _COUNTS, _COUNTS, _COUNTS, _COUNTS, _COUNTS),
        cost=st.decimals(0, 10**6, places=15),
        estimated=st.booleans(),
        timings=st.builds(Timings, *[st.floats(0, 10**6)] * 4),
        hidden=st.dictionaries(st.sampled_from(["jwt", "aws"]), st.integers(1, 5)),
    ),
    max_size=40,
)
"""Requests of four days, in no order."""

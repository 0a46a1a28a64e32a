"""A line of the ledger is taken for what it says only if a request can have such amounts."""

from decimal import Decimal

import pytest

from agentd.gateway.ledger.day_file import decode_record
from agentd.gateway.ledger.record import FailedTry
from agentd.llm.price import Usage
from agentd.storage.checksummed_json import ChecksumMismatch, encode_checksummed
from tests.gateway.ledger.entries import build_record


def build_line(**failed: object) -> bytes:
    tries = (FailedTry("two", "unreachable", **failed),)
    return encode_checksummed(build_record(cost=Decimal("0.25"), failed_tries=tries))


@pytest.mark.parametrize("cost", ["0", "0.2", "0.25"])
def test_what_was_given_up_costs_a_part_of_the_request(cost: str) -> None:
    line = build_line(cost=Decimal(cost), usage=Usage(input=9))
    assert decode_record(line).given_up_cost == Decimal(cost)


@pytest.mark.parametrize(
    "failed",
    [
        {"cost": Decimal("0.26")},
        {"cost": Decimal(-1)},
        {"cost": Decimal("NaN")},
        {"cost": Decimal("Infinity")},
        {"usage": Usage(output=-1)},
    ],
    ids=str,
)
def test_a_failed_call_that_costs_what_none_can_makes_a_line_corrupt(
    failed: dict[str, object],
) -> None:
    with pytest.raises(ChecksumMismatch):
        decode_record(build_line(**failed))

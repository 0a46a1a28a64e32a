"""Where suppliers are asked for balances, and how their answers are read."""

import asyncio
import json
from decimal import Decimal
from typing import Any

import pytest

from agentd.core.errors import Forbidden, Unavailable
from agentd.gateway.channels.balance_sources import (
    Balance,
    find_source,
    get_base_url,
    read_balance,
)
from agentd.gateway.channels.model import BalanceReading, BalanceSource, Channel

CREDITS, KEY = "/api/v1/credits", "/api/v1/key"
SUBSCRIPTION = "/v1/dashboard/billing/subscription"
USAGE = "/v1/dashboard/billing/usage?start_date=2025-10-24&end_date=2026-02-01"


def build_channel(url: str, **balance: Any) -> Channel:
    return Channel(name="a", dialects=("openai-chat",), url=url, balance=BalanceReading(**balance))


def read(source: BalanceSource, answers: dict[str, Any], url: str = "https://a.example") -> Balance:
    """Read a balance from these answers by path; None: the key may not ask for it."""

    async def ask(path: str) -> bytes:
        if (answer := answers[path]) is None:
            raise Forbidden("HTTP 403")
        return json.dumps(answer).encode()

    return asyncio.run(read_balance(source, url, ask, "2026-01-31"))


@pytest.mark.parametrize(
    ("url", "source"),
    [
        ("https://openrouter.ai/api/v1", "openrouter"),
        ("https://api.deepseek.com", "deepseek"),
        ("https://API.deepseek.com/anthropic", "deepseek"),
        ("https://api.siliconflow.cn/v1", "siliconflow"),
        ("https://api.siliconflow.com", "siliconflow"),
        ("https://api.moonshot.ai/v1", "moonshot"),
        ("https://api.moonshot.cn/anthropic", "moonshot"),
        ("https://api.novita.ai/v3/openai", "novita"),
        ("https://api.openai.com/v1", None),
        ("https://openrouter.ai.example.org", None),
    ],
)
def test_a_supplier_is_known_by_its_host(url: str, source: str | None) -> None:
    assert find_source(build_channel(url)) == source
    assert find_source(build_channel(url, source="off")) is None
    assert find_source(build_channel(url, source="new-api")) == "new-api"


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("https://openrouter.ai/api/v1/", "https://openrouter.ai"),
        ("https://api.deepseek.com/anthropic/v1", "https://api.deepseek.com"),
        ("https://api.novita.ai/v3/openai", "https://api.novita.ai"),
        ("http://127.0.0.1:3000", "http://127.0.0.1:3000"),
        ("https://proxy.example/deepseek/v1", "https://proxy.example/deepseek"),
    ],
)
def test_the_paths_of_apis_are_left_out(url: str, base: str) -> None:
    assert get_base_url(url) == base


def test_openrouter_tells_credits_or_what_is_left_of_the_key() -> None:
    told = {CREDITS: {"data": {"total_credits": 100.5, "total_usage": 25.75}}}
    assert read("openrouter", told) == Balance(Decimal("74.75"), "USD")
    limited = {CREDITS: None, KEY: {"data": {"limit": 100, "limit_remaining": 74.5}}}
    assert read("openrouter", limited) == Balance(Decimal("74.5"), "USD")
    with pytest.raises(Unavailable, match="management keys"):
        read("openrouter", {CREDITS: None, KEY: {"data": {"limit_remaining": None}}})
    with pytest.raises(Forbidden):
        read("openrouter", {CREDITS: None, KEY: None})


def test_deepseek_tells_the_balance_that_is_charged() -> None:
    def tell(*balances: tuple[str, str]) -> dict[str, Any]:
        rows = [{"currency": name, "total_balance": amount} for name, amount in balances]
        return {"/user/balance": {"is_available": True, "balance_infos": rows}}

    assert read("deepseek", tell(("CNY", "110.00"))) == Balance(Decimal("110.00"), "CNY")
    assert read("deepseek", tell(("CNY", "1"), ("USD", "5"))) == Balance(Decimal(5), "USD")
    assert read("deepseek", tell(("CNY", "1"), ("USD", "0"))) == Balance(Decimal(1), "CNY")
    assert read("deepseek", tell(("USD", "0"))) == Balance(Decimal(0), "USD")
    assert read("deepseek", tell(("<b>", "1"))).currency == "unknown"
    with pytest.raises(Unavailable, match="tells no balance"):
        read("deepseek", tell())


def test_siliconflow_and_moonshot_tell_it_in_the_currency_of_their_site() -> None:
    user = {"/v1/user/info": {"code": 20000, "data": {"balance": "0.88", "totalBalance": "88.88"}}}
    for url, currency in (("https://api.siliconflow.cn", "CNY"), ("https://a.com", "USD")):
        assert read("siliconflow", user, url) == Balance(Decimal("88.88"), currency)
    balance = {"/v1/users/me/balance": {"code": 0, "data": {"available_balance": 49.58894}}}
    for url, currency in (("https://api.moonshot.cn", "CNY"), ("https://a.ai", "USD")):
        assert read("moonshot", balance, url) == Balance(Decimal("49.58894"), currency)


def test_novita_tells_it_in_small_units() -> None:
    told = {"/openapi/v1/billing/balance/detail": {"availableBalance": "1000000"}}
    assert read("novita", told) == Balance(Decimal(100), "USD")


def test_new_api_tells_the_limit_and_the_usage_of_the_key() -> None:
    told = {SUBSCRIPTION: {"hard_limit_usd": 20.5}, USAGE: {"total_usage": 150}}
    assert read("new-api", told) == Balance(Decimal(19), "USD")
    with pytest.raises(Unavailable, match="no quota"):
        read("new-api", {SUBSCRIPTION: {"hard_limit_usd": 100000000}})


@pytest.mark.parametrize(
    "answer", [{}, [], "none", {"data": None}, {"data": {"available_balance": "NaN"}}]
)
def test_what_is_no_balance_is_refused(answer: Any) -> None:
    with pytest.raises(Unavailable, match="balance"):
        read("moonshot", {"/v1/users/me/balance": answer})


@pytest.mark.parametrize("amount", ["NaN", "sNaN", "Infinity", "-Infinity", "1e999999999"])
@pytest.mark.parametrize("source", ["openrouter", "deepseek", "novita", "new-api"])
def test_amounts_that_nothing_can_be_calculated_with_are_refused(
    source: BalanceSource, amount: str
) -> None:
    answers = {
        CREDITS: {"data": {"total_credits": amount, "total_usage": -1}},
        "/user/balance": {"balance_infos": [{"currency": "USD", "total_balance": amount}]},
        "/openapi/v1/billing/balance/detail": {"availableBalance": amount},
        SUBSCRIPTION: {"hard_limit_usd": 1},
        USAGE: {"total_usage": amount},
    }
    with pytest.raises(Unavailable, match="not an amount"):
        read(source, answers)


def test_the_amount_to_warn_of_is_an_amount() -> None:
    for wrong in ("-1", "NaN", "Infinity", "1000000001"):
        with pytest.raises(ValueError, match="low: expected an amount"):
            BalanceReading(low=Decimal(wrong))

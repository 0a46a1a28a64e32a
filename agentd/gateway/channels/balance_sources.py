"""What suppliers tell of an account's balance: where each is asked, and how its answer is read.

No I/O: ``ask`` sends a request for a path and returns the bytes of its answer.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import TypeAlias, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from agentd.core.errors import Forbidden, Unavailable
from agentd.gateway.channels.model import BalanceSource, Channel

T = TypeVar("T")

Ask: TypeAlias = Callable[[str], Awaitable[bytes]]
"""A path below the supplier's address to its answer.

Raises ``Forbidden`` if the key may not do this, and ``Unavailable``.
"""

_API_SEGMENTS = frozenset(("api", "v1", "v3", "beta", "openai", "anthropic"))
"""The ends of base URLs that belong to one of a supplier's APIs, not to where it is."""

_HOSTS: Mapping[str, BalanceSource] = {
    "openrouter.ai": "openrouter",
    "api.deepseek.com": "deepseek",
    "api.siliconflow.cn": "siliconflow",
    "api.siliconflow.com": "siliconflow",
    "api.moonshot.cn": "moonshot",
    "api.moonshot.ai": "moonshot",
    "api.novita.ai": "novita",
}

_NOVITA_UNITS = 10_000
_UNLIMITED = Decimal(100_000_000)
"""What new-api and one-api say is the limit of a key that has none."""
_USAGE_DAYS = 99
"""The days of which new-api itself asks other gateways for their usage."""
_MAX_AMOUNT = Decimal(10) ** 12


class Balance(Struct, frozen=True):
    """What is left of an account, or of a key that has a limit."""

    amount: Decimal
    currency: str
    """Such as ``USD``."""


def find_source(channel: Channel) -> BalanceSource | None:
    """Return who tells a channel's balance; None: it is not asked for, or nobody tells it."""
    match channel.balance.source:
        case "off":
            return None
        case "auto":
            return _HOSTS.get(urlsplit(channel.url).hostname or "")
        case source:
            return source


def get_base_url(url: str) -> str:
    """Return a supplier's address without the paths of its APIs."""
    parts = urlsplit(url)
    segments = parts.path.rstrip("/").split("/")
    while segments[-1] in _API_SEGMENTS:
        segments.pop()
    return f"{parts.scheme}://{parts.netloc}{'/'.join(segments)}"


async def read_balance(source: BalanceSource, url: str, ask: Ask, today: str) -> Balance:
    """Ask for the balance; ``today`` is such as ``2026-01-31``.

    Raises as ``ask`` does, and ``Unavailable`` for an answer that tells none.
    """
    try:
        found = await _read_from(source, url, ask, today)
        is_amount = found.amount.is_finite() and abs(found.amount) <= _MAX_AMOUNT
    except ArithmeticError:  # NaN and Infinity are valid decimals, but not to calculate with
        is_amount = False
    if not is_amount:
        raise Unavailable("the balance that it tells is not an amount")
    return found


async def _read_from(source: BalanceSource, url: str, ask: Ask, today: str) -> Balance:
    match source:
        case "openrouter":
            return await _read_openrouter(ask)
        case "deepseek":
            return await _read_deepseek(ask)
        case "siliconflow":
            return await _read_siliconflow(url, ask)
        case "moonshot":
            return await _read_moonshot(url, ask)
        case "novita":
            return await _read_novita(ask)
        case "new-api":
            return await _read_new_api(ask, today)
        case _:
            raise Unavailable(f"nobody tells a balance for {source}")


class _OpenRouterCredits(Struct):
    total_credits: Decimal
    total_usage: Decimal


class _OpenRouterCreditsReply(Struct):
    data: _OpenRouterCredits


class _OpenRouterKey(Struct):
    limit_remaining: Decimal | None = None


class _OpenRouterKeyReply(Struct):
    data: _OpenRouterKey


async def _read_openrouter(ask: Ask) -> Balance:
    """Read the account's credits, or what is left of the key's own limit.

    The first is only for management keys.
    Sources: https://openrouter.ai/docs/api/api-reference/credits/get-credits,
    https://openrouter.ai/docs/api/api-reference/api-keys/get-current-key
    """
    try:
        found = _decode(await ask("/api/v1/credits"), _OpenRouterCreditsReply).data
    except Forbidden:
        left = _decode(await ask("/api/v1/key"), _OpenRouterKeyReply).data.limit_remaining
        if left is None:
            raise Unavailable(
                "it tells the account's balance only to management keys, and this key has no limit"
                " of its own"
            ) from None
        return Balance(left, "USD")
    return Balance(found.total_credits - found.total_usage, "USD")


class _DeepSeekBalance(Struct):
    currency: str
    total_balance: Decimal


class _DeepSeekReply(Struct):
    balance_infos: list[_DeepSeekBalance]


async def _read_deepseek(ask: Ask) -> Balance:
    """Read the balance in USD, or in the currency that the account is charged in.

    Source: https://api-docs.deepseek.com/api/get-user-balance
    """
    found = _decode(await ask("/user/balance"), _DeepSeekReply).balance_infos
    if not found:
        raise Unavailable("its answer tells no balance")
    used = [one for one in found if one.total_balance > 0] or found
    best = next((one for one in used if one.currency == "USD"), used[0])
    return Balance(best.total_balance, _clean_currency(best.currency))


class _SiliconFlowUser(Struct):
    total_balance: Decimal = msgspec.field(name="totalBalance")


class _SiliconFlowReply(Struct):
    data: _SiliconFlowUser


async def _read_siliconflow(url: str, ask: Ask) -> Balance:
    """Read the balance, gifts included.

    Source: https://docs.siliconflow.cn/en/api-reference/userinfo/get-user-info
    """
    found = _decode(await ask("/v1/user/info"), _SiliconFlowReply)
    return Balance(found.data.total_balance, _guess_currency(url))


class _MoonshotBalance(Struct):
    available_balance: Decimal


class _MoonshotReply(Struct):
    data: _MoonshotBalance


async def _read_moonshot(url: str, ask: Ask) -> Balance:
    """Read the balance, vouchers included.

    Source: https://platform.moonshot.cn/docs/api/balance
    """
    found = _decode(await ask("/v1/users/me/balance"), _MoonshotReply)
    return Balance(found.data.available_balance, _guess_currency(url))


class _NovitaReply(Struct):
    available_balance: Decimal = msgspec.field(name="availableBalance")


async def _read_novita(ask: Ask) -> Balance:
    """Read the balance, which is given in 1/10000 USD.

    Source: https://novita.ai/docs/api-reference/basic-get-user-balance
    """
    found = _decode(await ask("/openapi/v1/billing/balance/detail"), _NovitaReply)
    return Balance(found.available_balance / _NOVITA_UNITS, "USD")


class _Subscription(Struct):
    hard_limit_usd: Decimal


class _Usage(Struct):
    total_usage: Decimal
    """In 1/100 USD."""


async def _read_new_api(ask: Ask, today: str) -> Balance:
    """Read what is left of the key's quota at a gateway with new-api or one-api.

    Source: https://github.com/QuantumNous/new-api/blob/main/controller/billing.go
    """
    limit = _decode(await ask("/v1/dashboard/billing/subscription"), _Subscription).hard_limit_usd
    if limit >= _UNLIMITED:
        raise Unavailable("its key has no quota there, so there is no balance")
    day = date.fromisoformat(today)
    query = f"start_date={day - timedelta(days=_USAGE_DAYS)}&end_date={day + timedelta(days=1)}"
    used = _decode(await ask(f"/v1/dashboard/billing/usage?{query}"), _Usage).total_usage
    return Balance(limit - used / 100, "USD")


def _guess_currency(url: str) -> str:
    """Return the currency of a supplier that has one site in China and one elsewhere."""
    return "CNY" if (urlsplit(url).hostname or "").endswith(".cn") else "USD"


def _clean_currency(name: str) -> str:
    return name if len(name) == 3 and name.isascii() and name.isalpha() else "unknown"


def _decode(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unavailable("its answer tells no balance: is the source right?") from error

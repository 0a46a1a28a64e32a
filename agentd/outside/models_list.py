"""A supplier is asked which models it has: the cheapest proof that address and key are right."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct, structs

from agentd.errors import NotFound, Unavailable
from agentd.proxy.channel import ChannelDialect
from agentd.proxy.dialects.dialect import DIALECTS, address
from agentd.proxy.upstream import Request, Timeouts, Upstream, merged_headers

TIMEOUTS = Timeouts(connect=10, head=15, idle=15, total=20)

_NONE: Mapping[str, str] = {}


class Listed(Struct, frozen=True):
    """The models that a supplier told."""

    names: frozenset[str]
    all: bool
    """Whether it told all: further pages are not asked for."""


async def models_list(
    upstream: Upstream,
    dialect: ChannelDialect,
    url: str,
    key: str,
    headers: Mapping[str, str] = _NONE,
) -> Listed:
    """Ask the supplier at ``url``, as people write it, with its ``key``.

    Raises ``Unavailable`` with what keeps it from telling, in a few words, ``NotFound`` when it
    has no such list, and what ``Upstream.send`` does. The key is in none of it.
    """
    if dialect == "gemini":
        base = url.rstrip("/").removesuffix("/v1beta")
        told = merged_headers({"x-goog-api-key": key}, headers)
        request = Request("GET", f"{base}/v1beta/models", told)
    else:
        told = merged_headers(DIALECTS[dialect].headers(key), headers)
        request = Request("GET", address(url, "/v1/models"), told)
    request = structs.replace(request, timeouts=TIMEOUTS)
    async with upstream.send(request) as answer:
        body = await answer.read()
        if answer.status in (401, 403):
            raise Unavailable(f"it does not accept its key (HTTP {answer.status})")
        if answer.status in (404, 405, 501):
            raise NotFound(f"it tells no list of its models (HTTP {answer.status})")
        if answer.status != 200:
            raise Unavailable(f"it answers HTTP {answer.status} when asked for its models")
    try:
        return _read(msgspec.json.decode(body))
    except msgspec.DecodeError as error:
        raise Unavailable("its list of models is no JSON: is the address right?") from error


def _read(told: object) -> Listed:
    """The names in a list of any dialect. Raises ``Unavailable`` where it has another form."""
    whole = told if isinstance(told, dict) else {}
    if "data" not in whole and "models" not in whole:
        raise Unavailable("its answer is no list of models: is the address right?")
    rows = whole.get("data") or whole.get("models") or []
    names = {
        str(row.get("id") or row.get("name", "")).removeprefix("models/")
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, dict)
    }
    return Listed(
        frozenset(names - {""}), not (whole.get("has_more") or whole.get("nextPageToken"))
    )

"""Lists a supplier's models: the cheapest proof that URL and key are right."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct, structs

from agentd.core.errors import NotFound, Unavailable
from agentd.llm.dialects.dialect import DIALECTS, join_url
from agentd.llm.endpoint import ChannelDialect
from agentd.llm.upstream.protocol import Timeouts, Upstream, UpstreamRequest, merge_headers

TIMEOUTS = Timeouts(connect=10, head=15, idle=15, total=20)

_NONE: Mapping[str, str] = {}


class SupplierModels(Struct, frozen=True):
    """The models that a supplier lists."""

    names: frozenset[str]
    all: bool
    """True if the list is complete: further pages are not requested."""


async def fetch_models(
    upstream: Upstream,
    dialect: ChannelDialect,
    url: str,
    key: str,
    headers: Mapping[str, str] = _NONE,
) -> SupplierModels:
    """Ask the supplier at ``url``, in any form that people write, using its ``key``.

    Raises ``Unavailable`` with the reason in a few words, ``NotFound`` when the supplier has no
    such list, and what ``Upstream.send`` raises. No error contains the key.
    """
    if dialect == "gemini":
        base = url.rstrip("/").removesuffix("/v1beta")
        listed = merge_headers({"x-goog-api-key": key}, headers)
        request = UpstreamRequest("GET", f"{base}/v1beta/models", listed)
    else:
        listed = merge_headers(DIALECTS[dialect].build_headers(key), headers)
        request = UpstreamRequest("GET", join_url(url, "/v1/models"), listed)
    request = structs.replace(request, timeouts=TIMEOUTS)
    async with upstream.send(request) as answer:
        body = await answer.read()
        if answer.status in (401, 403):
            raise Unavailable(f"it does not accept its key (HTTP {answer.status})")
        if answer.status in (404, 405, 501):
            raise NotFound(f"it does not list its models (HTTP {answer.status})")
        if answer.status != 200:
            raise Unavailable(f"it answers HTTP {answer.status} to a request for its models")
    try:
        return _parse_models(msgspec.json.decode(body))
    except msgspec.DecodeError as error:
        raise Unavailable("its list of models is not JSON: is the address right?") from error


def _parse_models(listed: object) -> SupplierModels:
    """Return the names in a list of any dialect. Raises ``Unavailable`` for any other form."""
    whole = listed if isinstance(listed, dict) else {}
    if "data" not in whole and "models" not in whole:
        raise Unavailable("its response is not a list of models: is the address right?")
    rows = whole.get("data") or whole.get("models") or []
    names = {
        str(row.get("id") or row.get("name", "")).removeprefix("models/")
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, dict)
    }
    return SupplierModels(
        frozenset(names - {""}), not (whole.get("has_more") or whole.get("nextPageToken"))
    )

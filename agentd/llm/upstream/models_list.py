"""Lists a supplier's models: the cheapest proof that URL and key are right."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from agentd.core.errors import NotFound, TooLarge, Unavailable
from agentd.llm.dialects.dialect import DIALECTS, join_url
from agentd.llm.endpoint import ChannelDialect
from agentd.llm.upstream.protocol import Timeouts, Upstream, UpstreamRequest, merge_headers

TIMEOUTS = Timeouts(connect=10, head=15, idle=15, total=20)

MAX_PAGES = 20
"""The most pages of a list that are read."""

_NONE: Mapping[str, str] = {}
_PAGE_BYTES = 8 * 2**20
_PAGE_SIZE = "1000"
_CONTEXT_FIELDS = (
    *("max_input_tokens", "inputTokenLimit", "context_length", "context_window", "max_model_len"),
)
_OUTPUT_FIELDS = ("max_tokens", "outputTokenLimit", "max_completion_tokens", "max_output_tokens")
_TITLE_FIELDS = ("display_name", "displayName", "name")
_MAX_SIZE = 10**8


class SupplierModels(Struct, frozen=True):
    """The models that a supplier lists."""

    names: frozenset[str]
    all: bool
    """True if the list is complete: further pages are not requested."""


class OfferedModel(Struct, frozen=True, kw_only=True):
    """A model in a supplier's list, and what the supplier says of it."""

    name: str
    title: str = ""
    """The name for people; empty: none, or the same."""
    context: int | None = None
    """Maximum tokens of a conversation; None: not stated."""
    max_output: int | None = None
    """Maximum tokens of a reply; None: not stated."""


class OfferedModels(Struct, frozen=True):
    """The models that a supplier offers, by name."""

    models: tuple[OfferedModel, ...]
    complete: bool
    """False if the list has more than ``MAX_PAGES`` pages, or does not say how to read on."""


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
    listed = await _fetch_page(upstream, _build_request(dialect, url, key, headers))
    names = {_get_name(row) for row in _list_rows(listed)}
    return SupplierModels(frozenset(names - {""}), not _has_more(listed))


async def fetch_offered_models(
    upstream: Upstream,
    dialect: ChannelDialect,
    url: str,
    key: str,
    headers: Mapping[str, str] = _NONE,
) -> OfferedModels:
    """Ask for the whole list, page by page; otherwise as ``fetch_models``.

    Models of Gemini that generate nothing are left out.
    """
    found: dict[str, OfferedModel] = {}
    query, complete = _build_query(dialect, ""), False
    for _ in range(MAX_PAGES):
        request = _build_request(dialect, url, key, headers, query)
        page = await _fetch_page(upstream, request)
        found |= {one.name: one for one in map(_parse_model, _list_rows(page)) if one}
        complete = not _has_more(page)
        cursor = page.get("nextPageToken") or page.get("last_id")
        if complete or not isinstance(cursor, str):
            break
        query = _build_query(dialect, cursor)
    return OfferedModels(tuple(found[name] for name in sorted(found)), complete)


def _build_request(
    dialect: ChannelDialect, url: str, key: str, headers: Mapping[str, str], query: str = ""
) -> UpstreamRequest:
    if dialect == "gemini":
        base = url.rstrip("/").removesuffix("/v1beta")
        to, own = f"{base}/v1beta/models", {"x-goog-api-key": key}
    else:
        to, own = join_url(url, "/v1/models"), dict(DIALECTS[dialect].build_headers(key))
    return UpstreamRequest("GET", to + query, merge_headers(own, headers), timeouts=TIMEOUTS)


def _build_query(dialect: ChannelDialect, cursor: str) -> str:
    """Return the query of a page; empty where the dialect has no pages."""
    match dialect:
        case "anthropic":
            names = {"limit": _PAGE_SIZE, "after_id": cursor}
        case "gemini":
            names = {"pageSize": _PAGE_SIZE, "pageToken": cursor}
        case _:
            names = {"after": cursor}
    given = urlencode({name: value for name, value in names.items() if value})
    return f"?{given}" if given else ""


async def _fetch_page(upstream: Upstream, request: UpstreamRequest) -> Mapping[str, Any]:
    """Return a page of any dialect. Raises as ``fetch_models``."""
    async with upstream.send(request) as answer:
        try:
            body = await answer.read(_PAGE_BYTES)
        except TooLarge as error:
            raise Unavailable("its list of models is too long") from error
        if answer.status in (401, 403):
            raise Unavailable(f"it does not accept its key (HTTP {answer.status})")
        if answer.status in (404, 405, 501):
            raise NotFound(f"it does not list its models (HTTP {answer.status})")
        if answer.status != 200:
            raise Unavailable(f"it answers HTTP {answer.status} to a request for its models")
    try:
        listed = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unavailable("its list of models is not JSON: is the address right?") from error
    if not isinstance(listed, dict) or not {"data", "models"} & listed.keys():
        raise Unavailable("its response is not a list of models: is the address right?")
    return listed


def _list_rows(page: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    rows = page.get("data") or page.get("models") or []
    return [row for row in (rows if isinstance(rows, list) else []) if isinstance(row, dict)]


def _has_more(page: Mapping[str, Any]) -> bool:
    return bool(page.get("has_more") or page.get("nextPageToken"))


def _get_name(row: Mapping[str, Any]) -> str:
    return str(row.get("id") or row.get("name", "")).removeprefix("models/")


def _parse_model(row: Mapping[str, Any]) -> OfferedModel | None:
    methods = row.get("supportedGenerationMethods")
    generates = "generateContent" in methods if isinstance(methods, list) else True
    name = _get_name(row)
    if not name or not generates:
        return None
    titles = (row.get(field) for field in _TITLE_FIELDS)
    title = next((one for one in titles if isinstance(one, str)), "").removeprefix("models/")
    return OfferedModel(
        name=name,
        title="" if title == name else title,
        context=_find_size(row, _CONTEXT_FIELDS),
        max_output=_find_size(row, _OUTPUT_FIELDS),
    )


def _find_size(row: Mapping[str, Any], fields: tuple[str, ...]) -> int | None:
    sizes = (row.get(field) for field in fields)
    return next((one for one in sizes if type(one) is int and 0 < one <= _MAX_SIZE), None)

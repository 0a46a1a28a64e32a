"""The Anthropic messages dialect."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from tests.supplier.frames import encode_named_event
from tests.supplier.request import Request
from tests.supplier.steps import Answer, Call, Fail, Part, Refuse, Say, Search, Think, Tokens

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_NO_TOKENS = Tokens(input=0, output=0)


class _SearchResult(Struct, frozen=True):
    """The block after a web search: what it found."""

    search: Search
    use: int
    """The index of the block that asked for it."""


def _split_searches(parts: tuple[Part, ...]) -> list[Part | _SearchResult]:
    """Return the parts with a block of their own for what each web search found."""
    found: list[Part | _SearchResult] = []
    for part in parts:
        found.append(part)
        if isinstance(part, Search):
            found.append(_SearchResult(part, len(found) - 1))
    return found


def render_stream(answer: Answer, request: Request, number: int) -> Iterator[bytes]:
    """Render the answer as server-sent events, with a ``ping`` after the first."""
    used = answer.usage or _NO_TOKENS
    begun = {**_build_message(request, number), "usage": {**render_usage(used), "output_tokens": 1}}
    yield encode_named_event({"type": "message_start", "message": begun})
    yield encode_named_event({"type": "ping"})
    for index, part in enumerate(_split_searches(answer.parts)):
        place = {"index": index}
        block = _empty(_build_block(part, number, index))
        yield encode_named_event({"type": "content_block_start", **place, "content_block": block})
        for delta in _iter_deltas(part):
            yield encode_named_event({"type": "content_block_delta", **place, "delta": delta})
        yield encode_named_event({"type": "content_block_stop", **place})
    end = {"stop_reason": _get_finish(answer), "stop_sequence": None}
    searched = {"server_tool_use": {"web_search_requests": answer.count_searches()}}
    result = {
        **_count_output(used),
        **(searched if answer.count_searches() else {}),
    }
    yield encode_named_event({"type": "message_delta", "delta": end, "usage": result})
    yield encode_named_event({"type": "message_stop"})


def _iter_deltas(part: Part | _SearchResult) -> Iterator[dict[str, Any]]:
    match part:
        case Say():
            for url, title in part.cites:
                yield {"type": "citations_delta", "citation": _cite(url, title)}
            yield from ({"type": "text_delta", "text": piece} for piece in part.split())
        case Think(_, signature):
            yield from ({"type": "thinking_delta", "thinking": piece} for piece in part.split())
            yield {"type": "signature_delta", "signature": signature}
        case Call() | Search():
            pieces = part.split()
            yield from ({"type": "input_json_delta", "partial_json": piece} for piece in pieces)


def render_reply(answer: Answer, request: Request, number: int) -> dict[str, Any]:
    """Render the answer as one JSON object."""
    blocks = [
        _build_block(part, number, index)
        for index, part in enumerate(_split_searches(answer.parts))
    ]
    ended = {"content": blocks, "stop_reason": _get_finish(answer)}
    return {
        **_build_message(request, number),
        **ended,
        "usage": render_usage(answer.usage or _NO_TOKENS),
    }


def render_usage(tokens: Tokens) -> dict[str, Any]:
    """Render usage in Anthropic's form: cached tokens are not part of ``input_tokens``."""
    written = {
        "ephemeral_5m_input_tokens": tokens.written,
        "ephemeral_1h_input_tokens": 0,
    }
    return {
        "input_tokens": tokens.input,
        "cache_creation_input_tokens": tokens.written,
        "cache_read_input_tokens": tokens.cached,
        "cache_creation": written,
        **_count_output(tokens),
        "service_tier": "standard",
    }


def _count_output(tokens: Tokens) -> dict[str, Any]:
    details = {"output_tokens_details": {"thinking_tokens": tokens.reasoning}}
    return {"output_tokens": tokens.output, **(details if tokens.reasoning else {})}


def render_error(refuse: Refuse, number: int) -> dict[str, Any]:
    """Render an error; ``number`` makes the request's id."""
    kind = refuse.type or _TYPES.get(refuse.status, "api_error")
    result = {"type": kind, "message": refuse.message}
    return {"type": "error", "error": result, "request_id": f"req_{number}"}


def render_failure(fail: Fail, request: Request, number: int) -> bytes:
    """Render an error within a stream that has begun."""
    return encode_named_event(render_error(Refuse(529, fail.message, fail.type), number))


def _build_message(request: Request, number: int) -> dict[str, Any]:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _cite(url: str, title: str) -> dict[str, Any]:
    hidden = {"encrypted_index": "aW5kZXg=", "cited_text": "…"}
    return {"type": "web_search_result_location", "url": url, "title": title, **hidden}


def _build_search_result(search: Search) -> object:
    if search.problem:
        return {"type": "web_search_tool_result_error", "error_code": search.problem}
    hidden = {"encrypted_content": "c2VjcmV0", "page_age": None}
    return [
        {"type": "web_search_result", "url": url, "title": title, **hidden}
        for url, title in search.pages
    ]


def _build_block(part: Part | _SearchResult, number: int, index: int) -> dict[str, Any]:
    match part:
        case Say(text):
            cites = [_cite(*page) for page in part.cites]
            return {"type": "text", "text": text, **({"citations": cites} if cites else {})}
        case Search(query):
            named = {"id": f"srvtoolu_{number}_{index}", "name": "web_search"}
            return {"type": "server_tool_use", **named, "input": {"query": query}}
        case _SearchResult(search, use):
            result = {"tool_use_id": f"srvtoolu_{number}_{use}"}
            return {
                "type": "web_search_tool_result",
                **result,
                "content": _build_search_result(search),
            }
        case Think(text, signature):
            return {"type": "thinking", "thinking": text, "signature": signature}
        case Call(name):
            call = {"id": f"toolu_{number}_{index}", "name": name, "input": part.value}
            return {"type": "tool_use", **call}


def _empty(block: dict[str, Any]) -> dict[str, Any]:
    return {key: _EMPTY.get(key, value) for key, value in block.items()}


_EMPTY: dict[str, Any] = {"text": "", "citations": [], "thinking": "", "signature": "", "input": {}}


def _get_finish(answer: Answer) -> str:
    return answer.finish or ("tool_use" if any(answer.list_calls()) else "end_turn")

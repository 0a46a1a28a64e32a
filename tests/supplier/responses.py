"""The OpenAI Responses dialect."""

from collections.abc import Iterator
from typing import Any

from tests.supplier.frames import CREATED, encode_named_event, render_openai_error
from tests.supplier.request import Request
from tests.supplier.steps import Answer, Call, Fail, Part, Refuse, Say, Search, Think, Tokens


def render_stream(answer: Answer, request: Request, number: int) -> Iterator[bytes]:
    """Render the answer as server-sent events, numbered from 0, without ``[DONE]``."""
    for sequence, event in enumerate(_iter_events(answer, request, number)):
        yield encode_named_event({**event, "sequence_number": sequence})


def _iter_events(answer: Answer, request: Request, number: int) -> Iterator[dict[str, Any]]:
    begun = _build_response(request, number, "in_progress", [], None)
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, part in enumerate(answer.parts):
        item = _build_item(part, request, number, index)
        place = {"output_index": index}
        yield {"type": "response.output_item.added", **place, "item": _empty(item)}
        yield from ({**event, **place, "item_id": item["id"]} for event in _iter_deltas(part, item))
        yield {"type": "response.output_item.done", **place, "item": item}
    whole = render_reply(answer, request, number)
    yield {"type": f"response.{whole['status']}", "response": whole}


def _iter_deltas(part: Part, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    match part:
        case Say(text):
            place: dict[str, Any] = {"content_index": 0}
            done = item["content"][0]
            yield {"type": "response.content_part.added", **place, "part": {**done, "text": ""}}
            for piece in part.split():
                result = {"delta": piece, "logprobs": []}
                yield {"type": "response.output_text.delta", **place, **result}
            for number, note in enumerate(done["annotations"]):
                result = {"annotation_index": number, "annotation": note}
                yield {"type": "response.output_text.annotation.added", **place, **result}
            yield {"type": "response.output_text.done", **place, "text": text, "logprobs": []}
            yield {"type": "response.content_part.done", **place, "part": done}
        case Search():
            for state in ("in_progress", "searching", "completed"):
                yield {"type": f"response.web_search_call.{state}"}
        case Think(text):
            place = {"summary_index": 0}
            done = item["summary"][0]
            kind = "response.reasoning_summary_"
            yield {"type": kind + "part.added", **place, "part": {**done, "text": ""}}
            for piece in part.split():
                yield {"type": kind + "text.delta", **place, "delta": piece}
            yield {"type": kind + "text.done", **place, "text": text}
            yield {"type": kind + "part.done", **place, "part": done}
        case Call():
            free = item["type"] == "custom_tool_call"
            kind = "custom_tool_call_input" if free else "function_call_arguments"
            for piece in part.split():
                yield {"type": f"response.{kind}.delta", "delta": piece}
            last = {"input": part.text} if free else {"arguments": part.text, "name": part.name}
            yield {"type": f"response.{kind}.done", **last}


def render_reply(answer: Answer, request: Request, number: int) -> dict[str, Any]:
    """Render the answer as one JSON object; with ``Answer.finish`` it is incomplete."""
    items = [_build_item(part, request, number, index) for index, part in enumerate(answer.parts)]
    status = "incomplete" if answer.finish else "completed"
    whole = _build_response(request, number, status, items, answer.usage)
    return {**whole, "incomplete_details": {"reason": answer.finish} if answer.finish else None}


def render_usage(tokens: Tokens) -> dict[str, Any]:
    """Render usage in this dialect's form: cached tokens are part of ``input_tokens``."""
    cache = {"cached_tokens": tokens.cached, "cache_write_tokens": tokens.written}
    return {
        "input_tokens": tokens.all_input,
        "input_tokens_details": cache,
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.all_input + tokens.output,
    }


def render_error(refuse: Refuse, number: int) -> dict[str, Any]:
    """Render an error; this dialect has no place for ``number``."""
    return render_openai_error(refuse)


def render_failure(fail: Fail, request: Request, number: int) -> bytes:
    """Render a failure within a stream that has begun."""
    result = {"code": fail.type or "server_error", "message": fail.message}
    response = {**_build_response(request, number, "failed", [], None), "error": result}
    return encode_named_event(
        {"type": "response.failed", "sequence_number": 99, "response": response}
    )


def _build_response(
    request: Request, number: int, status: str, items: list[dict[str, Any]], used: Tokens | None
) -> dict[str, Any]:
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": request.body.get("instructions"),
        "metadata": {},
        "model": request.model,
        "output": items,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": request.body.get("tools", []),
        "top_p": 1.0,
        "usage": render_usage(used) if used else None,
    }


def _build_search(search: Search, request: Request, place: str) -> dict[str, Any]:
    """Return a search; the pages that it found are told only to those who ask for them."""
    action: dict[str, Any] = {"type": "search", "query": search.query, "queries": [search.query]}
    if "web_search_call.action.sources" in request.body.get("include", ()):
        action["sources"] = [{"type": "url", "url": url} for url, _ in search.pages]
    status = "failed" if search.problem else "completed"
    return {"type": "web_search_call", "id": f"ws_{place}", "status": status, "action": action}


def _cite(text: str, url: str, title: str) -> dict[str, Any]:
    span = {"start_index": 0, "end_index": len(text)}
    return {"type": "url_citation", **span, "url": url, "title": title}


def _build_item(part: Part, request: Request, number: int, index: int) -> dict[str, Any]:
    place = f"{number}_{index}"
    match part:
        case Say(text):
            notes = [_cite(text, *page) for page in part.cites]
            content = {"type": "output_text", "text": text, "annotations": notes, "logprobs": []}
            result: dict[str, Any] = {"role": "assistant", "content": [content]}
            return {"type": "message", "id": f"msg_{place}", "status": "completed", **result}
        case Search():
            return _build_search(part, request, place)
        case Think(text, signature):
            summary = [{"type": "summary_text", "text": text}]
            hidden: dict[str, Any] = {"summary": summary}
            if "reasoning.encrypted_content" in request.body.get("include", ()):
                hidden["encrypted_content"] = signature
            return {"type": "reasoning", "id": f"rs_{place}", **hidden}
        case Call(name):
            free = request.tools.get(name) == "custom"
            named_call = {"call_id": f"call_{place}", "name": name, "status": "completed"}
            if free:
                result = {"type": "custom_tool_call", "id": f"ctc_{place}", "input": part.text}
            else:
                result = {"type": "function_call", "id": f"fc_{place}", "arguments": part.text}
            if part.namespace:
                result["namespace"] = part.namespace
            return {**result, **named_call}


def _empty(item: dict[str, Any]) -> dict[str, Any]:
    begun = {key: _EMPTY.get(key, value) for key, value in item.items()}
    return {**begun, "status": "in_progress"} if "status" in item else begun


_EMPTY: dict[str, Any] = {"content": [], "summary": [], "arguments": "", "input": ""}

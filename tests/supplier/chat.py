"""The OpenAI chat completions dialect."""

from collections.abc import Iterator
from typing import Any

from tests.supplier.frames import CREATED, encode_event, render_openai_error
from tests.supplier.request import Request
from tests.supplier.steps import Answer, Call, Fail, Refuse, Say, Think, Tokens

DONE = b"data: [DONE]\n\n"


def render_stream(answer: Answer, request: Request, number: int) -> Iterator[bytes]:
    """Render the answer as server-sent events."""
    asked = bool((request.body.get("stream_options") or {}).get("include_usage"))
    head = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": request.model,
    }
    no_usage = {"usage": None} if asked else {}
    for delta, finish in _iter_deltas(answer, request, number):
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        yield encode_event({**head, "choices": [choice], **no_usage})
    if asked and answer.usage:
        yield encode_event({**head, "choices": [], "usage": render_usage(answer.usage)})
    yield DONE


def _iter_deltas(
    answer: Answer, request: Request, number: int
) -> Iterator[tuple[dict[str, Any], str | None]]:
    yield {"role": "assistant", "content": ""}, None
    index = 0
    for part in answer.parts:
        if isinstance(part, Call):
            growth = _iter_call_deltas(part, request, number, index)
            yield from ((delta, None) for delta in growth)
            index += 1
        else:
            key = "content" if isinstance(part, Say) else "reasoning_content"
            yield from (({key: piece}, None) for piece in part.split())
    yield {}, _get_finish(answer)


def _iter_call_deltas(
    call: Call, request: Request, number: int, index: int
) -> Iterator[dict[str, Any]]:
    whole = _build_call(call, request, number, index)
    kind = whole["type"]
    field = "input" if kind == "custom" else "arguments"
    yield {"tool_calls": [{**whole, "index": index, kind: {"name": call.name, field: ""}}]}
    for piece in call.split():
        yield {"tool_calls": [{"index": index, kind: {field: piece}}]}


def render_reply(answer: Answer, request: Request, number: int) -> dict[str, Any]:
    """Render the answer as one JSON object."""
    calls = [
        _build_call(call, request, number, index) for index, call in enumerate(answer.list_calls())
    ]
    message: dict[str, Any] = {"role": "assistant", "content": answer.join_text(Say) or None}
    message |= {"refusal": None, "annotations": []}
    if thought := answer.join_text(Think):
        message["reasoning_content"] = thought
    if calls:
        message["tool_calls"] = calls
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": _get_finish(answer),
    }
    whole = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": CREATED,
        "model": request.model,
        "choices": [choice],
    }
    return {**whole, "usage": render_usage(answer.usage)} if answer.usage else whole


def render_usage(tokens: Tokens) -> dict[str, Any]:
    """Render usage in OpenAI's form: cached tokens are part of ``prompt_tokens``."""
    return {
        "prompt_tokens": tokens.all_input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.all_input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning, "audio_tokens": 0},
    }


def render_error(refuse: Refuse, number: int) -> dict[str, Any]:
    """Render an error; this dialect has no place for ``number``."""
    return render_openai_error(refuse)


def render_failure(fail: Fail, request: Request, number: int) -> bytes:
    """Render an error within a stream that has begun."""
    return encode_event(render_openai_error(Refuse(500, fail.message, fail.type)))


def _build_call(call: Call, request: Request, number: int, index: int) -> dict[str, Any]:
    begun = {"id": f"call_{number}_{index}"}
    if request.tools.get(call.name) == "custom":
        return {**begun, "type": "custom", "custom": {"name": call.name, "input": call.text}}
    result = {"name": call.name, "arguments": call.text}
    return {**begun, "type": "function", "function": result}


def _get_finish(answer: Answer) -> str:
    return answer.finish or ("tool_calls" if any(answer.list_calls()) else "stop")

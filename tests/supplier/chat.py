"""The OpenAI chat completions dialect."""

from collections.abc import Iterator
from typing import Any

from tests.supplier.frames import CREATED, refusal, unnamed
from tests.supplier.request import Request
from tests.supplier.steps import Answer, Call, Fail, Refuse, Say, Think, Tokens

DONE = b"data: [DONE]\n\n"


def stream(answer: Answer, request: Request, number: int) -> Iterator[bytes]:
    """The answer as server-sent events."""
    asked = bool((request.body.get("stream_options") or {}).get("include_usage"))
    head = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": request.model,
    }
    no_usage = {"usage": None} if asked else {}
    for delta, finish in _deltas(answer, request, number):
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        yield unnamed({**head, "choices": [choice], **no_usage})
    if asked and answer.usage:
        yield unnamed({**head, "choices": [], "usage": usage(answer.usage)})
    yield DONE


def _deltas(
    answer: Answer, request: Request, number: int
) -> Iterator[tuple[dict[str, Any], str | None]]:
    yield {"role": "assistant", "content": ""}, None
    index = 0
    for part in answer.parts:
        if isinstance(part, Call):
            growth = _call_deltas(part, request, number, index)
            yield from ((delta, None) for delta in growth)
            index += 1
        else:
            key = "content" if isinstance(part, Say) else "reasoning_content"
            yield from (({key: piece}, None) for piece in part.pieces())
    yield {}, _finish(answer)


def _call_deltas(call: Call, request: Request, number: int, index: int) -> Iterator[dict[str, Any]]:
    whole = _call(call, request, number, index)
    kind = whole["type"]
    field = "input" if kind == "custom" else "arguments"
    yield {"tool_calls": [{**whole, "index": index, kind: {"name": call.name, field: ""}}]}
    for piece in call.pieces():
        yield {"tool_calls": [{"index": index, kind: {field: piece}}]}


def reply(answer: Answer, request: Request, number: int) -> dict[str, Any]:
    """The answer as one JSON object."""
    calls = [_call(call, request, number, index) for index, call in enumerate(answer.calls())]
    message: dict[str, Any] = {"role": "assistant", "content": answer.joined(Say) or None}
    message |= {"refusal": None, "annotations": []}
    if thought := answer.joined(Think):
        message["reasoning_content"] = thought
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(answer)}
    whole = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": CREATED,
        "model": request.model,
        "choices": [choice],
    }
    return {**whole, "usage": usage(answer.usage)} if answer.usage else whole


def usage(tokens: Tokens) -> dict[str, Any]:
    """Tokens in OpenAI's words: the cached ones are inside ``prompt_tokens``."""
    return {
        "prompt_tokens": tokens.all_input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.all_input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning, "audio_tokens": 0},
    }


def error(refuse: Refuse, number: int) -> dict[str, Any]:
    """An error; ``number`` is not told in this dialect."""
    return refusal(refuse)


def failure(fail: Fail, request: Request, number: int) -> bytes:
    """An error within a stream that had begun."""
    return unnamed(refusal(Refuse(500, fail.message, fail.type)))


def _call(call: Call, request: Request, number: int, index: int) -> dict[str, Any]:
    begun = {"id": f"call_{number}_{index}"}
    if request.tools.get(call.name) == "custom":
        return {**begun, "type": "custom", "custom": {"name": call.name, "input": call.text}}
    result = {"name": call.name, "arguments": call.text}
    return {**begun, "type": "function", "function": result}


def _finish(answer: Answer) -> str:
    return answer.finish or ("tool_calls" if any(answer.calls()) else "stop")

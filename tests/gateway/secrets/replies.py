"""Replies as the suppliers of each dialect stream them, and what a caller makes of the stream."""

import json
from collections.abc import Iterator
from typing import Any

from agentd.core import sse

DIALECTS = ("openai-chat", "openai-responses", "anthropic", "gemini")


def cut_text(text: str, cuts: list[int]) -> list[str]:
    """Cut the text into pieces; ``cuts`` are their sizes, over and over."""
    found, at, turn = [], 0, 0
    while at < len(text):
        size = cuts[turn % len(cuts)]
        found.append(text[at : at + size])
        at, turn = at + size, turn + 1
    return found


def build_stream(
    dialect: str, text: str, arguments: str, cuts: list[int], newline: str = "\n"
) -> bytes:
    """Build a streamed reply with this text and one tool call, in pieces of these sizes."""
    events = {
        "openai-chat": _iter_chat_events,
        "openai-responses": _iter_responses_events,
        "anthropic": _iter_anthropic_events,
        "gemini": _iter_gemini_events,
    }[dialect](text, arguments, cuts)
    out = []
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)
        name = f"event: {event['type']}\n" if "type" in event and isinstance(event, dict) else ""
        out.append(f"{name}data: {data}\n\n".replace("\n", newline))
    return "".join(out).encode()


def parse_stream(dialect: str, data: bytes) -> tuple[str, str]:
    """Return the text and the tool's arguments, as a client puts them together."""
    text: list[str] = []
    arguments: list[str] = []
    for received in sse.SseReader().feed(data):
        if received.data == "[DONE]":
            continue
        event = json.loads(received.data)
        match dialect:
            case "openai-chat":
                delta = event["choices"][0]["delta"]
                text.append(delta.get("content") or "")
                for call in delta.get("tool_calls", ()):
                    arguments.append(call["function"]["arguments"])
            case "openai-responses":
                if event["type"] == "response.output_text.delta":
                    text.append(event["delta"])
                if event["type"] == "response.function_call_arguments.delta":
                    arguments.append(event["delta"])
            case "anthropic":
                delta = event.get("delta", {})
                text.append(delta.get("text", ""))
                arguments.append(delta.get("partial_json", ""))
            case "gemini":
                for part in event["candidates"][0]["content"]["parts"]:
                    text.append(part.get("text", ""))
                    if "functionCall" in part:
                        arguments.append(json.dumps(part["functionCall"]["args"]))
    return "".join(text), "".join(arguments)


def build_reply(dialect: str, text: str, arguments: str) -> Any:
    """Build the same reply as an answer that is not streamed."""
    match dialect:
        case "openai-chat":
            call = {
                "id": "c",
                "type": "function",
                "function": {"name": "f", "arguments": arguments},
            }
            message = {"role": "assistant", "content": text, "tool_calls": [call]}
            return {"id": "x", "choices": [{"index": 0, "message": message}]}
        case "openai-responses":
            return _build_response(text, arguments)
        case "anthropic":
            call = {"type": "tool_use", "id": "t", "name": "f", "input": json.loads(arguments)}
            return {"id": "m", "content": [{"type": "text", "text": text}, call]}
    parts = [{"text": text}, {"functionCall": {"name": "f", "args": json.loads(arguments)}}]
    return {"candidates": [{"content": {"parts": parts}}]}


def _iter_chat_events(text: str, arguments: str, cuts: list[int]) -> Iterator[Any]:
    def build_chunk(delta: Any, finish: str | None = None) -> Any:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {"id": "x", "object": "chat.completion.chunk", "choices": [choice]}

    yield build_chunk({"role": "assistant", "content": ""})
    for piece in cut_text(text, cuts):
        yield build_chunk({"content": piece})
    function: dict[str, Any] = {"name": "f", "arguments": ""}
    yield build_chunk({"tool_calls": [{"index": 0, "id": "c", "function": function}]})
    for piece in cut_text(arguments, cuts):
        yield build_chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    yield build_chunk({}, "tool_calls")
    yield "[DONE]"


def _build_response(text: str, arguments: str) -> Any:
    content = [{"type": "output_text", "text": text}]
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments}
    return {
        "id": "r",
        "status": "completed",
        "output": [{"type": "message", "content": content}, call],
    }


def _iter_responses_events(text: str, arguments: str, cuts: list[int]) -> Iterator[Any]:
    response = _build_response(text, arguments)
    yield {"type": "response.created", "response": {"id": "r", "instructions": text}}
    where = {"output_index": 0, "content_index": 0, "item_id": "i"}
    for piece in cut_text(text, cuts):
        yield {"type": "response.output_text.delta", "delta": piece, **where}
    yield {"type": "response.output_text.done", "text": text, **where}
    yield {"type": "response.output_item.done", "output_index": 0, "item": response["output"][0]}
    for piece in cut_text(arguments, cuts):
        yield {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": piece}
    yield {
        "type": "response.function_call_arguments.done",
        "output_index": 1,
        "arguments": arguments,
    }
    yield {"type": "response.output_item.done", "output_index": 1, "item": response["output"][1]}
    yield {"type": "response.completed", "response": response}


def _iter_anthropic_events(text: str, arguments: str, cuts: list[int]) -> Iterator[Any]:
    yield {"type": "message_start", "message": {"id": "m", "content": []}}
    thinking = {"type": "thinking_delta", "thinking": text}
    yield {"type": "content_block_delta", "index": 0, "delta": thinking}
    yield {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}
    for piece in cut_text(text, cuts):
        delta = {"type": "text_delta", "text": piece}
        yield {"type": "content_block_delta", "index": 1, "delta": delta}
    yield {"type": "content_block_stop", "index": 1}
    block = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    yield {"type": "content_block_start", "index": 2, "content_block": block}
    for piece in cut_text(arguments, cuts):
        delta = {"type": "input_json_delta", "partial_json": piece}
        yield {"type": "content_block_delta", "index": 2, "delta": delta}
    yield {"type": "content_block_stop", "index": 2}
    yield {"type": "message_stop"}


def _iter_gemini_events(text: str, arguments: str, cuts: list[int]) -> Iterator[Any]:
    def build_chunk(*parts: Any) -> Any:
        return {"candidates": [{"index": 0, "content": {"role": "model", "parts": parts}}]}

    for piece in cut_text(text, cuts):
        yield build_chunk({"text": piece})
    last = build_chunk({"functionCall": {"name": "f", "args": json.loads(arguments)}})
    last["candidates"][0]["finishReason"] = "STOP"
    yield last

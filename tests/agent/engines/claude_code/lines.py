"""Lines as Claude Code writes them, by its public protocol; not recorded from the program."""

import hashlib
import json
from typing import Any

SESSION = "0f9e1b2c-aaaa-bbbb-cccc-1234567890ab"


def encode_line(kind: str, /, **members: Any) -> bytes:
    """Encode a line of this kind."""
    return json.dumps({"type": kind, **members}).encode()


def accept_handshake() -> bytes:
    """Return the answer to the handshake."""
    answer = {"subtype": "success", "request_id": "agentd-1", "response": {"commands": []}}
    return encode_line("control_response", response=answer)


def report_earlier_cost(usd: Any = 0, rate_limits: Any = None) -> bytes:
    """Return the answer to the question about the earlier cost of a resumed session."""
    session = {"total_cost_usd": usd, "model_usage": {}}
    reply = {"session": session, "rate_limits": rate_limits}
    answer = {"subtype": "success", "request_id": "agentd-3", "response": reply}
    return encode_line("control_response", response=answer)


def start_session(session: str = SESSION) -> bytes:
    """Return the line that starts a session."""
    more = {"cwd": "/ws", "model": "m", "tools": ["Bash"], "permissionMode": "default"}
    return encode_line("system", subtype="init", session_id=session, uuid="u", **more)


def count_usage(output: int, **more: int) -> dict[str, int]:
    """Return the usage of a call: 10 input tokens and so many output tokens."""
    return {"input_tokens": 10, "output_tokens": output, **more}


def answer(
    number: str, *content: dict[str, Any], output: int = 5, parent: str | None = None, **more: Any
) -> bytes:
    """Return one or more blocks of an answer of the model; ``number`` identifies the answer."""
    message = {
        "id": number,
        "model": "m",
        "role": "assistant",
        "content": content,
        "usage": count_usage(output),
        "stop_reason": None,
    }
    given = {"message": {**message, **more.pop("message", {})}, "session_id": SESSION}
    given["uuid"] = hashlib.md5(json.dumps([number, content, parent]).encode()).hexdigest()  # noqa: S324
    return encode_line("assistant", parent_tool_use_id=parent, **given, **more)


def say_text(said: str) -> dict[str, Any]:
    """Return a block of text."""
    return {"type": "text", "text": said}


def use_tool(number: str, name: str, **given: Any) -> dict[str, Any]:
    """Return a block that uses a tool."""
    return {"type": "tool_use", "id": number, "name": name, "input": given}


def return_result(
    number: str, content: Any, *, failed: bool = False, parent: str | None = None
) -> bytes:
    """Return the result of a tool."""
    block = {"type": "tool_result", "tool_use_id": number, "content": content, "is_error": failed}
    message = {"role": "user", "content": [block]}
    return encode_line("user", message=message, parent_tool_use_id=parent, session_id=SESSION)


def stream_text(said: str, parent: str | None = None) -> bytes:
    """Return a piece of a growing text."""
    delta = {"type": "text_delta", "text": said}
    return stream_event({"type": "content_block_delta", "index": 0, "delta": delta}, parent)


def stream_event(event: dict[str, Any], parent: str | None = None) -> bytes:
    """Return a raw event of the model's stream."""
    return encode_line("stream_event", event=event, parent_tool_use_id=parent, session_id=SESSION)


def ask_permission(number: str, name: str, given: Any, **more: Any) -> bytes:
    """Return a request for permission to use a tool."""
    request = {"subtype": "can_use_tool", "tool_name": name, "input": given, **more}
    return encode_line("control_request", request_id=number, request=request)


def report_limit(status: str, resets: int | None = None, **more: Any) -> bytes:
    """Return the status of the subscription's limit."""
    info = {"status": status, "resetsAt": resets, "rateLimitType": "five_hour", **more}
    return encode_line("rate_limit_event", rate_limit_info=info, session_id=SESSION)


def end_turn(said: str = "", *, cost: Any = 0.25, failed: bool = False, **more: Any) -> bytes:
    """Return the end of the turn."""
    given = {"subtype": "success", "is_error": failed, "result": said, "num_turns": 1}
    reply = {**given, "session_id": SESSION, "total_cost_usd": cost, **more}
    return encode_line("result", **reply)

"""Lines as Claude Code writes them, by its public protocol; not recorded from the program."""

import hashlib
import json
from typing import Any

SESSION = "0f9e1b2c-aaaa-bbbb-cccc-1234567890ab"


def line(kind: str, /, **members: Any) -> bytes:
    """Any line."""
    return json.dumps({"type": kind, **members}).encode()


def ready() -> bytes:
    """The answer to the handshake."""
    answer = {"subtype": "success", "request_id": "agentd-1", "response": {"commands": []}}
    return line("control_response", response=answer)


def init(session: str = SESSION) -> bytes:
    """The session begins."""
    more = {"cwd": "/ws", "model": "m", "tools": ["Bash"], "permissionMode": "default"}
    return line("system", subtype="init", session_id=session, uuid="u", **more)


def usage(output: int, **more: int) -> dict[str, int]:
    """What a call used: 10 tokens in, as many out."""
    return {"input_tokens": 10, "output_tokens": output, **more}


def answer(
    number: str, *content: dict[str, Any], output: int = 5, parent: str | None = None, **more: Any
) -> bytes:
    """One block or more of an answer of the model; ``number`` tells the answer."""
    message = {
        "id": number,
        "model": "m",
        "role": "assistant",
        "content": content,
        "usage": usage(output),
        "stop_reason": None,
    }
    given = {"message": {**message, **more.pop("message", {})}, "session_id": SESSION}
    given["uuid"] = hashlib.md5(json.dumps([number, content, parent]).encode()).hexdigest()  # noqa: S324
    return line("assistant", parent_tool_use_id=parent, **given, **more)


def text(said: str) -> dict[str, Any]:
    """A block of text."""
    return {"type": "text", "text": said}


def tool(number: str, name: str, **given: Any) -> dict[str, Any]:
    """A block that uses a tool."""
    return {"type": "tool_use", "id": number, "name": name, "input": given}


def came_back(
    number: str, content: Any, *, failed: bool = False, parent: str | None = None
) -> bytes:
    """What came of a tool."""
    block = {"type": "tool_result", "tool_use_id": number, "content": content, "is_error": failed}
    message = {"role": "user", "content": [block]}
    return line("user", message=message, parent_tool_use_id=parent, session_id=SESSION)


def piece(said: str, parent: str | None = None) -> bytes:
    """A piece of a growing text."""
    delta = {"type": "text_delta", "text": said}
    return stream({"type": "content_block_delta", "index": 0, "delta": delta}, parent)


def stream(event: dict[str, Any], parent: str | None = None) -> bytes:
    """A raw event of the model's stream."""
    return line("stream_event", event=event, parent_tool_use_id=parent, session_id=SESSION)


def asks(number: str, name: str, given: Any, **more: Any) -> bytes:
    """A request for leave to use a tool."""
    request = {"subtype": "can_use_tool", "tool_name": name, "input": given, **more}
    return line("control_request", request_id=number, request=request)


def limit(status: str, resets: int | None = None) -> bytes:
    """How the subscription's limit stands."""
    info = {"status": status, "resetsAt": resets, "rateLimitType": "five_hour"}
    return line("rate_limit_event", rate_limit_info=info, session_id=SESSION)


def result(said: str = "", *, cost: Any = 0.25, failed: bool = False, **more: Any) -> bytes:
    """The end of the turn."""
    given = {"subtype": "success", "is_error": failed, "result": said, "num_turns": 1}
    told = {**given, "session_id": SESSION, "total_cost_usd": cost, **more}
    return line("result", **told)

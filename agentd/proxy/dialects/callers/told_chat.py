"""Replies told to callers of OpenAI's chat completions, streamed and whole."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.json import encode

from agentd.proxy.dialects.caller import Glance
from agentd.proxy.dialects.callers.blocks import Block, gathered
from agentd.proxy.dialects.callers.counted import as_chat
from agentd.proxy.dialects.callers.errors import error_event
from agentd.proxy.dialects.callers.seals import is_sealed, seal
from agentd.proxy.dialects.conversation import (
    CallDelta,
    CallDone,
    CallStarted,
    Event,
    Finished,
    StopReason,
    SupplierError,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ThinkingDone,
    ToolCall,
    UsageSeen,
)
from agentd.proxy.price import Usage

_STOPS: dict[StopReason, str] = {
    "end": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "refused": "content_filter",
}
_DONE = b"data: [DONE]\n\n"

FORMAT = "agentd-v1"
"""What we call our seals among the ``reasoning_details``, which OpenRouter made a habit."""


class Writer:
    """Chunks of one completion; see ``caller.Writer``. Usage is told if it was asked for."""

    def __init__(self, glance: Glance, request_id: str, created: int) -> None:
        head = encode(
            {
                "id": f"chatcmpl-{request_id}",
                "object": "chat.completion.chunk",
                "created": created,
                "model": glance.model,
            }
        )
        self._request_id = request_id
        self._wants_usage = glance.wants_usage
        self._head = b'data: %b,"choices":[' % head[:-1]
        self._tail = b'],"usage":null}\n\n' if glance.wants_usage else b"]}\n\n"
        self._usage: Usage | None = None
        self._begun = self._over = False
        self._heard: set[int] = set()
        """The calls of which any argument was told."""
        self._sealed: list[Thinking] = []
        """What was thought since the last word, and has to go back to its supplier."""
        self._details = 0

    @property
    def items(self) -> Sequence[Mapping[str, object]]:
        """As ``caller.Writer.items``: this dialect has none."""
        return ()

    def write(self, event: Event) -> bytes:
        """As ``caller.Writer.write``."""
        if self._over:
            return b""
        if isinstance(event, SupplierError):
            self._over = True
            return error_event("openai-chat", event.kind, event.message, self._request_id)
        begun = b"" if self._begun else self._chunk(b'{"role":"assistant","content":""}')
        self._begun = True
        return begun + self._told(event)

    def _told(self, event: Event) -> bytes:
        told = b""
        match event:
            case ThinkingDone(thinking) if is_sealed(thinking):
                self._sealed.append(thinking)
            case TextDelta(text):
                told = self._seals() + self._chunk(b'{"content":%b}' % encode(text))
            case ThinkingDelta(text):
                told = self._chunk(b'{"reasoning_content":%b}' % encode(text))
            case CallStarted(index, id, name):
                call = {"index": index, **_call(ToolCall(id, name, ""))}
                told = self._seals(id) + self._chunk(encode({"tool_calls": [call]}))
            case CallDelta(index, text):
                self._heard.add(index)
                told = self._arguments(index, text)
            case CallDone(index, call) if index not in self._heard:
                told = self._arguments(index, call.arguments)
            case UsageSeen(usage):
                self._usage = usage
            case Finished(reason):
                told = self._seals() + self._finished(reason)
        return told

    def _seals(self, call: str = "") -> bytes:
        """The thinking that was before what comes now, which is this call, if it is one."""
        if not self._sealed:
            return b""
        details = [
            _detail(thinking, self._details + at, call) for at, thinking in enumerate(self._sealed)
        ]
        self._details += len(details)
        self._sealed = []
        return self._chunk(encode({"reasoning_details": details}))

    def _arguments(self, index: int, piece: str) -> bytes:
        fragment = b'{"tool_calls":[{"index":%d,"function":{"arguments":%b}}]}'
        return self._chunk(fragment % (index, encode(piece)))

    def _finished(self, reason: StopReason) -> bytes:
        self._over = True
        told = self._chunk(b"{}", encode(_STOPS[reason]))
        if self._wants_usage and self._usage is not None:
            told += b'%b],"usage":%b}\n\n' % (self._head, encode(as_chat(self._usage)))
        return told + _DONE

    def _chunk(self, delta: bytes, finish: bytes = b"null") -> bytes:
        choice = b'{"index":0,"delta":%b,"finish_reason":%b}' % (delta, finish)
        return b"%b%b%b" % (self._head, choice, self._tail)


def whole(events: Iterable[Event], glance: Glance, request_id: str, created: int) -> bytes:
    """As ``CallerDialect.whole``."""
    reply = gathered(events)
    message: dict[str, object] = {"role": "assistant", "content": reply.said("text") or None}
    if thought := reply.said("thinking"):
        message["reasoning_content"] = thought
    if details := _details(reply.blocks):
        message["reasoning_details"] = details
    if calls := [_call(block.call) for block in reply.blocks if block.kind == "call"]:
        message["tool_calls"] = calls
    choice = {
        "index": 0,
        "message": {**message, "refusal": None},
        "logprobs": None,
        "finish_reason": _STOPS[reply.reason],
    }
    return encode(
        {
            "id": f"chatcmpl-{request_id}",
            "object": "chat.completion",
            "created": created,
            "model": glance.model,
            "choices": [choice],
            "usage": as_chat(reply.usage),
        }
    )


def _details(blocks: Iterable[Block]) -> list[dict[str, object]]:
    """The seals on what was thought, each with the call that it came before, if it was one."""
    found: list[dict[str, object]] = []
    waiting: list[Thinking] = []
    for block in (*blocks, None):
        if block and block.kind == "thinking":
            if block.thinking and is_sealed(block.thinking):
                waiting.append(block.thinking)
            continue
        call = block.id if block and block.kind == "call" else ""
        found += [_detail(one, len(found) + at, call) for at, one in enumerate(waiting)]
        waiting = []
    return found


def _detail(thinking: Thinking, index: int, call: str) -> dict[str, object]:
    sealed = {"data": seal(thinking, with_text=True), "format": FORMAT, "index": index}
    return {"type": "reasoning.encrypted", **({"id": call} if call else {}), **sealed}


def _call(call: ToolCall) -> dict[str, object]:
    told = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": told}

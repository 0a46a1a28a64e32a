"""Replies told to callers of Anthropic's messages, streamed and whole."""

from collections.abc import Iterable, Mapping

from msgspec.json import encode

from agentd.proxy.dialects.caller import Glance
from agentd.proxy.dialects.callers.blocks import Block, Gathering, gathered
from agentd.proxy.dialects.callers.counted import as_anthropic
from agentd.proxy.dialects.callers.errors import error_event
from agentd.proxy.dialects.callers.seals import seal
from agentd.proxy.dialects.conversation import Event, StopReason, SupplierError
from agentd.proxy.dialects.turns import arguments
from agentd.proxy.price import NOTHING, Usage
from agentd.wire.sse import json_event

_STOPS: dict[StopReason, str] = {
    "end": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "refused": "refusal",
}
_DELTAS = {
    "text": b'{"type":"text_delta","text":%b}',
    "thinking": b'{"type":"thinking_delta","thinking":%b}',
    "call": b'{"type":"input_json_delta","partial_json":%b}',
}
_DELTA = b"""\
event: content_block_delta
data: {"type":"content_block_delta","index":%d,"delta":%b}

"""


class Writer(Gathering):
    """Events of one message; see ``caller.Writer``. How much went in is told at the end only."""

    def __init__(self, glance: Glance, request_id: str, created: int) -> None:
        super().__init__()
        self._request_id = request_id
        self._message = _message(glance, request_id, NOTHING)

    def beginning(self) -> bytes:
        """The message, empty yet."""
        return _event({"type": "message_start", "message": self._message})

    def opened(self, block: Block) -> bytes:
        """A content block begins, empty."""
        match block.kind:
            case "text":
                begun: dict[str, object] = {"type": "text", "text": ""}
            case "call":
                begun = {"type": "tool_use", "id": block.id, "name": block.name, "input": {}}
            case "thinking" if _sealed(block):
                begun = _content(block)
            case "thinking":
                begun = {"type": "thinking", "thinking": "", "signature": ""}
        return _event({"type": "content_block_start", **self._place, "content_block": begun})

    def grown(self, block: Block, piece: str) -> bytes:
        """The delta of its kind."""
        delta = _DELTAS[block.kind] % encode(piece)
        return _DELTA % (len(self.blocks), delta)

    def closed(self, block: Block) -> bytes:
        """The block's end, after the seal on what was thought."""
        sealed = b""
        if signature := _signature(block):
            delta = b'{"type":"signature_delta","signature":%b}' % encode(signature)
            sealed = _DELTA % (len(self.blocks), delta)
        return sealed + _event({"type": "content_block_stop", **self._place})

    def finished(self, reason: StopReason) -> bytes:
        """Why it ended, what was counted, and the end."""
        delta = {"stop_reason": _STOPS[reason], "stop_sequence": None}
        told = {"type": "message_delta", "delta": delta, "usage": as_anthropic(self.usage)}
        return _event(told) + _event({"type": "message_stop"})

    def failed(self, error: SupplierError) -> bytes:
        """The error, and no ``message_stop``."""
        return error_event("anthropic", error.kind, error.message, self._request_id)

    @property
    def _place(self) -> dict[str, object]:
        return {"index": len(self.blocks)}


def whole(events: Iterable[Event], glance: Glance, request_id: str, created: int) -> bytes:
    """As ``CallerDialect.whole``; a call whose arguments are no JSON object has none."""
    reply = gathered(events)
    return encode(
        {
            **_message(glance, request_id, reply.usage),
            "content": [_content(block) for block in reply.blocks],
            "stop_reason": _STOPS[reply.reason],
        }
    )


def _event(told: Mapping[str, object]) -> bytes:
    return json_event(encode(told), str(told["type"]))


def _message(glance: Glance, request_id: str, usage: Usage) -> dict[str, object]:
    return {
        "id": f"msg_{request_id}",
        "type": "message",
        "role": "assistant",
        "model": glance.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": as_anthropic(usage),
    }


def _content(block: Block) -> dict[str, object]:
    match block.kind:
        case "text":
            return {"type": "text", "text": block.text}
        case "call":
            given = arguments(block.call)
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": given}
    if sealed := _sealed(block):
        return {"type": "redacted_thinking", "data": sealed}
    return {"type": "thinking", "thinking": block.text, "signature": _signature(block)}


def _sealed(block: Block) -> str:
    """What stands for thinking that is not shown, if it is such."""
    thinking = block.thinking
    if thinking is None or (thinking.dialect == "anthropic" and not thinking.sealed):
        return ""
    if thinking.dialect == "anthropic":
        return thinking.sealed
    return "" if block.pieces else seal(thinking)


def _signature(block: Block) -> str:
    """The seal on thinking that is shown."""
    thinking = block.thinking
    if thinking is None or _sealed(block):
        return ""
    return thinking.signature if thinking.dialect == "anthropic" else seal(thinking)

"""Replies rendered for callers of Anthropic's messages, streamed and whole."""

from collections.abc import Iterable, Mapping

from msgspec.json import encode

from agentd.core.sse import encode_json_event
from agentd.llm.conversation import ReplyEvent, StopReason, SupplierError, describe_image
from agentd.llm.dialects.block_writer import Block, BlockWriter, collect_blocks
from agentd.llm.dialects.caller import RequestSummary
from agentd.llm.dialects.error_bodies import render_error_event
from agentd.llm.dialects.message_order import encode_arguments
from agentd.llm.dialects.thinking_signatures import wrap_thinking
from agentd.llm.dialects.usage import render_anthropic_usage
from agentd.llm.price import NO_USAGE, Usage

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


class AnthropicStreamWriter(BlockWriter):
    """Events of one message; see ``caller.StreamWriter``. Input tokens are sent at the end only."""

    def __init__(self, summary: RequestSummary, request_id: str, created: int) -> None:
        super().__init__()
        self._request_id = request_id
        self._message = _build_message(summary, request_id, NO_USAGE)

    def on_start(self) -> bytes:
        """Start the message, still empty."""
        return _render_event({"type": "message_start", "message": self._message})

    def on_block_start(self, block: Block) -> bytes:
        """Start an empty content block."""
        match block.kind:
            case "text" | "image":
                begun: dict[str, object] = {"type": "text", "text": ""}
            case "call":
                begun = {"type": "tool_use", "id": block.id, "name": block.name, "input": {}}
            case "thinking" if _get_sealed(block):
                begun = _render_block(block)
            case "thinking":
                begun = {"type": "thinking", "thinking": "", "signature": ""}
        return _render_event({"type": "content_block_start", **self._place, "content_block": begun})

    def on_delta(self, block: Block, piece: str) -> bytes:
        """Render the delta of the block's kind."""
        delta = _DELTAS[block.kind] % encode(piece)
        return _DELTA % (len(self.blocks), delta)

    def on_block_end(self, block: Block) -> bytes:
        """End the block, after the signature on thinking; an image has no place, but a word."""
        sealed = b""
        if block.kind == "image":
            delta = _DELTAS["text"] % encode(describe_image(block.image))
            sealed = _DELTA % (len(self.blocks), delta)
        if signature := _get_signature(block):
            delta = b'{"type":"signature_delta","signature":%b}' % encode(signature)
            sealed = _DELTA % (len(self.blocks), delta)
        return sealed + _render_event({"type": "content_block_stop", **self._place})

    def on_finish(self, reason: StopReason) -> bytes:
        """Render the stop reason, the usage and the end."""
        delta = {"stop_reason": _STOPS[reason], "stop_sequence": None}
        data = {
            "type": "message_delta",
            "delta": delta,
            "usage": render_anthropic_usage(self.usage),
        }
        return _render_event(data) + _render_event({"type": "message_stop"})

    def on_error(self, error: SupplierError) -> bytes:
        """Render the error, without ``message_stop``."""
        return render_error_event("anthropic", error.kind, error.message, self._request_id)

    @property
    def _place(self) -> dict[str, object]:
        return {"index": len(self.blocks)}


def render_response(
    events: Iterable[ReplyEvent], summary: RequestSummary, request_id: str, created: int
) -> bytes:
    """Do as ``CallerDialect.render_response``; malformed arguments become an empty input."""
    reply = collect_blocks(events)
    return encode(
        {
            **_build_message(summary, request_id, reply.usage),
            "content": [_render_block(block) for block in reply.blocks],
            "stop_reason": _STOPS[reply.reason],
        }
    )


def _render_event(data: Mapping[str, object]) -> bytes:
    return encode_json_event(encode(data), str(data["type"]))


def _build_message(summary: RequestSummary, request_id: str, usage: Usage) -> dict[str, object]:
    return {
        "id": f"msg_{request_id}",
        "type": "message",
        "role": "assistant",
        "model": summary.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": render_anthropic_usage(usage),
    }


def _render_block(block: Block) -> dict[str, object]:
    match block.kind:
        case "text":
            return {"type": "text", "text": block.text}
        case "image":
            return {"type": "text", "text": describe_image(block.image)}
        case "call":
            given = encode_arguments(block.call)
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": given}
    if sealed := _get_sealed(block):
        return {"type": "redacted_thinking", "data": sealed}
    return {"type": "thinking", "thinking": block.text, "signature": _get_signature(block)}


def _get_sealed(block: Block) -> str:
    """Return the encrypted form of thinking that is not shown; empty if it is shown."""
    thinking = block.thinking
    if thinking is None or (thinking.dialect == "anthropic" and not thinking.sealed):
        return ""
    if thinking.dialect == "anthropic":
        return thinking.sealed
    return "" if block.pieces else wrap_thinking(thinking)


def _get_signature(block: Block) -> str:
    """Return the signature on thinking that is shown."""
    thinking = block.thinking
    if thinking is None or _get_sealed(block):
        return ""
    return thinking.signature if thinking.dialect == "anthropic" else wrap_thinking(thinking)

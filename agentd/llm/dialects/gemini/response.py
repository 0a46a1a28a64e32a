"""Replies rendered for callers of Gemini's API, streamed (``alt=sse``) and whole."""

from collections.abc import Iterable, Mapping

from msgspec.json import encode

from agentd.llm.conversation import ReplyEvent, StopReason, SupplierError
from agentd.llm.dialects.block_writer import Block, BlockWriter, collect_blocks
from agentd.llm.dialects.caller import RequestSummary
from agentd.llm.dialects.error_bodies import render_error_event
from agentd.llm.dialects.message_order import encode_arguments
from agentd.llm.dialects.thinking_signatures import is_signed, wrap_thinking
from agentd.llm.dialects.usage import render_gemini_usage

_STOPS: dict[StopReason, str] = {
    "end": "STOP",
    "tool_calls": "STOP",
    "length": "MAX_TOKENS",
    "refused": "SAFETY",
}


class GeminiStreamWriter(BlockWriter):
    """Chunks of one response; see ``caller.StreamWriter``. A call is sent once it is complete."""

    def __init__(self, summary: RequestSummary, request_id: str, created: int) -> None:
        super().__init__()
        self._request_id = request_id
        self._names = _build_names(summary, request_id)
        self._seal = ""
        """The signature of the next part."""

    def on_delta(self, block: Block, piece: str) -> bytes:
        """Render a part of text or of thinking."""
        if block.kind == "call":
            return b""
        if block.kind == "thinking":
            return self._render_part({"text": piece, "thought": True})
        return self._render_part(self._attach_signature({"text": piece}))

    def on_block_end(self, block: Block) -> bytes:
        """Render a complete tool call, or an image."""
        self._seal = _get_signature(block) or self._seal
        if block.kind in ("call", "image"):
            return self._render_part(self._attach_signature(_render_whole(block)))
        return b""

    def on_finish(self, reason: StopReason) -> bytes:
        """Render the finish reason and the usage."""
        last = {
            **_build_candidate([self._attach_signature({"text": ""})]),
            "finishReason": _STOPS[reason],
        }
        counts = {"usageMetadata": render_gemini_usage(self.usage)}
        return _render_event({"candidates": [last], **counts, **self._names})

    def on_error(self, error: SupplierError) -> bytes:
        """Render the error, without a finish reason."""
        return render_error_event("gemini", error.kind, error.message, self._request_id)

    def _render_part(self, part: dict[str, object]) -> bytes:
        return _render_event({"candidates": [_build_candidate([part])], **self._names})

    def _attach_signature(self, part: dict[str, object]) -> dict[str, object]:
        seal, self._seal = self._seal, ""
        return {**part, "thoughtSignature": seal} if seal else part


def render_response(
    events: Iterable[ReplyEvent], summary: RequestSummary, request_id: str, created: int
) -> bytes:
    """Do as ``CallerDialect.render_response``."""
    reply = collect_blocks(events)
    parts: list[dict[str, object]] = []
    seal = ""
    for block in reply.blocks:
        if block.kind == "thinking":
            seal = _get_signature(block) or seal
            if block.pieces:
                parts.append({"text": block.text, "thought": True})
            continue
        part: dict[str, object] = {"text": block.text}
        if block.kind != "text":
            part = _render_whole(block)
        parts.append({**part, "thoughtSignature": seal} if seal else part)
        seal = ""
    if seal:
        parts.append({"text": "", "thoughtSignature": seal})
    candidate = {**_build_candidate(parts), "finishReason": _STOPS[reply.reason]}
    counts = {"usageMetadata": render_gemini_usage(reply.usage)}
    return encode({"candidates": [candidate], **counts, **_build_names(summary, request_id)})


def _render_event(data: Mapping[str, object]) -> bytes:
    return b"data: %b\n\n" % encode(data)


def _build_names(summary: RequestSummary, request_id: str) -> dict[str, object]:
    return {"modelVersion": summary.model, "responseId": request_id}


def _build_candidate(parts: list[dict[str, object]]) -> dict[str, object]:
    return {"content": {"parts": parts, "role": "model"}, "index": 0}


def _render_whole(block: Block) -> dict[str, object]:
    if block.kind == "image":
        return {"inlineData": {"mimeType": block.image.media_type, "data": block.image.data}}
    call = {"id": block.id, "name": block.name, "args": encode_arguments(block.call)}
    return {"functionCall": call}


def _get_signature(block: Block) -> str:
    """Return Gemini's own signature, or one that wraps another supplier's thinking."""
    thinking = block.thinking
    if thinking is None or not is_signed(thinking):
        return ""
    return (
        thinking.signature
        if thinking.dialect == "gemini"
        else wrap_thinking(thinking, with_text=True)
    )

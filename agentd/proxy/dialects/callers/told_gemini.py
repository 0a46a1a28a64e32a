"""Replies told to callers of Gemini's API, streamed (``alt=sse``) and whole."""

from collections.abc import Iterable, Mapping

from msgspec.json import encode

from agentd.proxy.dialects.caller import Glance
from agentd.proxy.dialects.callers.blocks import Block, Gathering, gathered
from agentd.proxy.dialects.callers.counted import as_gemini
from agentd.proxy.dialects.callers.errors import error_event
from agentd.proxy.dialects.callers.seals import is_sealed, seal
from agentd.proxy.dialects.conversation import Event, StopReason, SupplierError
from agentd.proxy.dialects.turns import arguments

_STOPS: dict[StopReason, str] = {
    "end": "STOP",
    "tool_calls": "STOP",
    "length": "MAX_TOKENS",
    "refused": "SAFETY",
}


class Writer(Gathering):
    """Pieces of one answer; see ``caller.Writer``. A call is told once it is whole."""

    def __init__(self, glance: Glance, request_id: str, created: int) -> None:
        super().__init__()
        self._request_id = request_id
        self._names = _names(glance, request_id)
        self._seal = ""
        """Of what comes next."""

    def grown(self, block: Block, piece: str) -> bytes:
        """A part of text, or of what was thought."""
        if block.kind == "call":
            return b""
        if block.kind == "thinking":
            return self._piece({"text": piece, "thought": True})
        return self._piece(self._sealed({"text": piece}))

    def closed(self, block: Block) -> bytes:
        """A whole call, if it is one."""
        self._seal = _seal(block) or self._seal
        return self._piece(self._sealed(_call(block))) if block.kind == "call" else b""

    def finished(self, reason: StopReason) -> bytes:
        """Why it ended, and what was counted."""
        last = {**_candidate([self._sealed({"text": ""})]), "finishReason": _STOPS[reason]}
        counts = {"usageMetadata": as_gemini(self.usage)}
        return _event({"candidates": [last], **counts, **self._names})

    def failed(self, error: SupplierError) -> bytes:
        """The error, and no finish reason."""
        return error_event("gemini", error.kind, error.message, self._request_id)

    def _piece(self, part: dict[str, object]) -> bytes:
        return _event({"candidates": [_candidate([part])], **self._names})

    def _sealed(self, part: dict[str, object]) -> dict[str, object]:
        seal, self._seal = self._seal, ""
        return {**part, "thoughtSignature": seal} if seal else part


def whole(events: Iterable[Event], glance: Glance, request_id: str, created: int) -> bytes:
    """As ``CallerDialect.whole``."""
    reply = gathered(events)
    parts: list[dict[str, object]] = []
    seal = ""
    for block in reply.blocks:
        if block.kind == "thinking":
            seal = _seal(block) or seal
            if block.pieces:
                parts.append({"text": block.text, "thought": True})
            continue
        said: dict[str, object] = {"text": block.text}
        if block.kind == "call":
            said = _call(block)
        parts.append({**said, "thoughtSignature": seal} if seal else said)
        seal = ""
    if seal:
        parts.append({"text": "", "thoughtSignature": seal})
    candidate = {**_candidate(parts), "finishReason": _STOPS[reply.reason]}
    counts = {"usageMetadata": as_gemini(reply.usage)}
    return encode({"candidates": [candidate], **counts, **_names(glance, request_id)})


def _event(told: Mapping[str, object]) -> bytes:
    return b"data: %b\n\n" % encode(told)


def _names(glance: Glance, request_id: str) -> dict[str, object]:
    return {"modelVersion": glance.model, "responseId": request_id}


def _candidate(parts: list[dict[str, object]]) -> dict[str, object]:
    return {"content": {"parts": parts, "role": "model"}, "index": 0}


def _call(block: Block) -> dict[str, object]:
    call = {"id": block.id, "name": block.name, "args": arguments(block.call)}
    return {"functionCall": call}


def _seal(block: Block) -> str:
    """Gemini's own, or one that carries another supplier's thinking, text and all."""
    thinking = block.thinking
    if thinking is None or not is_sealed(thinking):
        return ""
    return thinking.signature if thinking.dialect == "gemini" else seal(thinking, with_text=True)

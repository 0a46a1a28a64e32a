"""Replies told to callers of OpenAI's Responses API, streamed and whole."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.json import encode

from agentd.proxy.dialects.caller import Glance
from agentd.proxy.dialects.callers.blocks import Block, Gathering, Kind, gathered
from agentd.proxy.dialects.callers.counted import as_responses
from agentd.proxy.dialects.callers.freeform import InputReader, as_text
from agentd.proxy.dialects.callers.groups import parted
from agentd.proxy.dialects.callers.seals import seal
from agentd.proxy.dialects.conversation import ErrorKind, Event, StopReason, SupplierError
from agentd.proxy.price import Usage
from agentd.wire.sse import json_event

_UNFINISHED: dict[StopReason, str] = {"length": "max_output_tokens", "refused": "content_filter"}
"""Why a reply is told to be incomplete."""

_CODES: dict[ErrorKind, str] = {
    "authentication": "invalid_api_key",
    "permission": "permission_denied",
    "not_found": "model_not_found",
    "invalid_request": "invalid_prompt",
    "context_too_long": "context_length_exceeded",
    "rate_limit": "rate_limit_exceeded",
    "quota": "insufficient_quota",
    "overloaded": "server_is_overloaded",
}
"""The words that Codex acts upon; it asks again after any other, ``server_error``."""


class _Item(Struct, frozen=True):
    """How an item of one kind is told."""

    prefix: str
    """Of its id."""
    growth: str
    """Of what its deltas, and their end, are called."""
    part: str = ""
    """What its only part is called; empty: it has none."""
    place: dict[str, object] = {}
    """Where in the item it grows."""
    beside: dict[str, object] = {}
    """What else stands in each delta."""
    said: str = "text"
    """The field that holds all of it in the end."""


_ITEMS: dict[Kind, _Item] = {
    "text": _Item("msg", "output_text", "content_part", {"content_index": 0}, {"logprobs": []}),
    "thinking": _Item(
        "rs", "reasoning_summary_text", "reasoning_summary_part", {"summary_index": 0}
    ),
    "call": _Item("fc", "function_call_arguments", said="arguments"),
}


_FREEFORM = _Item("ctc", "custom_tool_call_input", said="input")
"""Of a call whose arguments are bare text."""


class Writer(Gathering):
    """Events of one response, numbered from 0; see ``caller.Writer``."""

    def __init__(self, glance: Glance, request_id: str, created: int) -> None:
        super().__init__()
        self._request_id = request_id
        self._glance = glance
        self._input = InputReader()
        """Of the open call, where its tool takes bare text."""
        self._response = _response(glance, request_id, created)
        self._items: list[dict[str, object]] = []
        self._number = 0

    @property
    def items(self) -> Sequence[Mapping[str, object]]:
        """As ``caller.Writer.items``: those that are whole."""
        return self._items

    def beginning(self) -> bytes:
        """The response, empty yet."""
        told = {"response": self._response}
        return self._event("created", told) + self._event("in_progress", told)

    def opened(self, block: Block) -> bytes:
        """An item begins, and its only part, both empty."""
        self._input = InputReader()
        item = _item(block, self._id(block), "in_progress", self._glance)
        told = self._event("output_item.added", {**self._index, "item": item})
        kind = _kind(block, self._glance)
        if kind.part and block.pieces:
            part = {**self._place(block), "part": _part(block.kind, "")}
            told += self._event(f"{kind.part}.added", part)
        return told

    def grown(self, block: Block, piece: str) -> bytes:
        """The delta of its kind."""
        kind = _kind(block, self._glance)
        if kind is _FREEFORM:
            piece = self._input.feed(piece)
        told = {**self._place(block), "delta": piece, **kind.beside}
        return self._event(f"{kind.growth}.delta", told) if piece else b""

    def closed(self, block: Block) -> bytes:
        """All of it, three times: what grew, its part, its item."""
        kind, place, told = _kind(block, self._glance), self._place(block), b""
        words = block.text
        if kind is _FREEFORM:
            rest = self._input.close(words)
            words = self._input.text + rest
            if rest:
                told = self._event(f"{kind.growth}.delta", {**place, "delta": rest})
        if block.pieces:
            said = {**place, kind.said: words, **kind.beside}
            told += self._event(f"{kind.growth}.done", said)
            if kind.part:
                part = {**place, "part": _part(block.kind, words)}
                told += self._event(f"{kind.part}.done", part)
        item = _item(block, self._id(block), "completed", self._glance, words)
        self._items.append(item)
        return told + self._event("output_item.done", {**self._index, "item": item})

    def finished(self, reason: StopReason) -> bytes:
        """The whole response."""
        ended = _ended(self._response, self._items, self.usage, reason)
        return self._event(str(ended["status"]), {"response": ended})

    def failed(self, error: SupplierError) -> bytes:
        """What there is of the response, and why there is no more."""
        why = {"code": _CODES.get(error.kind, "server_error"), "message": error.message}
        broken = {"status": "failed", "output": self._items, "error": why}
        return self._event("failed", {"response": {**self._response, **broken}})

    def _event(self, kind: str, fields: Mapping[str, object]) -> bytes:
        name = f"response.{kind}"
        told = {"type": name, "sequence_number": self._number, **fields}
        self._number += 1
        return json_event(encode(told), name)

    def _id(self, block: Block) -> str:
        return _name(block, self._glance, self._request_id, len(self.blocks))

    @property
    def _index(self) -> dict[str, object]:
        return {"output_index": len(self.blocks)}

    def _place(self, block: Block) -> dict[str, object]:
        place = _kind(block, self._glance).place
        return {"item_id": self._id(block), **self._index, **place}


def whole(events: Iterable[Event], glance: Glance, request_id: str, created: int) -> bytes:
    """As ``CallerDialect.whole``."""
    reply = gathered(events)
    items = [
        _item(block, _name(block, glance, request_id, at), "completed", glance)
        for at, block in enumerate(reply.blocks)
    ]
    return encode(_ended(_response(glance, request_id, created), items, reply.usage, reply.reason))


def _response(glance: Glance, request_id: str, created: int) -> dict[str, object]:
    """A response that has begun, in the vendor's whole shape."""
    return {
        "id": f"resp_{request_id}",
        "object": "response",
        "created_at": created,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": glance.max_output or None,
        "metadata": {},
        "model": glance.model,
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "store": False,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "usage": None,
    }


def _ended(
    begun: dict[str, object], items: list[dict[str, object]], usage: Usage, reason: StopReason
) -> dict[str, object]:
    why = _UNFINISHED.get(reason)
    return {
        **begun,
        "status": "incomplete" if why else "completed",
        "incomplete_details": {"reason": why} if why else None,
        "output": items,
        "usage": as_responses(usage),
    }


def _kind(block: Block, glance: Glance) -> _Item:
    freeform = block.kind == "call" and block.name in glance.freeform
    return _FREEFORM if freeform else _ITEMS[block.kind]


def _name(block: Block, glance: Glance, request_id: str, at: int) -> str:
    return f"{_kind(block, glance).prefix}_{request_id}_{at}"


def _item(
    block: Block,
    id: str,  # noqa: A002
    status: str,
    glance: Glance,
    text: str | None = None,
) -> dict[str, object]:
    """An item: ``in_progress`` it is empty, whatever is known of it already.

    ``text`` is the input of a freeform tool as it was streamed, where it was.
    """
    said = block.text if status == "completed" else ""
    parts = [_part(block.kind, said)] if said and block.kind != "call" else []
    match block.kind:
        case "text":
            told: dict[str, object] = {"status": status, "role": "assistant", "content": parts}
            return {"type": "message", "id": id, **told}
        case "thinking":
            return {"type": "reasoning", "id": id, "summary": parts, **_sealed(block)}
        case "call":
            group, name = parted(block.name, glance.groups)
            named = {"name": name, "namespace": group} if group else {"name": name}
            called = {"id": id, "status": status, "call_id": block.id, **named}
            if _kind(block, glance) is _FREEFORM:
                words = as_text(said) if text is None and said else text or ""
                return {"type": "custom_tool_call", **called, "input": words}
            return {"type": "function_call", **called, "arguments": said}


def _part(kind: Kind, said: str) -> dict[str, object]:
    if kind == "thinking":
        return {"type": "summary_text", "text": said}
    return {"type": "output_text", "text": said, "annotations": [], "logprobs": []}


def _sealed(block: Block) -> dict[str, object]:
    """The seal on what was thought: OpenAI's own, or one that carries another supplier's."""
    thinking = block.thinking
    if thinking is None:
        return {}
    if thinking.dialect != "openai-responses":
        return {"encrypted_content": seal(thinking)}
    if not thinking.sealed:
        return {}
    return {"encrypted_content": msgspec.json.decode(thinking.sealed).get("encrypted_content")}

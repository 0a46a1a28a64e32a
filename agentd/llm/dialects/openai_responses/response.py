"""Replies rendered for callers of OpenAI's Responses API, streamed and whole."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.json import encode

from agentd.core.sse import encode_json_event
from agentd.llm.conversation import ErrorKind, ReplyEvent, StopReason, SupplierError
from agentd.llm.dialects.block_writer import Block, BlockKind, BlockWriter, collect_blocks
from agentd.llm.dialects.caller import RequestSummary
from agentd.llm.dialects.custom_tools import InputReader, unwrap_input
from agentd.llm.dialects.openai_responses.tool_namespaces import split_name
from agentd.llm.dialects.thinking_signatures import wrap_thinking
from agentd.llm.dialects.usage import render_responses_usage
from agentd.llm.price import Usage

_UNFINISHED: dict[StopReason, str] = {"length": "max_output_tokens", "refused": "content_filter"}
"""The reasons for an incomplete reply."""

_CODES: dict[ErrorKind, str] = {
    "authentication": "invalid_api_key",
    "permission": "permission_denied",
    "not_found": "model_not_found",
    "invalid_request": "invalid_prompt",
    "context_too_long": "context_length_exceeded",
    "content_refused": "content_policy_violation",
    "rate_limit": "rate_limit_exceeded",
    "quota": "insufficient_quota",
    "overloaded": "server_is_overloaded",
}
"""The words that Codex acts upon; it asks again after any other, ``server_error``."""


class _Item(Struct, frozen=True):
    """The rendering of an item of one kind."""

    prefix: str
    """The prefix of its id."""
    growth: str
    """The name in the events of its deltas and their end."""
    part: str = ""
    """The name of its only part; empty if it has none."""
    place: dict[str, object] = {}
    """The position at which the item grows."""
    beside: dict[str, object] = {}
    """The further fields of each delta."""
    text_field: str = "text"
    """The field that holds all of it in the end."""


_ITEMS: dict[BlockKind, _Item] = {
    "text": _Item("msg", "output_text", "content_part", {"content_index": 0}, {"logprobs": []}),
    "thinking": _Item(
        "rs", "reasoning_summary_text", "reasoning_summary_part", {"summary_index": 0}
    ),
    "image": _Item("ig", ""),
    "call": _Item("fc", "function_call_arguments", text_field="arguments"),
}


_FREEFORM = _Item("ctc", "custom_tool_call_input", text_field="input")
"""The item of a call whose arguments are bare text."""


class ResponsesStreamWriter(BlockWriter):
    """Events of one response, numbered from 0; see ``caller.StreamWriter``."""

    def __init__(self, summary: RequestSummary, request_id: str, created: int) -> None:
        super().__init__()
        self._request_id = request_id
        self._glance = summary
        self._input = InputReader()
        """The decoded input of the open call, where its tool takes bare text."""
        self._response = _build_response(summary, request_id, created)
        self._items: list[dict[str, object]] = []
        self._number = 0

    @property
    def items(self) -> Sequence[Mapping[str, object]]:
        """Items as in ``caller.StreamWriter.items``: the complete ones."""
        return self._items

    def on_start(self) -> bytes:
        """Start the response, still empty."""
        data = {"response": self._response}
        return self._render_event("created", data) + self._render_event("in_progress", data)

    def on_block_start(self, block: Block) -> bytes:
        """Start an item and its only part, both empty."""
        self._input = InputReader()
        item = _render_item(block, self._get_item_id(block), "in_progress", self._glance)
        data = self._render_event("output_item.added", {**self._index, "item": item})
        kind = _get_item_kind(block, self._glance)
        if kind.part and block.pieces:
            part = {**self._get_place(block), "part": _render_part(block.kind, "")}
            data += self._render_event(f"{kind.part}.added", part)
        return data

    def on_delta(self, block: Block, piece: str) -> bytes:
        """Render the delta of the item's kind."""
        kind = _get_item_kind(block, self._glance)
        if kind is _FREEFORM:
            piece = self._input.feed(piece)
        data = {**self._get_place(block), "delta": piece, **kind.beside}
        return self._render_event(f"{kind.growth}.delta", data) if piece else b""

    def on_block_end(self, block: Block) -> bytes:
        """Render the whole text three times: as the text, its part, and its item."""
        kind, place, data = _get_item_kind(block, self._glance), self._get_place(block), b""
        words = block.text
        if kind is _FREEFORM:
            rest = self._input.close(words)
            words = self._input.text + rest
            if rest:
                data = self._render_event(f"{kind.growth}.delta", {**place, "delta": rest})
        if block.pieces:
            done_fields = {**place, kind.text_field: words, **kind.beside}
            data += self._render_event(f"{kind.growth}.done", done_fields)
            if kind.part:
                part = {**place, "part": _render_part(block.kind, words)}
                data += self._render_event(f"{kind.part}.done", part)
        item = _render_item(block, self._get_item_id(block), "completed", self._glance, words)
        self._items.append(item)
        return data + self._render_event("output_item.done", {**self._index, "item": item})

    def on_finish(self, reason: StopReason) -> bytes:
        """Render the whole response."""
        ended = _end_response(self._response, self._items, self.usage, reason)
        return self._render_event(str(ended["status"]), {"response": ended})

    def on_error(self, error: SupplierError) -> bytes:
        """Render the response so far, and the error."""
        why = {"code": _CODES.get(error.kind, "server_error"), "message": error.message}
        broken = {"status": "failed", "output": self._items, "error": why}
        return self._render_event("failed", {"response": {**self._response, **broken}})

    def _render_event(self, kind: str, fields: Mapping[str, object]) -> bytes:
        name = f"response.{kind}"
        data = {"type": name, "sequence_number": self._number, **fields}
        self._number += 1
        return encode_json_event(encode(data), name)

    def _get_item_id(self, block: Block) -> str:
        return _make_item_id(block, self._glance, self._request_id, len(self.blocks))

    @property
    def _index(self) -> dict[str, object]:
        return {"output_index": len(self.blocks)}

    def _get_place(self, block: Block) -> dict[str, object]:
        place = _get_item_kind(block, self._glance).place
        return {"item_id": self._get_item_id(block), **self._index, **place}


def render_response(
    events: Iterable[ReplyEvent], summary: RequestSummary, request_id: str, created: int
) -> bytes:
    """Do as ``CallerDialect.render_response``."""
    reply = collect_blocks(events)
    items = [
        _render_item(block, _make_item_id(block, summary, request_id, at), "completed", summary)
        for at, block in enumerate(reply.blocks)
    ]
    return encode(
        _end_response(
            _build_response(summary, request_id, created), items, reply.usage, reply.reason
        )
    )


def _build_response(summary: RequestSummary, request_id: str, created: int) -> dict[str, object]:
    """Return a response that has just started, in the vendor's full form."""
    return {
        "id": f"resp_{request_id}",
        "object": "response",
        "created_at": created,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": summary.max_output or None,
        "metadata": {},
        "model": summary.model,
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


def _end_response(
    begun: dict[str, object], items: list[dict[str, object]], usage: Usage, reason: StopReason
) -> dict[str, object]:
    why = _UNFINISHED.get(reason)
    return {
        **begun,
        "status": "incomplete" if why else "completed",
        "incomplete_details": {"reason": why} if why else None,
        "output": items,
        "usage": render_responses_usage(usage),
    }


def _get_item_kind(block: Block, summary: RequestSummary) -> _Item:
    freeform = block.kind == "call" and block.name in summary.freeform_tools
    return _FREEFORM if freeform else _ITEMS[block.kind]


def _make_item_id(block: Block, summary: RequestSummary, request_id: str, at: int) -> str:
    return f"{_get_item_kind(block, summary).prefix}_{request_id}_{at}"


def _render_item(
    block: Block,
    id: str,  # noqa: A002
    status: str,
    summary: RequestSummary,
    text: str | None = None,
) -> dict[str, object]:
    """Return an item; it is empty while ``in_progress``.

    ``text`` is the input of a freeform tool as it was streamed, if it was.
    """
    said = block.text if status == "completed" else ""
    parts = [_render_part(block.kind, said)] if said and block.kind != "call" else []
    match block.kind:
        case "text":
            data: dict[str, object] = {"status": status, "role": "assistant", "content": parts}
            return {"type": "message", "id": id, **data}
        case "thinking":
            return {"type": "reasoning", "id": id, "summary": parts, **_get_encrypted(block)}
        case "image":
            shown = {"result": block.image.data} if status == "completed" else {"result": None}
            kind = block.image.media_type.removeprefix("image/")
            made = {"id": id, "status": status, "output_format": kind, **shown}
            return {"type": "image_generation_call", **made}
        case "call":
            group, name = split_name(block.name, summary.tool_namespaces)
            named = {"name": name, "namespace": group} if group else {"name": name}
            called = {"id": id, "status": status, "call_id": block.id, **named}
            if _get_item_kind(block, summary) is _FREEFORM:
                words = unwrap_input(said) if text is None and said else text or ""
                return {"type": "custom_tool_call", **called, "input": words}
            return {"type": "function_call", **called, "arguments": said}


def _render_part(kind: BlockKind, said: str) -> dict[str, object]:
    if kind == "thinking":
        return {"type": "summary_text", "text": said}
    return {"type": "output_text", "text": said, "annotations": [], "logprobs": []}


def _get_encrypted(block: Block) -> dict[str, object]:
    """Return OpenAI's own encrypted content, or one that wraps another supplier's thinking."""
    thinking = block.thinking
    if thinking is None:
        return {}
    if thinking.dialect != "openai-responses":
        return {"encrypted_content": wrap_thinking(thinking)}
    if not thinking.sealed:
        return {}
    return {"encrypted_content": msgspec.json.decode(thinking.sealed).get("encrypted_content")}

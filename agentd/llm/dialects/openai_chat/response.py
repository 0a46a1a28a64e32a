"""Replies rendered for callers of OpenAI's chat completions, streamed and whole."""

from collections.abc import Container, Iterable, Mapping, Sequence

from msgspec.json import encode

from agentd.llm.conversation import (
    ImageDone,
    ImagePart,
    ReplyEvent,
    ReplyFinished,
    StopReason,
    SupplierError,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ThinkingDone,
    ToolCall,
    ToolCallDelta,
    ToolCallDone,
    ToolCallStarted,
    UsageUpdated,
)
from agentd.llm.dialects.block_writer import Block, collect_blocks
from agentd.llm.dialects.caller import RequestSummary
from agentd.llm.dialects.custom_tools import InputReader, unwrap_input
from agentd.llm.dialects.error_bodies import render_error_event
from agentd.llm.dialects.message_order import build_image_url
from agentd.llm.dialects.thinking_signatures import is_signed, wrap_thinking
from agentd.llm.dialects.usage import render_chat_usage
from agentd.llm.price import Usage

_STOPS: dict[StopReason, str] = {
    "end": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "refused": "content_filter",
}
_DONE = b"data: [DONE]\n\n"

FORMAT = "agentd-v1"
"""The format name of our signatures in ``reasoning_details``, a field introduced by OpenRouter."""


class _FreeformCall:
    """A tool call whose arguments are streamed as plain text."""

    def __init__(self) -> None:
        self._reader = InputReader()
        self._pieces: list[str] = []

    def feed(self, piece: str) -> str:
        """Return the part of the input that can be decoded now."""
        self._pieces.append(piece)
        return self._reader.feed(piece)

    def close(self) -> str:
        """Return the rest of the input."""
        return self._reader.close("".join(self._pieces))


class ChatStreamWriter:
    """Chunks of one completion; see ``caller.StreamWriter``. Usage is sent if it was requested."""

    def __init__(self, summary: RequestSummary, request_id: str, created: int) -> None:
        head = encode(
            {
                "id": f"chatcmpl-{request_id}",
                "object": "chat.completion.chunk",
                "created": created,
                "model": summary.model,
            }
        )
        self._request_id = request_id
        self._wants_usage = summary.wants_usage
        self._head = b'data: %b,"choices":[' % head[:-1]
        self._tail = b'],"usage":null}\n\n' if summary.wants_usage else b"]}\n\n"
        self._usage: Usage | None = None
        self._begun = self._over = False
        self._heard: set[int] = set()
        """The calls of which any argument was sent."""
        self._freeform_names = summary.freeform_tools
        self._freeform: dict[int, _FreeformCall] = {}
        """The calls that grow and whose tools take bare text, by their numbers."""
        self._sealed: list[Thinking] = []
        """The thinking since the last text, which must be sent back to its supplier."""
        self._details = self._images = 0

    @property
    def items(self) -> Sequence[Mapping[str, object]]:
        """Items as in ``caller.StreamWriter.items``: this dialect has none."""
        return ()

    def write(self, event: ReplyEvent) -> bytes:
        """Do as ``caller.StreamWriter.write``."""
        if self._over:
            return b""
        if isinstance(event, SupplierError):
            self._over = True
            return render_error_event("openai-chat", event.kind, event.message, self._request_id)
        begun = b"" if self._begun else self._render_chunk(b'{"role":"assistant","content":""}')
        self._begun = True
        return begun + self._render(event)

    def _render(self, event: ReplyEvent) -> bytes:
        data = b""
        match event:
            case ThinkingDone(thinking) if is_signed(thinking):
                self._sealed.append(thinking)
            case TextDelta(text):
                data = self._flush_thinking() + self._render_chunk(b'{"content":%b}' % encode(text))
            case ImageDone(image):
                shown = [_render_image(image, self._images)]
                self._images += 1
                data = self._flush_thinking() + self._render_chunk(encode({"images": shown}))
            case ThinkingDelta(text):
                data = self._render_chunk(b'{"reasoning_content":%b}' % encode(text))
            case ToolCallStarted(index, id, name):
                if name in self._freeform_names:
                    self._freeform[index] = _FreeformCall()
                call = ToolCall(id, name, "")
                begun = {"index": index, **_render_call(call, self._freeform_names)}
                data = self._flush_thinking(id) + self._render_chunk(
                    encode({"tool_calls": [begun]})
                )
            case ToolCallDelta(index, text):
                self._heard.add(index)
                data = self._render_arguments(index, text)
            case ToolCallDone(index, call):
                if index not in self._heard:
                    data = self._render_arguments(index, call.arguments)
                data += self._close_input(index)
            case UsageUpdated(usage):
                self._usage = usage
            case ReplyFinished(reason):
                data = self._flush_thinking() + self._render_end(reason)
        return data

    def _flush_thinking(self, call: str = "") -> bytes:
        """Return the signed thinking that precedes the next output.

        ``call`` is the id of that output if it is a tool call.
        """
        if not self._sealed:
            return b""
        details = [
            _render_detail(thinking, self._details + at, call)
            for at, thinking in enumerate(self._sealed)
        ]
        self._details += len(details)
        self._sealed = []
        return self._render_chunk(encode({"reasoning_details": details}))

    def _render_arguments(self, index: int, piece: str) -> bytes:
        if call := self._freeform.get(index):
            return self._render_input(index, call.feed(piece))
        fragment = b'{"tool_calls":[{"index":%d,"function":{"arguments":%b}}]}'
        return self._render_chunk(fragment % (index, encode(piece)))

    def _render_input(self, index: int, piece: str) -> bytes:
        fragment = b'{"tool_calls":[{"index":%d,"custom":{"input":%b}}]}'
        return self._render_chunk(fragment % (index, encode(piece))) if piece else b""

    def _close_input(self, index: int) -> bytes:
        call = self._freeform.pop(index, None)
        return self._render_input(index, call.close()) if call else b""

    def _render_end(self, reason: StopReason) -> bytes:
        self._over = True
        data = b"".join(map(self._close_input, tuple(self._freeform)))  # of calls cut off
        data += self._render_chunk(b"{}", encode(_STOPS[reason]))
        if self._wants_usage and self._usage is not None:
            data += b'%b],"usage":%b}\n\n' % (self._head, encode(render_chat_usage(self._usage)))
        return data + _DONE

    def _render_chunk(self, delta: bytes, finish: bytes = b"null") -> bytes:
        choice = b'{"index":0,"delta":%b,"finish_reason":%b}' % (delta, finish)
        return b"%b%b%b" % (self._head, choice, self._tail)


def render_response(
    events: Iterable[ReplyEvent], summary: RequestSummary, request_id: str, created: int
) -> bytes:
    """Do as ``CallerDialect.render_response``."""
    reply = collect_blocks(events)
    message: dict[str, object] = {"role": "assistant", "content": reply.join_text("text") or None}
    if thought := reply.join_text("thinking"):
        message["reasoning_content"] = thought
    if details := _collect_details(reply.blocks):
        message["reasoning_details"] = details
    shown = (block.image for block in reply.blocks if block.kind == "image")
    if images := [_render_image(image, at) for at, image in enumerate(shown)]:
        message["images"] = images
    blocks = (block for block in reply.blocks if block.kind == "call")
    if calls := [_render_call(block.call, summary.freeform_tools) for block in blocks]:
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
            "model": summary.model,
            "choices": [choice],
            "usage": render_chat_usage(reply.usage),
        }
    )


def _collect_details(blocks: Iterable[Block]) -> list[dict[str, object]]:
    """Return the wrapped thinking, each with the call it preceded, if any."""
    found: list[dict[str, object]] = []
    waiting: list[Thinking] = []
    for block in (*blocks, None):
        if block and block.kind == "thinking":
            if block.thinking and is_signed(block.thinking):
                waiting.append(block.thinking)
            continue
        call = block.id if block and block.kind == "call" else ""
        found += [_render_detail(one, len(found) + at, call) for at, one in enumerate(waiting)]
        waiting = []
    return found


def _render_detail(thinking: Thinking, index: int, call: str) -> dict[str, object]:
    sealed = {"data": wrap_thinking(thinking, with_text=True), "format": FORMAT, "index": index}
    return {"type": "reasoning.encrypted", **({"id": call} if call else {}), **sealed}


def _render_image(image: ImagePart, index: int) -> dict[str, object]:
    """Render an image as OpenRouter and LiteLLM do; OpenAI's own models return none."""
    return {"type": "image_url", "image_url": {"url": build_image_url(image)}, "index": index}


def _render_call(call: ToolCall, freeform: Container[str]) -> dict[str, object]:
    if call.name in freeform:
        given = {"name": call.name, "input": unwrap_input(call.arguments) if call.arguments else ""}
        return {"id": call.id, "type": "custom", "custom": given}
    data = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": data}

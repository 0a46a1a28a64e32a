"""A reply rendered as consecutive blocks, one open at a time, as all dialects but OpenAI chat need.

Suppliers may stream several tool calls in parallel; a later one is held back until the earlier ones
are complete.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

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
from agentd.llm.price import NO_USAGE, Usage

BlockKind: TypeAlias = Literal["text", "thinking", "image", "call"]


class Block:
    """A growing text, thinking or tool call, or an image, which comes whole.

    ``thinking`` is set once a block of it is complete.
    """

    def __init__(self, kind: BlockKind, index: int = -1, id: str = "", name: str = "") -> None:  # noqa: A002
        self.kind = kind
        self.index = index
        """The call's own number; -1 for what is no call."""
        self.id = id
        self.name = name
        self.pieces: list[str] = []
        self.thinking: Thinking | None = None
        self.image = ImagePart()
        """The image of a block of that kind."""
        self.is_complete = False
        self.is_open = False

    @property
    def text(self) -> str:
        """The text so far; for a tool call its arguments."""
        return "".join(self.pieces)

    @property
    def call(self) -> ToolCall:
        """The tool call of a block of that kind."""
        return ToolCall(self.id, self.name, self.text)


class BlockWriter:
    """Groups a reply's events into blocks.

    A dialect derives from this to stream a reply, and returns the bytes for each transition.
    """

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        """The finished blocks, in order."""
        self.usage: Usage = NO_USAGE
        self.end: ReplyFinished | SupplierError | None = None
        self._started = False
        self._queue: deque[Block] = deque()
        """The open one, and those that wait for it."""
        self._open_calls: dict[int, Block] = {}
        """The calls among them, by their numbers."""

    def write(self, event: ReplyEvent) -> bytes:
        """Do as ``StreamWriter.write``."""
        if self.end is not None:
            return b""
        output = b"" if self._started else self._start(event)
        match event:
            case TextDelta(text):
                output += self._add_delta("text", text)
            case ThinkingDelta(text):
                output += self._add_delta("thinking", text)
            case ThinkingDone(thinking):
                output += self._end_thinking(thinking)
            case ImageDone(image):
                output += self._add_image(image)
            case ToolCallStarted(index, id, name):
                output += self._add(Block("call", index, id, name))
            case ToolCallDelta(index, text):
                output += self._append(self._find_call(index), text)
            case ToolCallDone(index, call):
                output += self._end_call(index, call)
            case UsageUpdated(usage):
                self.usage = usage
            case ReplyFinished() | SupplierError():
                output += self._end_reply(event)
        return output

    @property
    def items(self) -> Sequence[Mapping[str, object]]:
        """Items as in ``StreamWriter.items``: most dialects have none."""
        return ()

    @property
    def reason(self) -> StopReason:
        """Why the reply ended."""
        return self.end.reason if isinstance(self.end, ReplyFinished) else "end"

    def join_text(self, kind: BlockKind) -> str:
        """Return the text of all closed blocks of a kind."""
        return "".join(block.text for block in self.blocks if block.kind == kind)

    def on_start(self) -> bytes:
        """Return the events that precede all blocks."""
        return b""

    def on_block_start(self, block: Block) -> bytes:
        """Start a block; its index is ``len(self.blocks)``, here and below."""
        return b""

    def on_delta(self, block: Block, piece: str) -> bytes:
        """Add a piece, never an empty one, to the open block."""
        return b""

    def on_block_end(self, block: Block) -> bytes:
        """End the open block."""
        return b""

    def on_finish(self, reason: StopReason) -> bytes:
        """End a complete reply; all blocks are closed."""
        return b""

    def on_error(self, error: SupplierError) -> bytes:
        """End a reply with an error; a block may be open."""
        return b""

    def _start(self, event: ReplyEvent) -> bytes:
        if isinstance(event, SupplierError):  # nothing needs to begin
            return b""
        self._started = True
        return self.on_start()

    def _add_delta(self, kind: BlockKind, piece: str) -> bytes:
        last = self._queue[-1] if self._queue else None
        if last is not None and last.kind == kind and not last.is_complete:
            return self._append(last, piece)
        block = Block(kind)
        block.pieces.append(piece)
        return self._add(block)

    def _end_thinking(self, thinking: Thinking) -> bytes:
        last = self._queue[-1] if self._queue else None
        if last is None or last.kind != "thinking" or last.is_complete:
            if not (thinking.text or thinking.sealed or thinking.signature):
                return b""
            last = Block("thinking")
            last.pieces += [thinking.text] if thinking.text else []
            last.thinking, last.is_complete = thinking, True
            return self._add(last)
        last.thinking, last.is_complete = thinking, True
        return self._advance()

    def _add_image(self, image: ImagePart) -> bytes:
        block = Block("image")
        block.image, block.is_complete = image, True
        return self._add(block)

    def _find_call(self, index: int) -> Block | None:
        return self._open_calls.get(index)

    def _end_call(self, index: int, call: ToolCall) -> bytes:
        begun = b""
        block = self._find_call(index)
        if block is None:
            block = Block("call", index, call.id, call.name)
            begun = self._add(block)
        output = b"" if block.pieces else self._append(block, call.arguments)
        block.is_complete = True
        return begun + output + self._advance()

    def _append(self, block: Block | None, piece: str) -> bytes:
        if block is None:
            return b""
        block.pieces.append(piece)
        return self.on_delta(block, piece) if block.is_open else b""

    def _add(self, block: Block) -> bytes:
        if self._queue and self._queue[-1].kind != "call":
            self._queue[-1].is_complete = True
        self._queue.append(block)
        if block.kind == "call":
            self._open_calls.setdefault(block.index, block)
        return self._advance()

    def _advance(self) -> bytes:
        """Close complete blocks and open the next ones."""
        output: list[bytes] = []
        while self._queue:
            front = self._queue[0]
            if not front.is_open:
                output.append(self.on_block_start(front))
                output += [self.on_delta(front, piece) for piece in front.pieces]
                front.is_open = True
            if not front.is_complete:
                break
            output.append(self.on_block_end(front))
            self.blocks.append(self._queue.popleft())
            self._open_calls.pop(front.index, None)
        return b"".join(output)

    def _end_reply(self, event: ReplyFinished | SupplierError) -> bytes:
        self.end = event
        if isinstance(event, SupplierError):
            return self.on_error(event)
        output = b""
        for block in self._queue:
            if block.kind == "call" and not block.pieces:
                output += self._append(block, "{}")
            block.is_complete = True
        return output + self._advance() + self.on_finish(event.reason)


def collect_blocks(events: Iterable[ReplyEvent]) -> BlockWriter:
    """Collect the blocks of a whole reply, for rendering it at once.

    Raises ``ValueError`` if the events do not end with ``ReplyFinished``.
    """
    reply = BlockWriter()
    for event in events:
        reply.write(event)
    if not isinstance(reply.end, ReplyFinished):
        raise ValueError("only a complete reply can be rendered as one response")
    return reply

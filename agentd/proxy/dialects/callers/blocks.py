"""A reply in blocks, one open at a time: so all dialects but OpenAI's chat tell it.

Suppliers may let several calls grow at once; the later one is held until the earlier is whole.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

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
from agentd.proxy.price import NOTHING, Usage

Kind: TypeAlias = Literal["text", "thinking", "call"]


class Block:
    """Text, thinking or a call that grows. ``thinking`` is set once a piece of it is whole."""

    def __init__(self, kind: Kind, index: int = -1, id: str = "", name: str = "") -> None:  # noqa: A002
        self.kind = kind
        self.index = index
        """The call's own number; -1 for what is no call."""
        self.id = id
        self.name = name
        self.pieces: list[str] = []
        self.thinking: Thinking | None = None
        self.whole = False
        self.opened = False

    @property
    def text(self) -> str:
        """All that was said up to now; of a call its arguments."""
        return "".join(self.pieces)

    @property
    def call(self) -> ToolCall:
        """The call, where the block is one."""
        return ToolCall(self.id, self.name, self.text)


class Gathering:
    """Puts a reply's events in blocks.

    A dialect tells it as it grows: it derives from this, and gives the bytes for each move.
    """

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        """Those that are closed, in their order."""
        self.usage: Usage = NOTHING
        self.end: Finished | SupplierError | None = None
        self._begun = False
        self._queue: deque[Block] = deque()
        """The open one, and those that wait for it."""
        self._growing: dict[int, Block] = {}
        """The calls among them, by their numbers."""

    def write(self, event: Event) -> bytes:
        """As ``Writer.write``."""
        if self.end is not None:
            return b""
        told = b"" if self._begun else self._beginning(event)
        match event:
            case TextDelta(text):
                told += self._said("text", text)
            case ThinkingDelta(text):
                told += self._said("thinking", text)
            case ThinkingDone(thinking):
                told += self._thought(thinking)
            case CallStarted(index, id, name):
                told += self._add(Block("call", index, id, name))
            case CallDelta(index, text):
                told += self._grow(self._call(index), text)
            case CallDone(index, call):
                told += self._called(index, call)
            case UsageSeen(usage):
                self.usage = usage
            case Finished() | SupplierError():
                told += self._over(event)
        return told

    @property
    def items(self) -> Sequence[Mapping[str, object]]:
        """As ``Writer.items``: most dialects have none."""
        return ()

    @property
    def reason(self) -> StopReason:
        """Why the reply ended."""
        return self.end.reason if isinstance(self.end, Finished) else "end"

    def said(self, kind: Kind) -> str:
        """The text of all closed blocks of a kind."""
        return "".join(block.text for block in self.blocks if block.kind == kind)

    def beginning(self) -> bytes:
        """What is told before any block."""
        return b""

    def opened(self, block: Block) -> bytes:
        """A block begins; its number is ``len(self.blocks)``, here and below."""
        return b""

    def grown(self, block: Block, piece: str) -> bytes:
        """The open block has a piece more, never an empty one."""
        return b""

    def closed(self, block: Block) -> bytes:
        """The open block is whole."""
        return b""

    def finished(self, reason: StopReason) -> bytes:
        """The reply is whole; every block is closed."""
        return b""

    def failed(self, error: SupplierError) -> bytes:
        """The reply ends unfinished; a block may be open."""
        return b""

    def _beginning(self, event: Event) -> bytes:
        if isinstance(event, SupplierError):  # nothing needs to begin
            return b""
        self._begun = True
        return self.beginning()

    def _said(self, kind: Kind, piece: str) -> bytes:
        last = self._queue[-1] if self._queue else None
        if last is not None and last.kind == kind and not last.whole:
            return self._grow(last, piece)
        block = Block(kind)
        block.pieces.append(piece)
        return self._add(block)

    def _thought(self, thinking: Thinking) -> bytes:
        last = self._queue[-1] if self._queue else None
        if last is None or last.kind != "thinking" or last.whole:
            if not (thinking.text or thinking.sealed or thinking.signature):
                return b""
            last = Block("thinking")
            last.pieces += [thinking.text] if thinking.text else []
            last.thinking, last.whole = thinking, True
            return self._add(last)
        last.thinking, last.whole = thinking, True
        return self._advance()

    def _call(self, index: int) -> Block | None:
        return self._growing.get(index)

    def _called(self, index: int, call: ToolCall) -> bytes:
        begun = b""
        block = self._call(index)
        if block is None:
            block = Block("call", index, call.id, call.name)
            begun = self._add(block)
        told = b"" if block.pieces else self._grow(block, call.arguments)
        block.whole = True
        return begun + told + self._advance()

    def _grow(self, block: Block | None, piece: str) -> bytes:
        if block is None:
            return b""
        block.pieces.append(piece)
        return self.grown(block, piece) if block.opened else b""

    def _add(self, block: Block) -> bytes:
        if self._queue and self._queue[-1].kind != "call":
            self._queue[-1].whole = True
        self._queue.append(block)
        if block.kind == "call":
            self._growing.setdefault(block.index, block)
        return self._advance()

    def _advance(self) -> bytes:
        """Close what is whole, open what is next."""
        told: list[bytes] = []
        while self._queue:
            front = self._queue[0]
            if not front.opened:
                told.append(self.opened(front))
                told += [self.grown(front, piece) for piece in front.pieces]
                front.opened = True
            if not front.whole:
                break
            told.append(self.closed(front))
            self.blocks.append(self._queue.popleft())
            self._growing.pop(front.index, None)
        return b"".join(told)

    def _over(self, event: Finished | SupplierError) -> bytes:
        self.end = event
        if isinstance(event, SupplierError):
            return self.failed(event)
        told = b""
        for block in self._queue:
            if block.kind == "call" and not block.pieces:
                told += self._grow(block, "{}")
            block.whole = True
        return told + self._advance() + self.finished(event.reason)


def gathered(events: Iterable[Event]) -> Gathering:
    """A whole reply, for who tells it at once.

    Raises ``ValueError`` when its events do not end with ``Finished``.
    """
    reply = Gathering()
    for event in events:
        reply.write(event)
    if not isinstance(reply.end, Finished):
        raise ValueError("only a whole reply can be told at once")
    return reply

"""What the scripted supplier answers, in one form for every dialect.

A script is a row of steps; each request takes the next one. A step is an ``Response``, a
``Refuse``, or in short a part (``Say``, ``Call``, ``Think``) or a list of parts, or a function
of the request that gives one of these (None: the function has no opinion, the next is asked).
"""

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, field

if TYPE_CHECKING:
    from tests.supplier.request import Request


class Tokens(Struct, frozen=True):
    """What an answer is said to have used: whatever a test wants, be it true or a lie.

    ``input`` is what was neither read from the cache nor written into it; ``reasoning`` is a
    part of ``output``.
    """

    input: int = 10
    cached: int = 0
    written: int = 0
    output: int = 5
    reasoning: int = 0

    @property
    def all_input(self) -> int:
        """Every token that went in, as OpenAI's ``prompt_tokens`` counts them."""
        return self.input + self.cached + self.written


class Say(Struct, frozen=True):
    """Text, streamed word by word, or ``cut`` characters at a time."""

    text: str
    cut: int = 0

    def pieces(self) -> list[str]:
        """The text as it is streamed; nothing is lost or added."""
        return (
            _cut(self.text, self.cut) if self.cut else re.findall(r"\s*\S+\s*$|\s*\S+", self.text)
        )


class Think(Struct, frozen=True):
    """Reasoning before the answer; ``signature`` is what Anthropic wants back unchanged."""

    text: str
    signature: str = "c2lnbmVk"

    def pieces(self) -> list[str]:
        """The text as it is streamed."""
        return Say(self.text).pieces()


class Call(Struct, frozen=True):
    """A tool call; several in one answer are parallel calls.

    ``arguments`` as text goes out as it is: free-form input of a custom tool, or broken JSON.
    """

    name: str
    arguments: dict[str, Any] | str = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The arguments as they stand on the wire."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)

    @property
    def value(self) -> Any:
        """The arguments as a JSON value; an empty object where they are none."""
        try:
            return json.loads(self.text)
        except ValueError:
            return {}

    def pieces(self) -> list[str]:
        """The arguments as they are streamed: twelve characters at a time."""
        return _cut(self.text, 12)


Part: TypeAlias = Say | Think | Call


def giant(size: int) -> Say:
    """Text of ``size`` characters that comes in one event."""
    return Say("x" * size, cut=size)


class Stall:
    """The stream hangs after ``after`` events (0: before the answer begins) until ``release``.

    ``reached`` is done once the stream hangs; ``reached.result(timeout)`` waits for it.
    """

    def __init__(self, after: int = 0) -> None:
        self.after = after
        self.reached: Future[None] = Future()
        self.released: Future[None] = Future()

    async def hang(self) -> None:
        """What the supplier does, on its own loop."""
        if not self.reached.done():
            self.reached.set_result(None)
        await asyncio.shield(asyncio.wrap_future(self.released))

    def release(self) -> None:
        """Let it go on, from any thread, once or many times."""
        if not self.released.done():
            self.released.set_result(None)


class Break(Struct, frozen=True):
    """The connection dies after ``after`` events (0: before the answer begins)."""

    after: int = 0


class Garble(Struct, frozen=True):
    """The event after ``after`` events is not JSON."""

    after: int = 0
    data: str = '{"choices": [{"delta": {"cont'


class Fail(Struct, frozen=True):
    """After ``after`` events the dialect's own error comes, within HTTP 200, and no more."""

    after: int = 0
    message: str = "The server is overloaded"
    type: str = ""
    """The dialect's word for it; empty: its word for a failure of the server."""


Fault: TypeAlias = Stall | Break | Garble | Fail


class Answer(Struct, frozen=True):
    """Parts in their order, with what is said about them and what goes wrong on the way.

    ``pause`` is the seconds between two events. ``finish`` overrides the dialect's word for why
    the answer ended, such as ``length``. Without ``usage`` none is told.
    """

    parts: tuple[Part, ...]
    usage: Tokens | None = Tokens()
    faults: tuple[Fault, ...] = ()
    pause: float = 0.0
    finish: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def calls(self) -> Iterator[Call]:
        """The tool calls among the parts."""
        return (part for part in self.parts if isinstance(part, Call))

    def joined(self, kind: type[Say] | type[Think]) -> str:
        """The text of all parts of a kind."""
        return "".join(part.text for part in self.parts if isinstance(part, kind))


class Refuse(Struct, frozen=True):
    """No answer but an error, in the dialect's form, or ``body`` as it is given.

    ``type`` and ``code`` are the dialect's words; empty: what it says for such a status.
    """

    status: int = 429
    message: str = "Too many requests"
    type: str = ""
    code: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any] | str | None = None


Made: TypeAlias = Answer | Refuse | Part | Sequence[Part]
Chosen: TypeAlias = "Callable[[Request], Made | None]"
Step: TypeAlias = "Made | Chosen"


def whole(made: Made) -> Answer | Refuse:
    """The long form of a step."""
    if isinstance(made, Answer | Refuse):
        return made
    return Answer((made,) if isinstance(made, Say | Think | Call) else tuple(made))


def _cut(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]

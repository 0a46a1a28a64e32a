"""The answers of the scripted supplier, in one form for every dialect.

A script is a row of steps; each request takes the next one. A step is an ``Answer``, a
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
    """The usage that an answer reports; a test may let it be wrong.

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
    cites: tuple[tuple[str, str], ...] = ()
    """The pages that the text rests on: address and title."""

    def split(self) -> list[str]:
        """Return the text in the pieces that are streamed."""
        return (
            _cut(self.text, self.cut) if self.cut else re.findall(r"\s*\S+\s*$|\s*\S+", self.text)
        )


class Think(Struct, frozen=True):
    """Reasoning before the answer; ``signature`` is what Anthropic wants back unchanged."""

    text: str
    signature: str = "c2lnbmVk"

    def split(self) -> list[str]:
        """Return the text in the pieces that are streamed."""
        return Say(self.text).split()


class Call(Struct, frozen=True):
    """A tool call; several in one answer are parallel calls.

    ``arguments`` as text goes out as it is: free-form input of a custom tool, or broken JSON.
    """

    name: str
    arguments: dict[str, Any] | str = field(default_factory=dict)
    namespace: str = ""
    """The namespace of the tool, in the dialect that has them (Responses)."""

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

    def split(self) -> list[str]:
        """Return the arguments in the pieces that are streamed, of twelve characters each."""
        return _cut(self.text, 12)


class Search(Struct, frozen=True):
    """A web search that the supplier carries out itself, in the dialects that have one.

    ``pages`` are what it found: address and title. With a ``problem`` it found nothing.
    """

    query: str
    pages: tuple[tuple[str, str], ...] = ()
    problem: str = ""

    def split(self) -> list[str]:
        """Return its input, in one piece."""
        return [json.dumps({"query": self.query})]


Part: TypeAlias = Say | Think | Call | Search


def say_in_one_event(size: int) -> Say:
    """Return text of ``size`` characters that is sent in one event."""
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
        """Wait for the release; the supplier calls this on its own loop."""
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
    sent: int = 0
    """Bytes of the next event that are still sent."""


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
    """Parts in their order, with the reported usage and the faults on the way.

    ``pause`` is the seconds between two events. ``finish`` overrides the dialect's word for why
    the answer ended, such as ``length``. Without ``usage`` none is reported.
    """

    parts: tuple[Part, ...]
    usage: Tokens | None = Tokens()
    faults: tuple[Fault, ...] = ()
    pause: float = 0.0
    finish: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def list_calls(self) -> Iterator[Call]:
        """Return the tool calls among the parts."""
        return (part for part in self.parts if isinstance(part, Call))

    def count_searches(self) -> int:
        """Return the number of web searches that found something."""
        return sum(isinstance(part, Search) and not part.problem for part in self.parts)

    def join_text(self, kind: type[Say] | type[Think]) -> str:
        """Return the text of all parts of a kind."""
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


def normalize_step(made: Made) -> Answer | Refuse:
    """Return the long form of a step."""
    if isinstance(made, Answer | Refuse):
        return made
    return Answer((made,) if isinstance(made, Say | Think | Call | Search) else tuple(made))


def _cut(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]

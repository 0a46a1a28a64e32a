"""What the tools brought in earlier turns of a chat, for the model to know in the next one.

The history tells a person in short what each tool did. A model that has to go on needs what it
read: without it, it would read every file again, or make it up.
"""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

LONGEST_RESULT = 4_000
LONGEST_MEMORY = 24_000
"""Characters; the latest results count most."""

_HEAD = "[What the tools brought in earlier turns, the latest last; files may have changed since:"


class Brought(Struct, frozen=True):
    """What a use of a tool brought."""

    tool: str
    input: str
    text: str


def read_memory(kept: str) -> tuple[Brought, ...]:
    """Return what was kept; nothing for anything else."""
    try:
        return msgspec.json.decode(kept or "[]", type=tuple[Brought, ...])
    except (msgspec.DecodeError, UnicodeError):
        return ()


def write_memory(results: Iterable[Brought]) -> str:
    """Return the latest results as they are kept, none too long, within the memory's limit."""
    return msgspec.json.encode(list(_latest(list(results)))[::-1]).decode()


def tell_memory(results: Iterable[Brought]) -> str:
    """Return the results as the model is told them; empty when there are none."""
    told = [f"{one.tool} {one.input}\n{one.text}".strip() for one in results]
    return "\n\n".join([_HEAD, *told]) + "]" if told else ""


def _latest(results: list[Brought]) -> Iterator[Brought]:
    left, seen = LONGEST_MEMORY, set()
    for one in reversed(results):
        if (one.tool, one.input) in seen:
            continue  # the same file was read again: the later text counts
        seen.add((one.tool, one.input))
        text = one.text
        if len(text) > LONGEST_RESULT:
            text = f"{text[:LONGEST_RESULT]}\n[… {len(text) - LONGEST_RESULT:,} characters …]"
        left -= len(one.tool) + len(one.input) + len(text)
        if left < 0:
            return
        yield Brought(one.tool, one.input, text)

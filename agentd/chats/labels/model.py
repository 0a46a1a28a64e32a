"""The labels by which people sort their chats: few, named and coloured by hand.

A chat has labels by name. One that is no longer listed stays on the chat until it is taken
off: a hand edit of the list never changes a chat.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from agentd.core.errors import Conflict, NotFound, suggest_name

NAME_PATTERN = r"^[\w#](?:[\w .:/+#&-]{0,38}[\w#+])?$"
MAX_LABELS = 20
"""Labels that one chat can bear."""

LabelName: TypeAlias = Annotated[str, Meta(pattern=NAME_PATTERN)]
"""1 to 40 letters, digits, blanks and some signs, without a blank at either end."""
Color: TypeAlias = Annotated[str, Meta(pattern="^(#[0-9a-fA-F]{6})?$")]
"""A color such as ``#3366cc``; empty: none."""


class Label(Struct, frozen=True):
    """A name, and the colour in which it is shown."""

    name: LabelName
    color: Color = ""


class LabelList(Struct, frozen=True):
    """The content of ``labels.yml``; the order of its entries is the order of the labels."""

    labels: tuple[Label, ...] | None = None


def validate(listed: LabelList) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Find labels whose names differ from an earlier one's in case at most: where, and what."""
    seen: set[str] = set()
    for place, label in enumerate(listed.labels or ()):
        if label.name.casefold() in seen:
            yield ("labels", place, "name"), f'there is a label "{label.name}" already'
        seen.add(label.name.casefold())


def find_index(labels: Iterable[Label], name: str) -> int:
    """Return the index of the label with this name; ``NotFound``."""
    names = [label.name for label in labels]
    if name not in names:
        raise NotFound(f"No label is named {name[:100]!r}{suggest_name(name, names)}")
    return names.index(name)


def require_unused_name(labels: Iterable[Label], name: str) -> None:
    """Raise ``Conflict`` when a label has this name, in whatever case."""
    for label in labels:
        if label.name.casefold() == name.casefold():
            raise Conflict(f'There is a label "{label.name}" already')

"""The labels by which people sort their chats: few, named and coloured by hand.

A chat has labels by name. One that is no longer listed stays on the chat until it is taken
off: a hand edit of the list never changes a chat.
"""

import unicodedata
from collections.abc import Iterable, Iterator
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from agentd.core.errors import Conflict, NotFound, suggest_name
from agentd.core.folding import fold_text

MAX_LABELS = 20
"""Labels that one chat can have."""

LabelName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=40)]
"""Letters with their accents and vowel signs, digits, blanks and some signs; see
``validate_name``."""
Color: TypeAlias = Annotated[
    str, Meta(pattern="^(#[0-9a-fA-F]{6})?$", extra={"form": "a colour such as #3366cc"})
]
"""A color such as ``#3366cc``; empty: none."""


class Label(Struct, frozen=True):
    """A name, and the colour in which it is shown."""

    name: LabelName
    color: Color = ""

    def __post_init__(self) -> None:
        validate_name(self.name)


class LabelList(Struct, frozen=True):
    """The content of ``labels.yml``; the order of its entries is the order of the labels."""

    labels: tuple[Label, ...] | None = None


_WITHIN = frozenset(" .:/+#&-_\u200c\u200d")
"""The signs that a name may have within; the last two join or part letters of some scripts."""


def validate_name(name: str) -> None:
    """Raise ``ValueError`` for a text that can be no label's name."""
    kinds = [unicodedata.category(char)[0] for char in name]
    is_valid = (
        (kinds[0] in "LN" or name[0] in "_#")
        and (kinds[-1] in "LMN" or name[-1] in "_#+")
        and all(kind in "LMN" or char in _WITHIN for kind, char in zip(kinds, name, strict=True))
    )
    if not is_valid:
        raise ValueError(
            "name: expected letters, digits, blanks and . : / + # & - _, and a letter or digit at"
            " either end; also _ or #, and at the end +"
        )


def validate(listed: LabelList) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Find labels whose names look like an earlier one's, but for its case: where, and what."""
    seen: set[str] = set()
    for place, label in enumerate(listed.labels or ()):
        if fold_text(label.name) in seen:
            yield ("labels", place, "name"), f'there is a label "{label.name}" already'
        seen.add(fold_text(label.name))


def find_index(labels: Iterable[Label], name: str) -> int:
    """Return the index of the label with this name; ``NotFound``."""
    names = [label.name for label in labels]
    if name not in names:
        raise NotFound(f"No label is named {name[:100]!r}{suggest_name(name, names)}")
    return names.index(name)


def require_unused_name(labels: Iterable[Label], name: str) -> None:
    """Raise ``Conflict`` when a label has this name, in whatever case or Unicode form."""
    for label in labels:
        if fold_text(label.name) == fold_text(name):
            raise Conflict(f'There is a label "{label.name}" already')

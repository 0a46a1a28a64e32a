"""What counts as a secret, and what becomes of one that is found.

All patterns run in RE2, whose time is linear in the text, whatever the pattern: a rule that a
person wrote badly is slow for nobody. What RE2 cannot take (look-around, back-references) is
refused with a reason when the rules are read.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, TypeAlias

import re2
from msgspec import Meta, Struct

Mode: TypeAlias = Literal["hide", "block", "report"]
"""``hide``: a placeholder goes to the supplier; ``block``: the request is refused; ``report``: it
goes through and is told."""

RuleId: TypeAlias = Annotated[
    str,
    Meta(
        pattern="[a-z][a-z0-9-]{0,39}",
        extra={"form": "at most 40 small letters, digits and -, of which the first is a letter"},
    ),
]
Pattern: TypeAlias = Annotated[str, Meta(min_length=1, max_length=2000)]
Word: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]

SHORTEST = 6
"""Bytes. Text shorter than this is not looked at, and no registered value is shorter."""

_MEMORY = 16 * 2**20
_PLAIN = (
    "The quick brown fox jumps over the lazy dog, then it sleeps for 10 minutes.",
    "def total(items: list[int]) -> int: return sum(item * 2 for item in items)",
)
"""No secret is in these: a pattern that takes half of one means everything."""


class Allow(Struct, frozen=True, omit_defaults=True):
    """What is no secret although its form says so."""

    regexes: tuple[Pattern, ...] = ()
    """Any of them found in the value."""
    stopwords: tuple[Word, ...] = ()
    """Any of them in the value, in capitals or not."""


class Rule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One form of secrets. The same struct is the schema of ``secret-rules.yml``."""

    id: RuleId
    regex: Pattern
    description: Annotated[str, Meta(max_length=500)] = ""
    group: Annotated[int, Meta(ge=0, le=99)] = 0
    """Which group is the secret; 0: the first that took part, or all without groups."""
    keywords: tuple[Word, ...] = ()
    """One of them must be in the text, in capitals or not; none: the pattern alone decides."""
    entropy: Annotated[float, Meta(ge=0, le=8)] = 0.0
    """Bits per character that the secret has at least (Shannon)."""
    mode: Mode = "hide"
    enabled: bool = True
    allow: Allow = Allow()


class Value(Struct, frozen=True, kw_only=True):
    """A secret that is known exactly, found wherever it stands."""

    id: RuleId
    text: str
    mode: Mode = "hide"

    def __repr__(self) -> str:
        """Without the value, wherever it is printed."""
        return f"Value(id={self.id!r}, mode={self.mode!r})"


class Rules(Struct, frozen=True):
    """All that is looked for; where two find the same, the earlier one is told."""

    rules: tuple[Rule, ...] = ()
    values: tuple[Value, ...] = ()

    def including(self, values: Sequence[Value]) -> "Rules":
        """These and more exact values, such as the keys of our own channels."""
        return Rules(self.rules, (*self.values, *values))


def options(groups: bool, of_bytes: bool = False) -> Any:
    """How our patterns are compiled. Without groups it is only told where a match is."""
    made = re2.Options()
    if of_bytes:
        made.encoding = re2.Options.Encoding.LATIN1
    made.max_mem = _MEMORY
    made.log_errors = False
    made.never_capture = not groups
    return made


def compiled(regex: str, groups: bool = True, of_bytes: bool = False) -> Any:
    """A pattern of RE2 for UTF-8, or for any bytes. Raises ``ValueError`` if it cannot be one."""
    try:
        pattern = regex.encode() if of_bytes else regex
        return re2.compile(pattern, options(groups, of_bytes))
    except re2.error as error:
        raise ValueError(_reason(error)) from None
    finally:
        re2.purge()  # its own memory of patterns: some of ours hold secrets, and are large


def faults(rule: Rule) -> Iterator[tuple[str, str]]:
    """What is wrong with a rule: the field, and what it is."""
    for number, regex in enumerate(rule.allow.regexes):
        try:
            compiled(regex)
        except ValueError as error:
            yield "allow", f"regexes[{number}]: {error}"
    try:
        pattern = compiled(rule.regex)
    except ValueError as error:
        yield "regex", str(error)
        return
    if rule.group > pattern.groups:
        yield "group", f"is {rule.group}, but the regex has {pattern.groups} groups"
    if pattern.search(b""):
        yield "regex", "matches empty text, which is everywhere; demand at least one character"
    elif any(_takes_half(pattern, text.encode()) for text in _PLAIN):
        yield "regex", "matches ordinary text; make it say what is special about the secret"


def _takes_half(pattern: Any, text: bytes) -> bool:
    taken: int = sum(found.end() - found.start() for found in pattern.finditer(text))
    return taken * 2 > len(text)


def _reason(error: Exception) -> str:
    told = error.args[0] if error.args else ""
    text = told.decode("utf-8", "replace") if isinstance(told, bytes) else str(told)
    if re.search(r"\(\?(<?[=!]|P=)|\\[1-9]|invalid escape sequence: \\[1-9ZG]", text):
        text += " (look-around and back-references are not taken: their time has no bound)"
    return f"is no pattern of RE2: {text}"

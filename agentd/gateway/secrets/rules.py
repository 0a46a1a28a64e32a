"""Rules for secrets, and the treatment of matches.

All patterns run in RE2, whose time is linear in the text whatever the pattern, so a badly written
rule cannot slow down requests. What RE2 does not support (look-around, back-references) is refused
with a reason when the rules are loaded. The library is loaded with the first pattern, which a
daemon that never masks anything does not compile.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

Mode: TypeAlias = Literal["hide", "block", "report"]
"""``hide``: a placeholder goes to the supplier; ``block``: the request is refused; ``report``: it
passes and is reported."""

RuleId: TypeAlias = Annotated[
    str,
    Meta(
        pattern="[a-z][a-z0-9-]{0,39}",
        extra={
            "form": "at most 40 lower-case letters, digits and -, of which the first is a letter"
        },
    ),
]
Pattern: TypeAlias = Annotated[str, Meta(min_length=1, max_length=2000)]
Word: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]

SHORTEST = 6
"""Bytes. Shorter text is not scanned, and no registered value is shorter."""

_MEMORY = 16 * 2**20
_PLAIN = (
    "The quick brown fox jumps over the lazy dog, then it sleeps for 10 minutes.",
    "def total(items: list[int]) -> int: return sum(item * 2 for item in items)",
)
"""Texts that contain no secret: a pattern that matches half of one matches everything."""


class Allow(Struct, frozen=True, omit_defaults=True):
    """Values that are not secrets although they look like some."""

    regexes: tuple[Pattern, ...] = ()
    """Any of them found in the value."""
    stopwords: tuple[Word, ...] = ()
    """Any of them in the value, in capitals or not."""


class SecretPattern(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A pattern of secrets. The same struct is the schema of ``secret-rules.yml``."""

    id: RuleId
    regex: Pattern
    description: Annotated[str, Meta(max_length=500)] = ""
    group: Annotated[int, Meta(ge=0, le=99)] = 0
    """The group that is the secret; 0: the first that matched, or the match without groups."""
    keywords: tuple[Word, ...] = ()
    """Words of which one must be in the text, in any case; none: the pattern alone decides."""
    entropy: Annotated[float, Meta(ge=0, le=8)] = 0.0
    """Bits per character that the secret has at least (Shannon)."""
    mode: Mode = "hide"
    enabled: bool = True
    allow: Allow = Allow()


class ExactSecret(Struct, frozen=True, kw_only=True):
    """A secret known exactly, found wherever it stands."""

    id: RuleId
    text: str
    mode: Mode = "hide"

    def __repr__(self) -> str:
        """Omit the value."""
        return f"ExactSecret(id={self.id!r}, mode={self.mode!r})"


class SecretRules(Struct, frozen=True):
    """All rules; where two find the same secret, the earlier one is reported."""

    rules: tuple[SecretPattern, ...] = ()
    values: tuple[ExactSecret, ...] = ()

    def with_values(self, values: Sequence[ExactSecret]) -> "SecretRules":
        """Return these rules with more exact values, such as the keys of our own channels."""
        return SecretRules(self.rules, (*self.values, *values))


def make_options(groups: bool, of_bytes: bool = False) -> Any:
    """Return the options of our patterns; without groups only matches are located."""
    import re2  # noqa: PLC0415 - see above

    made = re2.Options()
    if of_bytes:
        made.encoding = re2.Options.Encoding.LATIN1
    made.max_mem = _MEMORY
    made.log_errors = False
    made.never_capture = not groups
    return made


def compile_regex(regex: str, groups: bool = True, of_bytes: bool = False) -> Any:
    """Compile an RE2 pattern for UTF-8, or for bytes. Raises ``ValueError`` if it is invalid."""
    import re2  # noqa: PLC0415 - see above

    try:
        pattern = regex.encode() if of_bytes else regex
        return re2.compile(pattern, make_options(groups, of_bytes))
    except re2.error as error:
        raise ValueError(_get_reason(error)) from None
    finally:
        re2.purge()  # re2's cache: some patterns hold secrets, and are large


def find_faults(rule: SecretPattern) -> Iterator[tuple[str, str]]:
    """Yield the problems of a rule, each with its field."""
    for number, regex in enumerate(rule.allow.regexes):
        try:
            compile_regex(regex)
        except ValueError as error:
            yield "allow", f"regexes[{number}]: {error}"
    try:
        pattern = compile_regex(rule.regex)
    except ValueError as error:
        yield "regex", str(error)
        return
    if rule.group > pattern.groups:
        yield "group", f"is {rule.group}, but the regex has {pattern.groups} groups"
    if pattern.search(b""):
        yield "regex", "matches empty text, which is everywhere; demand at least one character"
    elif any(_may_split_characters(pattern, text.encode()) for text in _PLAIN):
        yield "regex", "matches ordinary text; make it say what is special about the secret"


def _may_split_characters(pattern: Any, text: bytes) -> bool:
    taken: int = sum(found.end() - found.start() for found in pattern.finditer(text))
    return taken * 2 > len(text)


def _get_reason(error: Exception) -> str:
    detail = error.args[0] if error.args else ""
    text = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(detail)
    if re.search(r"\(\?(<?[=!]|P=)|\\[1-9]|invalid escape sequence: \\[1-9ZG]", text):
        text += " (look-around and back-references are not taken: their time has no bound)"
    return f"is not a valid RE2 pattern: {text}"

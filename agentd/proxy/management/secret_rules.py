"""The rules of hiding as they are managed: built-in ones, patterns and exact values alike."""

from collections.abc import Callable
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, structs

from agentd.errors import BadRequest
from agentd.proxy.channel import SecretText
from agentd.proxy.masking import kept, masked, refuse_reference
from agentd.proxy.secrets.hiding import Finding, Hiding
from agentd.proxy.secrets.rules import (
    SHORTEST,
    Allow,
    Mode,
    Rule,
    RuleId,
    Rules,
    Value,
    Word,
    faults,
)

Kind: TypeAlias = Literal["built-in", "pattern", "value"]

SAMPLE = "test"
"""No rule can be called so: it is the address at which samples are looked through."""


class SecretRule(Struct, frozen=True, kw_only=True):
    """One thing that counts as a secret: a form (``regex``), or an exact ``value``."""

    id: RuleId
    """Its name."""
    kind: Kind = "pattern"
    """Built in, a form, or an exact value."""
    mode: Mode = "hide"
    """What becomes of what it finds: hidden, a reason to refuse the request, or only told."""
    enabled: bool = True
    """Whether it is used."""
    description: Annotated[str, Meta(max_length=500)] = ""
    """What it is for."""
    regex: Annotated[str, Meta(max_length=2000)] = ""
    """The form of the secret."""
    group: Annotated[int, Meta(ge=0, le=99)] = 0
    """Which group of the form is the secret; 0: all of it."""
    keywords: tuple[Word, ...] = ()
    """Words of which one must be near; none: it is looked for everywhere."""
    entropy: Annotated[float, Meta(ge=0, le=8)] = 0.0
    """How random it must look, in bits a character; 0: it need not."""
    allow: Allow = Allow()
    """What is no secret though it looks so."""
    value: SecretText = ""
    """The exact secret; shown masked."""

    def __repr__(self) -> str:
        """Without the value, wherever it is printed."""
        return f"SecretRule({self.id!r}, {self.kind!r}, {self.mode!r})"


_SHARED = tuple(name for name in Rule.__struct_fields__)


def of_rule(rule: Rule, kind: Kind = "pattern") -> SecretRule:
    """A pattern, or one that is built in."""
    return SecretRule(kind=kind, **{name: getattr(rule, name) for name in _SHARED})


def pattern(entry: SecretRule) -> Rule:
    """The pattern of an entry of that kind."""
    return Rule(**{name: getattr(entry, name) for name in _SHARED})


def shown(entry: SecretRule) -> SecretRule:
    """As it may be told to anybody who manages."""
    return structs.replace(entry, value=masked(entry.value))


def made(entry: SecretRule) -> SecretRule:
    """What a new one is, by what is told of it. ``BadRequest`` tells what it cannot be."""
    if entry.id == SAMPLE:
        raise BadRequest(f'No rule can be called "{SAMPLE}"')
    kept(entry.value, "")
    refuse_reference(entry.value)
    return _fitting(structs.replace(entry, kind="value" if entry.value else "pattern"))


def revised(new: SecretRule, old: SecretRule) -> SecretRule:
    """What ``old`` becomes when ``new``, in which the value may be masked, is written instead."""
    refuse_reference(new.value, old.value)
    after = structs.replace(new, value=kept(new.value, old.value))
    if old.kind == "built-in" and old != structs.replace(after, mode=old.mode, enabled=old.enabled):
        raise BadRequest("Of a built-in rule only mode and enabled can be changed")
    return _fitting(after)


def _fitting(entry: SecretRule) -> SecretRule:
    bare = SecretRule(id=entry.id, kind=entry.kind, mode=entry.mode, value=entry.value)
    if entry.kind == "value":
        if len(entry.value.encode()) < SHORTEST:
            raise BadRequest(f"A value has at least {SHORTEST} bytes: a shorter one is everywhere")
        if entry != bare:
            raise BadRequest("A value has nothing but its mode; delete it to switch it off")
    elif entry.value:
        raise BadRequest("A rule has either a regex or a value")
    elif not entry.regex:
        raise BadRequest("A regex or a value is missing")
    else:
        wrong = "\n".join(f"{field}: {what}" for field, what in faults(pattern(entry)))
        if wrong:
            raise BadRequest("The rule cannot be so", wrong)
    return entry


class Samples:
    """Looks through samples, by the rules that hold, or by those and one more.

    ``rules`` tells them; ``seed`` is what placeholders are made with.
    """

    def __init__(self, rules: Callable[[], Rules], seed: bytes) -> None:
        self._rules = rules
        self._seed = seed
        self._known: tuple[Rules | None, Hiding | None] = (None, None)

    def find(self, text: str, candidate: SecretRule | None = None) -> tuple[Finding, ...]:
        """What would be found, and where; never what it is. Takes a while, in any thread."""
        rules = self._rules()
        if candidate:
            return Hiding(_with(rules, candidate), self._seed).sample(text)
        known, hiding = self._known
        if hiding is None or known is not rules:
            hiding = Hiding(rules, self._seed)
            self._known = (rules, hiding)
        return hiding.sample(text)


def _with(rules: Rules, entry: SecretRule) -> Rules:
    others = tuple(rule for rule in rules.rules if rule.id != entry.id)
    values = tuple(value for value in rules.values if value.id != entry.id)
    if entry.kind == "value":
        told = Value(id=entry.id, text=entry.value, mode=entry.mode)
        return Rules(others, (told, *values))
    return Rules((pattern(entry), *others), values)

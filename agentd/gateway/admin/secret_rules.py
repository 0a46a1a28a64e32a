"""Secret rules as managed: built-in ones, patterns and exact values in one form."""

from collections.abc import Callable
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, structs

from agentd.core.errors import BadRequest
from agentd.core.secret_text import SecretText
from agentd.gateway.channels.masking import mask, refuse_reference, unmask
from agentd.gateway.secrets.masker import Finding, SecretMasker
from agentd.gateway.secrets.rules import (
    SHORTEST,
    Allow,
    ExactSecret,
    Mode,
    RuleId,
    SecretPattern,
    SecretRules,
    Word,
    find_faults,
)

RuleKind: TypeAlias = Literal["built-in", "pattern", "value"]

RESERVED_ID = "test"
"""No rule can have this id: it is the path of the test endpoint."""


class SecretRule(Struct, frozen=True, kw_only=True):
    """A rule for secrets: a pattern (``regex``) or an exact ``value``."""

    id: RuleId
    """Id of the rule."""
    kind: RuleKind = "pattern"
    """Built in, a pattern, or an exact value."""
    mode: Mode = "hide"
    """The treatment of a match: it is masked, blocks the request, or is only reported."""
    enabled: bool = True
    """True if the rule is used."""
    description: Annotated[str, Meta(max_length=500)] = ""
    """Purpose of the rule."""
    regex: Annotated[str, Meta(max_length=2000)] = ""
    """The pattern of the secret."""
    group: Annotated[int, Meta(ge=0, le=99)] = 0
    """The group of the pattern that is the secret; 0: the whole match."""
    keywords: tuple[Word, ...] = ()
    """Words of which one must be nearby; empty: no condition."""
    entropy: Annotated[float, Meta(ge=0, le=8)] = 0.0
    """Minimum entropy in bits per character; 0: no condition."""
    allow: Allow = Allow()
    """Matches that are not secrets."""
    value: SecretText = ""
    """The exact secret; masked in responses."""

    def __repr__(self) -> str:
        """Return a representation without the value."""
        return f"SecretRule({self.id!r}, {self.kind!r}, {self.mode!r})"


_SHARED = tuple(name for name in SecretPattern.__struct_fields__)


def from_rule(rule: SecretPattern, kind: RuleKind = "pattern") -> SecretRule:
    """Convert a pattern or built-in rule."""
    return SecretRule(kind=kind, **{name: getattr(rule, name) for name in _SHARED})


def to_rule(entry: SecretRule) -> SecretPattern:
    """Convert back to a pattern rule."""
    return SecretPattern(**{name: getattr(entry, name) for name in _SHARED})


def mask_rule(entry: SecretRule) -> SecretRule:
    """Return the rule with its value masked."""
    return structs.replace(entry, value=mask(entry.value))


def create_rule(entry: SecretRule) -> SecretRule:
    """Return a new rule, validated. ``BadRequest`` says what is invalid."""
    if entry.id == RESERVED_ID:
        raise BadRequest(f'The id "{RESERVED_ID}" is reserved')
    unmask(entry.value, "")
    refuse_reference(entry.value)
    return _validate(structs.replace(entry, kind="value" if entry.value else "pattern"))


def apply_edit(new: SecretRule, old: SecretRule) -> SecretRule:
    """Return ``new`` with a masked value replaced by that of ``old``, validated."""
    refuse_reference(new.value, old.value)
    after = structs.replace(new, value=unmask(new.value, old.value))
    if old.kind == "built-in" and old != structs.replace(after, mode=old.mode, enabled=old.enabled):
        raise BadRequest("Only mode and enabled of a built-in rule can be changed")
    return _validate(after)


def _validate(entry: SecretRule) -> SecretRule:
    bare = SecretRule(id=entry.id, kind=entry.kind, mode=entry.mode, value=entry.value)
    if entry.kind == "value":
        if len(entry.value.encode()) < SHORTEST:
            raise BadRequest(
                f"A value needs at least {SHORTEST} bytes: shorter ones match everywhere"
            )
        if entry != bare:
            raise BadRequest("A value rule has only a mode; delete it to disable it")
    elif entry.value:
        raise BadRequest("A rule has either a regex or a value")
    elif not entry.regex:
        raise BadRequest("A regex or a value is missing")
    else:
        wrong = "\n".join(f"{field}: {what}" for field, what in find_faults(to_rule(entry)))
        if wrong:
            raise BadRequest("Invalid rule", wrong)
    return entry


class SampleScanner:
    """Scans samples with the current rules and optionally one more.

    ``rules`` returns the current rules; placeholders are derived from ``seed``.
    """

    def __init__(self, rules: Callable[[], SecretRules], seed: bytes) -> None:
        self._rules = rules
        self._seed = seed
        self._known: tuple[SecretRules | None, SecretMasker | None] = (None, None)

    def find(self, text: str, candidate: SecretRule | None = None) -> tuple[Finding, ...]:
        """Return the findings, without values. CPU-bound; may be called from any thread."""
        rules = self._rules()
        if candidate:
            return SecretMasker(_add_rule(rules, candidate), self._seed).find_in_sample(text)
        known, masker = self._known
        if masker is None or known is not rules:
            masker = SecretMasker(rules, self._seed)
            self._known = (rules, masker)
        return masker.find_in_sample(text)


def _add_rule(rules: SecretRules, entry: SecretRule) -> SecretRules:
    others = tuple(rule for rule in rules.rules if rule.id != entry.id)
    values = tuple(value for value in rules.values if value.id != entry.id)
    if entry.kind == "value":
        exact = ExactSecret(id=entry.id, text=entry.value, mode=entry.mode)
        return SecretRules(others, (exact, *values))
    return SecretRules((to_rule(entry), *others), values)

"""Masks secrets in requests: each is replaced by a placeholder before a supplier sees it.

A conversation is sent again with every request. Its elements are remembered by a hash of their
bytes, so that only new ones are scanned; and nothing but the secrets' own bytes changes, so that a
supplier's prompt cache still recognizes the conversation.
"""

import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import chain, groupby, repeat
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from agentd.core.errors import BadRequest
from agentd.core.lru_cache import LruCache
from agentd.gateway.secrets.body_redaction import redact_secrets
from agentd.gateway.secrets.builtin import BUILT_IN
from agentd.gateway.secrets.detect import LazyDetector, SecretValues
from agentd.gateway.secrets.escape_layers import decode_identity
from agentd.gateway.secrets.json_strings import IDENTIFIERS, STRUCTURE, StringSpan, find_pointers
from agentd.gateway.secrets.known_values import MOST as MOST_LEARNT
from agentd.gateway.secrets.known_values import KnownSecret, KnownSecrets
from agentd.gateway.secrets.placeholder import Placeholders
from agentd.gateway.secrets.prefix_cache import PrefixCache
from agentd.gateway.secrets.rules import Mode, SecretRules
from agentd.gateway.secrets.scan import Scanner, SecretSpan
from agentd.gateway.secrets.split_body import BodyPart, split_body, split_incrementally
from agentd.llm.endpoint import ChannelDialect

MOST_ELEMENTS = 200_000
"""Elements that are remembered, of all keys together: ``_ELEMENT_BYTES`` each ..."""

MOST_ELEMENT_BYTES = 64 * 2**20
"""... and what is kept of the secrets in them."""

MOST_KEYS = 1000
"""Keys whose secrets are remembered."""

_BUILT_IN = frozenset(rule.id for rule in BUILT_IN)
_ELEMENT_BYTES = 300
_SHORT_NAME = 200
_PASSES = 8
"""The most passes over one request: secrets learnt in one pass need another."""


class Finding(Struct, frozen=True, omit_defaults=True):
    """A secret that was found, without any part of its value."""

    rule: str
    mode: Mode
    length: int
    """Characters."""
    digest: str
    """The same for the same secret, on this installation."""
    place: str = ""
    """The JSON pointer of the string, in a request."""
    offset: int = 0
    """The number of characters before it, in a sample ..."""
    line: int = 0
    """... and its line, from 1."""


class MaskedRequest(Struct, frozen=True):
    """A request with its secrets masked."""

    body: bytes
    secrets: Mapping[str, str] = {}
    """The secrets behind the placeholders that the reply may contain."""
    found: Mapping[str, int] = {}
    """The number of secrets found in new text, by rule."""
    blocked: str = ""
    """The rule that forbids the request; empty if none does."""
    findings: tuple[Finding, ...] = ()
    """The findings in new text."""
    learnt: tuple[KnownSecret, ...] = ()
    """The secrets that were masked for the first time for this key."""

    def __repr__(self) -> str:
        """Omit body and secrets."""
        return (
            f"MaskedRequest({len(self.body)} bytes, found={self.found!r}, blocked={self.blocked!r})"
        )


class _Element(Struct):
    """The cached result of an element: the replacement of its bytes by placeholders."""

    seen: int
    """The key's mark up to which its secrets were searched here."""
    spans: tuple[tuple[int, int, str], ...] = ()
    secrets: Mapping[str, str] = {}
    blocked: str = ""

    @property
    def weight(self) -> int:
        """The approximate memory that it takes, in bytes."""
        return _ELEMENT_BYTES + 250 * len(self.spans) + sum(map(len, self.secrets.values()))


_Name: TypeAlias = tuple[str, str, bytes]
"""The identity of an element: the key's id, the member that it is the value of, and its hash."""


class _Fresh(NamedTuple):
    part: BodyPart
    element: _Element
    structure: list[StringSpan]
    """The names and identifiers in it, which are scanned last."""


class _MaskingRun:
    """The masking of one request."""

    def __init__(self, body: bytes, key_id: str) -> None:
        self.body = body
        self.key_id = key_id
        self.left = math.inf
        """Bytes that may still be looked through."""
        self.found: dict[str, int] = {}
        self.findings: list[Finding] = []
        self.learnt: list[KnownSecret] = []
        self.mark = 0
        """The key's, when this pass began; what is learnt from then on is for the next one."""
        self.scanner: Scanner
        """The scanner of this pass."""
        self.fresh: dict[_Name, _Fresh] = {}
        """The elements scanned for the first time in this pass."""
        self.placeholders: dict[bytes, str] = {}
        """The placeholders of its secrets: each is learnt once, even if too many to remember."""

    def spend(self, size: int) -> None:
        """Count bytes that are about to be scanned; raises ``MaskingUnfinished``."""
        self.left -= size
        if self.left < 0:
            raise MaskingUnfinished(self)

    def find_in_strings(
        self,
    ) -> Iterator[tuple[_Fresh, Iterator[tuple[StringSpan, list[SecretSpan]]]]]:
        """Look at the strings in all that is new together, which is much quicker than one by one.

        Yields what has secrets in it, with them.
        """
        fresh = list(self.fresh.values())
        starts = [one.part.start for one in fresh]
        every = self.scanner.scan_strings(self.body, ((one.part, one.structure) for one in fresh))
        for number, found in groupby(every, lambda one: bisect_right(starts, one[0].start) - 1):
            yield fresh[number], found


class MaskingUnfinished(Exception):
    """Raised when more must be scanned than allowed; ``mask`` continues with it as ``begun``."""

    def __init__(self, run: _MaskingRun) -> None:
        super().__init__("more to look through")
        self.run = run


class SecretMasker:
    """Masks secrets and remembers what it masked. One for the whole daemon, usable in any thread.

    ``seed``: 32 random bytes of this installation, from which placeholders are derived.
    """

    def __init__(self, rules: SecretRules, seed: bytes) -> None:
        self._placeholders = Placeholders(seed)
        self._elements: LruCache[_Name, _Element] = LruCache(MOST_ELEMENTS, MOST_ELEMENT_BYTES)
        self._prefixes: PrefixCache[_Element] = PrefixCache()
        self._counted: LruCache[bytes, bool] = LruCache(MOST_ELEMENTS)
        self._harmless: LruCache[str, bool] = LruCache(MOST_KEYS)
        """Names of members, and headers, that hold no secret."""
        self._keys: LruCache[str, KnownSecrets] = LruCache(MOST_KEYS)
        self._rules = rules
        self.detector = LazyDetector(rules)
        """Have it compiled in a thread before ``mask`` is called on the event loop."""

    @property
    def rules(self) -> SecretRules:
        """The rules for secrets. A change applies from the next request on."""
        return self._rules

    @rules.setter
    def rules(self, rules: SecretRules) -> None:
        """Set other rules; the next request has their patterns compiled."""
        if rules == self._rules:
            return
        self.detector = LazyDetector(rules)
        self._rules = rules
        self._elements.clear()
        self._prefixes.clear()
        self._harmless.clear()
        masking = _MaskingRules(rules)
        for key_id, known in self._keys.items():
            self._keys.put(key_id, known.select(masking.is_masked))

    def redact_body(self, body: bytes, dialect: ChannelDialect, key_id: str) -> bytes:
        """Return a request or response for storage, without any secret that a rule finds."""
        _, looks = self._get_known(key_id).get_matcher()
        scanner = Scanner(self.detector.get(), self._placeholders, key_id, looks)

        return redact_secrets(
            scanner, lambda s: self._placeholders.create(s.value, s.rule, key_id), dialect, body
        )

    def remember(self, secrets: Iterable[KnownSecret]) -> None:
        """Remember what ``MaskedRequest.learnt`` reported, unless no rule masks it any more."""
        masking = _MaskingRules(self._rules)
        for secret in secrets:
            value = secret.value.encode("utf-8", "surrogatepass")
            if masking.is_masked(secret.rule, value):
                placeholder = self._placeholders.create(value, secret.rule, secret.key)
                self._get_known(secret.key).add(value, placeholder, secret.rule)

    def mask(
        self,
        body: bytes,
        dialect: ChannelDialect,
        key_id: str,
        *,
        most: float = math.inf,
        begun: MaskingUnfinished | None = None,
    ) -> MaskedRequest:
        """Return a request with its secrets masked; without any, ``body`` itself.

        Raises ``BadRequest`` if it is not a JSON object, or repeats a member; and
        ``MaskingUnfinished`` when more than ``most`` bytes would have to be scanned. Pass that
        as ``begun`` to continue.
        """
        shared = self._prefixes.find_shared(key_id, body)
        run = begun.run if begun else _MaskingRun(body, key_id)
        run.left = most
        known = self._get_known(key_id)
        met = shared.elements
        taken = split_incrementally(body, shared.before, len(met)) if met else split_body(body)
        if met and taken.parts[len(met) - 1 : len(met)] != [shared.before.parts[len(met) - 1]]:
            met = ()  # a list became too long to be taken apart
        for name in taken.names:
            self.require_no_secret("The name of a member", name)
        elements = self._scan(run, taken.parts, known, met)
        secrets: dict[str, str] = {}
        pieces: list[bytes] = []
        at, blocked, weight = 0, "", _ELEMENT_BYTES * len(elements)
        for part, element in zip(taken.parts, elements, strict=True):
            blocked = blocked or element.blocked
            if not element.spans:
                continue
            weight += element.weight - _ELEMENT_BYTES
            secrets.update(element.secrets)
            for start, end, placeholder in element.spans:
                pieces += (body[at : part.start + start], placeholder.encode())
                at = part.start + end
        first = shared.find_placeholder(body)
        self._prefixes.store(key_id, body, taken, elements, first, weight)
        hidden = b"".join((*pieces, body[at:])) if pieces else body
        if first >= 0 or _uses_stored_conversation(body, dialect):
            secrets = {**known.get_values(), **secrets}
        learnt = tuple(run.learnt[-MOST_LEARNT:])
        return MaskedRequest(hidden, secrets, run.found, blocked, tuple(run.findings), learnt)

    def _scan(
        self, run: _MaskingRun, split: list[BodyPart], known: KnownSecrets, met: Sequence[_Element]
    ) -> list[_Element]:
        """Return the findings in each part, including secrets learnt from other parts.

        ``met`` are the elements of the first ones in the request before; only where one of them
        is old it is looked up.
        """
        for _ in range(_PASSES):
            run.mark, looks = known.get_matcher()
            run.scanner = Scanner(self.detector.get(), self._placeholders, run.key_id, looks)
            run.fresh = {}
            before = chain(met, repeat(None))
            elements = [
                old if old and old.seen >= run.mark else self._get_element(run, part, known)
                for part, old in zip(split, before, strict=False)
            ]
            for (part, element, _), found in run.find_in_strings():
                self._add_spans(run, part, element, found, known)
            self._scan_structure(run, known)
            if known.mark == run.mark:
                break
        return elements

    def require_no_secret(self, what: str, text: str) -> None:
        """Raise ``BadRequest`` for a secret where no placeholder is possible, in ``what``.

        One that blocks a request is as bad, and one that is only reported is let through.
        """
        if self._harmless.get(text):
            return
        for hit in self.detector.get().find(text.encode("utf-8", "surrogatepass")):
            if hit.mode != "report":
                raise BadRequest(_format_refusal(what, hit.rule))
        if len(text) < _SHORT_NAME:
            self._harmless.put(text, True)

    def find_in_sample(self, text: str) -> tuple[Finding, ...]:
        """Return the findings in a text with their positions. Stores nothing."""
        raw = text.encode("utf-8", "surrogatepass")
        scanner = Scanner(self.detector.get(), self._placeholders, "", None)
        return tuple(
            _build_finding(
                self._placeholders,
                spot,
                offset=_count_characters(raw[: spot.start]),
                line=_get_line_number(raw, spot.start),
            )
            for spot in scanner.scan_text(raw)
        )

    def _get_known(self, key_id: str) -> KnownSecrets:
        if (known := self._keys.get(key_id)) is None:
            self._keys.put(key_id, known := KnownSecrets())
        return known

    def _get_element(self, run: _MaskingRun, part: BodyPart, known: KnownSecrets) -> _Element:
        """Return the cached element of a part, or a new one that is not scanned yet."""
        raw = memoryview(run.body)[part.start : part.end]
        name = (run.key_id, part.name, blake2b(raw, digest_size=16).digest())
        fresh = run.fresh.get(name)
        element = fresh.element if fresh else self._elements.get(name)
        if element is not None and element.seen < run.mark:
            run.spend(len(raw))
            if known.may_hold(bytes(raw), element.seen):
                element = None
            else:
                element.seen = run.mark
        if element is None:
            run.spend(len(raw))
            element = _Element(run.mark)
            run.fresh[name] = _Fresh(part, element, [])
        return element

    def _scan_structure(self, run: _MaskingRun, known: KnownSecrets) -> None:
        """Look at the names and identifiers in what is new, too; then it is remembered."""
        fresh, scanner = run.fresh.values(), run.scanner
        every = chain.from_iterable(one.structure for one in fresh)
        if fresh and not scanner.is_harmless(run.body, every):
            for part, element, structure in fresh:
                found = scanner.scan_structure(run.body, structure)
                self._add_spans(run, part, element, found, known)
        for name, (_, element, _) in run.fresh.items():
            self._elements.put(name, element, element.weight)

    def _add_spans(
        self,
        run: _MaskingRun,
        part: BodyPart,
        element: _Element,
        found: Iterable[tuple[StringSpan, list[SecretSpan]]],
        known: KnownSecrets,
    ) -> None:
        """Add the spans found in an element's part."""
        spans: list[tuple[int, int, str]] = []
        secrets: dict[str, str] = {}
        new_spans: dict[int, list[SecretSpan]] = {}
        names: list[int] = []
        for literal, spots in found:
            if literal.is_name:
                names.append(literal.start - part.start)
            if self._is_new(run, literal):
                new_spans[literal.start - part.start] = spots
            for spot in spots:
                if spot.mode == "block":
                    element.blocked = element.blocked or spot.rule
                elif spot.mode == "hide" and _is_fixed(literal):
                    raise BadRequest(_format_refusal(literal.name.decode(), spot.rule))
                elif spot.mode == "hide":
                    placeholder = self._assign_placeholder(spot, run, known)
                    secrets[placeholder] = decode_identity(spot.value)
                    spans.append((spot.start - part.start, spot.end - part.start, placeholder))
        if spans:
            element.spans = tuple(sorted((*element.spans, *spans)))
            element.secrets = {**element.secrets, **secrets}
        if new_spans:
            self._count_findings(run, part, new_spans, names)

    def _assign_placeholder(self, spot: SecretSpan, run: _MaskingRun, known: KnownSecrets) -> str:
        placeholder = run.placeholders.get(spot.value) or known.get_placeholder(spot.value)
        if not placeholder:
            placeholder = self._placeholders.create(spot.value, spot.rule, run.key_id)
            placeholder = known.add(spot.value, placeholder, spot.rule)
            if known.get_placeholder(spot.value):
                value = spot.value.decode("utf-8", "surrogatepass")
                run.learnt.append(KnownSecret(run.key_id, spot.rule, value))
        run.placeholders[spot.value] = placeholder
        return placeholder

    def _is_new(self, run: _MaskingRun, literal: StringSpan) -> bool:
        """Return whether to count the findings of a string, which was not scanned before."""
        content = run.body[literal.start : literal.end]
        digest = blake2b(content, digest_size=16, key=run.key_id.encode()[:64]).digest()
        seen = self._counted.get(digest)
        self._counted.put(digest, True)
        return not seen

    def _count_findings(
        self,
        run: _MaskingRun,
        part: BodyPart,
        new_spans: Mapping[int, list[SecretSpan]],
        names: Collection[int],
    ) -> None:
        """Count the findings in some strings of a part, given by their beginnings.

        So it is of the members' ``names`` in it that hold secrets themselves.
        """
        places = find_pointers(run.body[part.start : part.end], new_spans, names)
        for start, spots in new_spans.items():
            place = part.place + places.get(start, "")
            for spot in spots:
                run.found[spot.rule] = run.found.get(spot.rule, 0) + 1
                run.findings.append(_build_finding(self._placeholders, spot, place=place))


def _build_finding(
    placeholders: Placeholders,
    spot: SecretSpan,
    place: str = "",
    offset: int = 0,
    line: int = 0,
) -> Finding:
    size = len(decode_identity(spot.value))
    digest = placeholders.digest(spot.value)
    return Finding(spot.rule, spot.mode, size, digest, place, offset, line)


def _uses_stored_conversation(body: bytes, dialect: ChannelDialect) -> bool:
    """Return whether the supplier stores the conversation, so that the request omits it."""
    if dialect != "openai-responses":
        return False
    return b'"previous_response_id"' in body or b'"conversation"' in body


class _MaskingRules:
    """The rules that do more than report, as of now, for secrets that they found before."""

    def __init__(self, rules: SecretRules) -> None:
        masking = [rule for rule in rules.rules if rule.enabled and rule.mode != "report"]
        values = (value.id for value in rules.values if value.mode != "report")
        self._ids = frozenset((*(rule.id for rule in masking), *values))
        self._values = {  # those of built-in rules never change
            rule.id: SecretValues(rule) for rule in masking if rule.id not in _BUILT_IN
        }

    def is_masked(self, rule: str, value: bytes) -> bool:
        """Return whether a value that a rule once took for a secret still is one for it."""
        return rule in self._ids and (rule not in self._values or value in self._values[rule])


def _is_fixed(literal: StringSpan) -> bool:
    """Return whether a supplier must recognize the string, which thus cannot be masked."""
    if literal.free or literal.is_name:
        return False
    return literal.name in STRUCTURE and literal.name not in IDENTIFIERS | {b"name"}


def _format_refusal(what: str, rule: str) -> str:
    return f'{what} holds a secret (rule "{rule}"), which cannot be masked there; remove it'


def _count_characters(text: bytes) -> int:
    return len(text.decode("utf-8", "replace"))


def _get_line_number(text: bytes, at: int) -> int:
    return text.count(b"\n", 0, at) + 1

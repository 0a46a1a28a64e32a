"""Requests without their secrets: each is replaced by a placeholder before a supplier sees it.

A conversation is sent anew with every request. Its elements are remembered by a hash of their
bytes, so that only what is new is looked through; and nothing but the secrets' own bytes is
changed, so that a supplier knows the conversation again.
"""

import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import chain, groupby, repeat
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from agentd.errors import BadRequest
from agentd.proxy.channel import ChannelDialect
from agentd.proxy.secrets.detect import Detector
from agentd.proxy.secrets.growth import Growth
from agentd.proxy.secrets.keeping import without_secrets
from agentd.proxy.secrets.known import MOST as MOST_LEARNT
from agentd.proxy.secrets.known import Remembered, Secret
from agentd.proxy.secrets.placeholder import Placeholders
from agentd.proxy.secrets.recent import Recent
from agentd.proxy.secrets.request import Part, apart, grown
from agentd.proxy.secrets.rules import Mode, Rules
from agentd.proxy.secrets.scan import Scanner, Spot
from agentd.proxy.secrets.walk import IDENTIFIERS, STRUCTURE, Literal, pointers
from agentd.proxy.secrets.writing import secret_of

MOST_ELEMENTS = 200_000
"""Elements that are remembered, of all keys together: ``_ELEMENT_BYTES`` each ..."""

MOST_ELEMENT_BYTES = 64 * 2**20
"""... and what is kept of the secrets in them."""

MOST_KEYS = 1000
"""Keys whose secrets are remembered."""

_ELEMENT_BYTES = 300
_SHORT_NAME = 200
_PASSES = 8
"""Of one request: a pass more for secrets that were learnt in the one before."""


class Finding(Struct, frozen=True, omit_defaults=True):
    """A secret that was found, without anything of it."""

    rule: str
    mode: Mode
    length: int
    """Characters."""
    digest: str
    """The same for the same secret, on this installation."""
    place: str = ""
    """In a request: the JSON pointer of the string."""
    offset: int = 0
    """In a sample: characters before it ..."""
    line: int = 0
    """... and its line, from 1."""


class Hidden(Struct, frozen=True):
    """A request without its secrets."""

    body: bytes
    secrets: Mapping[str, str] = {}
    """What stands behind the placeholders that the reply may hold."""
    found: Mapping[str, int] = {}
    """How many secrets were found in new text, by the rule."""
    blocked: str = ""
    """The rule that forbids the request; empty: none does."""
    findings: tuple[Finding, ...] = ()
    """Those in new text."""
    learnt: tuple[Secret, ...] = ()
    """Those that were never hidden for this key before."""

    def __repr__(self) -> str:
        """Without body and secrets, wherever it is printed."""
        return f"Hidden({len(self.body)} bytes, found={self.found!r}, blocked={self.blocked!r})"


class _Element(Struct):
    """What is remembered of an element: which of its bytes become which placeholder."""

    seen: int
    """The key's mark up to which its secrets were looked for here."""
    spans: tuple[tuple[int, int, str], ...] = ()
    secrets: Mapping[str, str] = {}
    blocked: str = ""

    @property
    def weight(self) -> int:
        """Bytes that it takes, about."""
        return _ELEMENT_BYTES + 250 * len(self.spans) + sum(map(len, self.secrets.values()))


_Name: TypeAlias = tuple[str, str, bytes]
"""What an element is remembered by: the key's id, the member that it is all of, and its hash."""


class _Fresh(NamedTuple):
    part: Part
    element: _Element
    structure: list[Literal]
    """The names and identifiers in it, which are looked at last."""


class _Run:
    """One request on its way."""

    def __init__(self, body: bytes, key_id: str) -> None:
        self.body = body
        self.key_id = key_id
        self.left = math.inf
        """Bytes that may still be looked through."""
        self.found: dict[str, int] = {}
        self.findings: list[Finding] = []
        self.learnt: list[Secret] = []
        self.mark = 0
        """The key's, when this pass began; what is learnt from then on is for the next one."""
        self.scanner: Scanner
        """What looks through this pass."""
        self.fresh: dict[_Name, _Fresh] = {}
        """What was looked through in this pass for the first time."""
        self.placeholders: dict[bytes, str] = {}
        """Of the secrets in it: each is learnt once, also where there are too many to remember."""

    def spend(self, size: int) -> None:
        """Count bytes that are to be looked through now; raises ``Unfinished``."""
        self.left -= size
        if self.left < 0:
            raise Unfinished(self)

    def find_in_strings(self) -> Iterator[tuple[_Fresh, Iterator[tuple[Literal, list[Spot]]]]]:
        """Look at the strings in all that is new together, which is much quicker than one by one.

        Yields what has secrets in it, with them.
        """
        fresh = list(self.fresh.values())
        starts = [one.part.start for one in fresh]
        every = self.scanner.strings(self.body, ((one.part, one.structure) for one in fresh))
        for number, found in groupby(every, lambda one: bisect_right(starts, one[0].start) - 1):
            yield fresh[number], found


class Unfinished(Exception):
    """There is more to look through than was allowed; to be given to ``hide`` for going on."""

    def __init__(self, run: _Run) -> None:
        super().__init__("more to look through")
        self.run = run


class Hiding:
    """Hides secrets, and remembers what it hid. One for the whole daemon, in any thread.

    ``seed``: 32 random bytes of this installation, from which placeholders are made.
    """

    def __init__(self, rules: Rules, seed: bytes) -> None:
        self._placeholders = Placeholders(seed)
        self._elements: Recent[_Name, _Element] = Recent(MOST_ELEMENTS, MOST_ELEMENT_BYTES)
        self._growth: Growth[_Element] = Growth()
        self._told: Recent[bytes, bool] = Recent(MOST_ELEMENTS)
        self._harmless: Recent[str, bool] = Recent(MOST_KEYS)
        """Names of members, and headers, that hold no secret."""
        self._keys: Recent[str, Remembered] = Recent(MOST_KEYS)
        self._rules = rules
        self._detector = Detector(rules)

    @property
    def rules(self) -> Rules:
        """What counts as a secret. Others hold from the next request on."""
        return self._rules

    @rules.setter
    def rules(self, rules: Rules) -> None:
        """Takes some milliseconds, unless they are the same: all patterns are made."""
        if rules == self._rules:
            return
        self._detector = Detector(rules)
        self._rules = rules
        self._elements.clear()
        self._growth.clear()
        self._harmless.clear()
        hiding = _hiding(self._rules)
        for key_id, known in self._keys.items():
            self._keys.put(key_id, known.only(hiding))

    def without_secrets(self, body: bytes, dialect: ChannelDialect, key_id: str) -> bytes:
        """A request or an answer as it may be kept: none that any rule finds is in it."""
        _, looks = self._known(key_id).looks()
        scanner = Scanner(self._detector, self._placeholders, key_id, looks)

        def naming(spot: Spot) -> str:
            return self._placeholders.of(spot.value, spot.rule, key_id)

        return without_secrets(scanner, naming, dialect, body)

    def remember(self, secrets: Iterable[Secret]) -> None:
        """Know these from now on, as if they had just been hidden; all that no rule hides is not.

        They are what ``Hidden.learnt`` told before a restart.
        """
        hiding = _hiding(self._rules)
        for secret in secrets:
            if secret.rule in hiding:
                value = secret.value.encode("utf-8", "surrogatepass")
                placeholder = self._placeholders.of(value, secret.rule, secret.key)
                self._known(secret.key).add(value, placeholder, secret.rule)

    def hide(
        self,
        body: bytes,
        dialect: ChannelDialect,
        key_id: str,
        *,
        most: float = math.inf,
        begun: Unfinished | None = None,
    ) -> Hidden:
        """A request of this dialect without its secrets; where there are none, ``body`` itself.

        Raises ``BadRequest`` for what is no JSON object, or names a member twice; ``Unfinished``
        when more than ``most`` bytes would have to be looked through. Give that as ``begun`` then.
        """
        shared = self._growth.shared(key_id, body)
        run = begun.run if begun else _Run(body, key_id)
        run.left = most
        known = self._known(key_id)
        met = shared.elements
        taken = grown(body, shared.before, len(met)) if met else apart(body)
        if met and taken.parts[len(met) - 1 : len(met)] != [shared.before.parts[len(met) - 1]]:
            met = ()  # a list became too long to be taken apart
        for name in taken.names:
            self.check("The name of a member", name)
        elements = self._looked_through(run, taken.parts, known, met)
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
        first = shared.placeholder_in(body)
        self._growth.keep(key_id, body, taken, elements, first, weight)
        hidden = b"".join((*pieces, body[at:])) if pieces else body
        if first >= 0 or _answered_from_afar(body, dialect):
            secrets = {**known.values(), **secrets}
        learnt = tuple(run.learnt[-MOST_LEARNT:])
        return Hidden(hidden, secrets, run.found, blocked, tuple(run.findings), learnt)

    def _looked_through(
        self, run: _Run, split: list[Part], known: Remembered, met: Sequence[_Element]
    ) -> list[_Element]:
        """What each part holds, of the secrets too that were learnt from the others.

        ``met`` are the elements of the first ones in the request before; only where one of them
        is old it is looked up.
        """
        for _ in range(_PASSES):
            run.mark, looks = known.looks()
            run.scanner = Scanner(self._detector, self._placeholders, run.key_id, looks)
            run.fresh = {}
            before = chain(met, repeat(None))
            elements = [
                old if old and old.seen >= run.mark else self._element(run, part, known)
                for part, old in zip(split, before, strict=False)
            ]
            for (part, element, _), found in run.find_in_strings():
                self._take(run, part, element, found, known)
            self._look_at_structure(run, known)
            if known.mark == run.mark:
                break
        return elements

    def check(self, what: str, text: str) -> None:
        """Raise ``BadRequest`` for a secret where no placeholder can stand: ``what`` tells where.

        One that blocks a request is as bad, and one that is only reported is let through.
        """
        if self._harmless.get(text):
            return
        for hit in self._detector.find(text.encode("utf-8", "surrogatepass")):
            if hit.mode != "report":
                raise BadRequest(_not_there(what, hit.rule))
        if len(text) < _SHORT_NAME:
            self._harmless.put(text, True)

    def sample(self, text: str, key_id: str = "") -> tuple[Finding, ...]:
        """What would be found in a text, and where. Nothing of it is kept."""
        raw = text.encode("utf-8", "surrogatepass")
        scanner = Scanner(self._detector, self._placeholders, key_id, None)
        return tuple(
            self._finding(spot, offset=_characters(raw[: spot.start]), line=_line(raw, spot.start))
            for spot in scanner.text(raw)
        )

    def _known(self, key_id: str) -> Remembered:
        known = self._keys.get(key_id)
        if known is None:
            known = Remembered()
            self._keys.put(key_id, known)
        return known

    def _element(self, run: _Run, part: Part, known: Remembered) -> _Element:
        """What is remembered of a part, or a new one that is yet to be looked through."""
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

    def _look_at_structure(self, run: _Run, known: Remembered) -> None:
        """Look at the names and identifiers in what is new, too; then it is remembered."""
        fresh, scanner = run.fresh.values(), run.scanner
        every = chain.from_iterable(one.structure for one in fresh)
        if fresh and not scanner.is_harmless(run.body, every):
            for part, element, structure in fresh:
                found = scanner.in_structure(run.body, structure)
                self._take(run, part, element, found, known)
        for name, (_, element, _) in run.fresh.items():
            self._elements.put(name, element, element.weight)

    def _take(
        self,
        run: _Run,
        part: Part,
        element: _Element,
        found: Iterable[tuple[Literal, list[Spot]]],
        known: Remembered,
    ) -> None:
        """Have an element hide what was found in its part."""
        spans: list[tuple[int, int, str]] = []
        secrets: dict[str, str] = {}
        told: dict[int, list[Spot]] = {}
        names: list[int] = []
        for literal, spots in found:
            if literal.is_name:
                names.append(literal.start - part.start)
            if self._is_news(run, literal):
                told[literal.start - part.start] = spots
            for spot in spots:
                if spot.mode == "block":
                    element.blocked = element.blocked or spot.rule
                elif spot.mode == "hide" and _is_fixed(literal):
                    raise BadRequest(_not_there(literal.name.decode(), spot.rule))
                elif spot.mode == "hide":
                    placeholder = self._hidden_as(spot, run, known)
                    secrets[placeholder] = secret_of(spot.value)
                    spans.append((spot.start - part.start, spot.end - part.start, placeholder))
        if spans:
            element.spans = tuple(sorted((*element.spans, *spans)))
            element.secrets = {**element.secrets, **secrets}
        if told:
            self._tell(run, part, told, names)

    def _hidden_as(self, spot: Spot, run: _Run, known: Remembered) -> str:
        placeholder = run.placeholders.get(spot.value) or known.placeholder(spot.value)
        if not placeholder:
            placeholder = self._placeholders.of(spot.value, spot.rule, run.key_id)
            placeholder = known.add(spot.value, placeholder, spot.rule)
            if known.placeholder(spot.value):
                value = spot.value.decode("utf-8", "surrogatepass")
                run.learnt.append(Secret(run.key_id, spot.rule, value))
        run.placeholders[spot.value] = placeholder
        return placeholder

    def _is_news(self, run: _Run, literal: Literal) -> bool:
        """Whether what stands in a string is to be counted: it was not met before."""
        content = run.body[literal.start : literal.end]
        digest = blake2b(content, digest_size=16, key=run.key_id.encode()[:64]).digest()
        if self._told.get(digest):
            return False
        self._told.put(digest, True)
        return True

    def _tell(
        self, run: _Run, part: Part, told: Mapping[int, list[Spot]], names: Collection[int]
    ) -> None:
        """Count what stands in some strings of a part, of which it is told where they begin.

        So it is of the members' ``names`` in it that hold secrets themselves.
        """
        places = pointers(run.body[part.start : part.end], told, names)
        for start, spots in told.items():
            place = part.place + places.get(start, "")
            for spot in spots:
                run.found[spot.rule] = run.found.get(spot.rule, 0) + 1
                run.findings.append(self._finding(spot, place=place))

    def _finding(self, spot: Spot, place: str = "", offset: int = 0, line: int = 0) -> Finding:
        size = len(secret_of(spot.value))
        digest = self._placeholders.digest(spot.value)
        return Finding(spot.rule, spot.mode, size, digest, place, offset, line)


def _answered_from_afar(body: bytes, dialect: ChannelDialect) -> bool:
    """Whether the supplier keeps what was said before, so that the request does not hold it."""
    if dialect != "openai-responses":
        return False
    return b'"previous_response_id"' in body or b'"conversation"' in body


def _hiding(rules: Rules) -> frozenset[str]:
    """The ids of those that do more than report."""
    forms = [rule.id for rule in rules.rules if rule.enabled and rule.mode != "report"]
    return frozenset((*forms, *(value.id for value in rules.values if value.mode != "report")))


def _is_fixed(literal: Literal) -> bool:
    """Whether a supplier must know the string again, so that no placeholder can stand there."""
    if literal.free or literal.is_name:
        return False
    return literal.name in STRUCTURE and literal.name not in IDENTIFIERS | {b"name"}


def _not_there(what: str, rule: str) -> str:
    return f'{what} holds a secret (rule "{rule}"), which cannot be hidden there; leave it out'


def _characters(text: bytes) -> int:
    return len(text.decode("utf-8", "replace"))


def _line(text: bytes, at: int) -> int:
    return text.count(b"\n", 0, at) + 1

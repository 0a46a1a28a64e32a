"""Finds secrets in one piece of text, in time that is linear in its length.

One pass of all patterns at once tells that a text is clean, which nearly every text is; only
where it is not is each rule asked for itself.
"""

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, chain
from typing import Any, NamedTuple, TypeAlias

import re2

from agentd.proxy.secrets.decoding import decode, find_encoded
from agentd.proxy.secrets.exact_values import ExactValues
from agentd.proxy.secrets.private_keys import PrivateKeys
from agentd.proxy.secrets.rules import SHORTEST, Mode, Rule, Rules, Value, compiled, options
from agentd.proxy.secrets.tokens import LEFT, WORDS
from agentd.proxy.secrets.writing import writings

MOST_FINDS = 1000
"""Of one rule in one text. What comes after is taken for one secret: that is safe, and bounded."""

_PRIVATE_KEY = "private-key"
_ASSIGNED = "assigned"
_WINDOW = 4096
_BEYOND = 1024
"""Bytes after a match that are looked at before it is taken: in them it may still go on."""
_MOST_SUSPECTS = 16
"""Of texts that are looked at together, for one pattern. Each costs a call, which may read all that
follows: where there are more, the rest is looked at one by one."""
_ONE_BY_ONE = re.compile(r"\\[Az]|\(\?[A-Za-z]*-")
"""In a pattern: it may ask where a text begins or ends, and not only where a line does."""
_NOTHING = r"[^\x{0}-\x{10FFFF}]"
_LAYERS = 2
"""Encodings within one another that are undone."""


_Search: TypeAlias = Callable[[bytes, int], Any]
"""Returns the first match from a place on, or ``None``."""


class Hit(NamedTuple):
    """A secret in a text: where in its bytes, and by which rule."""

    start: int
    end: int
    rule: str
    mode: Mode


class Detector:
    """Looks for what ``rules`` say; made once, used for every text."""

    def __init__(self, rules: Rules) -> None:
        enabled = [rule for rule in rules.rules if rule.enabled]
        self._keys = [_Keys(rule) for rule in enabled if rule.id == _PRIVATE_KEY]
        forms = [rule for rule in enabled if rule.id != _PRIVATE_KEY]
        self._looks = [
            *(_Look(value.id, value.mode, _as_written(value)) for value in rules.values),
            *(_Form(rule) for rule in forms),
        ]
        numbered = list(enumerate(forms, len(rules.values)))
        self._groups = [
            _Group({number: _as_written(value) for number, value in enumerate(rules.values)}),
            *(
                _Group({number: rule.regex for number, rule in numbered if _kind(rule) == kind})
                for kind in range(3)
            ),
        ]
        self._searches: list[_Search] = [
            *(keys.search for keys in self._keys),
            *(group.search for group in self._groups if group),
            find_encoded,
        ]
        self._one_by_one = any(_ONE_BY_ONE.search(rule.regex) for rule in forms)

    def find(self, text: bytes, known: "Known | None" = None) -> list[Hit]:
        """Every secret, in order. Those to be hidden or blocked never overlap."""
        if len(text) < SHORTEST:
            return []
        hits = self._plain(text, known)
        hits += self._encoded(text, known)
        return _settled(hits) if hits else hits

    def suspects(self, texts: Sequence[bytes], known: "Known | None") -> Collection[int]:
        """Return the numbers of the texts in which ``find`` may find something.

        They are looked at as the lines of one text: to call a pattern takes longer than to have it
        read a short text.
        """
        if self._one_by_one or len(texts) < 2:
            return range(len(texts))
        searches = [*self._searches, known.search] if known else self._searches
        together = b"\n".join((b"", *texts))
        begins = list(accumulate((len(text) + 1 for text in texts), initial=0))
        return set(chain.from_iterable(_lines_with(one, together, begins) for one in searches))

    def _plain(self, text: bytes, known: "Known | None") -> list[Hit]:
        hits = [hit for keys in self._keys for hit in keys.find(text)]
        for number in sorted(number for group in self._groups for number in group.found_in(text)):
            hits += self._looks[number].find(text)
        if known is not None:
            hits += known.find(text)
        return hits

    def _encoded(self, text: bytes, known: "Known | None", layers: int = _LAYERS) -> Iterator[Hit]:
        """What shows when encodings are undone: each where it stands in the encoded text."""
        for view in decode(text):
            hits = self._plain(view.text, known)
            if layers > 1:
                hits += self._encoded(view.text, known, layers - 1)
            for hit in hits:
                yield Hit(*view.locate(hit.start, hit.end), hit.rule, hit.mode)


class Known:
    """Values that were hidden before, found wherever they stand: each with its rule's id."""

    def __init__(self, values: dict[bytes, str]) -> None:
        self._rules = values
        self._values = ExactValues(values)
        self.search: _Search = self._values.search
        """Finds a place where one of them may stand."""

    def find(self, text: bytes) -> Iterator[Hit]:
        """Each of them in the text."""
        for start, end in self._values.find(text):
            yield Hit(start, end, self._rules[text[start:end]], "hide")


class _Group:
    """Patterns that are looked for in one pass, by their numbers."""

    def __init__(self, sources: dict[int, str]) -> None:
        self._numbers = list(sources)
        self._sources = list(sources.values())
        self._any = _together(self._sources) if sources else None

    def __bool__(self) -> bool:
        return self._any is not None

    @property
    def search(self) -> "_Search":
        """Finds a place where one of them is."""
        return self._any.search  # type: ignore[no-any-return, union-attr]

    @cached_property
    def _which(self) -> Any:
        """Made when there is a first secret to be told apart."""
        return _apart(self._sources)

    def found_in(self, text: bytes) -> list[int]:
        """Return the numbers of those that are somewhere in a text."""
        if self._any is None or not self._any.search(text):
            return []
        # Nothing here means that it ran out of memory: then each one is asked.
        return [self._numbers[at] for at in self._which.Match(text) or ()] or self._numbers


class _Look:
    """One pattern, and what it is called."""

    def __init__(self, id: str, mode: Mode, regex: str, group: int = 0) -> None:  # noqa: A002
        self._id = id
        self._mode: Mode = mode
        self._regex = regex
        self._group = group

    @cached_property
    def _pattern(self) -> Any:
        """Made when it is first asked: of a hundred rules few ever are."""
        return compiled(self._regex)

    def find(self, text: bytes) -> Iterator[Hit]:
        """Every place in the text."""
        at = count = 0
        while spans := _first(self._pattern, text, at):
            start, end = _whole_characters(text, *_chosen(spans, self._group))
            if self._counts(text[start:end]):
                count += 1
                if count > MOST_FINDS:
                    yield Hit(start, len(text), self._id, self._mode)
                    return
                yield Hit(start, end, self._id, self._mode)
            at = max(end, spans[0][0] + 1)

    def _counts(self, value: bytes) -> bool:
        return bool(value)


class _Form(_Look):
    """A rule: not all that has the form counts."""

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule.id, rule.mode, rule.regex, rule.group)
        self._entropy = rule.entropy
        self._keywords = [word.lower().encode() for word in rule.keywords]
        self._allow = rule.allow.regexes
        self._stopwords = [word.lower().encode() for word in rule.allow.stopwords]

    def find(self, text: bytes) -> Iterator[Hit]:
        """As ``_Look.find``, if one of the keywords is in the text."""
        if self._keywords:
            lower = text.lower()
            if not any(word in lower for word in self._keywords):
                return
        yield from super().find(text)

    def _counts(self, value: bytes) -> bool:
        if not value or (self._entropy and entropy(value) < self._entropy):
            return False
        if self._stopwords:
            lower = value.lower()
            if any(word in lower for word in self._stopwords):
                return False
        return not self._allow or not _any_of(self._allow).search(value)


class _Keys(_Form):
    """The rule of private keys, whose beginning a pattern tells, and whose end none does."""

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule)
        self._keys = PrivateKeys()
        self.search: _Search = self._keys.search

    def find(self, text: bytes) -> Iterator[Hit]:
        """Every key in the text."""
        for start, end in self._keys.find(text):
            yield Hit(start, end, self._id, self._mode)


def _lines_with(search: _Search, text: bytes, begins: list[int]) -> Iterator[int]:
    """Yield the numbers of the lines in which something is found, and maybe of more.

    ``begins`` tells of each line where the break before it is, and where the last one ends.
    """
    count = number = 0
    while number < len(begins) - 1 and (found := search(text, begins[number])):
        number = bisect_right(begins, found.start())
        yield number - 1
        count += 1
        if count == _MOST_SUSPECTS:
            yield from range(number, len(begins) - 1)
            return


def _kind(rule: Rule) -> int:
    """Return by which of three automata a rule is looked for. One of all would be too large.

    What stands around a secret varies more than what has a form of its own, and a text is in the
    midst of an assignment so often that it would multiply the states of all others.
    """
    if rule.id == _ASSIGNED:
        return 2
    return 1 if rule.allow.regexes else 0


def entropy(value: bytes) -> float:
    """Bits per byte (Shannon)."""
    size = len(value)
    return -sum(n / size * math.log2(n / size) for n in Counter(value).values())


def _as_written(value: Value) -> str:
    """A pattern that finds the value in a text, and in JSON in it."""
    forms = sorted(writings(value.text.encode("utf-8", "surrogatepass")), key=len, reverse=True)
    return "|".join(_literally(form.decode("utf-8", "replace")) for form in forms)


def _literally(text: str) -> str:
    return re.sub(r"[\x00-/:-@\[-^`{-\x7f]", lambda one: f"\\x{{{ord(one[0]):x}}}", text)


def _together(sources: Sequence[str]) -> Any:
    """One pattern that finds something where any of these does.

    What many begin with stands in it once: in every state of the automaton it would be once for
    each of them, and the states for a text of a new kind take five times as long to make.
    """
    words = [WORDS[source] for source in sources if source in WORDS]
    others = [source for source in sources if source not in WORDS]
    factored = [*others, f"{LEFT}(?:{'|'.join(words)})"] if words else others
    together = "|".join(f"(?:{source})" for source in factored)
    return compiled(f"(?m){together or _NOTHING}", groups=False)


@lru_cache(256)
def _any_of(sources: tuple[str, ...]) -> Any:
    """As ``_together``, made when it is first asked, and once for all rules that have the same."""
    return _together(sources)


def _apart(sources: Sequence[str]) -> Any:
    """What tells which of these are found: of most it is enough that a word is not in the text."""
    patterns = re2.Filter()
    for source in sources:
        patterns.Add(f"(?m){source}", options(groups=False))
    patterns.Compile()
    return patterns


def _first(pattern: Any, text: bytes, at: int) -> list[tuple[int, int]] | None:
    """The first match from ``at`` on; in a window first, so that many matches cost no more.

    A match near its window's end might go on behind it, or be another one: an expression tries
    its alternatives in order, and the first may only fail for want of text. Then a larger window
    is looked at.
    """
    size = _WINDOW
    while at < len(text):
        end = min(at + size, len(text))
        found = pattern.search(text, at, end)
        if found and (found.end() + _BEYOND <= end or end == len(text)):
            return [found.span(number) for number in range(pattern.groups + 1)]
        if end == len(text):
            return None
        size *= 4
    return None


def _chosen(spans: list[tuple[int, int]], group: int) -> tuple[int, int]:
    if group:
        return spans[group] if spans[group][0] >= 0 else spans[0]
    return next((span for span in spans[1:] if span[0] >= 0), spans[0])


def _whole_characters(text: bytes, start: int, end: int) -> tuple[int, int]:
    """The span without half a character at its ends."""
    while start and text[start : start + 1] and text[start] & 0xC0 == 0x80:
        start -= 1
    while end < len(text) and text[end] & 0xC0 == 0x80:
        end += 1
    return start, end


def _settled(hits: list[Hit]) -> list[Hit]:
    """Without overlaps: what overlaps becomes one, called by the rule that was found first.

    What is only reported stands beside what is hidden, unless that covers it.
    """
    order = {id(hit): number for number, hit in enumerate(hits)}
    merged: list[tuple[Hit, int]] = []
    for hit in sorted((one for one in hits if one.mode != "report"), key=lambda one: one.start):
        if merged and hit.start < merged[-1][0].end:
            last, rank = merged[-1]
            first, rank = min((last, rank), (hit, order[id(hit)]), key=lambda one: one[1])
            mode: Mode = "block" if "block" in (last.mode, hit.mode) else "hide"
            span = Hit(last.start, max(last.end, hit.end), first.rule, mode)
            merged[-1] = (span, rank)
        else:
            merged.append((hit, order[id(hit)]))
    settled = [hit for hit, _ in merged]
    starts = [hit.start for hit in settled]
    reported: dict[tuple[int, int], Hit] = {}
    for hit in hits:
        if hit.mode == "report":
            before = bisect_left(starts, hit.end)  # of these only the last may reach into it
            if not before or settled[before - 1].end <= hit.start:
                reported.setdefault((hit.start, hit.end), hit)
    return sorted([*settled, *reported.values()])

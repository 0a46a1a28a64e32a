"""Finds secrets in one piece of text, in time that is linear in its length.

One pass of all patterns at once shows that a text is clean, as nearly every text is; only
where it is not is each rule asked for itself.
"""

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, chain
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

from agentd.gateway.secrets.builtin import BUILT_IN
from agentd.gateway.secrets.decoding import decode, get_encoded_search
from agentd.gateway.secrets.escape_layers import list_forms
from agentd.gateway.secrets.exact_values import ExactValues
from agentd.gateway.secrets.private_keys import PrivateKeys
from agentd.gateway.secrets.rules import (
    SHORTEST,
    ExactSecret,
    Mode,
    SecretPattern,
    SecretRules,
    compile_regex,
    make_options,
)
from agentd.gateway.secrets.token_patterns import LEFT, WORDS

MOST_FINDS = 1000
"""The most finds of one rule in one text. The rest counts as one secret: safe, and bounded."""

_PRIVATE_KEY = "private-key"
_ASSIGNED = "assigned"
_WINDOW = 4096
_BEYOND = 1024
"""Bytes after a match that must be known before it counts: it may continue in them."""
_MOST_SUSPECTS = 16
"""The most suspects of texts searched together, by pattern. Each costs a call, which may read all
that follows: where there are more, the rest is searched one by one."""
_ONE_BY_ONE = re.compile(r"\\[Az]|\(\?[A-Za-z]*-")
"""Signs in a pattern that it may depend on where a text begins or ends, not only a line."""
_NOTHING = r"[^\x{0}-\x{10FFFF}]"
_REPEAT = re.compile(r"(?<=[\])])\{([0-9]+)(?:(,)([0-9]*))?\}")
"""The repetition of a class or a group, as the built-in rules write it."""
_ENOUGH = 8
"""Letters of a long secret that are counted where it is only asked whether there may be one."""
_FEW = 4
"""Repetitions up to which a limit is kept."""
_LAYERS = 2
"""Encodings within one another that are undone."""


_Search: TypeAlias = Callable[[bytes, int], Any]
"""Returns the first match from a place on, or ``None``."""


class Match(NamedTuple):
    """A secret in a text: where in its bytes, and by which rule."""

    start: int
    end: int
    rule: str
    mode: Mode


class Detector:
    """Looks for what ``rules`` say; made once, used for every text."""

    def __init__(self, rules: SecretRules) -> None:
        enabled = [rule for rule in rules.rules if rule.enabled]
        self._keys = [_Keys(rule) for rule in enabled if rule.id == _PRIVATE_KEY]
        forms = [rule for rule in enabled if rule.id != _PRIVATE_KEY]
        self._looks = [
            *(_Pattern(value.id, value.mode, _to_pattern(value)) for value in rules.values),
            *(_RulePattern(rule) for rule in forms),
        ]
        numbered = list(enumerate(forms, len(rules.values)))
        self._groups = [
            _Group({number: _to_pattern(value) for number, value in enumerate(rules.values)}),
            *(
                _Group({number: rule.regex for number, rule in numbered if _get_kind(rule) == kind})
                for kind in range(3)
            ),
        ]
        self._searches: list[_Search] = [
            *(keys.search for keys in self._keys),
            *(group.search for group in self._groups if group),
            get_encoded_search(),
        ]
        self._one_by_one = any(_ONE_BY_ONE.search(rule.regex) for rule in forms)

    def find(self, text: bytes, known: "KnownValueMatcher | None" = None) -> list[Match]:
        """Return every secret, in order. Those to be masked or blocked never overlap."""
        if len(text) < SHORTEST:
            return []
        hits = self._find_plain(text, known)
        hits += self._find_encoded(text, known)
        return _merge_overlaps(hits) if hits else hits

    def find_suspects(
        self, texts: Sequence[bytes], known: "KnownValueMatcher | None"
    ) -> Collection[int]:
        """Return the numbers of the texts in which ``find`` may find something.

        They are looked at as the lines of one text: to call a pattern takes longer than to have it
        read a short text.
        """
        if self._one_by_one or len(texts) < 2:
            return range(len(texts))
        searches = [*self._searches, known.search] if known else self._searches
        together = b"\n".join((b"", *texts))
        begins = list(accumulate((len(text) + 1 for text in texts), initial=0))
        return set(chain.from_iterable(_iter_lines_with(one, together, begins) for one in searches))

    def _find_plain(self, text: bytes, known: "KnownValueMatcher | None") -> list[Match]:
        hits = [hit for keys in self._keys for hit in keys.find(text)]
        for number in sorted(number for group in self._groups for number in group.find_in(text)):
            hits += self._looks[number].find(text)
        if known is not None:
            hits += known.find(text)
        return hits

    def _find_encoded(
        self, text: bytes, known: "KnownValueMatcher | None", layers: int = _LAYERS
    ) -> Iterator[Match]:
        """Yield the secrets that decoding reveals, each at its position in the encoded text."""
        for view in decode(text):
            hits = self._find_plain(view.text, known)
            if layers > 1:
                hits += self._find_encoded(view.text, known, layers - 1)
            for hit in hits:
                yield Match(*view.locate(hit.start, hit.end), hit.rule, hit.mode)


class LazyDetector:
    """The detector of some rules, compiled on first use: many a daemon never masks anything."""

    def __init__(self, rules: SecretRules) -> None:
        self._rules = rules
        self._compiling = Lock()
        self._compiled: Detector | None = None

    @property
    def is_compiled(self) -> bool:
        """True if ``get`` returns at once."""
        return self._compiled is not None

    def get(self) -> Detector:
        """Return it. The first call takes ten milliseconds or more: in a thread, if it can be."""
        if self._compiled is None:
            with self._compiling:
                if self._compiled is None:
                    self._compiled = Detector(self._rules)
        return self._compiled


class KnownValueMatcher:
    """Values that were hidden before, found wherever they stand: each with its rule's id."""

    def __init__(self, values: dict[bytes, str]) -> None:
        self._rules = values
        self._values = ExactValues(values)
        self.search: _Search = self._values.search
        """Finds a position where one of them may be."""

    def find(self, text: bytes) -> Iterator[Match]:
        """Yield each of them in the text."""
        for start, end in self._values.find(text):
            yield Match(start, end, self._rules[text[start:end]], "hide")


class _Group:
    """Patterns that are searched in one pass, by their numbers."""

    def __init__(self, sources: dict[int, str]) -> None:
        self._numbers = list(sources)
        self._sources = list(sources.values())
        self._any = _join_alternatives([loosen(one) for one in self._sources]) if sources else None

    def __bool__(self) -> bool:
        return self._any is not None

    @property
    def search(self) -> "_Search":
        """Search that matches every text that contains one of them, and few others."""
        return self._any.search  # type: ignore[no-any-return, union-attr]

    @cached_property
    def _which(self) -> Any:
        """The filter, compiled on first use."""
        return _compile_filter(self._sources)

    @cached_property
    def _exactly(self) -> Any:
        """The exact expressions, compiled on first use."""
        return _join_alternatives(self._sources)

    def find_in(self, text: bytes) -> list[int]:
        """Return the numbers of the expressions that match somewhere in a text."""
        if self._any is None or not self._any.search(text):
            return []
        found = [self._numbers[at] for at in self._which.Match(text) or ()]
        # Nothing may also mean that it ran out of memory: then each one is asked.
        return found if found or not self._exactly.search(text) else self._numbers


class _Pattern:
    """A pattern, and its name."""

    def __init__(self, id: str, mode: Mode, regex: str, group: int = 0) -> None:  # noqa: A002
        self._id = id
        self._mode: Mode = mode
        self._regex = regex
        self._group = group

    @cached_property
    def _pattern(self) -> Any:
        """The expression, compiled on first use: of a hundred rules few ever match."""
        return compile_regex(self._regex)

    def find(self, text: bytes) -> Iterator[Match]:
        """Yield every match in the text."""
        at = count = 0
        while spans := _search_windowed(self._pattern, text, at):
            start, end = _extend_to_characters(text, *_choose_span(spans, self._group))
            if self._is_secret(text[start:end]):
                count += 1
                if count > MOST_FINDS:
                    yield Match(start, len(text), self._id, self._mode)
                    return
                yield Match(start, end, self._id, self._mode)
            at = max(end, spans[0][0] + 1)

    def _is_secret(self, value: bytes) -> bool:
        return bool(value)


class SecretValues:
    """The values that a rule takes for secrets, of all that have its form."""

    def __init__(self, rule: SecretPattern) -> None:
        self._entropy = rule.entropy
        self._allow = rule.allow.regexes
        self._stopwords = [word.lower().encode() for word in rule.allow.stopwords]

    def __contains__(self, value: bytes) -> bool:
        if not value or (self._entropy and compute_entropy(value) < self._entropy):
            return False
        if self._stopwords:
            lower = value.lower()
            if any(word in lower for word in self._stopwords):
                return False
        return not self._allow or not _get_joined(self._allow).search(value)


class _RulePattern(_Pattern):
    """A rule: not all that has the form counts."""

    def __init__(self, rule: SecretPattern) -> None:
        super().__init__(rule.id, rule.mode, rule.regex, rule.group)
        self._keywords = [word.lower().encode() for word in rule.keywords]
        self._values = SecretValues(rule)

    def find(self, text: bytes) -> Iterator[Match]:
        """Find matches as ``_Pattern.find`` does, if one of the keywords is in the text."""
        if self._keywords:
            lower = text.lower()
            if not any(word in lower for word in self._keywords):
                return
        yield from super().find(text)

    def _is_secret(self, value: bytes) -> bool:
        return value in self._values


class _Keys(_RulePattern):
    """The rule of private keys: a pattern matches their beginning, but none matches their end."""

    def __init__(self, rule: SecretPattern) -> None:
        super().__init__(rule)
        self._keys = PrivateKeys()
        self.search: _Search = self._keys.search

    def find(self, text: bytes) -> Iterator[Match]:
        """Yield every key in the text."""
        for start, end in self._keys.find(text):
            yield Match(start, end, self._id, self._mode)


def _iter_lines_with(search: _Search, text: bytes, begins: list[int]) -> Iterator[int]:
    """Yield the numbers of the lines in which something is found, and maybe of more.

    ``begins`` has for each line the break before it, and the end of the last one.
    """
    count = number = 0
    while number < len(begins) - 1 and (found := search(text, begins[number])):
        number = bisect_right(begins, found.start())
        yield number - 1
        count += 1
        if count == _MOST_SUSPECTS:
            yield from range(number, len(begins) - 1)
            return


def _get_kind(rule: SecretPattern) -> int:
    """Return the automaton, of three, that searches a rule. A single one would be too large.

    What stands around a secret varies more than what has a form of its own, and a text is in the
    midst of an assignment so often that it would multiply the states of all others.
    """
    if rule.id == _ASSIGNED:
        return 2
    return 1 if rule.allow.regexes else 0


def compute_entropy(value: bytes) -> float:
    """Return the Shannon entropy in bits per byte."""
    size = len(value)
    return -sum(n / size * math.log2(n / size) for n in Counter(value).values())


def _to_pattern(value: ExactSecret) -> str:
    """Return a pattern that finds the value in a text, and in JSON in it."""
    forms = sorted(list_forms(value.text.encode("utf-8", "surrogatepass")), key=len, reverse=True)
    return "|".join(_quote_literal(form.decode("utf-8", "replace")) for form in forms)


def _quote_literal(text: str) -> str:
    return re.sub(r"[\x00-/:-@\[-^`{-\x7f]", lambda one: f"\\x{{{ord(one[0]):x}}}", text)


def _join_alternatives(sources: Sequence[str]) -> Any:
    """Compile one expression that matches where any of these does.

    What many begin with stands in it once: in every state of the automaton it would be once for
    each of them, and the states for a text of a new kind take five times as long to make.
    """
    words = [_WORDS[source] for source in sources if source in _WORDS]
    others = [source for source in sources if source not in _WORDS]
    factored = [*others, f"{LEFT}(?:{'|'.join(words)})"] if words else others
    together = "|".join(f"(?:{source})" for source in factored)
    return compile_regex(f"(?m){together or _NOTHING}", groups=False)


def _lower_counts(regex: str) -> str:
    def replace(repeat: re.Match[str]) -> str:
        least = int(repeat[1])
        most = (int(repeat[3]) if repeat[3] else math.inf) if repeat[2] else least
        if least > _ENOUGH:
            return f"{{{_ENOUGH},}}"
        return f"{{{least},}}" if most > max(_FEW, least) else repeat[0]

    return _REPEAT.sub(replace, regex)


_LOOSENED = {rule.regex: _lower_counts(rule.regex) for rule in BUILT_IN}
_WORDS = WORDS | {_LOOSENED[regex]: _lower_counts(word) for regex, word in WORDS.items()}


def loosen(regex: str) -> str:
    """Return an expression that finds something wherever this one of a rule does; often shorter.

    Each number in a long counted repetition is a state of its own, in every state of the automaton
    that is in its midst: they make it large, and slow to make. A rule that is not built in stays as
    it is, because nothing is known about how it is written.
    """
    return _LOOSENED.get(regex, regex)


@lru_cache(256)
def _get_joined(sources: tuple[str, ...]) -> Any:
    """Compile as ``_join_alternatives`` does, on first use and once for equal sources."""
    return _join_alternatives(sources)


def _compile_filter(sources: Sequence[str]) -> Any:
    """Compile a filter for many expressions; most need no search: a word is not in the text."""
    import re2  # noqa: PLC0415 - loaded with the first pattern

    patterns = re2.Filter()
    for source in sources:
        patterns.Add(f"(?m){source}", make_options(groups=False))
    patterns.Compile()
    return patterns


def _search_windowed(pattern: Any, text: bytes, at: int) -> list[tuple[int, int]] | None:
    """Return the first match from ``at`` on; in a window first, so that many matches cost no more.

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


def _choose_span(spans: list[tuple[int, int]], group: int) -> tuple[int, int]:
    if group:
        return spans[group] if spans[group][0] >= 0 else spans[0]
    return next((span for span in spans[1:] if span[0] >= 0), spans[0])


def _extend_to_characters(text: bytes, start: int, end: int) -> tuple[int, int]:
    """Extend a span so that no UTF-8 character is cut at its ends."""
    while start and text[start : start + 1] and text[start] & 0xC0 == 0x80:
        start -= 1
    while end < len(text) and text[end] & 0xC0 == 0x80:
        end += 1
    return start, end


def _merge_overlaps(hits: list[Match]) -> list[Match]:
    """Merge overlapping matches; the merged one has the rule that was found first.

    Matches that are only reported are kept, unless a masked one covers them.
    """
    order = {id(hit): number for number, hit in enumerate(hits)}
    merged: list[tuple[Match, int]] = []
    for hit in sorted((one for one in hits if one.mode != "report"), key=lambda one: one.start):
        if merged and hit.start < merged[-1][0].end:
            last, rank = merged[-1]
            first, rank = min((last, rank), (hit, order[id(hit)]), key=lambda one: one[1])
            mode: Mode = "block" if "block" in (last.mode, hit.mode) else "hide"
            span = Match(last.start, max(last.end, hit.end), first.rule, mode)
            merged[-1] = (span, rank)
        else:
            merged.append((hit, order[id(hit)]))
    settled = [hit for hit, _ in merged]
    starts = [hit.start for hit in settled]
    reported: dict[tuple[int, int], Match] = {}
    for hit in hits:
        if hit.mode == "report":
            before = bisect_left(starts, hit.end)  # of these only the last may reach into it
            if not before or settled[before - 1].end <= hit.start:
                reported.setdefault((hit.start, hit.end), hit)
    return sorted([*settled, *reported.values()])

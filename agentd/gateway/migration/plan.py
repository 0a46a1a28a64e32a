"""The plan of an import: what to create, and settings that could not be taken.

No leftover or note contains a value of the configuration but names of models and settings: any
other value may be a secret.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from agentd.core.errors import BadRequest
from agentd.core.secret_text import is_reference
from agentd.gateway.channels.model import Channel
from agentd.gateway.channels.validation import validate
from agentd.gateway.limits.budgets import Budget
from agentd.llm.upstream.public_addresses import may_be_public
from agentd.llm.upstream.request import explain_malformed_address, parse_origin
from agentd.models.gateway_model import GatewayModel

ConfigPath: TypeAlias = tuple[str | int, ...]

MAX_CHANNELS = 200
MAX_MODELS = 1000
MAX_ENTRIES = 2000
"""Entries of one list that are mapped: names and fallbacks are compared with each other."""
MAX_FALLBACKS = 8
"""The fallbacks of one kind that a model can have."""
MAX_WEIGHT = 1000
"""The largest weight of a route."""

_URL = re.compile(r"https?://[^\s/?#@]+(?:/[^\s?#]*)?")
_MODEL_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,99}")
_NOT_IN_NAMES = re.compile("[^A-Za-z0-9._-]+")
_SHOWN = 80
"""Characters of a name that are shown."""


class Leftover(Struct, frozen=True):
    """A setting that was not taken."""

    place: str
    """Where it is: the file, with the line where it is known, and the path in it."""
    why: str
    """Why, and what to do."""


class ConfigSource(NamedTuple):
    """A parsed configuration: its file's name, its content, and the lines of its parts."""

    name: str
    content: object
    lines: Mapping[ConfigPath, int] = {}

    def locate(self, path: ConfigPath) -> str:
        """Return a place as a reader finds it, such as ``config.yaml:7: model_list[0].rpm``."""
        line = next(
            (self.lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.lines),
            0,
        )
        steps = ""
        for step in path:
            steps += f"[{step}]" if isinstance(step, int) else f".{step[:_SHOWN]}"
        return f"{self.name}{f':{line}' if line else ''}: {steps.removeprefix('.') or 'the file'}"


class ImportPlan(Struct, frozen=True, kw_only=True):
    """What to create, and what the reader should know."""

    channels: tuple[Channel, ...] = ()
    models: tuple[GatewayModel, ...] = ()
    budgets: tuple[Budget, ...] = ()
    leftovers: tuple[Leftover, ...] = ()
    """Settings that were not taken."""
    notes: tuple[str, ...] = ()
    """Settings that were taken in another form."""


class Report:
    """Collects what a mapping of one configuration leaves out."""

    def __init__(self, source: ConfigSource) -> None:
        self.source = source
        self.leftovers: list[Leftover] = []
        self.notes: list[str] = []

    def leave(self, path: ConfigPath, why: str) -> None:
        """Say that the value at a path was not taken."""
        self.leftovers.append(Leftover(self.source.locate(path), why))

    def require_few(self, path: ConfigPath, entries: Sequence[object]) -> None:
        """Raise ``BadRequest`` for a list that is too long to be mapped at once."""
        if len(entries) > MAX_ENTRIES:
            raise BadRequest(
                f"{self.source.locate(path)} has {len(entries)} entries;"
                f" at most {MAX_ENTRIES} are read at once",
                "Split it, and import each part; models named as fallbacks must be there before.",
            )

    def note(self, text: str) -> None:
        """Say something once."""
        if text not in self.notes:
            self.notes.append(text)

    def fields(self, path: ConfigPath, value: object) -> "Fields":
        """Return the fields of a map; anything else is left, and has none."""
        if not isinstance(value, dict):
            if value is not None:
                self.leave(path, "expected a map")
            value = {}
        return Fields(self, path, {str(name): one for name, one in value.items()})


class Fields:
    """The fields of one map: each is taken, or is left with a reason in the end."""

    def __init__(self, report: Report, path: ConfigPath, values: Mapping[str, object]) -> None:
        self.path = path
        self._report = report
        self._rest = {name: value for name, value in values.items() if value is not None}

    def __contains__(self, name: str) -> bool:
        """Return whether there is such a field that was not taken yet."""
        return name in self._rest

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields that were not taken yet."""
        return tuple(self._rest)

    def read(self, name: str) -> Any:
        """Return a field that others may take, too; None: there is none."""
        return self._rest.get(name)

    def take(self, name: str) -> Any:
        """Take a field, whatever it is; None: there is none."""
        return self._rest.pop(name, None)

    def take_text(self, name: str) -> str:
        """Take a text; empty: there is none. Anything else is left."""
        value = self.take(name)
        if value is not None and not isinstance(value, str):
            self.leave(name, "expected text")
            return ""
        return (value or "").strip()

    def take_number(self, name: str) -> Decimal | None:
        """Take a number that is not negative; anything else is left."""
        value = self.take(name)
        if value is None:
            return None
        try:
            number = Decimal(str(value)) if type(value) in (int, float, str) else Decimal("nan")
        except InvalidOperation:
            number = Decimal("nan")
        if number.is_finite() and 0 <= number <= 10**12:
            return number
        self.leave(name, "expected a number that is not negative")
        return None

    def take_list(self, name: str) -> list[Any]:
        """Take a list; anything else is left. Raises ``BadRequest`` for one that is too long."""
        value = self.take(name)
        if value is not None and not isinstance(value, list):
            self.leave(name, "expected a list")
        entries = value if isinstance(value, list) else []
        self._report.require_few((*self.path, name), entries)
        return entries

    def take_fields(self, name: str) -> "Fields":
        """Take a map."""
        return self._report.fields((*self.path, name), self.take(name))

    def leave(self, name: str, why: str) -> None:
        """Say that a field was not taken."""
        self._rest.pop(name, None)
        self._report.leave((*self.path, name), why)

    def leave_rest(self, why: str, reasons: Mapping[str, str] | None = None) -> None:
        """Leave all fields that were not taken; ``reasons`` has other reasons by name."""
        for name in list(self._rest):
            self.leave(name, (reasons or {}).get(name, why))

    def ignore_empty(self) -> None:
        """Drop the fields with an empty value."""
        self._rest = {name: one for name, one in self._rest.items() if one not in ("", "{}", 0, {})}

    def ignore(self, *names: str) -> None:
        """Drop fields that mean nothing here, such as times of the last change."""
        for name in names:
            self._rest.pop(name, None)


class ChannelDrafts:
    """Channels under names of their own; with ``merge`` equal ones are made once."""

    def __init__(self, report: Report, *, merge: bool) -> None:
        self._report = report
        self._merge = merge
        self._names: dict[bytes, str] = {}
        self._by_name: dict[str, Channel] = {}

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The channels in the order in which they were added."""
        return tuple(self._by_name.values())

    def add(self, path: ConfigPath, label: str, **fields: Any) -> str:
        """Add a channel named like ``label``; return its name, empty if it cannot be made."""
        url = fields["url"]
        if len(url) > 1000 or not _URL.fullmatch(url) or explain_malformed_address(url):
            self._report.leave(path, "its address is not one such as https://api.example.com/v1")
            return ""
        if any(map(is_reference, (fields.get("key", ""), *fields.get("keys", ())))):
            self._report.leave(path, "its key is a reference, which only the file can hold")
            return ""
        host = parse_origin(url).host
        if not may_be_public(host) or "." not in host:
            fields["local"] = True
        content = msgspec.json.encode(fields)
        if self._merge and content in self._names:
            return self._names[content]
        name = make_free_name(label, self._by_name)
        try:
            channel = msgspec.convert({**fields, "name": name}, Channel)
            problems = [
                f"{'.'.join(map(str, place))[:_SHOWN]} {what}"
                for (_, *place), what in validate([channel])
            ]
        except (msgspec.ValidationError, ValueError) as error:
            problems = [str(error)]
        if problems:
            self._report.leave(path, f"the channel would not be valid: {'; '.join(problems)}")
            return ""
        self._names[content] = name
        self._by_name[name] = channel
        return name


def is_model_name(name: str) -> bool:
    """Return whether the gateway can have a model of this name."""
    return bool(_MODEL_NAME.fullmatch(name))


def make_free_name(label: str, taken: Iterable[str]) -> str:
    """Return a channel's name like ``label`` that is not taken."""
    base = _NOT_IN_NAMES.sub("-", label).strip("._-")[:56] or "channel"
    known, name, number = set(taken), base, 2
    while name in known:
        name, number = f"{base}-{number}", number + 1
    return name


def scale_weights(weights: list[Decimal]) -> list[int]:
    """Return weights of routes in the same proportions, none below 1 that was above 0."""
    largest = max(weights, default=Decimal(0))
    factor = Decimal(1) if 1 <= largest <= MAX_WEIGHT else Decimal(MAX_WEIGHT) / (largest or 1)
    return [max(int(weight * factor), 1) if weight else 0 for weight in weights]


def add_fallback(lists: dict[str, tuple[str, ...]], name: str, fallback: str) -> str:
    """Add a fallback to a model's list, or return why it cannot have it."""
    if fallback == name or _leads_to(lists, fallback, name):
        return f'"{fallback[:_SHOWN]}" leads back to the model itself'
    if fallback not in lists.get(name, ()):
        if len(lists.get(name, ())) == MAX_FALLBACKS:
            return f"a model has at most {MAX_FALLBACKS} fallbacks of a kind"
        lists[name] = (*lists.get(name, ()), fallback)
    return ""


def _leads_to(lists: Mapping[str, tuple[str, ...]], start: str, end: str) -> bool:
    seen, waiting = {start}, [start]
    while waiting:
        for name in lists.get(waiting.pop(), ()):
            if name == end:
                return True
            if name not in seen:
                seen.add(name)
                waiting.append(name)
    return False

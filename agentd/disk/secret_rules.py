"""``secret-rules.yml`` of the configuration folder, and the seed from which placeholders are made.

The file is written by hand. What it does not speak of is as built in.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from os.path import dirname, expanduser
from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

from agentd import ids
from agentd.disk import document, handwritten
from agentd.disk.layout import Layout
from agentd.disk.reload import Reloaded
from agentd.disk.schema import Place
from agentd.errors import Conflict, Misconfigured, Mistake, nearest
from agentd.proxy.channel import SecretText, is_reference
from agentd.proxy.secrets.builtin import BUILT_IN
from agentd.proxy.secrets.rules import SHORTEST, Mode, Rule, RuleId, Rules, Value, faults

VALUE_LIMIT = 64 * 1024
"""The largest file with a value in it, in bytes."""

log = logging.getLogger(__name__)

_SEED_SIZE = 32
_SEED_LIMIT = 64 * 1024


class Changed(Struct, frozen=True):
    """What is other than built in with one of the built-in rules."""

    mode: Mode | None = None
    enabled: bool | None = None


class Exact(Struct, frozen=True, kw_only=True):
    """A value that is a secret wherever it stands."""

    id: RuleId
    value: Annotated[SecretText, Meta(min_length=1)]
    """The value itself, ``env:NAME`` or ``file:PATH``."""
    mode: Mode = "hide"

    def __repr__(self) -> str:
        """Without the value, wherever it is printed."""
        return f"Exact(id={self.id!r}, mode={self.mode!r})"


class SecretRulesYml(Struct, frozen=True):
    """The content of ``secret-rules.yml``."""

    format: Literal[1] = 1
    built_in: dict[str, Changed] = {}
    rules: tuple[Rule, ...] = ()
    values: tuple[Exact, ...] = ()


def load(layout: Layout, environ: Mapping[str, str] | None) -> Rules:
    """What the file says, with all that is built in; that alone without a file. Blocking.

    Without an ``environ`` variables are not looked up, and their values are none. A file that
    holds a value itself must be readable by nobody else. Raises ``Misconfigured`` with every
    mistake, or ``Unavailable``.
    """
    path = layout.secret_rules
    found = document.read(path, handwritten.LIMIT)
    if found is None:
        return Rules(BUILT_IN)
    values: list[Value] = []

    check = partial(_checked, environ=environ, values=values)
    content = handwritten.load(path, found.data, SecretRulesYml, check)
    if any(not is_reference(exact.value) for exact in content.values):
        document.read(path, handwritten.LIMIT, private=True)
    built_in = (changed(rule, content.built_in.get(rule.id, Changed())) for rule in BUILT_IN)
    return Rules((*content.rules, *built_in), tuple(values))


def followed(
    layout: Layout, environ: Mapping[str, str], changed: Callable[[], None] = lambda: None
) -> Reloaded[Rules]:
    """The rules as the file is now; ``changed`` is called on the loop when they are others."""
    return Reloaded(layout.secret_rules, partial(load, layout, environ), Rules(BUILT_IN), changed)


def check(layout: Layout) -> None:
    """Raise what is wrong with the file, or with one that it points to. Blocking.

    Variables are not looked up: the daemon's environment is another than that of whoever asks.
    """
    load(layout, None)


def seed(layout: Layout) -> bytes:
    """32 random bytes of this state folder, made at the first call. Blocking.

    A damaged file is set aside, and another made. Raises ``Misconfigured`` when others can read
    the file, or ``Unavailable``.
    """
    path = layout.placeholder_seed
    found = document.read(path, _SEED_LIMIT, guarded=True, private=True)
    if found and not _is_seed(found.data):
        aside = f"{path}.damaged-{time.time_ns()}"
        with document.told(path, "set aside"):
            os.rename(path, aside)
        log.error(
            "%s is damaged, and is now %s: secrets get other placeholders from now on,"
            " and suppliers do not know old conversations again", path, aside,
        )  # fmt: skip
        found = None
    if found is None:
        document.make_folder(dirname(path))
        try:
            document.create(path, made := ids.new_seed())
        except Conflict:
            return seed(layout)
        return made
    return found.data


def seed_mistakes(layout: Layout) -> Iterator[Mistake]:
    """What is wrong with the seed, for who only looks. Blocking; raises as ``seed``."""
    path = layout.placeholder_seed
    found = document.read(path, _SEED_LIMIT, guarded=True, private=True)
    if found and not _is_seed(found.data):
        what = f"is damaged: it is not {_SEED_SIZE} random bytes; the next start makes another, and"
        yield Mistake(path, 0, f"{what} suppliers do not know old conversations again")


def _is_seed(data: bytes) -> bool:
    return len(data) == _SEED_SIZE and any(data)


def contradictions(content: SecretRulesYml) -> Iterator[tuple[Place, str]]:
    """What the schema cannot tell to be wrong: where, and why. Blocking.

    Variables are not looked up.
    """
    return _checked(content, None, [])


def _checked(
    content: SecretRulesYml, environ: Mapping[str, str] | None, values: list[Value]
) -> Iterator[tuple[Place, str]]:
    """As ``contradictions``; the ``values`` are told, too."""
    yield from _contradictions(content)
    for number, exact in enumerate(content.values):
        try:
            values.extend(_value(exact, environ))
        except Misconfigured as error:
            yield ("values", number, "value"), error.mistakes[0].what


def _contradictions(content: SecretRulesYml) -> Iterator[tuple[Place, str]]:
    known = [rule.id for rule in BUILT_IN]
    for name in content.built_in:
        if name not in known:
            yield ("built_in", name), f'"{name}" is no built-in rule{nearest(name, known)}'
    taken = dict.fromkeys(known, "is the id of a built-in rule")
    entries: list[tuple[str, int, str]] = [
        *(("rules", number, rule.id) for number, rule in enumerate(content.rules)),
        *(("values", number, exact.id) for number, exact in enumerate(content.values)),
    ]
    for section, number, name in entries:
        if name in taken:
            yield (section, number, "id"), f'"{name}" {taken[name]}; take another one'
        taken.setdefault(name, "is taken")
    for number, rule in enumerate(content.rules):
        for field, what in faults(rule):
            yield ("rules", number, field), what


def changed(rule: Rule, change: Changed) -> Rule:
    """A built-in rule as the file has it."""
    enabled = rule.enabled if change.enabled is None else change.enabled
    return structs.replace(rule, mode=change.mode or rule.mode, enabled=enabled)


def _value(exact: Exact, environ: Mapping[str, str] | None) -> list[Value]:
    """The value where it is. Raises ``Misconfigured``; the value is never told."""
    kind, _, where = exact.value.partition(":")
    if environ is None and kind == "env":
        return []
    if not is_reference(exact.value):
        text, whose = exact.value, "the value"
    elif kind == "env":
        text, whose = (environ or {}).get(where, ""), f"the environment variable {where}"
    else:
        path = expanduser(where)
        found = document.read(path, VALUE_LIMIT, private=True)
        text = found.data.decode("utf-8", "replace").strip() if found else ""
        whose = f"the file {path}"
    if len(text.encode()) < SHORTEST:
        what = f"{whose} is missing or shorter than {SHORTEST} bytes; such a value is everywhere"
        raise Misconfigured([Mistake("", 0, what)])
    return [Value(id=exact.id, text=text, mode=exact.mode)]

"""``secret-rules.yml`` in the configuration folder, and the seed that placeholders derive from.

The file is written by hand. What it does not mention stays as built in.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from os.path import dirname, expanduser
from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

from agentd.core import ids
from agentd.core.errors import ConfigError, ConfigProblem, Conflict, suggest_name
from agentd.core.secret_text import SecretText, is_reference
from agentd.gateway.secrets.builtin import BUILT_IN
from agentd.gateway.secrets.rules import (
    SHORTEST,
    ExactSecret,
    Mode,
    RuleId,
    SecretPattern,
    SecretRules,
    find_faults,
)
from agentd.storage import document
from agentd.storage.layout import Layout
from agentd.storage.watched_file import WatchedFile
from agentd.storage.yaml import reader as yaml_reader
from agentd.storage.yaml.schema import ValuePath

VALUE_LIMIT = 64 * 1024
"""The largest file with a value in it, in bytes."""

log = logging.getLogger(__name__)

_SEED_SIZE = 32
_SEED_LIMIT = 64 * 1024


class BuiltInChange(Struct, frozen=True):
    """The changes to one of the built-in rules."""

    mode: Mode | None = None
    enabled: bool | None = None


class ExactValueEntry(Struct, frozen=True, kw_only=True):
    """A value that is a secret wherever it stands."""

    id: RuleId
    value: Annotated[SecretText, Meta(min_length=1)]
    """The value itself, ``env:NAME`` or ``file:PATH``."""
    mode: Mode = "hide"

    def __repr__(self) -> str:
        """Omit the value."""
        return f"ExactValueEntry(id={self.id!r}, mode={self.mode!r})"


class SecretRulesYml(Struct, frozen=True):
    """The content of ``secret-rules.yml``."""

    format: Literal[1] = 1
    built_in: dict[str, BuiltInChange] = {}
    rules: tuple[SecretPattern, ...] = ()
    values: tuple[ExactValueEntry, ...] = ()


def load_rules(layout: Layout, environ: Mapping[str, str] | None) -> SecretRules:
    """Return the rules of the file and the built-in ones; only the latter without a file. Blocking.

    Without ``environ``, environment variables are not resolved. A file that contains a value itself
    must be readable by nobody else. Raises ``ConfigError`` with every problem, or
    ``Unavailable``.
    """
    path = layout.secret_rules
    found = document.read_document(path, yaml_reader.MAX_FILE_SIZE)
    if found is None:
        return SecretRules(BUILT_IN)
    values: list[ExactSecret] = []

    check = partial(_iter_problems, environ=environ, values=values)
    content = yaml_reader.load_yaml(path, found.data, SecretRulesYml, check)
    if any(not is_reference(exact.value) for exact in content.values):
        document.read_document(path, yaml_reader.MAX_FILE_SIZE, private=True)
    built_in = (
        apply_change(rule, content.built_in.get(rule.id, BuiltInChange())) for rule in BUILT_IN
    )
    return SecretRules((*content.rules, *built_in), tuple(values))


def watch_rules(
    layout: Layout, environ: Mapping[str, str], changed: Callable[[], None]
) -> WatchedFile[SecretRules]:
    """Return the rules as a watched file; ``changed`` is called on the loop when they change."""
    return WatchedFile(
        layout.secret_rules,
        partial(load_rules, layout, environ),
        SecretRules(BUILT_IN),
        changed,
    )


def check_rules(layout: Layout) -> None:
    """Raise if the file, or one that it refers to, is invalid. Blocking.

    Variables are not looked up: the daemon's environment differs from that of this process.
    """
    load_rules(layout, None)


def load_seed(layout: Layout) -> bytes:
    """Return the 32 random bytes of this state folder, creating them at the first call. Blocking.

    A damaged file is set aside and replaced. Raises ``ConfigError`` when others can read the
    file, or ``Unavailable``.
    """
    path = layout.placeholder_seed
    found = document.read_document(path, _SEED_LIMIT, own=True, private=True)
    if found and not _is_seed(found.data):
        aside = f"{path}.damaged-{time.time_ns()}"
        with document.translate_os_errors(path, "set aside"):
            os.rename(path, aside)
        log.error(
            "%s is damaged, and is now %s: secrets get other placeholders from now on,"
            " and suppliers do not know old conversations again", path, aside,
        )  # fmt: skip
        found = None
    if found is None:
        document.make_folder(dirname(path))
        try:
            document.create_document(path, made := ids.generate_signing_seed())
        except Conflict:
            return load_seed(layout)
        return made
    return found.data


def check_seed(layout: Layout) -> Iterator[ConfigProblem]:
    """Yield the problems of the seed without creating it. Blocking; raises as ``load_seed``."""
    path = layout.placeholder_seed
    found = document.read_document(path, _SEED_LIMIT, own=True, private=True)
    if found and not _is_seed(found.data):
        what = f"is damaged: it is not {_SEED_SIZE} random bytes; the next start makes another, and"
        yield ConfigProblem(path, 0, f"{what} suppliers do not know old conversations again")


def _is_seed(data: bytes) -> bool:
    return len(data) == _SEED_SIZE and any(data)


def validate(content: SecretRulesYml) -> Iterator[tuple[ValuePath, str]]:
    """Yield problems that the schema cannot express: the place and the reason. Blocking.

    Environment variables are not resolved.
    """
    return _iter_problems(content, None, [])


def _iter_problems(
    content: SecretRulesYml, environ: Mapping[str, str] | None, values: list[ExactSecret]
) -> Iterator[tuple[ValuePath, str]]:
    """Do as ``validate``, and collect the resolved ``values``."""
    yield from _find_contradictions(content)
    for number, exact in enumerate(content.values):
        try:
            values.extend(_resolve_exact(exact, environ))
        except ConfigError as error:
            yield ("values", number, "value"), error.problems[0].what


def _find_contradictions(content: SecretRulesYml) -> Iterator[tuple[ValuePath, str]]:
    known = [rule.id for rule in BUILT_IN]
    for name in content.built_in:
        if name not in known:
            yield ("built_in", name), f'"{name}" is not a built-in rule{suggest_name(name, known)}'
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
        for field, what in find_faults(rule):
            yield ("rules", number, field), what


def apply_change(rule: SecretPattern, change: BuiltInChange) -> SecretPattern:
    """Return a built-in rule as the file has it."""
    enabled = rule.enabled if change.enabled is None else change.enabled
    return structs.replace(rule, mode=change.mode or rule.mode, enabled=enabled)


def _resolve_exact(exact: ExactValueEntry, environ: Mapping[str, str] | None) -> list[ExactSecret]:
    """Resolve a value. Raises ``ConfigError``, never with the value in it."""
    kind, _, where = exact.value.partition(":")
    if environ is None and kind == "env":
        return []
    if not is_reference(exact.value):
        text, whose = exact.value, "the value"
    elif kind == "env":
        text, whose = (environ or {}).get(where, ""), f"the environment variable {where}"
    else:
        path = expanduser(where)
        found = document.read_document(path, VALUE_LIMIT, private=True)
        text = found.data.decode("utf-8", "replace").strip() if found else ""
        whose = f"the file {path}"
    if len(text.encode()) < SHORTEST:
        what = f"{whose} is missing or shorter than {SHORTEST} bytes; such a value is everywhere"
        raise ConfigError([ConfigProblem("", 0, what)])
    return [ExactSecret(id=exact.id, text=text, mode=exact.mode)]

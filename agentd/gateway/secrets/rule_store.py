"""Edits ``secret-rules.yml`` for the API; comments and all other bytes stay."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import structs

from agentd.core.errors import (
    BadRequest,
    ConfigError,
    ConfigProblem,
    Conflict,
    NotFound,
    Unavailable,
    suggest_name,
)
from agentd.gateway.admin.secret_rules import SecretRule, from_rule, to_rule
from agentd.gateway.secrets.builtin import BUILT_IN
from agentd.gateway.secrets.rule_file import (
    BuiltInChange,
    ExactValueEntry,
    SecretRulesYml,
    apply_change,
    validate,
)
from agentd.gateway.secrets.rules import SecretRules
from agentd.storage import document
from agentd.storage.layout import Layout
from agentd.storage.watched_file import WatchedFile
from agentd.storage.yaml import editor as yaml_editor
from agentd.storage.yaml import reader as yaml_reader
from agentd.storage.yaml.editor import YamlEditor
from agentd.storage.yaml.entries import NamedEntries

Revise = Callable[[SecretRule], SecretRule]

_BUILT_IN = {rule.id: rule for rule in BUILT_IN}


class SecretRuleStore:
    """The rules in the file, and their changes.

    ``rules`` is the same file as requests follow it. Each change returns the resulting rule, with
    ``dry_run`` the one that would result, and raises what ``NamedEntries`` raises.
    """

    def __init__(self, layout: Layout, rules: WatchedFile[SecretRules]) -> None:
        self._path = layout.secret_rules
        self._rules = rules
        self.built_in = list_rules(SecretRulesYml())
        """The rules without a file."""
        self.file = WatchedFile(self._path, self._list_entries, self.built_in)
        make = partial(
            NamedEntries[Any],
            self._path,
            SecretRulesYml,
            check=validate,
            called="id",
            private=True,
        )
        self._patterns = make(section="rules", what="rule")
        self._values = make(section="values", what="rule")
        self._writing = asyncio.Lock()

    @property
    def current(self) -> tuple[SecretRule, ...]:
        """The rules of the last valid version of the file."""
        return self.file.current

    @property
    def problems(self) -> tuple[ConfigProblem, ...]:
        """Why the file as it is now is not in force; empty if it is."""
        return self.file.problems

    async def read(self) -> tuple[SecretRule, ...]:
        """Return all rules of the file as it is now, or of its last valid version.

        Requests follow that version from then on, too.
        """
        await self._rules.ensure_current()
        await self.file.refresh()
        return self.current

    def find(self, name: str) -> SecretRule:
        """Return the rule with this id, as last read.

        Raises ``NotFound``, or ``Unavailable`` if the file, which may have it, is not accepted.
        """
        known = {one.id: one for one in self.current}
        if name in known:
            return known[name]
        if self.file.problems:
            raise Unavailable("The rules cannot be read", str(self.file.problems[0]))
        raise NotFound(f'There is no rule "{name[:100]}"{suggest_name(name, known)}')

    async def add(self, entry: SecretRule, *, dry_run: bool = False) -> SecretRule:
        """Add a rule: a pattern or a value."""
        if any(one.id == entry.id for one in await self.read()):
            raise Conflict(f'There is a rule "{entry.id}" already.')
        if entry.kind == "value":
            await self._change(partial(self._values.add, _to_exact(entry)), dry_run)
        else:
            await self._change(partial(self._patterns.add, to_rule(entry)), dry_run)
        return entry

    async def change(self, name: str, revise: Revise, *, dry_run: bool = False) -> SecretRule:
        """Change the rule with this id to what ``revise`` returns."""
        change: Callable[..., Any]
        await self.read()
        match self.find(name).kind:
            case "built-in":
                change = partial(self._switch, name, revise)
            case "pattern":
                change = partial(
                    self._patterns.change, name, lambda old: to_rule(revise(from_rule(old)))
                )
            case "value":
                change = partial(
                    self._values.change,
                    name,
                    lambda old: _to_exact(revise(_from_exact(old))),
                )
        return _to_entry(await self._change(change, dry_run))

    async def remove(
        self, name: str, check: Callable[[SecretRule], object] = bool, *, dry_run: bool = False
    ) -> SecretRule:
        """Remove a rule, unless ``check`` raises. Raises ``Conflict`` for a built-in one."""
        await self.read()
        match self.find(name).kind:
            case "built-in":
                raise Conflict(f'"{name}" is built in; disable it instead')
            case "pattern":
                remove = partial(self._patterns.remove, name, lambda old: check(from_rule(old)))
            case "value":
                remove = partial(self._values.remove, name, lambda old: check(_from_exact(old)))
        return _to_entry(await self._change(remove, dry_run))

    async def _change(self, change: Callable[..., Any], dry_run: bool) -> Any:
        async with self._writing:
            try:
                return await self.file.write(partial(change, dry_run=dry_run))
            finally:
                await self._rules.refresh()

    def _switch(self, name: str, revise: Revise, *, dry_run: bool) -> SecretRule:
        """Change the mode of a built-in rule, or switch it on or off. Blocking."""
        usual = _BUILT_IN[name]
        answer: list[SecretRule] = []

        def put(text: YamlEditor) -> None:
            change = self._load(text.content.encode()).built_in.get(name, BuiltInChange())
            before = from_rule(apply_change(usual, change), "built-in")
            after = revise(before)
            answer.append(after)
            for field in BuiltInChange.__struct_fields__:
                place, value = ("built_in", name, field), getattr(after, field)
                if value == getattr(before, field):
                    continue
                if value != getattr(usual, field):
                    text.set(place, value)
                else:
                    text.delete(place)
                    text.prune_empty(place[:-1])

        def fits(before: SecretRulesYml, after: SecretRulesYml) -> bool:
            now = from_rule(
                apply_change(usual, after.built_in.get(name, BuiltInChange())), "built-in"
            )
            return now == answer[0] and _drop_change(before, name) == _drop_change(after, name)

        try:
            yaml_editor.edit_yaml_file(
                self._path, self._load, put, fits, private=True, dry_run=dry_run
            )
        except ConfigError as error:
            problems = [problem.what for problem in error.problems]
            raise BadRequest("Invalid rule", "\n".join(problems)) from error
        return answer[0]

    def _list_entries(self) -> tuple[SecretRule, ...]:
        found = document.read_document(self._path, yaml_reader.MAX_FILE_SIZE)
        return list_rules(self._load(found.data) if found else SecretRulesYml())

    def _load(self, data: bytes) -> SecretRulesYml:
        return yaml_reader.load_yaml(self._path, data, SecretRulesYml, validate)


def list_rules(content: SecretRulesYml) -> tuple[SecretRule, ...]:
    """Return all rules: those of the file first, then the built-in ones."""
    return (
        *map(_from_exact, content.values),
        *map(from_rule, content.rules),
        *(
            from_rule(
                apply_change(rule, content.built_in.get(rule.id, BuiltInChange())), "built-in"
            )
            for rule in BUILT_IN
        ),
    )


def _to_entry(one: Any) -> SecretRule:
    match one:
        case SecretRule():
            return one
        case ExactValueEntry():
            return _from_exact(one)
    return from_rule(one)


def _from_exact(exact: ExactValueEntry) -> SecretRule:
    return SecretRule(id=exact.id, kind="value", mode=exact.mode, value=exact.value)


def _to_exact(entry: SecretRule) -> ExactValueEntry:
    return ExactValueEntry(id=entry.id, value=entry.value, mode=entry.mode)


def _drop_change(content: SecretRulesYml, name: str) -> SecretRulesYml:
    others = {rule: change for rule, change in content.built_in.items() if rule != name}
    return structs.replace(content, built_in=others)

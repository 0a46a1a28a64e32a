"""``secret-rules.yml`` as the API changes it: comments and every other byte stay."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import structs

from agentd.disk import document, handwritten, splice
from agentd.disk.entries import Entries
from agentd.disk.layout import Layout
from agentd.disk.reload import Reloaded
from agentd.disk.secret_rules import Changed, Exact, SecretRulesYml, changed, contradictions
from agentd.disk.splice import Text
from agentd.errors import BadRequest, Conflict, Misconfigured, NotFound, nearest
from agentd.proxy.management.secret_rules import SecretRule, of_rule, pattern
from agentd.proxy.secrets.builtin import BUILT_IN
from agentd.proxy.secrets.rules import Rules

Revise = Callable[[SecretRule], SecretRule]

_BUILT_IN = {rule.id: rule for rule in BUILT_IN}


class SecretRuleBook:
    """The rules as the file has them, and how they are changed.

    ``rules`` is the same file as requests follow it. Each change answers what the rule is then,
    unless it is a ``dry_run`` what it would be, and raises what ``Entries`` does.
    """

    def __init__(self, layout: Layout, rules: Reloaded[Rules]) -> None:
        self._path = layout.secret_rules
        self._rules = rules
        nothing = entries_of(SecretRulesYml())
        self.file = Reloaded(self._path, self._entries, nothing)
        make = partial(
            Entries[Any],
            self._path,
            SecretRulesYml,
            check=contradictions,
            called="id",
            private=True,
        )
        self._patterns = make(section="rules", what="rule")
        self._values = make(section="values", what="rule")
        self._writing = asyncio.Lock()

    @property
    def current(self) -> tuple[SecretRule, ...]:
        """All of them, as the file last said without a mistake."""
        return self.file.current

    async def read(self) -> tuple[SecretRule, ...]:
        """All of them, as the file says now, or said last without a mistake."""
        await self.file.refresh()
        return self.current

    async def add(self, entry: SecretRule, *, dry_run: bool = False) -> SecretRule:
        """One more: a pattern or a value."""
        if any(one.id == entry.id for one in await self.read()):
            raise Conflict(f'There is a rule "{entry.id}" already.')
        if entry.kind == "value":
            await self._change(partial(self._values.add, _exact(entry)), dry_run)
        else:
            await self._change(partial(self._patterns.add, pattern(entry)), dry_run)
        return entry

    async def change(self, name: str, revise: Revise, *, dry_run: bool = False) -> SecretRule:
        """``revise`` tells what becomes of the rule of this id."""
        change: Callable[..., Any]
        match (await self._find(name)).kind:
            case "built-in":
                change = partial(self._switch, name, revise)
            case "pattern":
                change = partial(
                    self._patterns.change, name, lambda old: pattern(revise(of_rule(old)))
                )
            case "value":
                change = partial(
                    self._values.change, name, lambda old: _exact(revise(_of_exact(old)))
                )
        return _entry(await self._change(change, dry_run))

    async def remove(
        self, name: str, check: Callable[[SecretRule], object] = bool, *, dry_run: bool = False
    ) -> SecretRule:
        """One less, unless ``check`` raises. ``Conflict`` for one that is built in."""
        match (await self._find(name)).kind:
            case "built-in":
                raise Conflict(f'"{name}" is built in; disable it instead')
            case "pattern":
                remove = partial(self._patterns.remove, name, lambda old: check(of_rule(old)))
            case "value":
                remove = partial(self._values.remove, name, lambda old: check(_of_exact(old)))
        return _entry(await self._change(remove, dry_run))

    async def _find(self, name: str) -> SecretRule:
        known = {one.id: one for one in await self.read()}
        if name not in known:
            raise NotFound(f'There is no rule "{name[:100]}"{nearest(name, known)}')
        return known[name]

    async def _change(self, change: Callable[..., Any], dry_run: bool) -> Any:
        async with self._writing:
            answer = await asyncio.to_thread(change, dry_run=dry_run)
            if not dry_run:
                await self.file.refresh()
                await self._rules.refresh()
        return answer

    def _switch(self, name: str, revise: Revise, *, dry_run: bool) -> SecretRule:
        """Change the mode of a built-in rule, or switch it on or off. Blocking."""
        usual = _BUILT_IN[name]
        answer: list[SecretRule] = []

        def put(text: Text) -> None:
            said = self._load(text.content.encode()).built_in.get(name, Changed())
            before = of_rule(changed(usual, said), "built-in")
            after = revise(before)
            answer.append(after)
            for field in Changed.__struct_fields__:
                place, value = ("built_in", name, field), getattr(after, field)
                if value == getattr(before, field):
                    continue
                if value != getattr(usual, field):
                    text.set(place, value)
                else:
                    text.drop(place)
                    text.prune(place[:-1])

        def fits(before: SecretRulesYml, after: SecretRulesYml) -> bool:
            now = of_rule(changed(usual, after.built_in.get(name, Changed())), "built-in")
            return now == answer[0] and _without(before, name) == _without(after, name)

        try:
            splice.rewrite(self._path, self._load, put, fits, private=True, dry_run=dry_run)
        except Misconfigured as error:
            told = [mistake.what for mistake in error.mistakes]
            raise BadRequest("The rule cannot be so", "\n".join(told)) from error
        return answer[0]

    def _entries(self) -> tuple[SecretRule, ...]:
        found = document.read(self._path, handwritten.LIMIT)
        return entries_of(self._load(found.data) if found else SecretRulesYml())

    def _load(self, data: bytes) -> SecretRulesYml:
        return handwritten.load(self._path, data, SecretRulesYml, contradictions)


def entries_of(content: SecretRulesYml) -> tuple[SecretRule, ...]:
    """All rules: those of the file first, then what is built in."""
    return (
        *map(_of_exact, content.values),
        *map(of_rule, content.rules),
        *(
            of_rule(changed(rule, content.built_in.get(rule.id, Changed())), "built-in")
            for rule in BUILT_IN
        ),
    )


def _entry(one: Any) -> SecretRule:
    match one:
        case SecretRule():
            return one
        case Exact():
            return _of_exact(one)
    return of_rule(one)


def _of_exact(exact: Exact) -> SecretRule:
    return SecretRule(id=exact.id, kind="value", mode=exact.mode, value=exact.value)


def _exact(entry: SecretRule) -> Exact:
    return Exact(id=entry.id, value=entry.value, mode=entry.mode)


def _without(content: SecretRulesYml, name: str) -> SecretRulesYml:
    others = {rule: change for rule, change in content.built_in.items() if rule != name}
    return structs.replace(content, built_in=others)

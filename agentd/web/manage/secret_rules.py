"""The rules by which secrets are hidden, as they are managed, and tried on samples."""

import asyncio
from collections.abc import Awaitable
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from agentd.errors import NotFound, nearest
from agentd.proxy.management.changes import Shown
from agentd.proxy.management.secret_rules import SecretRule, made, revised, shown
from agentd.proxy.management.service import Book, Journal, Managed
from agentd.proxy.secrets.hiding import Finding
from agentd.proxy.secrets.rules import Mode
from agentd.web.call import Answer, Call
from agentd.web.manage import shapes
from agentd.web.manage.listing import Listing
from agentd.web.manage.resource import Resource

SecretRuleView = shapes.shown(SecretRule)
SecretRulePage = shapes.listed(SecretRuleView)
NewSecretRule = shapes.new(SecretRule, "kind")
SecretRulePatch = shapes.patch(SecretRule, "id", "kind", readonly=("id", "kind"))


class Sample(Struct, frozen=True, forbid_unknown_fields=True):
    """A text to be looked through, by the rules that hold, and by one that is to be tried."""

    text: str
    """What is looked through."""
    rule: NewSecretRule | None = None  # type: ignore[valid-type]
    """A rule that is to be tried beside those that hold."""


class FindingView(Struct, frozen=True):
    """A secret that would be found, without anything of it."""

    rule: str
    """What found it."""
    mode: Mode
    """What would become of it."""
    line: int
    """From 1."""
    offset: int
    """Characters of the text before it."""
    length: int
    """Characters."""


class FindingsView(Struct, frozen=True):
    """What would be found, in order; ``blocked`` is the rule that would forbid the request."""

    findings: list[FindingView]
    """Each secret."""
    blocked: str
    """The rule for which the request would be refused; empty: none."""


class Rules(Book[SecretRule], Protocol):
    """Who keeps them (``disk.secret_rule_book.SecretRuleBook``)."""

    @property
    def current(self) -> tuple[SecretRule, ...]:
        """All, as they were read last."""
        ...

    def read(self) -> Awaitable[tuple[SecretRule, ...]]:
        """All, as the file is now."""
        ...


class Samples(Protocol):
    """Who looks through samples (``proxy.management.secret_rules.Samples``)."""

    def find(self, text: str, candidate: SecretRule | None = None) -> tuple[Finding, ...]:
        """What would be found. Takes a while."""
        ...


class SecretRuleDesk:
    """The endpoints below ``/api/agent/secret-rules``."""

    def __init__(self, rules: Rules, samples: Samples, journal: Journal) -> None:
        self._rules = rules
        self._samples = samples
        self.managed = Managed[SecretRule](
            "secret-rules", SecretRule, rules, journal, name=lambda one: one.id, show=_noted
        )
        listing = Listing[SecretRule](
            lambda: rules.current,
            lambda: rules.current,
            lambda one: one.id,
            lambda one: one.enabled,
        )
        self._one = Resource[SecretRule](
            self.managed, listing, self._find, _view, SecretRulePage, "id"
        )

    async def list_secret_rules(self, call: Call) -> Answer:
        """Page by page, the built-in ones, too."""
        await self._rules.read()
        return self._one.listed(call)

    async def one_secret_rule(self, call: Call) -> Answer:
        """One of them."""
        await self._rules.read()
        return self._one.one(call)

    async def add_secret_rule(self, call: Call) -> Answer:
        """A pattern or an exact value more; it holds from the next request on."""
        return await self._one.add(call, _made(call.json(NewSecretRule)))

    async def change_secret_rule(self, call: Call) -> Answer:
        """Another mode, pattern, …; of a built-in one only mode and enabled."""
        await self._rules.read()
        wish = call.json(SecretRulePatch)
        return await self._one.change(call, lambda old: revised(shapes.patched(old, wish), old))

    async def enable_secret_rule(self, call: Call) -> Answer:
        """It is looked for again."""
        await self._rules.read()
        return await self._one.change(call, lambda old: _switched(old, True), "enable")

    async def disable_secret_rule(self, call: Call) -> Answer:
        """It is not looked for."""
        await self._rules.read()
        return await self._one.change(call, lambda old: _switched(old, False), "disable")

    async def remove_secret_rule(self, call: Call) -> Answer:
        """One less, unless it is built in."""
        await self._rules.read()
        return await self._one.remove(call)

    async def test_secret_rules(self, call: Call) -> Answer:
        """What would be found in a sample; nothing of it is kept or told."""
        sample = call.json(Sample)
        wish: Any = sample.rule
        rule = None if wish is None else _made(wish)
        found = await asyncio.to_thread(self._samples.find, sample.text, rule)
        told = [FindingView(one.rule, one.mode, one.line, one.offset, one.length) for one in found]
        blocked = next((one.rule for one in found if one.mode == "block"), "")
        return Answer(FindingsView(told, blocked))

    def _find(self, name: str) -> SecretRule:
        known = {one.id: one for one in self._rules.current}
        if name not in known:
            raise NotFound(f'There is no rule "{name[:100]}"{nearest(name, known)}')
        return known[name]


def _made(wish: Any) -> SecretRule:
    return made(shapes.made(wish, SecretRule))


def _switched(old: SecretRule, enabled: bool) -> SecretRule:
    return revised(msgspec.structs.replace(old, enabled=enabled), old)


def _view(entry: SecretRule) -> Any:
    return shapes.told(shown(entry), SecretRuleView)


def _noted(entry: SecretRule) -> Shown:
    noted: Shown = msgspec.to_builtins(_view(entry))
    return noted

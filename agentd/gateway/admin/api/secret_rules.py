"""Endpoints of the secret rules, and of testing them on sample text."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from agentd.core.errors import BadRequest, ConfigProblem
from agentd.gateway.admin.api import shapes
from agentd.gateway.admin.api.listing import ResourceListing
from agentd.gateway.admin.api.resource import ResourceEndpoints, ResourceTypes
from agentd.gateway.admin.api.route_builders import (
    ResourceDocs,
    build_resource_routes,
    build_route,
)
from agentd.gateway.admin.changes import MaskedFields
from agentd.gateway.admin.secret_rules import SecretRule, apply_edit, create_rule, mask_rule
from agentd.gateway.admin.service import ChangeLog, ManagedResource, ResourceStore
from agentd.gateway.secrets.masker import Finding
from agentd.gateway.secrets.rules import Mode
from agentd.http.request import Request, Response
from agentd.http.routing import Route

SecretRuleView = shapes.define_view(SecretRule)
NewSecretRule = shapes.define_new(SecretRule, "kind")


class SampleText(Struct, frozen=True, forbid_unknown_fields=True):
    """A text to scan with the current rules and optionally one more."""

    text: str
    """The text to scan."""
    rule: NewSecretRule | None = None  # type: ignore[valid-type]
    """A rule to test in addition to the current ones."""


class FindingView(Struct, frozen=True):
    """A secret that would be found, without its value."""

    rule: str
    """Id of the rule that found it."""
    mode: Mode
    """The treatment of the match."""
    line: int
    """Line number, from 1."""
    offset: int
    """Characters before it."""
    length: int
    """Length in characters."""


class FindingsView(Struct, frozen=True):
    """The findings, in order."""

    findings: list[FindingView]
    """The secrets found."""
    blocked: str
    """Id of the rule that would block the request; empty: none."""


class ManagedRules(ResourceStore[SecretRule], Protocol):
    """The stored rules (``gateway.secrets.rule_store``)."""

    @property
    def current(self) -> tuple[SecretRule, ...]:
        """The rules as last read."""
        ...

    @property
    def built_in(self) -> tuple[SecretRule, ...]:
        """The rules without a file."""
        ...

    def read(self) -> Awaitable[tuple[SecretRule, ...]]:
        """Read all rules from the files."""
        ...

    @property
    def problems(self) -> Sequence[ConfigProblem]:
        """Why their file is not in force."""
        ...


class TextScanner(Protocol):
    """Scans text (``gateway.admin.secret_rules.SampleScanner``)."""

    def find(self, text: str, candidate: SecretRule | None = None) -> tuple[Finding, ...]:
        """Return the findings. CPU-bound."""
        ...


class SecretRuleEndpoints(ResourceEndpoints[SecretRule]):
    """The endpoints below ``/api/agent/secret-rules``."""

    types = ResourceTypes(
        SecretRuleView,
        shapes.define_page(SecretRuleView),
        NewSecretRule,
        shapes.define_patch(SecretRule, "id", "kind", readonly=("id", "kind")),
    )
    noun = "rule"
    path_parameter = "id"

    def __init__(self, rules: ManagedRules, samples: TextScanner, journal: ChangeLog) -> None:
        self._rules = rules
        self._samples = samples
        managed = ManagedResource[SecretRule](
            "secret-rules", SecretRule, rules, journal, name=lambda one: one.id, show=_to_log_fields
        )
        listing = ResourceListing[SecretRule](
            lambda: rules.current,
            lambda: rules.current,
            lambda one: one.id,
            lambda one: one.enabled,
        )
        super().__init__(managed, listing, lambda: rules.problems)

    def render(self, entry: SecretRule) -> Any:
        """Return the view of a rule."""
        return _to_view(entry)

    @property
    def has_entries_of_file(self) -> bool:
        """True if a rule of the file, or a change of a built-in one, is in force."""
        return self._rules.current != self._rules.built_in

    async def refresh(self) -> None:
        """Read the files of the rules."""
        await self._rules.read()

    def create(self, new: Any) -> SecretRule:
        """Make a rule, validated."""
        return create_rule(super().create(new))

    def revise(self, old: SecretRule, patch: Any) -> SecretRule:
        """Apply a patch; of a built-in rule only mode and enabled can change."""
        return apply_edit(super().revise(old, patch), old)

    def set_enabled(self, old: SecretRule, enabled: bool) -> SecretRule:
        """Enable or disable a rule; one of an exact value cannot be disabled."""
        return apply_edit(super().set_enabled(old, enabled), old)

    async def test_secret_rules(self, call: Request) -> Response:
        """Return the findings in a sample, which is neither stored nor returned.

        ``Unavailable`` if nothing of the file is in force: its rules may find more.
        """
        await self.require_in_force()
        sample = call.parse_json(SampleText)
        new: Any = sample.rule
        rule = None if new is None else self.create(new)
        found = await asyncio.to_thread(self._samples.find, sample.text, rule)
        views = [FindingView(one.rule, one.mode, one.line, one.offset, one.length) for one in found]
        blocked = next((one.rule for one in found if one.mode == "block"), "")
        return Response(FindingsView(views, blocked))


def _to_view(entry: SecretRule) -> Any:
    return shapes.to_view(mask_rule(entry), SecretRuleView)


def _to_log_fields(entry: SecretRule) -> MaskedFields:
    fields: MaskedFields = msgspec.to_builtins(_to_view(entry))
    return fields


_DOCS = ResourceDocs(
    path="/api/agent/secret-rules/{id}",
    types=SecretRuleEndpoints.types,
    noun="secret_rule",
    list="List the secret rules, including built-in ones; values are masked.",
    create="Create a rule: a regex (RE2) or an exact value; it applies from the next request on.",
    create_example={
        "id": "ticket",
        "description": "Tokens of the ticket system.",
        "regex": "tkt_([a-z0-9]{20})",
        "group": 1,
        "keywords": ["tkt_"],
    },
    get="Get one rule; its value is masked.",
    change="Change a rule: absent fields stay, null resets to the default; of a built-in one only"
    " mode and enabled.",
    change_example={"mode": "block"},
    delete="Delete a rule; a built-in one can only be disabled.",
    enable="Enable a rule.",
    disable="Disable a rule.",
)


def routes(endpoints: SecretRuleEndpoints) -> tuple[Route, ...]:
    """Return the routes of secret rules."""
    return (
        *build_resource_routes(endpoints, _DOCS),
        build_route(
            "POST",
            "/api/agent/secret-rules/test",
            endpoint=endpoints.test_secret_rules,
            summary="Return what would be found in a sample, and where; it is not stored.",
            request_type=SampleText,
            example={"text": "the token is tkt_0123456789abcdefghij"},
            response_type=FindingsView,
            errors=(BadRequest,),
        ),
    )

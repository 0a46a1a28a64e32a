"""The status of each setting: value in force, value in the file, and pending restart.

A secret leaves here masked. The mask reveals nothing, not even a length, and is always the same:
sending the masked value back changes nothing.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from agentd.core.errors import ConfigProblem
from agentd.settings.model import BY_MANAGERS, Settings, SourcedValue

AT_ONCE = frozenset(
    (
        *("hosts", "trusted_proxies", "engine", "codex_command", "claude_command", "acp_command"),
        *("opencode_project", "approvals", "approval_seconds", "approval_rules"),
        *("budget_per_chat", "budget_per_day", "turn_steps", "turn_seconds", "turn_cost"),
        *("silence_seconds", "on_interrupted", "max_parallel_turns", "drain_seconds"),
        *("worktree_setup", "worktree_setup_seconds"),
    )
)
"""Settings whose changes hold from when the file is saved, for what begins after that."""

RESTART = frozenset(
    (
        *("host", "port", "tls", "workspace", "state"),
        *("agent_api_key", "proxy_app_hash", "admin_user", "admin_password_hash"),
    )
)
"""Settings that the daemon takes up when it starts, and keeps."""

MASK = "********"
"""The placeholder of a secret that is set."""


SECRET = frozenset(
    field.name
    for field in structs.fields(Settings)
    if any((one.extra or {}).get("secret") for one in field.type.__metadata__)
)
"""Settings that are only shown masked."""


class SettingStatus(Struct, frozen=True, rename="camel"):
    """A setting, for a person or a program to see."""

    name: str
    """The name as in the file."""
    value: Any
    """The value in force."""
    next: Any
    """The value after the next start: differs from ``value`` only if that needs a restart."""
    waits: bool
    """True if ``value`` and ``next`` differ, even if both are masked."""
    file: Any
    """The value in ``agentd.yml``; null if it has none, or null."""
    default: Any
    """The default value."""
    source: str
    """The source of ``next``: ``--port``, ``AGENTD_PORT``, ``agentd.yml:3`` or ``default``."""
    restart: bool
    """True if a change has to wait for a restart."""
    secret: bool
    """True if it is shown masked."""
    role: Literal["manager", "administrator"]
    """The least role that may change it."""
    description: str
    """The purpose of the setting."""
    schema: dict[str, Any]
    """JSON Schema of the values that it takes."""


class SettingsView(Struct, frozen=True, rename="camel"):
    """All settings in the schema's order, and what is wrong with the hand-edited files."""

    settings: tuple[SettingStatus, ...]
    """Each setting."""
    problems: tuple[ConfigProblem, ...]
    """The problems in the files; their previous values stay in force."""


class SettingsFileContents(Struct, frozen=True):
    """The contents of ``agentd.yml``: the values, and the line of each setting in it.

    A line is 0 for what is only to be written.
    """

    settings: Settings = Settings()
    lines: Mapping[str, int] = {}


def mask_secrets(settings: Settings) -> Settings:
    """Return the settings with their secrets masked."""
    masked = {name: MASK for name in SECRET if getattr(settings, name)}
    return structs.replace(settings, **masked)


def unmask_secrets(new: Settings, old: Settings) -> Settings:
    """Return the settings with each mask replaced by the current secret."""
    masked = {name: getattr(old, name) for name in SECRET if getattr(new, name) == MASK}
    return structs.replace(new, **masked)


def apply_immediate(started: Settings, next_start: Settings) -> Settings:
    """Return the settings in effect after an edit; those that need a restart stay."""
    return structs.replace(started, **{name: getattr(next_start, name) for name in AT_ONCE})


def list_statuses(
    in_force: Settings,
    next_start: Settings,
    contents: SettingsFileContents,
    typed: Mapping[str, SourcedValue],
) -> tuple[SettingStatus, ...]:
    """List every setting; ``typed`` is what was set outside the file and precedes it."""
    masked = []
    for field in structs.fields(Settings):
        name = field.name
        (meta,) = (one for one in field.type.__metadata__ if one.description)
        secret = name in SECRET
        value, later = getattr(in_force, name), getattr(next_start, name)
        masked.append(
            SettingStatus(
                name=name,
                value=_mask(value, secret),
                next=_mask(later, secret),
                waits=value != later,
                file=_mask(getattr(contents.settings, name), secret)
                if name in contents.lines
                else None,
                default=field.default,
                source=_describe_source(name, contents, typed),
                restart=name in RESTART,
                secret=secret,
                role="manager" if name in BY_MANAGERS else "administrator",
                description=meta.description,
                schema=_build_schema(field.type),
            )
        )
    return tuple(masked)


def _mask(value: Any, secret: bool) -> Any:
    return MASK if secret and value else value


def _describe_source(
    name: str, contents: SettingsFileContents, typed: Mapping[str, SourcedValue]
) -> str:
    if name in typed:
        return typed[name][1]
    line = contents.lines.get(name)
    if line is None:
        return "default"
    return f"agentd.yml:{line}" if line else "agentd.yml"


def _build_schema(kind: Any) -> dict[str, Any]:
    schema = msgspec.json.schema(kind, ref_template="#/$defs/{name}")
    return {name: part for name, part in _simplify_schema(schema).items() if name != "description"}


def _simplify_schema(schema: Any) -> Any:
    """Simplify a schema: money is taken as a number, and as text where exact digits matter."""
    if isinstance(schema, list):
        return [_simplify_schema(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("format") == "decimal":
        return {"type": ["number", "string"]}
    return {name: _simplify_schema(part) for name, part in schema.items()}

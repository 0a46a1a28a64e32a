"""How each setting stands: what is in force, what the file says, and what waits for a restart.

A secret leaves here masked. The mask tells nothing, not even a length, and is always the same:
whoever sends back what he was shown changes nothing.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from agentd.catalog.settings import BY_MANAGERS, Given, Settings
from agentd.errors import Mistake

AT_ONCE = frozenset(
    (
        *("hosts", "trusted_proxies", "engine", "codex_command", "claude_command", "acp_command"),
        *("approvals", "approval_seconds", "approval_rules"),
        *("budget_per_chat", "budget_per_day", "turn_steps", "turn_seconds", "turn_cost"),
        *("silence_seconds", "on_interrupted", "max_parallel_turns", "drain_seconds"),
    )
)
"""Settings whose changes hold from when the file is saved, for what begins after that."""

RESTART = frozenset(
    (
        *("host", "port", "workspace", "state"),
        *("agent_api_key", "proxy_app_hash", "admin_user", "admin_password_hash"),
    )
)
"""Settings that the daemon takes up when it starts, and keeps."""

MASK = "********"
"""Stands for a secret that is set."""


SECRET = frozenset(
    field.name
    for field in structs.fields(Settings)
    if any((one.extra or {}).get("secret") for one in field.type.__metadata__)
)
"""Settings that are only shown masked."""


class Standing(Struct, frozen=True, rename="camel"):
    """One setting, for a person or a program to see."""

    name: str
    """As in the file."""
    value: Any
    """What is in force."""
    next: Any
    """What the next start puts in force: another than ``value`` only if that needs a restart."""
    waits: bool
    """The two differ, also where a mask hides it."""
    file: Any
    """What ``agentd.yml`` says; null when it says nothing of it, or null."""
    default: Any
    """What holds where nothing is said."""
    source: str
    """Whose word ``next`` is: ``--port``, ``AGENTD_PORT``, ``agentd.yml:3`` or ``default``."""
    restart: bool
    """Whether a change has to wait for a restart."""
    secret: bool
    """Whether it is shown masked."""
    role: Literal["manager", "administrator"]
    """The least role that may change it."""
    description: str
    """What it is for."""
    schema: dict[str, Any]
    """JSON Schema of the values that it takes."""


class SettingsView(Struct, frozen=True, rename="camel"):
    """All settings in the schema's order, and what is wrong with the hand-edited files."""

    settings: tuple[Standing, ...]
    """Each setting."""
    mistakes: tuple[Mistake, ...]
    """What is wrong with the files; what they said before holds then."""


class Written(Struct, frozen=True):
    """What ``agentd.yml`` says: its content, and the line of each setting that stands in it.

    A line is 0 for what is only to be written.
    """

    settings: Settings = Settings()
    lines: Mapping[str, int] = {}


def masked(settings: Settings) -> Settings:
    """The settings as they may be told."""
    told = {name: MASK for name in SECRET if getattr(settings, name)}
    return structs.replace(settings, **told)


def unmasked(new: Settings, old: Settings) -> Settings:
    """What is meant by settings in which a mask stands for the secret that is there."""
    told = {name: getattr(old, name) for name in SECRET if getattr(new, name) == MASK}
    return structs.replace(new, **told)


def kept(started: Settings, next_start: Settings) -> Settings:
    """What is in force after an edit: all that needs no restart is as the next start has it."""
    return structs.replace(started, **{name: getattr(next_start, name) for name in AT_ONCE})


def standings(
    in_force: Settings, next_start: Settings, said: Written, typed: Mapping[str, Given]
) -> tuple[Standing, ...]:
    """Every setting; ``typed`` is what was said outside the file, and comes before it."""
    told = []
    for field in structs.fields(Settings):
        name = field.name
        (meta,) = (one for one in field.type.__metadata__ if one.description)
        secret = name in SECRET
        value, later = getattr(in_force, name), getattr(next_start, name)
        told.append(
            Standing(
                name=name,
                value=_shown(value, secret),
                next=_shown(later, secret),
                waits=value != later,
                file=_shown(getattr(said.settings, name), secret) if name in said.lines else None,
                default=field.default,
                source=_source(name, said, typed),
                restart=name in RESTART,
                secret=secret,
                role="manager" if name in BY_MANAGERS else "administrator",
                description=meta.description,
                schema=_schema(field.type),
            )
        )
    return tuple(told)


def _shown(value: Any, secret: bool) -> Any:
    return MASK if secret and value else value


def _source(name: str, said: Written, typed: Mapping[str, Given]) -> str:
    if name in typed:
        return typed[name][1]
    line = said.lines.get(name)
    if line is None:
        return "default"
    return f"agentd.yml:{line}" if line else "agentd.yml"


def _schema(kind: Any) -> dict[str, Any]:
    schema = msgspec.json.schema(kind, ref_template="#/$defs/{name}")
    return {name: part for name, part in _numeric(schema).items() if name != "description"}


def _numeric(schema: Any) -> Any:
    """Money is taken as a number, and as text where the exact digits matter."""
    if isinstance(schema, list):
        return [_numeric(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("format") == "decimal":
        return {"type": ["number", "string"]}
    return {name: _numeric(part) for name, part in schema.items()}

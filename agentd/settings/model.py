"""The settings, their descriptions, and the precedence of their sources.

The same ``Settings`` is the schema of the file ``agentd.yml``, the text that ``agentd init``
writes, and the resolved values that the daemon runs with.
"""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from ipaddress import ip_address, ip_network
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct, structs

from agentd.agent.approval_rules import ApprovalRule
from agentd.auth.password import is_password_hash
from agentd.auth.roles import User, is_user_name
from agentd.chats.approval import ApprovalMode
from agentd.core.errors import ConfigError, ConfigProblem
from agentd.models.model import EngineName

_HOST_NAME = re.compile(r"(?=.{1,253}\.?$)[A-Za-z0-9_]([A-Za-z0-9_-]{0,62}\.?)*", re.ASCII)

Text: TypeAlias = Annotated[str, Meta(min_length=1, max_length=4096)]


class TlsFiles(Struct, frozen=True):
    """The files by which the daemon answers https."""

    certificate: Text
    """The certificate, and below it those that sign it, as PEM."""
    key: Text
    """Its private key, as PEM."""


class Settings(Struct, frozen=True):
    """The settings, each with its default and, for a person, what it does."""

    host: Annotated[
        Text,
        Meta(
            description="The address to listen on; 0.0.0.0 is every IPv4 address of this host,"
            " :: also of IPv6."
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65535, description="The port to listen on; 0 takes any free one.")
    ] = 8750
    hosts: Annotated[
        tuple[Text, ...],
        Meta(description="Further names by which clients may call this host, beside loopback."),
    ] = ()
    trusted_proxies: Annotated[
        tuple[Text, ...],
        Meta(
            description="Addresses or networks (10.0.0.0/8) of trusted reverse proxies, whose"
            " X-Forwarded-For and X-Forwarded-Proto are believed."
        ),
    ] = ()
    tls: Annotated[
        TlsFiles | None,
        Meta(
            description="Answer https instead of http, with the files {certificate: PATH,"
            " key: PATH}; agentd tls makes them for the local network."
        ),
    ] = None
    workspace: Annotated[
        str,
        Meta(
            max_length=4096,
            description="The folder that the agent works in; empty: the current folder, or the"
            " systemd"
            " unit's.",
        ),
    ] = ""
    state: Annotated[
        str,
        Meta(description="The daemon's state folder; empty: that of the checkout or of the user."),
    ] = ""
    agent_api_key: Annotated[
        str,
        Meta(
            description="SHA-256 of one API key, from agentd hash-key; never the key itself.",
            extra={"secret": True},
        ),
    ] = ""
    admin_user: Annotated[
        str,
        Meta(description="The name of an administrator beside those of users.yml; empty: none."),
    ] = ""
    admin_password_hash: Annotated[
        str,
        Meta(
            description="The administrator's password, as agentd hash-password prints it.",
            extra={"secret": True},
        ),
    ] = ""
    proxy_app_hash: Annotated[
        str,
        Meta(
            description="SHA-256 of the model gateway's management key; empty: disabled.",
            extra={"secret": True},
        ),
    ] = ""
    engine: Annotated[
        EngineName,
        Meta(description="The engine for the prompts of chats without a model."),
    ] = "offline"
    codex_command: Annotated[
        tuple[Text, ...],
        Meta(
            min_length=1,
            description="The command line of the engine codex.",
        ),
    ] = ("codex",)
    claude_command: Annotated[
        tuple[Text, ...],
        Meta(
            min_length=1,
            description="The command line of the engine claude-code.",
        ),
    ] = ("claude",)
    acp_command: Annotated[
        tuple[Text, ...],
        Meta(
            min_length=1,
            description="The command line of the engine acp: any ACP agent.",
        ),
    ] = ("opencode", "acp")
    opencode_project: Annotated[
        Literal["ignore", "load"],
        Meta(
            description="The workspace's opencode.json and .opencode, whose plugins, tools, MCP"
            " servers and formatters opencode runs without a question: ignore, or load them."
        ),
    ] = "ignore"
    approvals: Annotated[
        ApprovalMode,
        Meta(
            description="Shell commands and changes outside the workspace: ask, auto (allow)"
            " or deny."
            " Inside it the agent reads and writes freely, except for protected files."
        ),
    ] = "ask"
    approval_seconds: Annotated[
        float,
        Meta(
            ge=1,
            le=86400,
            description="The seconds a person has to answer a question; after that it is denied.",
        ),
    ] = 600.0
    approval_rules: Annotated[
        tuple[ApprovalRule, ...],
        Meta(
            description="Rules that decide questions: the first that matches decides, such as"
            " {decision: allow, kind: shell, subject: git status*}."
        ),
    ] = ()
    budget_per_chat: Annotated[
        Decimal | None,
        Meta(description="USD that a chat may cost before it pauses and asks; null: unlimited."),
    ] = None
    budget_per_day: Annotated[
        Decimal | None,
        Meta(description="USD that all chats may cost on a day (UTC) before they pause and ask."),
    ] = None
    turn_steps: Annotated[
        int, Meta(ge=1, le=10000, description="The most model calls in a turn of engine native.")
    ] = 60
    turn_seconds: Annotated[
        float, Meta(ge=1, le=86400, description="The longest turn of engine native.")
    ] = 1800.0
    turn_cost: Annotated[
        Decimal | None, Meta(description="The most USD that a turn of engine native may cost.")
    ] = None
    silence_seconds: Annotated[
        float,
        Meta(
            ge=1,
            le=86400,
            description="A program without output for this long is ended. If it reported a"
            " longer rate"
            " limit, the prompt waits in the queue until that ends.",
        ),
    ] = 600.0
    on_interrupted: Annotated[
        Literal["stop", "retry"],
        Meta(
            description="A prompt that a crash or the daemon's stop interrupts: stop (do not send"
            " it again) or retry at the next start."
        ),
    ] = "stop"
    max_parallel_turns: Annotated[
        int,
        Meta(
            ge=1,
            le=64,
            description="The number of chats that may run at once, without those that wait for a"
            " person.",
        ),
    ] = 2
    worktree_setup: Annotated[
        tuple[Text, ...],
        Meta(
            description="The command that sets up a chat's git work tree, in its folder: a program"
            " and its arguments, such as [npm, ci], or [git, submodule, update, --init], without"
            " which submodules are empty there; empty: none."
        ),
    ] = ()
    worktree_setup_seconds: Annotated[
        float,
        Meta(ge=1, le=86400, description="The seconds that worktree_setup may take."),
    ] = 600.0
    drain_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=3600,
            description="The seconds that running turns may continue when the daemon stops;"
            " one that waits for a person's answer is ended at once.",
        ),
    ] = 30.0


BY_MANAGERS = frozenset(
    (
        *("engine", "turn_steps", "turn_seconds", "silence_seconds"),
        *("on_interrupted", "max_parallel_turns", "drain_seconds"),
    )
)
"""The settings that a manager and holders of a remote API key may change.

All others require an administrator's login, a new one too until it is listed here: they widen what
can be done with a key that leaked. They define which keys and people are admitted
(``agent_api_key``, ``admin_*``), from where (``host``, ``hosts``, ``port``, ``trusted_proxies``),
which programs are started (``*_command``, ``opencode_project``), what these may touch
(``workspace``, ``state``, ``approval*``) and what all of it may cost (``budget_*``, ``turn_cost``).
"""

BY_ADMINISTRATORS = frozenset(Settings.__struct_fields__) - BY_MANAGERS
"""The settings that only an administrator may change."""

IDENTITIES = frozenset(("admin_user", "admin_password_hash", "proxy_app_hash"))
"""The settings that say who is an administrator: not even the management key changes them.

It does not replace the administrator's password (the proxy specification, section 1).
"""

VARIABLES: Mapping[str, str] = {
    "AGENTD_HOST": "host",
    "AGENTD_PORT": "port",
    "AGENTD_STATE": "state",
    "AGENTD_WORKSPACE": "workspace",
    "AGENT_API_KEY": "agent_api_key",
    "PROXY_APP_HASH": "proxy_app_hash",
    "AGENTD_ADMIN_USER": "admin_user",
    "AGENTD_ADMIN_PASSWORD_HASH": "admin_password_hash",
}
"""The settings that the environment may give, by the name of the variable."""

DOTENV_VARIABLES = ("AGENT_API_KEY", "PROXY_APP_HASH")
"""The variables that a file ``.env`` may define, too.

No more than the specifications name: the working folder may be a stranger's repository, whose
``.env`` must not say where agentd listens, keeps its state or finds its configuration.
"""

CONFIG_VARIABLE = "AGENTD_CONFIG"
"""Names the folder of ``agentd.yml``, so it is no setting of that file."""

SourcedValue: TypeAlias = tuple[str, str]
"""A value as it was typed, and where: an option, a variable, or a variable of a ``.env``."""


def collect_overrides(
    options: Mapping[str, str],
    environ: Mapping[str, str],
    dotenv: Mapping[str, str],
    dotenv_path: str = ".env",
) -> dict[str, SourcedValue]:
    """Collect the values given outside the file, by setting; the first source wins.

    ``options`` is keyed by setting, ``environ`` and ``dotenv`` by variable. What is empty counts
    as not given. The folder of the file is here too, as ``config``.
    """
    found = {
        name: (value, f"--{name.replace('_', '-')}") for name, value in options.items() if value
    }
    for variable, name in {**VARIABLES, CONFIG_VARIABLE: "config"}.items():
        if environ.get(variable):
            found.setdefault(name, (environ[variable], variable))
        if variable in DOTENV_VARIABLES and dotenv.get(variable):
            found.setdefault(name, (dotenv[variable], f"{variable} in {dotenv_path}"))
    return found


def resolve_settings(typed: Mapping[str, SourcedValue], file: Settings, where: str) -> Settings:
    """Return the effective settings: ``typed`` values take precedence over the ``file``.

    ``where`` is the file's path, for its mistakes. Raises ``ConfigError`` with all of them.
    """
    problems: list[ConfigProblem] = []
    changes: dict[str, Any] = {}
    for name, (value, source) in typed.items():
        if name == "port":
            changes[name] = _parse_port(value, source, problems)
        elif name in file.__struct_fields__:
            changes[name] = value
    settings = structs.replace(file, **changes)
    for name in ("agent_api_key", "proxy_app_hash"):
        _, source = typed.get(name, ("", where))
        hashed = getattr(settings, name)
        if hashed and (why := explain_invalid_hash(hashed)):
            problems.append(ConfigProblem(source, 0, f"{name}: {why}"))
    problems += _find_address_problems(settings, typed, where)
    problems += _find_money_problems(settings, where)
    problems += _find_gateway_problems(settings, where)
    problems += _find_admin_problems(settings, typed, where)
    if problems:
        raise ConfigError(problems)
    return settings


def get_administrator(settings: Settings) -> User | None:
    """Return the administrator that the settings name, validated by ``resolve_settings``."""
    if not settings.admin_user:
        return None
    return User(settings.admin_user, "administrator", settings.admin_password_hash)


def _find_address_problems(
    settings: Settings, typed: Mapping[str, SourcedValue], where: str
) -> Iterable[ConfigProblem]:
    _, source = typed.get("host", ("", where))
    expected = "expected an address such as 127.0.0.1 or ::1, or the name of a host"
    if not _is_host(settings.host):
        yield ConfigProblem(source, 0, f"host: {settings.host[:100]!r} is no host; {expected}")
    for name in settings.hosts:
        if not _is_host(name):
            what = f"hosts: {name[:100]!r} is no host; {expected}, without scheme or port"
            yield ConfigProblem(where, 0, what)


def _is_host(text: str) -> bool:
    if _HOST_NAME.fullmatch(text):
        return True
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _find_money_problems(settings: Settings, where: str) -> Iterable[ConfigProblem]:
    """Find amounts that no sum can be compared with (NaN), or that every sum exceeds."""
    for name in ("budget_per_chat", "budget_per_day", "turn_cost"):
        amount: Decimal | None = getattr(settings, name)
        if amount is not None and not (amount.is_finite() and amount >= 0):
            yield ConfigProblem(
                where, 0, f"{name}: found {amount}; expected USD, 0 or more, or null"
            )


def _find_admin_problems(
    settings: Settings, typed: Mapping[str, SourcedValue], where: str
) -> Iterable[ConfigProblem]:
    name, hashed = settings.admin_user, settings.admin_password_hash
    _, source = typed.get("admin_user", ("", where))
    if hashed and not name:
        yield ConfigProblem(source, 0, "admin_user: is missing beside admin_password_hash")
    elif name and not is_user_name(name):
        yield ConfigProblem(
            source, 0, "admin_user: found no name; expected letters, digits and . _ @ -"
        )
    _, source = typed.get("admin_password_hash", ("", where))
    if name and not is_password_hash(hashed):
        what = "is no hash of a password" if hashed else "is missing beside admin_user"
        what = f"admin_password_hash: {what}; expected what agentd hash-password prints"
        yield ConfigProblem(source, 0, what)


def _find_gateway_problems(settings: Settings, where: str) -> Iterable[ConfigProblem]:
    for one in settings.trusted_proxies:
        try:
            ip_network(one, strict=False)
        except ValueError:
            what = f'found "{one[:64]}"; expected an address or a network such as 10.0.0.0/8'
            yield ConfigProblem(where, 0, f"trusted_proxies: {what}")


def explain_invalid_hash(value: str) -> str:
    """Explain why this is not the hash of a key, without repeating it; empty when it is one."""
    if re.fullmatch("[0-9a-f]{64}", value):
        return ""
    if value.strip() != value or any(character.isspace() for character in value):
        why = "has white space or a line break in it"
    elif value.startswith("agent_"):
        why = "looks like a key itself, not like its hash; consider that key known to others"
    elif re.fullmatch("[0-9a-f]{64}", value.lower()):
        why = "is in upper case"
    elif len(value) != 64:
        why = f"has {len(value)} characters"
    else:
        why = "has characters other than 0-9 and a-f"
    return f"{why}; expected the 64 lowercase hexadecimal digits that agentd hash-key prints"


def iter_documented() -> Iterable[tuple[str, Any, str]]:
    """Iterate over each setting's name, default and description, in order."""
    for field in structs.fields(Settings):
        (meta,) = (one for one in field.type.__metadata__ if one.description)
        yield field.name, field.default, meta.description


def _parse_port(value: str, source: str, problems: list[ConfigProblem]) -> int:
    if re.fullmatch("[0-9]{1,5}", value) and int(value) <= 65535:
        return int(value)
    problems.append(ConfigProblem(source, 0, "is not a port; expected a whole number 0 to 65535"))
    return 0

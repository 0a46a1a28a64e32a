"""MCP servers as ``config/mcp.yml`` and a workspace's ``.mcp.json`` name them. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct, structs

from agentd.agent.mcp_servers.launch_masking import (
    VARIABLE,
    find_key_like_parts,
    find_secret_arguments,
    mask_value,
)
from agentd.core.redaction import mask_values
from agentd.core.secret_text import MASK, is_reference
from agentd.llm.upstream.header_rules import find_header_problem

SERVER_NAME_FORM = "at most 32 letters, digits, - and _, not beginning with a sign"
ServerName: TypeAlias = Annotated[
    str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9_-]{0,31}\\Z", extra={"form": SERVER_NAME_FORM})
]
Argument: TypeAlias = Annotated[str, Meta(max_length=4096)]
VariableName: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^[A-Za-z_][A-Za-z0-9_]{0,99}\\Z",
        extra={"form": "at most 100 letters, digits and _, not beginning with a digit"},
    ),
]
Address: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^((https?://|\\$\\{)[^\\s#]+)?\\Z",
        max_length=2000,
        extra={"form": "an address such as https://docs.example/mcp, without blanks and #"},
    ),
]
SecretValue: TypeAlias = Annotated[str, Meta(max_length=8192, extra={"secret": True})]
"""A text with ``${NAME}`` in it, ``env:NAME`` or ``file:PATH``."""

MOST_SERVERS = 50
PROJECT_FILE = ".mcp.json"
"""The file of a workspace that names servers, as many agents read it."""
DEFAULT_SECONDS = 60

_SHORTEST_HIDDEN, _SHORTEST_TOKEN = 4, 8


class McpServerSettings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A server: a program that is started (``command``), or an address (``url``)."""

    name: ServerName
    enabled: bool = True
    command: Annotated[tuple[Argument, ...], Meta(max_length=100)] = ()
    """The program with its arguments, which is spoken with over its standard input and output."""
    env: dict[VariableName, SecretValue] = {}
    """Further variables of the program, which inherits none of the daemon's keys."""
    url: Address = ""
    """The address of a server that speaks Streamable HTTP; loopback is allowed."""
    headers: dict[Annotated[str, Meta(max_length=100)], SecretValue] = {}
    """Headers of each request to the address."""
    allow: Annotated[tuple[Annotated[str, Meta(max_length=128)], ...], Meta(max_length=200)] = ()
    """Tools that need no approval, by the server's names; ``*`` and ``?`` are wildcards."""
    allow_reading: bool = False
    """Tools need no approval that the server itself says only read."""
    engines: tuple[Literal["native", "codex", "claude-code", "acp"], ...] = ()
    """The engines that get the server; empty: all."""
    seconds: Annotated[int, Meta(ge=1, le=3600)] = DEFAULT_SECONDS
    """A call is given up after so many seconds without progress."""

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise ValueError("expected either a command or a url")
        if self.command and self.headers:
            raise ValueError("headers: only a server with a url has them; a program has env")
        if self.url and self.env:
            raise ValueError("env: only a server with a command has it; an address has headers")
        if self.command and not self.command[0].strip():
            raise ValueError("command: expected a program")
        for name, value in self.headers.items():
            if wrong := find_header_problem(name, value):
                raise ValueError(f"headers.{name}: {wrong}")
        for name, value in {**self.env, **self.headers}.items():
            if value.startswith(MASK):
                raise ValueError(f"{name}: is a masked secret, not the secret itself")

    @property
    def secrets(self) -> Mapping[str, str]:
        """The values that are not shown: variables, or headers."""
        return {**self.env, **self.headers}

    def __repr__(self) -> str:
        """Return a representation without secrets, for logs and tracebacks."""
        return f"McpServerSettings(name={self.name!r}, enabled={self.enabled!r})"


class McpSettings(Struct, frozen=True):
    """The content of ``mcp.yml``."""

    format: Literal[1] = 1
    servers: Annotated[tuple[McpServerSettings, ...], Meta(max_length=MOST_SERVERS)] | None = None
    variables: dict[VariableName, SecretValue] = {}
    """What ``${NAME}`` stands for in a workspace's ``.mcp.json``, which sees no other secrets."""
    project_servers: bool = True
    """Ask about the servers that a workspace's ``.mcp.json`` names; false: ignore them."""

    @property
    def all(self) -> tuple[McpServerSettings, ...]:
        """All servers, in the file's order."""
        return self.servers or ()


class ReadyServer(Struct, frozen=True):
    """A server with its secrets filled in, as it is started or called."""

    name: str
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    url: str = ""
    headers: Mapping[str, str] = {}
    allow: tuple[str, ...] = ()
    allow_reading: bool = False
    seconds: float = DEFAULT_SECONDS
    configured: bool = True
    """True if it is the owner's (``mcp.yml``), not the workspace's."""

    @property
    def fingerprint(self) -> str:
        """Differs when it is to be started or called in another way."""
        return sha256(msgspec.json.encode(self, order="sorted")).hexdigest()

    def allows(self, tool: str, *, reads: bool) -> bool:
        """Return whether a tool, by the server's name, needs no approval."""
        return (self.allow_reading and reads) or any(
            fnmatchcase(tool, pattern) for pattern in self.allow
        )

    def hide_secrets(self, text: str) -> str:
        """Return a text without the values of variables and headers, and tokens at their ends.

        The shortest ones, such as ``1`` or ``on``, are no secrets, and would be found everywhere.
        Parts of the address and of arguments that look like keys are hidden, too.
        """
        values = (*self.env.values(), *self.headers.values())
        tokens = (value.rpartition(" ")[2] for value in values)
        secrets = [value for value in values if len(value) >= _SHORTEST_HIDDEN]
        secrets += [token for token in tokens if len(token) >= _SHORTEST_TOKEN]
        secrets += find_key_like_parts(self.url.partition("://")[2].partition("/")[2])
        arguments = find_secret_arguments(self.command)
        secrets += [one for one in arguments if len(one) >= _SHORTEST_HIDDEN]
        return mask_values(text, secrets)

    def __repr__(self) -> str:
        """Return a representation without secrets, for logs and tracebacks."""
        return f"ReadyServer(name={self.name!r})"


class ProjectServer(Struct, frozen=True):
    """A server of a workspace's ``.mcp.json``, as it is written there; no secret is filled in."""

    server: McpServerSettings
    digest: str
    """Differs when anything about it is changed."""

    def bind(self, workspace: str) -> "ProjectServer":
        """Return it with a digest for this workspace: elsewhere ``./serve`` is another program."""
        bound = f"{workspace}\0{self.digest}".encode(errors="surrogateescape")
        return structs.replace(self, digest=sha256(bound).hexdigest())


def validate(settings: McpSettings) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield what is wrong with servers as a whole: the place, and what."""
    seen: set[str] = set()
    for number, server in enumerate(settings.all):
        if server.name in seen:
            yield ("servers", number, "name"), f'"{server.name}" is already the name of a server'
        seen.add(server.name)


def parse_project_file(data: bytes) -> tuple[tuple[ProjectServer, ...], tuple[str, ...]]:
    """Return the servers of a ``.mcp.json``, and what is wrong with others."""
    try:
        content = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return (), (f"{PROJECT_FILE} is not JSON: {error}",)
    listed = content.get("mcpServers") if isinstance(content, dict) else None
    if not isinstance(listed, dict):
        return (), (f'{PROJECT_FILE} has no object "mcpServers"',)
    servers, problems = [], []
    for name, entry in list(listed.items())[:MOST_SERVERS]:
        try:
            servers.append(read_foreign_server(str(name), entry))
        except ValueError as error:
            problems.append(f"{PROJECT_FILE}: {str(name)[:100]}: {error}")
    return tuple(servers), tuple(problems)


class _ProjectEntry(Struct):
    """An entry of ``mcpServers``; what else an agent writes there is not ours."""

    command: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    type: str = ""
    url: str = ""
    headers: dict[str, str] = {}


def read_foreign_server(name: str, entry: object) -> ProjectServer:
    """Return a server as ``mcpServers`` has it; ``ValueError`` says what is wrong with it."""
    try:
        found = msgspec.convert(entry, _ProjectEntry)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    if found.type not in ("", "stdio", "http", "streamable-http", "streamableHttp"):
        raise ValueError(f"the transport {found.type[:50]} is not supported; stdio and http are")
    written = {
        "name": name,
        "command": [found.command, *found.args] if found.command else [],
        "env": found.env,
        # The address may have ${NAME} in it, which the pattern of mcp.yml allows as well.
        "url": "" if found.command else found.url,
        "headers": {} if found.command else found.headers,
    }
    try:
        server = msgspec.convert(written, McpServerSettings)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    if any(is_reference(value) for value in server.secrets.values()):
        raise ValueError("env: and file: are for mcp.yml; write ${NAME}")
    digest = sha256(msgspec.json.encode(server, order="sorted")).hexdigest()
    return ProjectServer(server, digest)


def expand(text: str, variables: Mapping[str, str], missing: list[str]) -> str:
    """Return a text with ``${NAME}`` and ``${NAME:-default}`` filled in.

    The names that have no value are added to ``missing``.
    """

    def fill(found: "re.Match[str]") -> str:
        name, default = found[1], found[2]
        value = variables.get(name) or default
        if value is None:
            missing.append(name)
        return value or ""

    return VARIABLE.sub(fill, text)


def mask_server(server: McpServerSettings) -> dict[str, dict[str, str]]:
    """Return the variables and headers of a server as they may be shown."""
    return {
        "env": {name: mask_value(value) for name, value in server.env.items()},
        "headers": {name: mask_value(value) for name, value in server.headers.items()},
    }


def keep_masked(new: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """Return values of which each masked one is the one before."""
    return {
        name: before[name] if name in before and value == mask_value(before[name]) else value
        for name, value in new.items()
    }


def describe_launch(server: McpServerSettings, *, masked: bool = False) -> str:
    """Describe how a server is started or called: for the person who is asked, or masked."""
    shown = mask_server(server) if masked else {"env": server.env, "headers": server.headers}
    lines = [" ".join(server.command) if server.command else server.url]
    lines += [f"{name}={value}" for name, value in shown["env"].items()]
    lines += [f"{name}: {value}" for name, value in shown["headers"].items()]
    return "\n".join(lines)


def merge_servers(
    configured: Iterable[ReadyServer], project: Iterable[ReadyServer]
) -> tuple[ReadyServer, ...]:
    """Return the servers of both; the owner's win over the workspace's of the same name."""
    own = tuple(configured)
    names = {server.name for server in own}
    return (*own, *(server for server in project if server.name not in names))


def for_engine(servers: Iterable[McpServerSettings], engine: str) -> tuple[McpServerSettings, ...]:
    """Return the enabled servers that an engine gets."""
    return tuple(
        server
        for server in servers
        if server.enabled and (not server.engines or engine in server.engines)
    )


def fill_in(
    server: McpServerSettings,
    secrets: Mapping[str, str],
    variables: Mapping[str, str],
    missing: list[str],
    *,
    configured: bool,
) -> ReadyServer:
    """Return a server to start, with these values of its ``secrets``.

    ``variables`` is what ``${NAME}`` stands for elsewhere; see ``expand``.
    """
    return ReadyServer(
        server.name,
        tuple(expand(one, variables, missing) for one in server.command),
        {name: secrets[name] for name in server.env},
        expand(server.url, variables, missing),
        {name: secrets[name] for name in server.headers},
        server.allow if configured else (),
        configured and server.allow_reading,
        server.seconds,
        configured,
    )


def mark_server(server: ReadyServer, marks: Mapping[str, str]) -> ReadyServer:
    """Return a server whose program has these variables, too."""
    return server if server.url else structs.replace(server, env={**server.env, **marks})

"""MCP servers as the API shows them, without secrets."""

from collections.abc import Iterable
from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

from agentd.agent.mcp_servers.launch_masking import mask_address, mask_command
from agentd.agent.mcp_servers.messages import RemoteTool
from agentd.agent.mcp_servers.model import (
    DEFAULT_SECONDS,
    SERVER_NAME_FORM,
    McpServerSettings,
    ProjectServer,
    describe_launch,
    mask_server,
)
from agentd.agent.workspace_decisions import WorkspaceDecision
from agentd.core.clock import Timestamp


class McpServerForm(Struct, frozen=True):
    """A server as ``mcp.yml`` has it; secrets are masked in responses."""

    name: Annotated[
        str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$", extra={"form": SERVER_NAME_FORM})
    ]
    enabled: bool = True
    command: tuple[str, ...] = ()
    """The program with its arguments, those masked that look like keys; empty for an address."""
    env: dict[str, str] = {}
    url: Annotated[str, Meta(max_length=2000)] = ""
    """The address, its parts masked that look like keys; empty for a program."""
    headers: dict[str, str] = {}
    allow: tuple[str, ...] = ()
    """Tools that need no approval; * and ? are wildcards."""
    allow_reading: bool = False
    """Tools need no approval that the server itself says only read."""
    engines: tuple[Literal["native", "codex", "claude-code", "acp"], ...] = ()
    """The engines that get the server; empty: all."""
    seconds: Annotated[int, Meta(ge=1, le=3600)] = DEFAULT_SECONDS
    """A call is given up after so many seconds without progress."""


class McpServerStateView(Struct, frozen=True, rename="camel"):
    """What is known of a server in this run of the daemon, which starts it for the native engine.

    Other engines start the servers that they are handed themselves.
    """

    running: int
    """In how many chats it is started or connected now."""
    tools: int | None
    """How many tools it offered the last time; null: it has not been used, or did not start."""
    problem: str
    """Why it did not start the last time, or ended on its own; empty: neither."""
    at: Timestamp | None
    """The last time that it was started, failed or was tried out; null: not in this run."""


class McpProjectServerView(Struct, frozen=True, rename="camel"):
    """A server that the workspace's ``.mcp.json`` names, or a decision about one that it named."""

    id: str
    """Identifies the server with what is written about it now; to withdraw the decision."""
    name: str
    launch: str
    """The command or address, variables and headers masked; empty: it is no longer there."""
    decision: Literal["allowed", "denied", "undecided"]
    decided_at: Timestamp | None
    decided_by: str
    """Who decided, such as ``user:anna``; empty: nobody, or it was not kept."""
    is_present: bool
    """The workspace's ``.mcp.json`` has the server with this content."""


class McpProjectView(Struct, frozen=True):
    """The servers of the workspace's ``.mcp.json``, and what was decided about such servers."""

    ignored: bool
    """``project_servers: false`` in ``mcp.yml``."""
    servers: list[McpProjectServerView]
    problems: list[str]


class McpServersView(Struct, frozen=True):
    """All servers in the file's order, and what is wrong with the file (empty: nothing)."""

    servers: list[McpServerForm]
    problems: list[str]
    states: dict[str, McpServerStateView]
    """By the servers' names."""
    project: McpProjectView


class ChatMcpServer(Struct, frozen=True):
    """A server that a chat's client names: a program or an address, as in ``.mcp.json``."""

    command: Annotated[str, Meta(max_length=4096)] = ""
    """The program; empty for an address."""
    args: Annotated[list[str], Meta(max_length=100)] = []
    env: dict[str, str] = {}
    url: Annotated[str, Meta(max_length=2000)] = ""
    """The address; empty for a program."""
    headers: dict[str, str] = {}


class ChatMcpServers(Struct, frozen=True, rename="camel"):
    """The servers of one chat, by their names, besides those of ``mcp.yml`` and the workspace."""

    mcp_servers: Annotated[dict[str, ChatMcpServer], Meta(max_length=50)]


class McpToolView(Struct, frozen=True):
    """A tool of a server; ``reads`` if the server says that it only reads."""

    name: str
    description: str
    reads: bool


class McpServerCheckView(Struct, frozen=True):
    """The result of starting or calling a server: its ``tools``, or the ``problem``."""

    ok: bool
    tools: list[McpToolView]
    problem: str = ""


def make_form(server: McpServerSettings) -> McpServerForm:
    """Return a server of ``mcp.yml`` as it is shown."""
    launch = {"command": mask_command(server.command), "url": mask_address(server.url)}
    return McpServerForm(**{**structs.asdict(server), **mask_server(server), **launch})


def make_check_view(tools: Iterable[RemoteTool]) -> McpServerCheckView:
    """Return the result of a check that found these tools."""
    shown = [McpToolView(tool.name[:128], tool.description, tool.reads) for tool in tools]
    return McpServerCheckView(ok=True, tools=shown)


def list_project_views(
    servers: Iterable[ProjectServer], decisions: Iterable[WorkspaceDecision]
) -> list[McpProjectServerView]:
    """Return the servers that are there, in their order, then decisions about others."""
    decided = {one.digest: one for one in decisions}
    shown = [_make_project_view(one, decided.pop(one.digest, None)) for one in servers]
    gone = sorted(decided.values(), key=lambda one: one.at, reverse=True)
    return shown + [_make_decided_view(one.name, "", one, is_present=False) for one in gone]


def _make_project_view(
    one: ProjectServer, decision: WorkspaceDecision | None
) -> McpProjectServerView:
    name, launch = one.server.name, describe_launch(one.server, masked=True)
    if decision is None:
        return McpProjectServerView(one.digest, name, launch, "undecided", None, "", True)
    return _make_decided_view(name, launch, decision, is_present=True)


def _make_decided_view(
    name: str, launch: str, decision: WorkspaceDecision, *, is_present: bool
) -> McpProjectServerView:
    return McpProjectServerView(
        decision.digest,
        name,
        launch,
        "allowed" if decision.allowed else "denied",
        decision.at,
        decision.by,
        is_present,
    )

"""The endpoints below ``/api/mcp-servers``: an administrator configures the MCP servers.

Variables and headers come in and never go out: shown is where one is to be found, or its last
characters; so are tokens in addresses and arguments. Sending that mask back keeps the value, unless
the address changes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

import msgspec

from agentd.agent.mcp_servers.chat_servers import ChatServers, read_chat_servers
from agentd.agent.mcp_servers.launch_masking import restore_address, restore_command
from agentd.agent.mcp_servers.messages import RemoteTool
from agentd.agent.mcp_servers.model import (
    McpServerSettings,
    McpSettings,
    ProjectServer,
    keep_masked,
)
from agentd.agent.mcp_servers.states import ServerState
from agentd.agent.mcp_servers.views import (
    ChatMcpServers,
    McpProjectView,
    McpServerCheckView,
    McpServerForm,
    McpServerStateView,
    McpServersView,
    list_project_views,
    make_check_view,
    make_form,
)
from agentd.agent.workspace_decisions import WorkspaceDecision
from agentd.core.errors import (
    AgentdError,
    BadRequest,
    ConfigError,
    ConfigProblem,
    Conflict,
    NotFound,
    Unavailable,
)
from agentd.http.access import RouteGroup
from agentd.http.request import Request, Response
from agentd.http.routing import Route
from agentd.http.validation_errors import explain_validation_error

CHECK_SECONDS = 90.0


class McpServersFile(Protocol):
    """The current content of ``mcp.yml`` (``storage.watched_file.WatchedFile``)."""

    @property
    def current(self) -> McpSettings:
        """The content in force."""
        ...

    @property
    def problems(self) -> Sequence[ConfigProblem]:
        """The problems in the file."""
        ...

    async def refresh(self) -> None:
        """Take in what the file says now."""
        ...


class McpServersWriter(Protocol):
    """Changes the servers of the file (``storage.yaml.entries.WatchedEntries``)."""

    async def add(self, entry: McpServerSettings) -> McpServerSettings:
        """Add a server at the end."""
        ...

    async def change(
        self, name: str, revise: Callable[[McpServerSettings], McpServerSettings]
    ) -> McpServerSettings:
        """Replace the server of this name; it may be renamed."""
        ...

    async def remove(self, name: str) -> McpServerSettings:
        """Remove the server of this name."""
        ...


class McpServerUse(Protocol):
    """The servers in use (``McpDirectory``)."""

    @property
    def states(self) -> "StateLookup":
        """What came of the last use of each server."""
        ...

    def count_running(self, name: str) -> int:
        """Return in how many chats a server of this name works."""
        ...

    async def list_project(
        self, folder: str
    ) -> tuple[tuple[ProjectServer, ...], tuple[WorkspaceDecision, ...], tuple[str, ...]]:
        """Return the servers of a folder's ``.mcp.json``, all decisions, and the problems."""
        ...

    async def withdraw(self, digest: str) -> None:
        """Forget a decision, and end the server; ``NotFound``."""
        ...

    @property
    def chats(self) -> ChatServers:
        """The servers that clients of single chats name."""
        ...

    async def list_tools(self, server: McpServerSettings, folder: str) -> Sequence[RemoteTool]:
        """Start or call a server for a moment; raises an ``AgentdError``."""
        ...


class StateLookup(Protocol):
    """What is known of the servers in this run (``ServerStates``)."""

    def get(self, name: str) -> ServerState | None:
        """Return the state; None if the server has not been used."""
        ...


class McpServerEndpoints:
    """The MCP servers; ``workspace`` is the folder with the ``.mcp.json``, where one is tried.

    ``find_chat`` raises ``NotFound`` if there is no such chat.
    """

    def __init__(
        self,
        file: McpServersFile,
        entries: McpServersWriter,
        use: McpServerUse,
        workspace: str,
        find_chat: Callable[[int], object],
    ) -> None:
        self._find_chat = find_chat
        self._file = file
        self._entries = entries
        self._use = use
        self._workspace = workspace

    async def list_mcp_servers(self, _: Request) -> Response:
        """List all servers with what is known of them, and those of the workspace."""
        await self._file.refresh()
        settings = self._file.current
        servers, decisions, problems = await self._use.list_project(self._workspace)
        shown = list_project_views(servers, decisions)
        names = [
            *(one.name for one in settings.all),
            *(one.name for one in shown if one.is_present),
        ]
        return Response(
            McpServersView(
                list(map(make_form, settings.all)),
                list(map(str, self._file.problems)),
                {name: self._describe_state(name) for name in names},
                McpProjectView(not settings.project_servers, shown, list(problems)),
            )
        )

    def _describe_state(self, name: str) -> McpServerStateView:
        running = self._use.count_running(name)
        state = self._use.states.get(name)
        if state is None:
            return McpServerStateView(running, None, "", None)
        return McpServerStateView(running, state.tools, state.problem, state.at)

    def set_chat_servers(self, request: Request) -> Response:
        """Replace the servers that a chat's client names; they are asked about before their use."""
        chat_id = request.get_id("chatId", "Chat")
        body = request.parse_json(ChatMcpServers)
        servers = read_chat_servers(msgspec.to_builtins(body.mcp_servers))
        self._find_chat(chat_id)
        self._use.chats.put(chat_id, servers)
        return Response(status=204)

    async def withdraw_mcp_decision(self, request: Request) -> Response:
        """Forget a decision about a workspace's server, and end it; it is asked about again."""
        await self._use.withdraw(request.path_params["id"])
        return Response(status=204)

    async def add_mcp_server(self, request: Request) -> Response:
        """Add a server; the next turn has its tools."""
        server = _read_form(request.parse_json(McpServerForm), None)
        return Response(make_form(await self._save(self._entries.add(server))), 201)

    async def replace_mcp_server(self, request: Request) -> Response:
        """Replace a server, possibly under another name."""
        form = request.parse_json(McpServerForm)
        change = self._entries.change(request.get_name(), partial(_read_form, form))
        return Response(make_form(await self._save(change)))

    async def remove_mcp_server(self, request: Request) -> Response:
        """Remove a server."""
        await self._save(self._entries.remove(request.get_name()))
        return Response(status=204)

    async def check_mcp_server(self, request: Request) -> Response:
        """Start or call a server, and list its tools."""
        await self._file.refresh()
        name = request.get_name()
        server = next((one for one in self._file.current.all if one.name == name), None)
        if server is None:
            raise NotFound(f'There is no MCP server "{name[:100]}"')
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                tools = await self._use.list_tools(server, self._workspace)
        except TimeoutError:
            problem = f"It did not answer within {CHECK_SECONDS:.0f} seconds."
            return Response(McpServerCheckView(ok=False, tools=[], problem=problem))
        except AgentdError as error:  # the outcome of the check, not of the request
            return Response(McpServerCheckView(ok=False, tools=[], problem=error.message))
        return Response(make_check_view(tools))

    async def _save(self, edit: Awaitable[McpServerSettings]) -> McpServerSettings:
        """Run an edit; raise ``Conflict`` when the file has problems of its own."""
        try:
            return await edit
        except ConfigError as error:
            raise Conflict("mcp.yml has problems; fix them first", error.message) from error


def _read_form(form: McpServerForm, before: McpServerSettings | None) -> McpServerSettings:
    """Return the settings that a form asks for; ``BadRequest`` when they are not valid."""
    values = msgspec.to_builtins(form)
    try:
        values["url"] = restore_address(form.url, before.url if before else "")
        values["command"] = restore_command(form.command, before.command if before else ())
    except ValueError as error:
        raise BadRequest("The MCP server is not valid", str(error)) from None
    if before:
        values["env"] = keep_masked(form.env, before.env)
        kept = keep_masked(form.headers, before.headers)
        if values["url"] != before.url and kept != form.headers:
            raise BadRequest("With another url the headers must be sent again")
        values["headers"] = kept
    try:
        return msgspec.convert(values, McpServerSettings)
    except msgspec.ValidationError as error:
        what = explain_validation_error(str(error), McpServerSettings)
        raise BadRequest("The MCP server is not valid", what) from None


_EDIT_ERRORS = (BadRequest, Conflict, Unavailable)
_ONE = "/api/mcp-servers/{name}"


_build_route = partial(
    Route, group=RouteGroup.EXTENDED, section="4, extended surface", role="administrator"
)


def routes(endpoints: McpServerEndpoints) -> tuple[Route, ...]:
    """Return the routes for administrators: a server's command is a program that is started."""
    return (
        _build_route(
            "GET",
            "/api/mcp-servers",
            endpoint=endpoints.list_mcp_servers,
            summary="The MCP servers whose tools agents use, with their states, secrets masked.",
            response_type=McpServersView,
        ),
        _build_route(
            "POST",
            "/api/mcp-servers",
            endpoint=endpoints.add_mcp_server,
            summary="Add an MCP server to mcp.yml; the next turn has its tools.",
            request_type=McpServerForm,
            example={"name": "docs", "url": "https://docs.example/mcp"},
            response_type=McpServerForm,
            status=201,
            errors=_EDIT_ERRORS,
        ),
        *_list_routes_of_one(endpoints),
        Route(
            "PUT",
            "/api/chat/{chatId}/mcp-servers",
            RouteGroup.EXTENDED,
            endpoints.set_chat_servers,
            "Name MCP servers for one chat, until the daemon ends; each is asked about once.",
            section="4, extended surface",
            request_type=ChatMcpServers,
            example={"mcpServers": {"docs": {"url": "https://docs.example/mcp"}}},
            status=204,
            errors=(BadRequest, NotFound, Unavailable),
        ),
    )


def _list_routes_of_one(endpoints: McpServerEndpoints) -> tuple[Route, ...]:
    return (
        _build_route(
            "PUT",
            _ONE,
            endpoint=endpoints.replace_mcp_server,
            summary="Replace an MCP server in mcp.yml; a masked value stays as it is.",
            request_type=McpServerForm,
            example={"name": "docs", "url": "https://docs.example/mcp", "enabled": False},
            response_type=McpServerForm,
            errors=(*_EDIT_ERRORS, NotFound),
        ),
        _build_route(
            "DELETE",
            _ONE,
            endpoint=endpoints.remove_mcp_server,
            summary="Remove an MCP server from mcp.yml.",
            status=204,
            errors=(*_EDIT_ERRORS, NotFound),
        ),
        _build_route(
            "DELETE",
            "/api/mcp-servers/decisions/{id}",
            endpoint=endpoints.withdraw_mcp_decision,
            summary="Withdraw a decision about a server of .mcp.json: it ends, and is asked about.",
            status=204,
            errors=(NotFound, Unavailable),
        ),
        _build_route(
            "POST",
            f"{_ONE}/check",
            endpoint=endpoints.check_mcp_server,
            summary="Start or call an MCP server for a moment, and list its tools.",
            response_type=McpServerCheckView,
            errors=(NotFound,),
        ),
    )

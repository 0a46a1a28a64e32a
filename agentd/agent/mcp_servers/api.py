"""The endpoints below ``/api/mcp-servers``: an administrator configures the MCP servers.

Variables and headers come in and never go out: shown is where one is to be found, or its last
characters. Sending that mask back keeps the value, unless the address changes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, Literal, Protocol

import msgspec
from msgspec import Meta, Struct, structs

from agentd.agent.mcp_servers.messages import RemoteTool
from agentd.agent.mcp_servers.model import (
    DEFAULT_SECONDS,
    McpServerSettings,
    McpSettings,
    keep_masked,
    mask_server,
)
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

CHECK_SECONDS = 90.0


class McpServerForm(Struct, frozen=True):
    """A server as ``mcp.yml`` has it; variables and headers are masked in responses."""

    name: Annotated[str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$")]
    enabled: bool = True
    command: tuple[str, ...] = ()
    """The program with its arguments; empty for an address."""
    env: dict[str, str] = {}
    url: Annotated[str, Meta(max_length=2000)] = ""
    """The address; empty for a program."""
    headers: dict[str, str] = {}
    allow: tuple[str, ...] = ()
    """Tools that need no approval; * and ? are wildcards."""
    allow_reading: bool = False
    """Tools need no approval that the server itself says only read."""
    engines: tuple[Literal["native", "codex", "claude-code", "acp"], ...] = ()
    """The engines that get the server; empty: all."""
    seconds: Annotated[int, Meta(ge=1, le=3600)] = DEFAULT_SECONDS
    """A call is given up after so many seconds without progress."""


class McpServersView(Struct, frozen=True):
    """All servers in the file's order, and what is wrong with the file (empty: nothing)."""

    servers: list[McpServerForm]
    problems: list[str]


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


class McpServerEndpoints:
    """The MCP servers; ``check`` starts one for a moment and returns its tools."""

    def __init__(
        self,
        file: McpServersFile,
        entries: McpServersWriter,
        check: Callable[[McpServerSettings], Awaitable[Sequence[RemoteTool]]],
    ) -> None:
        self._file = file
        self._entries = entries
        self._check = check

    async def list_mcp_servers(self, _: Request) -> Response:
        """List all servers."""
        await self._file.refresh()
        servers = [_make_form(server) for server in self._file.current.all]
        return Response(McpServersView(servers, list(map(str, self._file.problems))))

    async def add_mcp_server(self, request: Request) -> Response:
        """Add a server; the next turn has its tools."""
        server = _read_form(request.parse_json(McpServerForm), None)
        return Response(_make_form(await self._save(self._entries.add(server))), 201)

    async def replace_mcp_server(self, request: Request) -> Response:
        """Replace a server, possibly under another name."""
        form = request.parse_json(McpServerForm)
        change = self._entries.change(request.get_name(), partial(_read_form, form))
        return Response(_make_form(await self._save(change)))

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
                tools = await self._check(server)
        except TimeoutError:
            problem = f"It did not answer within {CHECK_SECONDS:.0f} seconds."
            return Response(McpServerCheckView(ok=False, tools=[], problem=problem))
        except AgentdError as error:  # the outcome of the check, not of the request
            return Response(McpServerCheckView(ok=False, tools=[], problem=error.message))
        shown = [McpToolView(tool.name[:128], tool.description, tool.reads) for tool in tools]
        return Response(McpServerCheckView(ok=True, tools=shown))

    async def _save(self, edit: Awaitable[McpServerSettings]) -> McpServerSettings:
        """Run an edit; raise ``Conflict`` when the file has problems of its own."""
        try:
            return await edit
        except ConfigError as error:
            raise Conflict("mcp.yml has problems; fix them first", error.message) from error


def _make_form(server: McpServerSettings) -> McpServerForm:
    return McpServerForm(**{**structs.asdict(server), **mask_server(server)})


def _read_form(form: McpServerForm, before: McpServerSettings | None) -> McpServerSettings:
    """Return the settings that a form asks for; ``BadRequest`` when they are not valid."""
    values = msgspec.to_builtins(form)
    if before:
        values["env"] = keep_masked(form.env, before.env)
        kept = keep_masked(form.headers, before.headers)
        if form.url != before.url and kept != form.headers:
            raise BadRequest("With another url the headers must be sent again")
        values["headers"] = kept
    try:
        return msgspec.convert(values, McpServerSettings)
    except msgspec.ValidationError as error:
        raise BadRequest(f"The MCP server is not valid: {error}") from None


_EDIT_ERRORS = (BadRequest, Conflict, Unavailable)
_ONE = "/api/mcp-servers/{name}"


def routes(endpoints: McpServerEndpoints) -> tuple[Route, ...]:
    """Return the routes for administrators: a server's command is a program that is started."""
    build = partial(
        Route, group=RouteGroup.EXTENDED, section="4, extended surface", role="administrator"
    )
    return (
        build(
            "GET",
            "/api/mcp-servers",
            endpoint=endpoints.list_mcp_servers,
            summary="The MCP servers whose tools agents use, variables and headers masked.",
            response_type=McpServersView,
        ),
        build(
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
        build(
            "PUT",
            _ONE,
            endpoint=endpoints.replace_mcp_server,
            summary="Replace an MCP server in mcp.yml; a masked value stays as it is.",
            request_type=McpServerForm,
            example={"name": "docs", "url": "https://docs.example/mcp", "enabled": False},
            response_type=McpServerForm,
            errors=(*_EDIT_ERRORS, NotFound),
        ),
        build(
            "DELETE",
            _ONE,
            endpoint=endpoints.remove_mcp_server,
            summary="Remove an MCP server from mcp.yml.",
            status=204,
            errors=(*_EDIT_ERRORS, NotFound),
        ),
        build(
            "POST",
            f"{_ONE}/check",
            endpoint=endpoints.check_mcp_server,
            summary="Start or call an MCP server for a moment, and list its tools.",
            response_type=McpServerCheckView,
            errors=(NotFound,),
        ),
    )

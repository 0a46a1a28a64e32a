"""The tools of MCP servers during one turn: what the model is offered, and how it is run."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

from agentd.agent.engine import Approver, Question
from agentd.agent.forms import read_form
from agentd.agent.mcp_servers.connection import McpConnection
from agentd.agent.mcp_servers.http import EXPIRED, SessionEnded
from agentd.agent.mcp_servers.messages import (
    MOST_TOOLS,
    MOST_TOOLS_OF_ALL,
    JsonMap,
    RemoteResult,
    RemoteTool,
    ServerResource,
    get_string,
    name_tools,
)
from agentd.agent.mcp_servers.model import ReadyServer
from agentd.agent.mcp_servers.pool import WITHDRAWN, McpPool
from agentd.agent.mcp_servers.prompts import fill_arguments
from agentd.agent.mcp_servers.turn_tools import McpToolUse
from agentd.core.errors import (
    AgentdError,
    BadRequest,
    Forbidden,
    NotFound,
    Unavailable,
    suggest_name,
)
from agentd.llm.conversation import ToolDefinition

_Answer = TypeVar("_Answer")

LIST_RESOURCES = "list_mcp_resources"
READ_RESOURCE = "read_mcp_resource"
REMOVED = "was removed or disabled during this turn"
_NO_RESOURCES = "There are no resources."
_RESOURCE_TOOLS = (
    ToolDefinition(
        LIST_RESOURCES,
        "List the resources that MCP servers offer to read.",
        {
            "type": "object",
            "properties": {
                "server": {"type": "string", "description": "One server; all when left out."}
            },
        },
    ),
    ToolDefinition(
        READ_RESOURCE,
        "Read a resource of an MCP server.",
        {
            "type": "object",
            "properties": {
                "server": {"type": "string", "description": "The server."},
                "uri": {"type": "string", "description": "The resource's address."},
            },
            "required": ["server", "uri"],
        },
    ),
)


class McpToolset:
    """The servers of one turn. ``approver`` is asked what servers ask the person."""

    def __init__(
        self,
        pool: McpPool,
        chat_id: int,
        servers: Sequence[ReadyServer],
        approver: Approver,
        is_in_use: Callable[[ReadyServer], Awaitable[bool]] | None = None,
    ) -> None:
        self._is_in_use = is_in_use
        """Tells of a server of this turn whether it was neither removed nor disabled since."""
        self.definitions: tuple[ToolDefinition, ...] = ()
        self.failures: tuple[tuple[str, str], ...] = ()
        """The servers that cannot be used in this turn, each with the reason."""
        self.notes: tuple[tuple[str, str], ...] = ()
        """The servers of which not all tools are offered, each with a text; told once in a chat."""
        self._pool = pool
        self._chat_id = chat_id
        self._servers = {server.name: server for server in servers}
        self._approver = approver
        self._connections: dict[str, McpConnection] = {}
        self._tools: dict[str, tuple[str, RemoteTool]] = {}
        """The server and the tool, by the name that the model uses."""
        self._restarted: set[str] = set()
        self._restarting = asyncio.Lock()
        self._asking = asyncio.Lock()

    async def open(self) -> None:
        """Start the servers side by side; those that fail are in ``failures``."""
        names = list(self._servers)
        self._pool.end_others(self._chat_id, self._servers.values())
        opened = await asyncio.gather(*map(self._try_to_connect, names))
        self.failures += tuple(
            (name, problem) for name, problem in zip(names, opened, strict=True) if problem
        )
        self._collect()
        self.notes = tuple(
            (name, note)
            for name, note in self._iter_cut_lists()
            if self._pool.is_news(self._chat_id, name, note)
        )

    def has(self, name: str) -> bool:
        """Return whether this is the name of one of these tools."""
        return any(tool.name == name for tool in self.definitions)

    def reads_unasked(self, name: str) -> bool:
        """Return whether a tool only reads, as its server says, and the settings allow it."""
        if name not in self._tools:
            return False
        server, tool = self._tools[name]
        return tool.reads and self._servers[server].allows(tool.name, reads=True)

    async def refresh(self) -> bool:
        """Take up servers that answered late, and lists that changed; return whether any did."""
        before = self.definitions
        for name in self._servers.keys() - self._connections.keys():
            if late := self._pool.find(self._chat_id, self._servers[name]):
                self._attach(name, late)
        for connection in self._connections.values():
            with suppress(AgentdError):  # the tools known so far stay; a call says what is wrong
                await connection.refresh_tools()
        self._collect()
        return self.definitions != before

    async def use(self, use: McpToolUse, approver: Approver, why: str) -> RemoteResult:
        """Ask for approval where needed, and run it; raises an ``AgentdError``."""
        match use.name:
            case "list_mcp_resources":
                return await self._list_resources(get_string(use.arguments, "server"))
            case "read_mcp_resource":
                return await self._read_resource(use, approver, why)
        if use.name not in self._tools:
            raise NotFound(f"There is no tool named {use.name}")
        server, tool = self._tools[use.name]
        arguments = tool.restore_names(use.arguments)
        use = McpToolUse(use.name, arguments)
        await self._ask(use, server, tool.name, approver, why, reads=tool.reads)
        return await self._request(
            server, lambda it: it.call_tool(tool.name, arguments), reads=tool.reads
        )

    async def get_prompt(self, server: str, name: str, arguments: str) -> str | None:
        """Return the text of a server's prompt; None if there is none of this name."""
        if server not in self._connections:
            return None
        await self._request(server, McpConnection.refresh_prompts)
        offered = self._connections[server].prompts
        prompt = next((one for one in offered if one.name == name), None)
        if prompt is None:
            return None
        filled = fill_arguments(server, prompt, arguments)
        return await self._request(server, lambda it: it.get_prompt(name, filled))

    def close(self) -> None:
        """Let the servers end when they are idle."""
        self._pool.end_turn(self._chat_id)

    async def _try_to_connect(self, name: str) -> str:
        """Connect, and list what has changed since the last turn; return why not, or no text."""
        try:
            connection = await self._connect(name)
        except AgentdError as error:
            return error.message
        with suppress(AgentdError):  # a call says what is wrong
            await connection.refresh_tools()
        return ""

    async def _connect(self, name: str) -> McpConnection:
        return self._attach(name, await self._pool.connect(self._chat_id, self._servers[name]))

    def _attach(self, name: str, connection: McpConnection) -> McpConnection:
        connection.elicit = self._elicit
        self._connections[name] = connection
        return connection

    async def _request(
        self,
        name: str,
        ask: Callable[[McpConnection], Awaitable[_Answer]],
        *,
        reads: bool = True,
    ) -> _Answer:
        """Ask a server for something, and once more if its session turns out to have ended.

        What does more than read may have been done, unless the server has refused it.
        """
        connection = await self._get(name)
        try:
            return await ask(connection)
        except Unavailable as error:
            refused = isinstance(error, SessionEnded)
            if connection.closed != EXPIRED or not (reads or refused):
                raise
        return await ask(await self._connect(name))

    async def _get(self, name: str) -> McpConnection:
        """Return a connection that works.

        One that broke is opened again, once in a turn; one whose session ended, each time.
        """
        connection = self._connections.get(name)
        if connection is None:
            near = suggest_name(name, self._connections)
            raise NotFound(f"There is no MCP server {name[:100]}{near}")
        if connection.closed == WITHDRAWN:
            raise Forbidden(f"The MCP server {name}: {WITHDRAWN}.")
        if self._is_in_use and not await self._is_in_use(self._servers[name]):
            raise Forbidden(f"The MCP server {name} {REMOVED}.")
        if not connection.closed:
            return connection
        if connection.closed == EXPIRED:
            return await self._connect(name)
        async with self._restarting:  # calls of the same moment wait for the one that restarts it
            connection = self._connections[name]
            if connection.closed and name not in self._restarted:
                self._restarted.add(name)
                connection = await self._connect(name)
            return connection

    def _collect(self) -> None:
        self._tools = {}
        definitions: list[ToolDefinition] = []
        for server in self._servers:
            if connection := self._connections.get(server):
                for name, tool in name_tools(server, connection.tools, self._tools).items():
                    self._tools[name] = server, tool
                    definitions.append(ToolDefinition(name, tool.description, tool.schema))
        definitions = definitions[:MOST_TOOLS_OF_ALL]
        if any(one.has_resources for one in self._connections.values()):
            definitions += _RESOURCE_TOOLS
        self.definitions = tuple(definitions)

    def _iter_cut_lists(self) -> Iterator[tuple[str, str]]:
        names = (one.name for one in self.definitions if one.name in self._tools)
        offered = Counter(self._tools[name][0] for name in names)
        for name, connection in self._connections.items():
            if connection.has_more_tools or offered[name] < len(connection.tools):
                yield name, _describe_cut(offered[name])

    async def _ask(
        self,
        use: McpToolUse,
        server: str,
        tool: str,
        approver: Approver,
        why: str,
        *,
        reads: bool,
    ) -> None:
        granted = self._servers[server].allows(tool, reads=reads)
        answer = await approver.ask(Question("other", use.name, use.shown, why, granted=granted))
        if not answer.allowed:
            reason = f": {answer.reason.rstrip('.')}" if answer.reason else ""
            raise Forbidden(f"This was not allowed{reason}.")

    async def _list_resources(self, server: str) -> RemoteResult:
        """List the resources of a server; of all, with what is wrong with some."""
        if server:
            return RemoteResult(await self._describe_resources(server) or _NO_RESOURCES)
        texts: list[str] = []
        for name in [name for name, one in self._connections.items() if one.has_resources]:
            try:
                texts.append(await self._describe_resources(name))
            except AgentdError as error:
                texts.append(error.message)
        return RemoteResult("\n".join(filter(None, texts)) or _NO_RESOURCES)

    async def _describe_resources(self, server: str) -> str:
        found = await self._request(server, McpConnection.list_resources)
        return "\n".join(_describe_resource(server, one) for one in found)

    async def _read_resource(self, use: McpToolUse, approver: Approver, why: str) -> RemoteResult:
        server, uri = get_string(use.arguments, "server"), use.arguments.get("uri")
        if not isinstance(uri, str) or not uri:
            raise BadRequest("Say which resource: its server and its uri.")
        if server not in self._servers:
            await self._get(server)
        await self._ask(use, server, READ_RESOURCE, approver, why, reads=True)
        return await self._request(server, lambda it: it.read_resource(uri))

    async def _elicit(self, message: str, schema: JsonMap) -> JsonMap:
        """Ask the person what a server asks, if one answer is enough; else dismiss it.

        To decline it is to say that a person has refused, which a server may take as an answer.
        """
        form = read_form(schema)
        if form is None or self._asking.locked():
            return {"action": "cancel"}
        async with self._asking:
            question = Question("question", "mcp", message, choices=form.choices)
            answer = await self._approver.ask(question)
        if not answer.allowed:
            return {"action": "decline"}
        content = form.fill_in(answer.reason)
        return {"action": "cancel"} if content is None else {"action": "accept", "content": content}


def _describe_cut(offered: int) -> str:
    return (
        f"Only {offered} of its tools are offered to the model: there may be "
        f"{MOST_TOOLS} of a server, and {MOST_TOOLS_OF_ALL} in all."
    )


def _describe_resource(server: str, resource: ServerResource) -> str:
    named = " ".join(filter(None, (resource.name, resource.description, resource.media_type)))
    return f"{server} {resource.uri}: {named}"

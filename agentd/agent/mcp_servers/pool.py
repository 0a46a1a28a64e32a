"""The running MCP servers: each chat has its own, started at first use and ended when idle."""

import asyncio
from collections.abc import Iterable
from functools import partial
from itertools import count
from typing import NamedTuple
from weakref import WeakValueDictionary

from msgspec import Struct

from agentd.agent.mcp_servers.connection import McpConnection
from agentd.agent.mcp_servers.http import HttpTransport
from agentd.agent.mcp_servers.messages import ServerPrompt
from agentd.agent.mcp_servers.model import ReadyServer
from agentd.agent.mcp_servers.states import ServerStates
from agentd.agent.mcp_servers.stdio import StdioTransport
from agentd.core.errors import AgentdError, Unavailable
from agentd.core.tasks import BackgroundTasks

IDLE_SECONDS = 300.0
"""The time that a chat's servers are kept after its turn."""
PATIENCE_SECONDS = 5.0
"""The time that a turn waits for a server that kept an earlier one waiting for nothing."""
MOST_SLOW = 200
"""Slow servers that are remembered; those noted first are forgotten first."""
MOST_IDLE_CHATS = 8
"""Chats whose servers are kept; those that are idle longest are ended first."""
WITHDRAWN = "the permission to use it was withdrawn"
"""Why a workspace's server was ended."""


class _Start(NamedTuple):
    """The start of a server, which goes on although a turn may not wait for it any more."""

    server: ReadyServer
    task: "asyncio.Task[McpConnection]"


class _ChatServers(Struct):
    """The servers of one chat."""

    folder: str
    servers: dict[str, McpConnection] = {}
    """By fingerprint."""
    starting: dict[str, _Start] = {}
    """By fingerprint."""
    told: set[tuple[str, str]] = set()
    """The servers of which the chat was told something, with the text: it is told once."""
    in_use: int = 0
    timer: asyncio.TimerHandle | None = None


class McpPool:
    """Starts servers and ends them. ``tag`` marks all programs of this daemon."""

    def __init__(
        self,
        tag: str = "",
        idle_seconds: float = IDLE_SECONDS,
        states: ServerStates | None = None,
    ) -> None:
        self._states = states or ServerStates()
        self._tag = tag
        self._idle_seconds = idle_seconds
        self._chats: dict[int, _ChatServers] = {}
        self._numbers = count(1)
        self._tasks = BackgroundTasks()
        self._locks = WeakValueDictionary[tuple[int, str], asyncio.Lock]()
        self._slow: dict[str, None] = {}
        """The fingerprints of servers that failed only after a long wait the last time."""

    @property
    def running(self) -> int:
        """The number of servers that are started or connected."""
        return sum(len(chat.servers) for chat in self._chats.values())

    def count_running(self, name: str) -> int:
        """Return in how many chats a server of this name works."""
        chats = self._chats.values()
        return sum(
            one.server.name == name and not one.closed
            for chat in chats
            for one in chat.servers.values()
        )

    def list_prompts(self, chat_id: int) -> list[tuple[str, ServerPrompt]]:
        """Return the prompts of the servers that a chat has running, each with its server."""
        chat = self._chats.get(chat_id)
        running = [one for one in chat.servers.values() if not one.closed] if chat else []
        return [(one.server.name, prompt) for one in running for prompt in one.prompts]

    def end_project_server(self, name: str) -> None:
        """End a workspace's server in all chats; a turn under way does not start it again."""
        for chat in self._chats.values():
            for start in chat.starting.values():
                if start.server.name == name and not start.server.configured:
                    start.task.cancel()
            for key, one in list(chat.servers.items()):
                if one.server.name == name and not one.server.configured:
                    one.closed = one.closed or WITHDRAWN
                    self._tasks.start(chat.servers.pop(key).close())

    def begin_turn(self, chat_id: int, folder: str) -> None:
        """Keep the chat's servers until ``end_turn``; in another folder they start anew."""
        chat = self._chats.get(chat_id)
        if chat is None or (chat.folder != folder and not chat.in_use):
            self._drop(chat_id)
            chat = self._chats[chat_id] = _ChatServers(folder)
        if chat.timer:
            chat.timer.cancel()
        chat.in_use += 1

    def end_others(self, chat_id: int, servers: Iterable[ReadyServer]) -> None:
        """End what the chat's only turn does not have: it was removed, disabled or changed."""
        chat = self._chats[chat_id]
        if chat.in_use > 1:
            return
        kept = {server.fingerprint for server in servers}
        for key in [one for one in chat.starting if one not in kept]:
            chat.starting.pop(key).task.cancel()
        for key in [one for one in chat.servers if one not in kept]:
            self._tasks.start(chat.servers.pop(key).close())
            self._states.note_stopped()

    def end_turn(self, chat_id: int) -> None:
        """Let the chat's servers end after a while without another turn."""
        chat = self._chats[chat_id]
        chat.in_use -= 1
        if chat.in_use:
            return
        for key, server in list(chat.servers.items()):
            server.elicit = None
            if server.closed:
                self._tasks.start(chat.servers.pop(key).close())
        loop = asyncio.get_running_loop()
        chat.timer = loop.call_later(self._idle_seconds, self._drop, chat_id)
        self._chats[chat_id] = self._chats.pop(chat_id)  # the latest at the end
        idle = [one for one, other in self._chats.items() if not other.in_use]
        for one in idle[:-MOST_IDLE_CHATS]:
            self._drop(one)

    async def connect(self, chat_id: int, server: ReadyServer) -> McpConnection:
        """Return the chat's connection to a server, a new one if there is none that works.

        Raises ``Unavailable``, after a short while if the server is slow: then it goes on starting,
        and ``find`` returns it once it works.
        """
        key = server.fingerprint
        async with self._locks.setdefault((chat_id, key), asyncio.Lock()):
            chat = self._chats[chat_id]
            known = chat.servers.get(key)
            if known and not known.closed:
                return known
            if known:
                await asyncio.shield(self._tasks.start(chat.servers.pop(key).close()))
            for old in [one for one in chat.servers.values() if one.server.name == server.name]:
                self._tasks.start(chat.servers.pop(old.server.fingerprint).close())
            return await self._start(chat, server)

    def find(self, chat_id: int, server: ReadyServer) -> McpConnection | None:
        """Return the chat's connection to a server if there is one that works."""
        known = self._chats[chat_id].servers.get(server.fingerprint)
        return None if known is None or known.closed else known

    def is_news(self, chat_id: int, server: str, note: str) -> bool:
        """Return whether a chat was not told this of a server; from now on it was."""
        told = self._chats[chat_id].told
        known = (server, note) in told
        told.add((server, note))
        return not known

    async def _start(self, chat: _ChatServers, server: ReadyServer) -> McpConnection:
        """Start or call a server; if it is slow, wait only shortly, while it goes on starting."""
        key = server.fingerprint
        if key not in chat.starting:
            task = self._tasks.start(self._open(chat, server))
            task.add_done_callback(_take_note_of_failure)
            chat.starting[key] = _Start(server, task)
        task = chat.starting[key].task
        try:
            await asyncio.wait([task], timeout=PATIENCE_SECONDS if key in self._slow else None)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            raise
        if not task.done():
            raise Unavailable(
                f"The MCP server {server.name} still has not answered: its tools are offered "
                "once it does."
            )
        if task.cancelled():
            raise Unavailable(f"The MCP server {server.name}: {WITHDRAWN}.")
        return task.result()

    async def _open(self, chat: _ChatServers, server: ReadyServer) -> McpConnection:
        key, began = server.fingerprint, asyncio.get_running_loop().time()
        fresh = self.build(server, chat.folder)
        try:
            await fresh.open()
        except BaseException as error:
            self._note_speed(key, asyncio.get_running_loop().time() - began)
            if isinstance(error, AgentdError):
                self._states.note_problem(server.name, error.message)
            raise
        finally:
            start = chat.starting.get(key)
            if start and start.task is asyncio.current_task():
                del chat.starting[key]
        self._slow.pop(key, None)
        chat.servers[key] = fresh
        self._states.note_started(server.name, len(fresh.tools))
        fresh.on_closed = partial(self._note_end, chat, fresh)
        if fresh.closed:
            fresh.on_closed()
        return fresh

    def _note_speed(self, key: str, seconds: float) -> None:
        """Remember whether a server that failed kept a turn waiting."""
        self._slow.pop(key, None)
        if seconds >= PATIENCE_SECONDS:
            self._slow[key] = None
        if len(self._slow) > MOST_SLOW:
            del self._slow[next(iter(self._slow))]

    def build(self, server: ReadyServer, folder: str) -> McpConnection:
        """Return a connection that is not open yet, and that the caller closes."""
        if server.url:
            return McpConnection(server, HttpTransport(server), folder)
        tag = f"{self._tag}.mcp.{next(self._numbers)}" if self._tag else ""
        return McpConnection(server, StdioTransport(server, folder, tag), folder)

    async def close(self) -> None:
        """End all servers."""
        for chat_id in list(self._chats):
            self._drop(chat_id)
        await self._tasks.wait()

    def _note_end(self, chat: _ChatServers, ended: McpConnection) -> None:
        """Tell that a server ended on its own; outside of turns, end what it has left behind."""
        self._states.note_end(ended.server.name, ended.closed)
        if not chat.in_use and chat.servers.get(ended.server.fingerprint) is ended:
            del chat.servers[ended.server.fingerprint]
            self._tasks.start(ended.close())

    def _drop(self, chat_id: int) -> None:
        chat = self._chats.pop(chat_id, None)
        if chat is None:
            return
        if chat.timer:
            chat.timer.cancel()
        for start in chat.starting.values():
            start.task.cancel()
        for server in chat.servers.values():
            self._tasks.start(server.close())
        if chat.servers:
            self._states.note_stopped()


def _take_note_of_failure(start: "asyncio.Task[McpConnection]") -> None:
    """Keep asyncio from logging a failure that no turn waited for: the server's state has it."""
    if not start.cancelled():
        start.exception()

"""A conversation with one MCP server: requests with their answers, and its notifications.

A request that is cancelled, or given up, is taken back (``notifications/cancelled``).
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from itertools import count
from typing import TypeAlias, TypeGuard, TypeVar

from agentd.agent.mcp_servers.messages import (
    KNOWN_REVISIONS,
    MOST_PAGES,
    MOST_PROMPTS,
    MOST_RESOURCES,
    MOST_TOOLS,
    JsonMap,
    RemoteResult,
    RemoteTool,
    RpcId,
    ServerPrompt,
    ServerResource,
    build_initialize,
    encode_notification,
    encode_request,
    explain_error,
    get_map,
    get_string,
    iter_maps,
    read_call_result,
    read_own_id,
    read_prompt,
    read_prompt_result,
    read_resource,
    read_resource_result,
    read_tool,
)
from agentd.agent.mcp_servers.model import ReadyServer
from agentd.agent.mcp_servers.server_requests import Elicit, ServerRequests
from agentd.agent.mcp_servers.transport import MessageTransport
from agentd.core.errors import AgentdError, BadRequest, Unavailable
from agentd.core.tasks import BackgroundTasks

_Named = TypeVar("_Named", RemoteTool, ServerPrompt)

OnProgress: TypeAlias = Callable[[str], None]

START_SECONDS = 60.0
"""A program may be installed first (``npx``)."""
LIST_SECONDS = 30.0
EXTRAS_SECONDS = 10.0
"""For the lists without which a server is of use, too: each start waits for its prompts."""
LONGEST_CALL = 3600.0
"""Seconds after which not even progress keeps a call going; a person may think for longer."""
_CANCEL_SECONDS = 2.0
_LARGEST_AMOUNT = 1e15
_DISMISSED: JsonMap = {"action": "cancel"}


class _Pending:
    """A request whose answer is awaited."""

    def __init__(self, on_progress: OnProgress | None) -> None:
        self.answer: asyncio.Future[JsonMap] = asyncio.get_running_loop().create_future()
        self.on_progress = on_progress
        self.progressed = False

    def fail(self, error: AgentdError) -> None:
        """Answer with an error, unless it was answered."""
        if not self.answer.done():
            self.answer.set_exception(error)
            self.answer.exception()  # taken note of, also if nobody awaits it any more


class McpConnection:
    """A server that was started or called; ``folder`` is the root that it is told."""

    def __init__(self, server: ReadyServer, transport: MessageTransport, folder: str) -> None:
        self.server = server
        self.elicit: Elicit | None = None
        """Set while somebody can be asked."""
        self.on_closed: Callable[[], None] = lambda: None
        """Called when it can no longer be used although nobody has ended it."""
        self.tools: tuple[RemoteTool, ...] = ()
        self.has_more_tools = False
        """True if it lists more than are taken."""
        self.prompts: tuple[ServerPrompt, ...] = ()
        self.has_resources = False
        self.instructions = ""
        self.closed = ""
        """Why it can no longer be used; empty while it can."""
        self._transport = transport
        self._requests = ServerRequests(
            folder, self._elicit, transport.send, self._on_closed, self._on_answered
        )
        self._numbers = count(1)
        self._pending: dict[RpcId, _Pending] = {}
        self._tasks = BackgroundTasks()
        self._tools_changed = False
        self._prompts_changed = False

    async def open(self) -> None:
        """Start or call the server, list its tools and prompts; ``Unavailable`` says why not."""
        try:
            await self._transport.open(self._on_message, self._on_closed, self._on_lost)
            opened = await self._request("initialize", build_initialize(), START_SECONDS)
            revision = opened.get("protocolVersion")
            if revision not in KNOWN_REVISIONS:
                raise Unavailable(f"The MCP server {self.server.name} speaks another revision.")
            self._transport.on_initialized(str(revision))
            await self._transport.send(encode_notification("notifications/initialized"))
            capabilities = get_map(opened, "capabilities")
            self.has_resources = isinstance(capabilities.get("resources"), dict)
            self.instructions = get_string(opened, "instructions", 2_000)
            if isinstance(capabilities.get("tools"), dict):
                await self._list_tools()
            self._prompts_changed = isinstance(capabilities.get("prompts"), dict)
            await self.refresh_prompts()
        except BaseException:
            await self.close()
            raise

    async def refresh_tools(self) -> bool:
        """List the tools again if the server said that they changed; return whether it did."""
        if not self._tools_changed:
            return False
        self._tools_changed = False
        await self._list_tools()
        return True

    async def refresh_prompts(self) -> None:
        """List the prompts again if the server said that they changed."""
        if not self._prompts_changed:
            return
        self._prompts_changed = False
        listed = await self._list_extras("prompts/list", "prompts", MOST_PROMPTS)
        if listed is not None:
            self.prompts = _keep_first(prompt for prompt in map(read_prompt, listed) if prompt)

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> str:
        """Return the text of a prompt; ``BadRequest`` has what the server refuses."""
        params: JsonMap = {"name": name, "arguments": arguments}
        return read_prompt_result(await self._request("prompts/get", params, self.server.seconds))

    async def call_tool(
        self, name: str, arguments: JsonMap, on_progress: OnProgress = lambda message: None
    ) -> RemoteResult:
        """Call a tool by the server's name; ``BadRequest`` has what the server refuses.

        Progress keeps the call going, which a server tells only those who want to hear of it.
        """
        params: JsonMap = {"name": name, "arguments": arguments}
        return read_call_result(
            await self._request("tools/call", params, self.server.seconds, on_progress)
        )

    async def list_resources(self) -> tuple[ServerResource, ...]:
        """List resources, and templates of their addresses."""
        found = await self._list("resources/list", "resources", MOST_RESOURCES)
        method = "resources/templates/list"
        found += await self._list_extras(method, "resourceTemplates", MOST_RESOURCES) or ()
        return tuple(one for one in map(read_resource, found) if one)

    async def read_resource(self, uri: str) -> RemoteResult:
        """Read a resource."""
        found = await self._request("resources/read", {"uri": uri}, self.server.seconds)
        return read_resource_result(found)

    async def close(self) -> None:
        """End the connection; what is awaited fails."""
        self._fail_all(self.closed or "it was stopped")
        async with AsyncExitStack() as steps:  # all of them, even if this is cancelled
            steps.push_async_callback(self._transport.close)
            steps.push_async_callback(self._tasks.cancel)
            await self._requests.close()

    async def _list_tools(self) -> None:
        listed = await self._list("tools/list", "tools", MOST_TOOLS + 1)
        self.has_more_tools = len(listed) > MOST_TOOLS
        self.tools = _keep_first(tool for tool in map(read_tool, listed[:MOST_TOOLS]) if tool)

    async def _list_extras(self, method: str, member: str, most: int) -> list[JsonMap] | None:
        """Return a list without which the server can be used; None if it does not give it.

        Many refuse those that they do not have, and some never answer, or page by page.
        """
        try:
            async with asyncio.timeout(EXTRAS_SECONDS):
                return await self._list(method, member, most)
        except (BadRequest, Unavailable, TimeoutError):
            if self.closed:
                raise
            return None

    async def _list(self, method: str, member: str, most: int) -> list[JsonMap]:
        """Return the pages of a list, as many as are taken."""
        found: list[JsonMap] = []
        params: JsonMap = {}
        for _ in range(MOST_PAGES):
            page = await self._request(method, params, LIST_SECONDS)
            found += iter_maps(page, member)
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or not cursor or len(found) >= most:
                break
            params = {"cursor": cursor}
        return found[:most]

    async def _request(
        self,
        method: str,
        params: JsonMap,
        seconds: float,
        on_progress: OnProgress | None = None,
    ) -> JsonMap:
        if self.closed:
            raise Unavailable(_explain_end(self.server.name, self.closed))
        number = next(self._numbers)
        pending = self._pending[number] = _Pending(on_progress)
        if on_progress:
            params = {**params, "_meta": {"progressToken": number}}
        try:
            await self._transport.send(encode_request(number, method, params), number)
            return await self._await_answer(pending, seconds)
        except (asyncio.CancelledError, TimeoutError) as error:
            if method != "initialize":  # which the protocol does not let anybody take back
                self._tasks.start(self._cancel(number))
            if isinstance(error, TimeoutError):
                raise Unavailable(
                    f"The MCP server {self.server.name} did not answer {method} within"
                    f" {seconds:.0f} seconds."
                ) from error
            raise
        finally:
            del self._pending[number]
            self._transport.forget(number)
            if not self._pending:  # what it asked was about a request that is over
                self._requests.withdraw_all()

    async def _await_answer(self, pending: _Pending, seconds: float) -> JsonMap:
        """Return the answer; ``TimeoutError`` after so many seconds without progress.

        While the person is asked something, the server waits, and so is it waited for.
        """
        waited = 0.0
        while waited < LONGEST_CALL:
            pending.progressed = False
            done, _ = await asyncio.wait([pending.answer], timeout=seconds)
            if done:
                return pending.answer.result()
            if self._requests.is_asking:
                continue
            if not pending.progressed:
                break
            waited += seconds
        raise TimeoutError

    async def _cancel(self, number: int) -> None:
        message = encode_notification("notifications/cancelled", {"requestId": number})
        try:
            async with asyncio.timeout(_CANCEL_SECONDS):
                await self._transport.send(message)
        except (Unavailable, TimeoutError):
            pass  # then it does not work on it any more, or does not listen

    # What the server says.

    def _on_message(self, message: JsonMap) -> None:
        method, number = message.get("method"), message.get("id")
        if isinstance(method, str):
            if isinstance(number, int | str):
                self._requests.take(number, method, get_map(message, "params"))
            else:
                self._on_notification(method, get_map(message, "params"))
        elif pending := self._find_pending(number):
            if "error" in message:
                error = get_map(message, "error")
                reason = explain_error(error, self.server.hide_secrets)
                pending.fail(BadRequest(f"The MCP server {self.server.name} says: {reason}"))
            elif not pending.answer.done():
                pending.answer.set_result(get_map(message, "result"))

    def _find_pending(self, number: object) -> _Pending | None:
        known = read_own_id(number)
        return None if known is None else self._pending.get(known)

    def _on_notification(self, method: str, params: JsonMap) -> None:
        if method == "notifications/tools/list_changed":
            self._tools_changed = True
        elif method == "notifications/prompts/list_changed":
            self._prompts_changed = True
        elif method == "notifications/cancelled":
            number = params.get("requestId")
            if isinstance(number, int | str):
                self._requests.withdraw(number)
        elif method == "notifications/progress" and (
            pending := self._find_pending(params.get("progressToken"))
        ):
            pending.progressed = True
            if pending.on_progress:
                pending.on_progress(" ".join(_describe_progress(params)))

    async def _elicit(self, message: str, schema: JsonMap) -> JsonMap:
        return await self.elicit(message, schema) if self.elicit else _DISMISSED

    def _on_answered(self) -> None:
        for pending in self._pending.values():
            pending.progressed = True

    def _on_closed(self, reason: str) -> None:
        was_closed = bool(self.closed)
        self._fail_all(reason)
        if not was_closed:
            self.on_closed()

    def _on_lost(self, number: RpcId, error: AgentdError) -> None:
        if pending := self._pending.get(number):
            pending.fail(error)

    def _fail_all(self, reason: str) -> None:
        self.closed = self.closed or reason
        for pending in self._pending.values():
            pending.fail(Unavailable(_explain_end(self.server.name, reason)))


def _explain_end(server: str, reason: str) -> str:
    """Explain why a server can no longer be used; some reasons are sentences that name it."""
    name = f"The MCP server {server}"
    return reason if reason.startswith(f"{name} ") else f"{name}: {reason.rstrip('.')}."


def _keep_first(listed: Iterable[_Named]) -> tuple[_Named, ...]:
    """Return each tool or prompt once, also where a server lists its name again."""
    found: dict[str, _Named] = {}
    for one in listed:
        found.setdefault(one.name, one)
    return tuple(found.values())


def _describe_progress(params: JsonMap) -> Iterator[str]:
    done, total = params.get("progress"), params.get("total")
    if _is_amount(done):
        yield f"{done:g} of {total:g}" if _is_amount(total) else f"{done:g}"
    if message := get_string(params, "message", 200):
        yield message


def _is_amount(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and abs(value) < _LARGEST_AMOUNT

"""A server behind an address: Streamable HTTP, with replies as JSON or server-sent events.

A stream that ends early is read on from its last event, if its events have ids; so a server may
hang up while it works, and be asked again later. The one for what it says unasked is kept open.

A server that the owner configured may be anywhere, this machine included; one that only the
workspace names must be at a public address (the gateway's guard against forged requests).
"""

import asyncio
import re
from collections.abc import Mapping
from contextlib import closing, suppress

from agentd.agent.mcp_servers.messages import JsonMap, RpcId, decode_messages, read_own_id
from agentd.agent.mcp_servers.model import ReadyServer
from agentd.agent.mcp_servers.transport import OnClosed, OnLost, OnMessage
from agentd.agent.text import sanitize
from agentd.core.errors import AgentdError, SupplierUnreachable, TooLarge, Unavailable
from agentd.core.redaction import scrub
from agentd.core.sse import SseReader
from agentd.core.tasks import BackgroundTasks
from agentd.llm.upstream.client import HttpResponse, HttpUpstream
from agentd.llm.upstream.dial import dial_directly
from agentd.llm.upstream.protocol import Timeouts, UpstreamRequest, merge_headers

LARGEST_REPLY = 16 * 2**20
"""Bytes of a reply that is no stream."""
EXPIRED = "its session has ended"
"""Why a connection is closed whose server does not know its session any more."""
_TIMEOUTS = Timeouts(connect=10.0, head=3600.0, idle=3600.0, total=24 * 3600.0)
ACKNOWLEDGEMENT_SECONDS = 30.0
"""Seconds for the status of a message that has no response: notifications, and our responses."""
_SHORT = Timeouts(connect=5.0, head=5.0, idle=5.0, total=5.0)
_LONGEST_REASON = 300
_MOST_FAILURES = 3
"""Attempts in a row to read on a stream of an answer, before the answer counts as lost."""
_SHORTEST_DELAY, _DELAY, _LONGEST_DELAY = 0.1, 1.0, 60.0
"""Seconds before a stream is read on: of the server's wish, and without one."""
_HAS_NO_STREAM = (400, 401, 403, 404, 405, 406, 501)
"""How a server answers that has no stream for what it says unasked, or not for us any more."""
_ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
_OK, _ACCEPTED = 200, 202
_NOT_FOUND, _UNAUTHORIZED, _FORBIDDEN, _BAD_REQUEST = 404, 401, 403, 400
_NO_SESSION = re.compile("session|not initialized", re.I)
"""How servers word it that were started anew and answer 400, not 404 as the protocol wants."""


_NO_HEADERS = "without an Authorization header: give it one"


class SessionEnded(Unavailable):
    """A message was refused, not taken: the server does not know its session any more."""

    def __init__(self, server: str) -> None:
        super().__init__(f"The MCP server {server}: {EXPIRED}.")


class _Stream:
    """How far a stream of events was read; ``request``: it has the answer to that."""

    def __init__(self, request: RpcId | None = None) -> None:
        self.request = request
        self.answered = False
        self.problem = ""
        """Why it broke off; empty: it ended as it should."""
        self.last_id = ""
        self._wish: float | None = None
        """The seconds that the server wants to pass before it is read on."""
        self._failures = 0
        self._in_vain = 0
        """How often in a row it could not be read on, or ended at once."""

    def note_end(self, reader: SseReader, lasted: float) -> None:
        """Note what was read in so many seconds before it ended."""
        self.last_id = reader.last_id or self.last_id
        self._wish = self._wish if reader.retry is None else reader.retry
        self._failures = 0
        self._in_vain = 0 if lasted > _DELAY else self._in_vain + 1

    def note_failure(self, problem: str) -> None:
        """Note that it could not be read on."""
        self.problem = problem
        self._failures += 1
        self._in_vain += 1

    @property
    def is_given_up(self) -> bool:
        """True if it cannot be read on."""
        return not self.last_id or self._failures >= _MOST_FAILURES

    @property
    def delay(self) -> float:
        """The seconds before it is read on."""
        if self._wish is None:
            return min(_DELAY * 2.0 ** min(self._in_vain, 10), _LONGEST_DELAY)
        return min(max(self._wish, _SHORTEST_DELAY), _LONGEST_DELAY)


class HttpTransport:
    """Posts each message; the replies to a request come back with its response."""

    def __init__(self, server: ReadyServer) -> None:
        self._server = server
        self._upstream = HttpUpstream(dial=dial_directly(local=server.configured))
        self._tasks = BackgroundTasks()
        self._exchanges: dict[RpcId, asyncio.Task[None]] = {}
        """The requests that are not answered."""
        self._session: dict[str, str] = {}
        self._on_message: OnMessage = lambda message: None
        self._on_closed: OnClosed = lambda reason: None
        self._on_lost: OnLost = lambda number, error: None

    async def open(self, on_message: OnMessage, on_closed: OnClosed, on_lost: OnLost) -> None:
        """Keep whom to tell."""
        self._on_message, self._on_closed, self._on_lost = on_message, on_closed, on_lost

    async def send(self, message: bytes, request: RpcId | None = None) -> None:
        """Post a message; a request in the background, with all that comes back."""
        if request is not None:
            self._exchanges[request] = self._tasks.start(self._exchange(message, request))
            return
        most = ACKNOWLEDGEMENT_SECONDS
        timeouts = Timeouts(head=most, idle=most, total=2 * most)
        try:
            (await self._post(message, timeouts)).close()
        except SessionEnded:
            self._on_closed(EXPIRED)
            raise

    def forget(self, request: RpcId) -> None:
        """Hang up, if there is no answer."""
        if task := self._exchanges.pop(request, None):
            task.cancel()

    def on_initialized(self, revision: str) -> None:
        """Send the revision with each message from now on, and listen to the server's own."""
        self._session["mcp-protocol-version"] = revision
        self._tasks.start(self._listen())

    async def close(self) -> None:
        """End the session and all connections."""
        try:
            await self._tasks.cancel()
            if self._has_session:
                with suppress(SupplierUnreachable, TimeoutError):
                    async with asyncio.timeout(_SHORT.total):
                        request = self._build_request("DELETE", timeouts=_SHORT)
                        (await self._upstream.open(request)).close()
        finally:
            await self._upstream.close()

    @property
    def _has_session(self) -> bool:
        return "mcp-session-id" in self._session

    def _build_request(
        self,
        method: str,
        body: bytes = b"",
        timeouts: Timeouts = _TIMEOUTS,
        more: Mapping[str, str] = {},
    ) -> UpstreamRequest:
        headers = merge_headers(_ACCEPT, self._server.headers, self._session, more)
        return UpstreamRequest(method, self._server.url, headers, body, timeouts)

    async def _check(self, response: HttpResponse) -> None:
        """Raise ``Unavailable`` unless a message was taken."""
        status = response.status
        if status < 300:
            return
        if status == _NOT_FOUND and self._has_session:
            raise SessionEnded(self._server.name)
        reason = await self._read_reason(response)
        if status == _BAD_REQUEST and self._has_session and _NO_SESSION.search(reason):
            raise SessionEnded(self._server.name)
        if status in (_UNAUTHORIZED, _FORBIDDEN):
            headers = self._server.headers
            what = "with the headers that it was given" if headers else _NO_HEADERS
            raise self._refuse(f"refuses agentd (status {status}) {what}. {reason}")
        if place := self._read_location(response):
            raise self._refuse(f"sends agentd to {place} (status {status}): change its url to that")
        raise self._refuse(f"answers status {status}. {reason}")

    def _read_location(self, response: HttpResponse) -> str:
        """Return where a response sends its reader, without what may be a key; perhaps empty."""
        if response.status >= _BAD_REQUEST:
            return ""
        place = response.headers.get("location", "").partition("?")[0]
        return self._server.hide_secrets(sanitize(place))[:_LONGEST_REASON]

    async def _read_reason(self, response: HttpResponse) -> str:
        """Return what the body of a refusal says; empty if that is not for people."""
        if response.status < _BAD_REQUEST or not _is_readable(response.headers):
            return ""
        try:
            body = await self._read_whole(response)
        except AgentdError:
            return ""
        text = scrub(self._server.hide_secrets(body.decode("utf-8", "replace")))
        return sanitize(text)[:_LONGEST_REASON]

    async def _post(self, message: bytes, timeouts: Timeouts = _TIMEOUTS) -> HttpResponse:
        """Return the response to a message that was taken; else raise ``Unavailable``."""
        try:
            response = await self._upstream.open(self._build_request("POST", message, timeouts))
        except SupplierUnreachable as error:
            raise Unavailable(self._explain(error)) from error
        try:
            await self._check(response)
        except BaseException:
            response.close()
            raise
        if session := response.headers.get("mcp-session-id"):
            self._session["mcp-session-id"] = session
        return response

    async def _exchange(self, message: bytes, request: RpcId) -> None:
        """Post a request, and pass on all that comes back until it is answered."""
        try:
            with closing(await self._post(message)) as response:
                if _is_stream(response):
                    await self._read_answer(response, request)
                    return
                body = await self._read_whole(response)
            if not self._take(body, request) and response.status != _ACCEPTED:
                kind = sanitize(response.headers.get("content-type", "")[:100]) or "no content"
                raise self._refuse(f"does not answer by the protocol ({kind}): is its url right?")
        except AgentdError as error:
            self._on_lost(request, error)
            if isinstance(error, SessionEnded):
                self._on_closed(EXPIRED)

    async def _read_answer(self, response: HttpResponse, request: RpcId) -> None:
        """Read the events of a response, and read on where it ends before the answer."""
        stream = _Stream(request)
        await self._read_events(response, stream)
        while not stream.answered:
            if stream.is_given_up:
                problem = "ended its response before it had answered"
                raise Unavailable(stream.problem) if stream.problem else self._refuse(problem)
            if not await self._read_on(stream, stream.delay):
                raise self._refuse("hung up before it had answered, and does not go on with that")

    async def _listen(self) -> None:
        """Read what the server says unasked, as long as it has a stream for that."""
        stream, delay = _Stream(), 0.0
        with suppress(AgentdError):
            while await self._read_on(stream, delay):
                delay = stream.delay

    async def _read_on(self, stream: _Stream, delay: float) -> bool:
        """Open a stream, after its last event if there is one; False if the server has it not."""
        await asyncio.sleep(delay)
        place = {"last-event-id": stream.last_id} if stream.last_id else {}
        try:
            async with self._upstream.send(self._build_request("GET", more=place)) as response:
                if response.status == _OK and _is_stream(response):
                    await self._read_events(response, stream)
                    return True
                stream.note_failure("")
                return response.status != _OK and response.status not in _HAS_NO_STREAM
        except SupplierUnreachable as error:
            stream.note_failure(self._explain(error))
            return True

    async def _read_events(self, response: HttpResponse, stream: _Stream) -> None:
        now = asyncio.get_running_loop().time
        reader, began, stream.problem = SseReader(), now(), ""
        try:
            async for chunk in response.iter_chunks():
                for event in reader.feed(chunk):
                    if self._take(event.data, stream.request):
                        stream.answered = True
        except SupplierUnreachable as error:
            stream.problem = self._explain(error)
        except TooLarge as error:
            raise self._refuse("sends a message that is too long") from error
        stream.note_end(reader, now() - began)

    def _take(self, data: bytes | str, request: RpcId | None) -> bool:
        """Pass messages on; return whether the answer to a request is among them."""
        try:
            messages = [_claim(one, request) for one in decode_messages(data)]
        except TooLarge as error:
            raise self._refuse("sends a message with too many values") from error
        answered = any(
            "method" not in one and read_own_id(one.get("id")) == request for one in messages
        )
        if answered and request is not None:
            self._exchanges.pop(request, None)  # what comes after it may still be read
        for message in messages:
            self._on_message(message)
        return answered

    async def _read_whole(self, response: HttpResponse) -> bytes:
        try:
            return await response.read(LARGEST_REPLY)
        except SupplierUnreachable as error:
            raise Unavailable(self._explain(error)) from error
        except TooLarge as error:
            raise self._refuse("sends a message that is too long") from error

    def _refuse(self, what: str) -> Unavailable:
        what = what.strip()
        end = "" if what.endswith((".", "?", "}")) else "."
        return Unavailable(f"The MCP server {self._server.name} {what}{end}")

    def _explain(self, error: SupplierUnreachable) -> str:
        message = error.message.replace(
            "; only a channel with local: true may call it", "; only servers of mcp.yml may be"
        )
        why = self._server.hide_secrets(message)
        return f"The MCP server {self._server.name} cannot be reached: {why}"


def _claim(message: JsonMap, request: RpcId | None) -> JsonMap:
    """Return the error of a request that could not be read, which has no id, with it."""
    is_error = "error" in message and message.get("id") is None and "method" not in message
    return {**message, "id": request} if is_error and request is not None else message


def _is_stream(response: HttpResponse) -> bool:
    return _get_kind(response.headers).startswith("text/event-stream")


def _get_kind(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").lower()


def _is_readable(headers: Mapping[str, str]) -> bool:
    kind = _get_kind(headers)
    return not kind or kind.startswith(("application/json", "text/plain"))

"""One request and its answer.

The order is fixed: the right host, a known path, the gate, the method, only then a body, and
only as much of it as is allowed. Every refusal is told as the callers of its address expect it, and
waits for no body: what comes of it is passed over, so that its sender hears the answer and the
connection stays usable.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from tornado.http1connection import HTTP1Connection
from tornado.httputil import (
    HTTPHeaders,
    HTTPMessageDelegate,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.iostream import StreamClosedError

from agentd import ids
from agentd.access.gate import Surface
from agentd.errors import (
    AgentdError,
    NoAddress,
    TooLarge,
    Unauthorized,
)
from agentd.web.body import refuse_body
from agentd.web.call import Answer, Call, Upgrade
from agentd.web.desk import Desk
from agentd.web.envelope import enveloped
from agentd.web.head import Head
from agentd.web.incoming import STREAMED_SECONDS, Incoming
from agentd.web.live import REFUSED_SECONDS
from agentd.web.receiving import received
from agentd.web.reply import Reply
from agentd.web.table import Route

log = logging.getLogger(__name__)

PASSED_OVER = 16 * 1024 * 1024
"""Bytes of a body that are read to no end before the connection is ended instead."""
HEARD_OUT = 64 * 1024 * 1024
"""Bytes of it after which its sender, who does not listen, is cut off."""
PASSING_SECONDS = 10.0
"""Time that the rest of a streamed body has, once it was answered."""


class Exchange(HTTPMessageDelegate):
    """From the head of a request to the last byte of its answer."""

    def __init__(self, desk: Desk, connection: HTTP1Connection, remote_ip: str) -> None:
        self._desk = desk
        self._connection = connection
        self._remote_ip = remote_ip
        self._began = time.monotonic()
        self._request_id = ids.new_request_id()
        self._reply = Reply(connection, desk.date, self._request_id, desk.takers)
        self._head: Head
        self._route: Route | None = None
        self._call: Call | None = None
        self._refusal: Exception | None = None
        self._guessed = False
        self._at_once = False
        """Whether all of it had come before the gate looked whose it is."""
        self._chunks: list[bytes] = []
        self._incoming: Incoming | None = None
        self._size = self._passed = 0
        self._task: asyncio.Task[None] | None = None
        self._whole = False
        self._upgraded: HTTPMessageDelegate | None = None
        self._interruption: AgentdError | None = None
        """Answered instead of what was being made, when that was cancelled for it."""

    async def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> None:
        """Look at the head; nothing of the body is read before the gate has decided."""
        assert isinstance(start_line, RequestStartLine)
        self._began = time.monotonic()  # not before: an idle connection waits for its next request
        self._desk.heads.end(self._connection.stream)
        proxies, peer = self._desk.proxies, self._remote_ip
        self._remote_ip = proxies.find_client(peer, headers)
        head = self._head = Head(self._desk, start_line, headers, self._remote_ip)
        head.by_https = proxies.is_https(peer, headers)
        self._reply.bodiless = head.method == "HEAD"
        if head.has_body:  # at a fraction of the cost of Tornado's own timeout
            self._desk.bodies.begin(self._connection)
        self._at_once = 0 < head.length <= received(self._connection.stream)
        await head.fresh()
        try:
            self._admit(head)
        except Unauthorized as error:
            self._refusal = error
            self._guessed = head.has_key and self._desk.wrong_keys.late(self._remote_ip)
            if head.surface is Surface.MANAGE:
                self._desk.wrong_keys.management.failed(self._remote_ip, head.has_key)
        except AgentdError as error:
            self._refusal = error
        if head.has_body and self._refusal:
            self._refuse_unread(self._refusal)

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        """Take in a part of the body, unless the request was refused or answered already."""
        if self._incoming and self._incoming.wanted:
            return self._incoming.feed(chunk)
        self._size += len(chunk)
        if self._refusal or self._incoming or self._route is None:
            self._pass_over(len(chunk))
        elif self._size > self._route.limit:
            self._refuse_size(self._route)
        else:
            self._chunks.append(chunk)
        return None

    def finish(self) -> None:
        """The request is whole: answer it."""
        self._whole = True
        self._desk.bodies.end(self._connection)
        if self._reply.begun:
            self._connection.finish()
        elif self._incoming:
            self._incoming.end()
        elif self._refusal or self._call is None or self._route is None:
            if self._task is None:  # else it is refused late, and soon
                self._refuse(self._refusal or NoAddress("Nothing is here"))
        elif self._head.has_body:
            self._call.body = b"".join(self._chunks)
            self._later(self._answered(self._route, self._call))
        else:
            try:
                answer = self._route.endpoint(self._call)
            except Exception as error:  # a task boundary: any error becomes an answer
                self._send_error(error)
                return
            if isinstance(answer, Answer) and answer.whole:
                self._send(answer)
            else:
                self._later(answer)

    def on_connection_close(self) -> None:
        """The caller has left. What has all it needs to change something goes on, nothing else."""
        self._desk.bodies.end(self._connection)
        if self._upgraded:
            self._upgraded.on_connection_close()
        self._chunks.clear()
        idle = self._head.method in ("GET", "HEAD")
        waits = self._refusal or idle or (self._route and self._route.ends_with_caller)
        if self._task and (waits or (self._incoming and not self._whole)):
            self._task.cancel()

    def dismiss(self, lost: frozenset[str]) -> None:
        """Access keys are good no more: who waits for an answer with one of them has another.

        What is being given already is ended by whoever makes it; who does not take even that is
        hung up on.
        """
        if not (self._task and self._call and self._call.caller.access in lost):
            return
        if self._reply.begun:
            parting, stream = self._desk.parting, self._connection.stream
            parting.begin(stream)
            self._task.add_done_callback(lambda _: parting.end(stream))
        else:
            self.interrupt(Unauthorized("The access key is good no more"))

    def interrupt(self, error: AgentdError) -> None:
        """Cancel what is being done for this request, and answer ``error`` if nothing was yet."""
        if self._task and not self._task.done():
            self._interruption = error
            self._task.cancel()

    def _admit(self, head: Head) -> None:
        self._route, self._call = head.admit(self._request_id)
        if head.length > self._route.limit:
            raise _too_large(self._route)
        head.check_type(self._route)
        if self._route.streams:
            self._incoming = self._call.incoming = Incoming(self._route.limit, self._still_welcome)
            self._desk.bodies.end(self._connection)
            self._connection.set_body_timeout(STREAMED_SECONDS)
            self._later(self._answered(self._route, self._call))

    def _refuse_size(self, route: Route) -> None:
        """Answer at once: whoever listens while sending need not send the rest."""
        self._chunks.clear()
        self._refusal = _too_large(route)
        self._send_error(self._refusal)

    def _refuse_unread(self, refusal: Exception) -> None:
        """Answer before the body, unless it came with its head; the connection ends if it is long.

        Whoever asked whether to send it (``Expect``) does not.
        """
        asks = "Expect" in self._head.headers
        self._reply.last = asks or self._head.length > PASSED_OVER
        if self._reply.last:
            self._refuse(refusal)
            if asks and self._reply.begun:
                self._connection.finish()
        else:
            asyncio.get_running_loop().call_soon(self._refuse_meanwhile, refusal)

    def _refuse_meanwhile(self, refusal: Exception) -> None:
        if not (self._whole or self._connection.stream.closed()):
            self._refuse(refusal)

    def _pass_over(self, size: int) -> None:
        """More of a body that nobody wants."""
        before, self._passed = self._passed, self._passed + size
        if self._passed > HEARD_OUT:
            self._connection.close()
        elif before <= PASSED_OVER < self._passed:
            self._reply.last = True
            if self._reply.begun:
                self._part()
            elif self._refusal:
                self._send_error(self._refusal)

    def _part(self) -> None:
        """End our side only: to close while a body comes is a reset, which takes our answer along.

        Its sender may send the rest of it, and then hear.
        """
        stream = self._connection.stream
        with suppress(OSError):  # he has left
            if not (stream.closed() or stream.writing()):
                stream.socket.shutdown(socket.SHUT_WR)

    def _refuse(self, refusal: Exception) -> None:
        """Answer what was refused: late if it is a guesser's, or a poll, which comes at once."""
        if self._guessed:
            self._later(self._desk.wrong_keys.refuse(refusal))
        elif self._head.polls:
            self._later(_refused_later(refusal))
        else:
            self._send_error(refusal)

    def _later(self, answer: Answer | Awaitable[Answer]) -> None:
        self._connection.set_close_callback(self.on_connection_close)
        self._task = asyncio.get_running_loop().create_task(self._finish_later(answer))
        self._desk.at_work[self._task] = self
        self._task.add_done_callback(self._desk.at_work.pop)

    async def _answered(self, route: Route, call: Call) -> Answer:
        """The answer, if its caller may still have it: keys and logins end while bodies come."""
        try:
            if not self._at_once:
                await self._still_welcome()
            if route.surface is Surface.MANAGE and not route.takes_body:
                refuse_body(call.body)
            answer = route.endpoint(call)
            return answer if isinstance(answer, Answer) else await answer
        finally:
            if self._incoming:
                self._incoming.close()
                asyncio.get_running_loop().call_later(PASSING_SECONDS, self._pass_no_more)

    def _pass_no_more(self) -> None:
        if not self._whole:
            self._connection.close()

    async def _still_welcome(self) -> None:
        assert self._call
        await self._head.fresh()
        self._call.caller = self._head.welcome()

    async def _finish_later(self, answer: Answer | Awaitable[Answer]) -> None:
        try:
            ready = answer if isinstance(answer, Answer) else await answer
            if not ready.whole:  # it enters the roll in this turn of the loop, so none slips by
                await _still(self._head.welcome, ready)
            if ready.upgrade:
                self._hand_over(ready.upgrade)
            elif ready.portions is None:
                self._send(ready)
            else:
                await self._reply.stream(ready)
                self._connection.finish()
                self._note(ready.status)
        except asyncio.CancelledError:
            if not self._interruption:
                raise
            if self._reply.begun:
                self._connection.close()
            else:
                self._send_error(self._interruption)
        except StreamClosedError:
            return
        except Exception as error:  # a task boundary: any error becomes an answer
            if not self._reply.begun:
                self._send_error(error)
                return
            log.error("an answer broke off half-way", exc_info=error)
            self._connection.close()  # a clean end would make the half look like the whole

    def _hand_over(self, upgrade: Upgrade) -> None:
        """From here on the connection is a WebSocket's."""
        start_line, headers = self._head.start_line, self._head.headers
        self._note(101)
        self._upgraded = upgrade(self._connection, start_line, headers)
        self._upgraded.headers_received(start_line, headers)
        self._upgraded.finish()

    def _send_error(self, error: Exception) -> None:
        telling = self._head.telling
        self._send(telling(error, self._request_id) if telling else Answer.of(*enveloped(error)))

    def _send(self, answer: Answer) -> None:
        if self._reply.begun:
            if answer.sent:
                answer.sent(False)
            return
        self._reply.send(answer)
        if answer.sent:
            answer.sent(not self._connection.stream.closed())
        if self._whole:
            self._connection.finish()
        elif self._reply.last:
            self._part()
        self._note(answer.status)

    def _note(self, status: int) -> None:
        self._desk.access_log.note(
            self._remote_ip,
            self._head.by or "-",
            self._head.method,
            self._head.path,
            status,
            time.monotonic() - self._began,
            self._request_id,
        )


async def _still(welcome: Callable[[], object], ready: Answer) -> None:
    """Raise as ``welcome``; what was about to be given is let go of then."""
    try:
        welcome()
    except AgentdError:
        if ready.portions:
            await ready.portions.aclose()
        raise


def _too_large(route: Route) -> TooLarge:
    return TooLarge("The body is too large", f"At most {route.limit} bytes.")


async def _refused_later(refusal: Exception) -> Answer:
    await asyncio.sleep(REFUSED_SECONDS)
    raise refusal

"""The handler of a request: its execution and its response.

The order is fixed: host, path, authentication, method, and only then the body, up to its limit.
A refusal is rendered in the error format of its route and does not wait for the body: what
arrives of it is discarded, so that the client can read the response and keep the connection.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from inspect import iscoroutine
from typing import Any

from tornado.httputil import HTTPHeaders, RequestStartLine

from agentd.core import ids
from agentd.core.errors import AgentdError, RouteNotFound, TooLarge, Unauthorized
from agentd.http.access import RouteGroup
from agentd.http.body_stream import BodyStream
from agentd.http.connections import REFUSED_POLL_DELAY
from agentd.http.context import ServerContext
from agentd.http.errors import render_error
from agentd.http.http_connection import ClientDisconnected, HttpConnection, MessageHandler
from agentd.http.json_body import refuse_body
from agentd.http.request import Request, Response
from agentd.http.request_head import RequestHead
from agentd.http.response import ResponseWriter
from agentd.http.routing import Route
from agentd.http.upgrade import Upgrade

log = logging.getLogger(__name__)

MAX_DISCARDED = 16 * 1024 * 1024
"""Bytes of a refused body that are discarded to keep the connection usable; more end it."""
MAX_DISCARDED_BEFORE_CLOSE = 64 * 1024 * 1024
"""Bytes of a refused body after which the connection is closed even if the client still sends."""
DISCARD_TIMEOUT = 10.0
"""Seconds until the rest of a streamed body must have arrived, once it was answered."""


class RequestHandler(MessageHandler):
    """The handler of a request, from its head to the last byte of the answer."""

    def __init__(self, context: ServerContext, connection: HttpConnection) -> None:
        self._context = context
        self._connection = connection
        self._remote_ip = connection.remote_ip
        self._began = time.monotonic()
        self._request_id = ids.generate_request_id()
        self._writer = ResponseWriter(connection, context.get_date, self._request_id)
        self._head: RequestHead
        self._route: Route | None = None
        self._request: Request | None = None
        self._refusal: Exception | None = None
        self._delay_refusal = False
        self._arrived_whole = False
        """True if the whole body had arrived before the caller was authenticated."""
        self._chunks: list[bytes] = []
        self._body_stream: BodyStream | None = None
        self._size = self._discarded = 0
        self._task: asyncio.Task[None] | None = None
        self._is_complete = False
        self._streams_events = False
        """True once the response is a stream of live events."""
        self._interrupt_error: AgentdError | None = None
        """The error to answer after the task was cancelled by ``interrupt``."""

    async def headers_received(self, start_line: RequestStartLine, headers: HTTPHeaders) -> None:
        """Authenticate and route the request; no part of the body is read before that."""
        await self._context.table.import_deferred(start_line.path)
        proxies, peer = self._context.proxies, self._remote_ip
        self._remote_ip = proxies.find_client(peer, headers)
        head = self._head = RequestHead(self._context, start_line, headers, self._remote_ip)
        head.is_https = self._connection.is_tls or proxies.is_https(peer, headers)
        self._writer.omit_body = head.method == "HEAD"
        self._writer.takes_chunks = start_line.version == "HTTP/1.1"
        if head.has_body:
            self._context.body_timeouts.start(self._connection)
        self._arrived_whole = 0 < head.content_length <= self._connection.waiting_bytes
        await head.ensure_current()
        try:
            self._admit(head)
        except Unauthorized as error:
            self._refusal = error
            self._delay_refusal = head.has_key and self._context.throttle.record_failure(
                self._remote_ip
            )
            if head.group is RouteGroup.MANAGE:
                self._context.throttle.management_failures.record(self._remote_ip, head.has_key)
        except AgentdError as error:
            self._refusal = error
        if head.has_body and self._refusal:
            self._refuse_before_body(self._refusal)

    def data_received(self, chunk: bytes) -> Coroutine[Any, Any, None] | None:
        """Take a part of the body; discard it if the request was already refused or answered."""
        if self._body_stream and self._body_stream.is_open:
            return self._body_stream.feed(chunk)
        self._size += len(chunk)
        if self._refusal or self._body_stream or self._route is None:
            self._discard(len(chunk))
        elif self._size > self._route.body_limit:
            self._refuse_size(self._route)
        else:
            self._chunks.append(chunk)
        return None

    def finish(self) -> None:
        """Answer the request, which has arrived completely."""
        self._is_complete = True
        self._end_body_timeouts()
        if self._writer.has_started:
            self._connection.finish()
        elif self._body_stream:
            self._body_stream.finish()
        elif self._refusal or self._request is None or self._route is None:
            if self._task is None:  # otherwise a delayed refusal is under way already
                self._refuse(self._refusal or RouteNotFound("There is no such route"))
        elif self._head.has_body:
            self._request.body = b"".join(self._chunks)
            self._start_task(self._call_endpoint(self._route, self._request))
        else:
            try:
                answer = self._route.endpoint(self._request)
            except Exception as error:  # a task boundary: any error becomes a response
                self._send_error(error)
                return
            if isinstance(answer, Response) and answer.is_complete:
                self._send(answer)
            else:
                self._start_task(answer)

    def on_connection_close(self) -> None:
        """Handle a client that disconnected.

        A completely received request that may change state keeps running; others are cancelled.
        """
        self._chunks.clear()
        reads_only = self._head.method in ("GET", "HEAD")
        is_pointless = self._refusal or reads_only or (self._route and self._route.ends_with_caller)
        if self._task and (is_pointless or (self._body_stream and not self._is_complete)):
            self._task.cancel()

    def cancel_revoked(self, key_ids: frozenset[str]) -> None:
        """Answer 401 to a request that waits on one of these access keys, which are revoked.

        A response that has started is ended by the endpoint; if the client does not even read
        that end, the connection is closed.
        """
        if not (self._task and self._request and self._request.caller.access_key_id in key_ids):
            return
        if self._writer.has_started:
            timeouts, connection = self._context.abort_timeouts, self._connection
            timeouts.start(connection)
            self._task.add_done_callback(lambda _: timeouts.cancel(connection))
        else:
            self.interrupt(Unauthorized("Access key revoked or expired"))

    def cancel_management_keys(self, names: frozenset[str]) -> None:
        """End a request of one of these management keys, which are revoked.

        One that may change something is under way already, and runs to its end.
        """
        request = self._request
        if request is None or request.method not in ("GET", "HEAD"):
            return
        if request.caller.kind == "management" and request.caller.name in names:
            self.interrupt(Unauthorized("The management key is no longer valid"))

    def end_refused_read(self) -> None:
        """End a request that reads with an API key or a login that is no longer valid.

        One that waits is answered 401; a download is cut off. Streams of live events are ended by
        their endpoints, which send a last message.
        """
        request = self._request
        if request is None or request.method not in ("GET", "HEAD"):
            return
        if request.caller.kind not in ("key", "user") or self._head.group is RouteGroup.LIVE:
            return
        if self._streams_events:
            return
        try:
            self._head.authenticate()
        except AgentdError as error:
            self.interrupt(error)

    def interrupt(self, error: AgentdError) -> None:
        """Cancel the request; answer ``error`` if the response has not started yet."""
        if self._task and not self._task.done():
            self._interrupt_error = error
            self._task.cancel()

    def _admit(self, head: RequestHead) -> None:
        self._route, self._request = head.admit(self._request_id)
        if head.content_length > self._route.body_limit:
            raise _make_too_large_error(self._route)
        head.check_content_type(self._route)
        if self._route.upload:
            self._body_stream = self._request.body_stream = BodyStream(
                self._route.body_limit, self._reauthenticate
            )
            self._context.body_timeouts.cancel(self._connection)
            self._context.upload_timeouts.start(self._connection)
            self._start_task(self._call_endpoint(self._route, self._request))

    def _refuse_size(self, route: Route) -> None:
        """Answer at once, so that a client that reads while it sends need not send the rest."""
        self._chunks.clear()
        self._refusal = _make_too_large_error(route)
        self._send_error(self._refusal)

    def _refuse_before_body(self, refusal: Exception) -> None:
        """Answer before the body has arrived; a long body also ends the connection.

        A client that sent ``Expect: 100-continue`` will not send the body at all.
        """
        expects_continue = "Expect" in self._head.headers
        self._writer.close_after = expects_continue or self._head.content_length > MAX_DISCARDED
        if self._writer.close_after:
            self._refuse(refusal)
            if expects_continue and self._writer.has_started:
                self._connection.finish()
        else:  # a body that came with its head is discarded first, in this iteration of the loop
            asyncio.get_running_loop().call_soon(self._refuse_if_incomplete, refusal)

    def _refuse_if_incomplete(self, refusal: Exception) -> None:
        if not (self._is_complete or self._connection.is_closed):
            self._refuse(refusal)

    def _discard(self, size: int) -> None:
        """Count discarded bytes of a body; end the connection when there are too many."""
        before, self._discarded = self._discarded, self._discarded + size
        if self._discarded > MAX_DISCARDED_BEFORE_CLOSE:
            self._connection.abort()
        elif before <= MAX_DISCARDED < self._discarded:
            self._writer.close_after = True
            if self._writer.has_started:
                self._connection.shut_down_writing()
            elif self._refusal:
                self._send_error(self._refusal)

    def _end_body_timeouts(self) -> None:
        self._context.body_timeouts.cancel(self._connection)
        self._context.upload_timeouts.cancel(self._connection)

    def _refuse(self, refusal: Exception) -> None:
        """Answer a refused request, with a delay for guessed keys and for long polls.

        Clients repeat a refused poll at once.
        """
        if self._delay_refusal:
            self._start_task(self._context.throttle.raise_delayed(refusal))
        elif self._head.is_poll:
            self._start_task(_refuse_poll(refusal))
        else:
            self._send_error(refusal)

    def _start_task(self, answer: Response | Awaitable[Response]) -> None:
        self._task = asyncio.get_running_loop().create_task(self._send_when_ready(answer))
        self._context.active_requests[self._task] = self
        self._task.add_done_callback(partial(self._end_task, answer))

    def _end_task(
        self, answer: Response | Awaitable[Response], task: "asyncio.Future[None]"
    ) -> None:
        """Do what a task cannot do itself, which may be cancelled before its first step."""
        if iscoroutine(answer):
            answer.close()
        if task.cancelled() and self._interrupt_error:
            if self._writer.has_started:
                self._connection.abort()
            else:
                self._send_error(self._interrupt_error)
        del self._context.active_requests[task]

    async def _call_endpoint(self, route: Route, call: Request) -> Response:
        """Return the endpoint's response, if the caller is still authenticated."""
        try:
            if not self._arrived_whole:  # the key or login may have ended while the body came
                await self._reauthenticate()
            if route.group is RouteGroup.MANAGE and not route.accepts_body:
                refuse_body(call.body)
            answer = route.endpoint(call)
            return answer if isinstance(answer, Response) else await answer
        finally:
            if self._body_stream:
                self._body_stream.close()
                asyncio.get_running_loop().call_later(DISCARD_TIMEOUT, self._stop_discarding)

    def _stop_discarding(self) -> None:
        if not self._is_complete:
            self._connection.abort()

    async def _reauthenticate(self) -> None:
        assert self._request
        await self._head.ensure_current()
        self._request.caller = self._head.authenticate()
        if self._route:
            self._head.check_permission(self._route)

    async def _send_when_ready(self, answer: Response | Awaitable[Response]) -> None:
        try:
            ready = answer if isinstance(answer, Response) else await answer
            if not ready.is_complete:
                # No await between this check and the registration of a live connection, so that
                # a revocation either fails the check or finds the connection to close.
                await _check_still_valid(self._head.authenticate, ready)
            if ready.upgrade:
                self._upgrade(ready.upgrade)
            elif ready.chunks is None:
                self._send(ready)
            else:
                self._streams_events = ready.is_event_stream
                await self._writer.stream(ready)
                self._connection.finish()
                self._log_access(ready.status)
        except ClientDisconnected:
            return
        except Exception as error:  # a task boundary: any error becomes a response
            if not self._writer.has_started:
                self._send_error(error)
                return
            log.error("unexpected error in the middle of a response", exc_info=error)
            self._connection.abort()  # a clean end would make it look complete

    def _upgrade(self, upgrade: Upgrade) -> None:
        """Hand the connection over to a WebSocket."""
        self._log_access(101)
        upgrade(self._connection, self._head.start_line, self._head.headers)

    def _send_error(self, error: Exception) -> None:
        renderer = self._head.error_renderer
        self._send(
            renderer(error, self._request_id)
            if renderer
            else Response.from_parts(*render_error(error, self._head.challenge))
        )

    def _send(self, answer: Response) -> None:
        if self._writer.has_started:
            if answer.on_sent:
                answer.on_sent(False)
            return
        self._writer.write(answer)
        if answer.on_sent:
            answer.on_sent(not self._connection.is_closed)
        if self._is_complete:
            self._connection.finish()
        elif self._writer.close_after:
            self._connection.shut_down_writing()
        self._log_access(answer.status)

    def _log_access(self, status: int) -> None:
        self._context.access_log.note(
            self._remote_ip,
            self._head.caller_name or "-",
            self._head.method,
            self._head.path,
            status,
            time.monotonic() - self._began,
            self._request_id,
        )


async def _check_still_valid(authenticate: Callable[[], object], ready: Response) -> None:
    """Raise as ``authenticate`` does; the response's stream is closed then."""
    try:
        authenticate()
    except AgentdError:
        if ready.chunks:
            await ready.chunks.aclose()
        raise


def _make_too_large_error(route: Route) -> TooLarge:
    return TooLarge("The body is too large", f"At most {route.body_limit} bytes.")


async def _refuse_poll(refusal: Exception) -> Response:
    await asyncio.sleep(REFUSED_POLL_DELAY)
    raise refusal

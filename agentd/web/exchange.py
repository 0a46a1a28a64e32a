"""One request and its answer.

The order is fixed: the right host, a known path, the gate, the method, only then a body, and
only as much of it as is allowed. Every refusal has the envelope. The body of what was refused
is passed over, so that its sender hears the answer and the connection stays usable.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable
from typing import Protocol
from urllib.parse import parse_qs

from tornado.http1connection import HTTP1Connection
from tornado.httputil import (
    HTTPHeaders,
    HTTPMessageDelegate,
    RequestStartLine,
    ResponseStartLine,
    format_timestamp,
)
from tornado.iostream import StreamClosedError

from agentd import ids
from agentd.access.gate import Gate, Presented, Surface
from agentd.errors import (
    AgentdError,
    BadRequest,
    MethodNotAllowed,
    Misdirected,
    NotFound,
    TooLarge,
    UnsupportedMedia,
)
from agentd.web.access_log import AccessLog
from agentd.web.call import Answer, Call, Upgrade
from agentd.web.envelope import enveloped
from agentd.web.hosts import Hosts
from agentd.web.live import REFUSED_SECONDS
from agentd.web.reply import Reply
from agentd.web.table import HUB, JSON_LIMIT, Route, Table

log = logging.getLogger(__name__)

PASSED_OVER = 16 * 1024 * 1024
"""Bytes of a body that are read to no end before the connection is closed instead."""


class Keys(Protocol):
    """The keys behind the gate (``access.service.KeyService``)."""

    async def fresh(self) -> None:
        """Return once the gate knows the keys as they are now."""
        ...


class Desk:
    """What every exchange needs: the table, the gate, the hosts and the log."""

    def __init__(
        self, table: Table, gate: Gate, keys: Keys, hosts: Hosts, access_log: AccessLog
    ) -> None:
        self.table = table
        self.gate = gate
        self.keys = keys
        self.hosts = hosts
        self.access_log = access_log
        self.at_work: set[asyncio.Future[None]] = set()
        """The exchanges whose answer is being made."""
        self._date = ("", 0.0)

    def date(self) -> str:
        """The ``Date`` header, made once a second."""
        text, made = self._date
        now = time.monotonic()
        if now - made >= 1 or not text:
            text = format_timestamp(time.time())
            self._date = (text, now)
        return text


class Exchange(HTTPMessageDelegate):
    """From the head of a request to the last byte of its answer."""

    def __init__(self, desk: Desk, connection: HTTP1Connection, remote_ip: str) -> None:
        self._desk = desk
        self._connection = connection
        self._remote_ip = remote_ip
        self._began = time.monotonic()
        self._request_id = ids.new_request_id()
        self._reply = Reply(connection, desk.date, self._request_id)
        self._route: Route | None = None
        self._call: Call | None = None
        self._caller = ""
        self._refusal: Exception | None = None
        self._chunks: list[bytes] = []
        self._size = 0
        self._task: asyncio.Task[None] | None = None
        self._whole = False
        self._start_line: RequestStartLine | None = None
        self._upgraded: HTTPMessageDelegate | None = None
        self._method = self._path = self._query = ""
        self._headers = HTTPHeaders()

    async def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> None:
        """Look at the head; nothing of the body is read before the gate has decided."""
        assert isinstance(start_line, RequestStartLine)
        self._began = time.monotonic()  # not before: an idle connection waits for its next request
        self._start_line = start_line
        self._method = start_line.method
        self._reply.bodiless = self._method == "HEAD"
        self._path, _, self._query = start_line.path.partition("?")
        self._path = hub_path(self._path)
        self._headers = headers
        await self._desk.keys.fresh()
        try:
            self._admit()
            self._check_body()
        except AgentdError as error:
            self._refusal = error

    def data_received(self, chunk: bytes) -> None:
        """Take in a part of the body, unless the request was refused already."""
        self._size += len(chunk)
        if self._size > PASSED_OVER:
            self._hang_up()
        elif self._size > JSON_LIMIT and not self._refusal:
            self._refuse_size()
        elif not self._refusal:
            self._chunks.append(chunk)

    def finish(self) -> None:
        """The request is whole: answer it."""
        self._whole = True
        if self._reply.begun:
            self._connection.finish()
            return
        answer: Answer | Awaitable[Answer]
        if self._refusal and self._polls:
            answer = _refused_later(self._refusal)
        elif self._refusal or self._call is None or self._route is None:
            self._send_error(self._refusal or NotFound("Nothing is here"))
            return
        else:
            self._call.body = b"".join(self._chunks)
            try:
                answer = self._route.endpoint(self._call)
            except Exception as error:  # a task boundary: any error becomes an answer
                self._send_error(error)
                return
        if isinstance(answer, Answer) and answer.whole:
            self._send(answer)
        else:
            self._connection.set_close_callback(self.on_connection_close)
            self._task = asyncio.ensure_future(self._finish_later(answer))
            self._desk.at_work.add(self._task)
            self._task.add_done_callback(self._desk.at_work.discard)

    def on_connection_close(self) -> None:
        """The caller has left. What changes something goes on; what only waits does not."""
        if self._upgraded:
            self._upgraded.on_connection_close()
        self._chunks.clear()
        if self._task and self._method in ("GET", "HEAD"):
            self._task.cancel()

    @property
    def _polls(self) -> bool:
        """Whether it is a long poll of the hub, or a stream of it."""
        return self._path == HUB and self._method == "GET" and "Upgrade" not in self._headers

    def _admit(self) -> None:
        desk, headers = self._desk, self._headers
        if not desk.hosts.serves(headers.get("Host", "")):
            raise Misdirected(
                "This daemon does not answer to that host name",
                "Add it to 'hosts' in agentd.yml if it is yours.",
            )
        found = desk.table.find(self._path)
        row = found and (found.route(self._method) or next(iter(found.methods.values())))
        surface = row.surface if row else surface_of(self._path)
        query = _api_key(self._query) if surface is Surface.LIVE else None
        caller = desk.gate.admit(surface, Presented(headers.get("X-API-Key"), query))
        self._caller = caller.by
        if found is None:
            raise NotFound("Nothing is here", "GET /api/openapi.json lists all that is.")
        self._route = found.route(self._method)
        if self._route is None:
            raise MethodNotAllowed(f"{self._method} is not possible here", found.allowed)
        self._call = Call(
            method=self._method,
            path=self._path,
            query_text=self._query,
            params=found.params,
            headers=headers,
            caller=caller,
            remote_ip=self._remote_ip,
        )

    def _check_body(self) -> None:
        length = self._headers.get("Content-Length", "0")
        if length.isdecimal() and (len(length) > 15 or int(length) > JSON_LIMIT):
            self._reply.last = "Expect" in self._headers or int(length[:16]) > PASSED_OVER
            self._refuse_size()
            return
        if self._route is None or self._route.takes is None:
            return
        kind, _, options = self._headers.get("Content-Type", "application/json").partition(";")
        charset = options.strip().lower().removeprefix("charset=").strip('"')
        if kind.strip().lower() != "application/json" or charset not in ("", "utf-8"):
            raise UnsupportedMedia(
                "The body must be JSON in UTF-8", "Send Content-Type: application/json."
            )

    def _refuse_size(self) -> None:
        """Answer at once: whoever listens while sending need not send the rest."""
        self._chunks.clear()
        self._refusal = TooLarge("The body is too large", f"At most {JSON_LIMIT} bytes.")
        self._send_error(self._refusal)
        if self._reply.last:
            self._connection.finish()

    def _hang_up(self) -> None:
        """Have done with a body that does not end."""
        self._reply.last = True
        if not self._reply.begun:
            assert self._refusal
            self._send_error(self._refusal)
        self._connection.finish()

    async def _finish_later(self, answer: Answer | Awaitable[Answer]) -> None:
        try:
            ready = answer if isinstance(answer, Answer) else await answer
            if ready.upgrade:
                self._hand_over(ready.upgrade)
            elif ready.portions is None:
                self._send(ready)
            else:
                await self._reply.stream(ready)
                self._connection.finish()
                self._note(ready.status)
        except asyncio.CancelledError:
            raise
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
        assert self._start_line
        self._note(101)
        self._upgraded = upgrade(self._connection, self._start_line, self._headers)
        self._upgraded.headers_received(self._start_line, self._headers)
        self._upgraded.finish()

    def _send_error(self, error: Exception) -> None:
        status, headers, envelope = enveloped(error)
        self._send(Answer(envelope, status, headers))

    def _send(self, answer: Answer) -> None:
        if self._reply.begun:
            return
        self._reply.send(answer)
        if self._whole:
            self._connection.finish()
        self._note(answer.status)

    def _note(self, status: int) -> None:
        self._desk.access_log.note(
            self._remote_ip,
            self._caller or "-",
            self._method,
            self._path,
            status,
            time.monotonic() - self._began,
            self._request_id,
        )


def hub_path(path: str) -> str:
    """The hub's addresses are matched without case, and with a slash at the end or without."""
    lower = path.lower().rstrip("/")
    if lower == HUB.lower():
        return HUB
    return f"{HUB}/negotiate" if lower == f"{HUB}/negotiate".lower() else path


def _api_key(query: str) -> str | None:
    """The key in an address (specification, section 5.2); given twice, it is none."""
    try:
        values = parse_qs(query, keep_blank_values=True, max_num_fields=100).get("api_key")
    except ValueError as error:
        raise BadRequest("The query has too many parameters") from error
    return None if values is None else ",".join(values)


async def _refused_later(refusal: Exception) -> Answer:
    await asyncio.sleep(REFUSED_SECONDS)
    raise refusal


def surface_of(path: str) -> Surface:
    """Whose door stands before a path that leads nowhere."""
    if path == "/api/remote" or path.startswith("/api/remote/"):
        return Surface.REMOTE
    if path == HUB or path.startswith(f"{HUB}/"):
        return Surface.LIVE
    if path == "/api" or path.startswith("/api/"):
        return Surface.EXTENDED
    return Surface.PUBLIC

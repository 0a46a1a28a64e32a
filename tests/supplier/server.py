"""The scripted supplier's HTTP: which dialect is spoken where, and what goes wrong on purpose."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from tests.supplier import chat, gemini, messages, responses
from tests.supplier.frames import CREATED, refusal
from tests.supplier.request import Request
from tests.supplier.steps import Answer, Break, Fail, Fault, Garble, Refuse, Stall

if TYPE_CHECKING:
    from tests.supplier.supplier import Supplier

MOST_BYTES = 256 * 1024 * 1024
"""The largest request taken."""


class Dialect(Protocol):
    """What ``chat``, ``responses``, ``messages`` and ``gemini`` are."""

    def stream(self, answer: Answer, request: Request, number: int) -> Iterator[bytes]:
        """The answer as server-sent events."""

    def reply(self, answer: Answer, request: Request, number: int) -> dict[str, Any]:
        """The answer as one JSON object."""

    def error(self, refuse: Refuse, number: int) -> dict[str, Any]:
        """An error's body."""

    def failure(self, fail: Fail, request: Request, number: int) -> bytes:
        """An error within a stream that had begun."""


class _Dead(Exception):
    """The connection dies here, the script says."""


@asynccontextmanager
async def listening(supplier: "Supplier") -> AsyncIterator[int]:
    """A server for a supplier, at a free port of 127.0.0.1, which is given."""
    told: dict[str, Any] = {"supplier": supplier}
    rows: list[tuple[str, type[_Handler], dict[str, Any]]] = [
        ("/v1/chat/completions", _Model, {**told, "dialect": chat}),
        ("/v1/responses", _Model, {**told, "dialect": responses}),
        ("/v1/messages", _Model, {**told, "dialect": messages}),
        (gemini.PATH, _Model, {**told, "dialect": gemini}),
        ("/v1/messages/count_tokens", _CountTokens, told),
        ("/v1/models", _Models, told),
        ("/v1beta/models", _GeminiModels, told),
        (".*", _Unknown, told),
    ]
    application = Application([*rows], log_function=lambda handler: None)
    server = HTTPServer(application, max_buffer_size=MOST_BYTES, max_body_size=MOST_BYTES)
    (socket,) = bind_sockets(0, "127.0.0.1")
    server.add_socket(socket)
    try:
        yield socket.getsockname()[1]
    finally:
        server.stop()
        await server.close_all_connections()


class _Handler(RequestHandler):
    """Every path: the request is taken apart before it is answered."""

    # A program that was told to use the supplier as its proxy is heard dialling elsewhere.
    SUPPORTED_METHODS = (*RequestHandler.SUPPORTED_METHODS, "CONNECT")

    def initialize(self, supplier: "Supplier") -> None:
        self.supplier = supplier

    def prepare(self) -> None:
        told = self.request
        try:
            body = json.loads(told.body) if told.body else None
        except ValueError:
            body = told.body.decode(errors="replace")
        headers = {name.lower(): value for name, value in told.headers.get_all()}
        self.told = Request(told.method or "", told.path, headers, body)

    def compute_etag(self) -> None:
        """No supplier sends one."""


class _Model(_Handler):
    """One of the paths that a model answers at."""

    def initialize(self, supplier: "Supplier", dialect: Dialect) -> None:  # type: ignore[override]
        super().initialize(supplier)
        self.dialect = dialect

    def on_connection_close(self) -> None:
        self.told.leave()

    async def post(self) -> None:
        self.number, step = self.supplier.take(self.told)
        try:
            if isinstance(step, Refuse):
                await self._refuse(step)
            elif self.told.streaming:
                await self._stream(step)
            else:
                await self._reply(step)
        except (_Dead, StreamClosedError):
            self._die()

    async def _refuse(self, refuse: Refuse) -> None:
        self.set_status(refuse.status)
        self._head("application/json", refuse.headers)
        told = self.dialect.error(refuse, self.number) if refuse.body is None else refuse.body
        await self.finish(told)

    async def _reply(self, answer: Answer) -> None:
        body = json.dumps(self.dialect.reply(answer, self.told, self.number)).encode()
        whole = await self._through(answer.faults, body)
        self._head("application/json", answer.headers)
        await self.finish(whole)

    async def _stream(self, answer: Answer) -> None:
        events = [*self.dialect.stream(answer, self.told, self.number), b""]
        self._head("text/event-stream; charset=utf-8", answer.headers)
        for sent, event in enumerate(events):
            due = [fault for fault in answer.faults if fault.after == sent]
            self.write(await self._through(due, event))
            await self.flush()
            if any(isinstance(fault, Fail) for fault in due):
                return
            if answer.pause:
                await asyncio.sleep(answer.pause)

    async def _through(self, faults: Iterable[Fault], data: bytes) -> bytes:
        for fault in faults:
            data = await self._fault(fault, data)
        return data

    async def _fault(self, fault: Fault, data: bytes) -> bytes:
        match fault:
            case Stall():
                await fault.hang()
            case Break():
                raise _Dead
            case Garble(data=garbled):
                return (
                    b"data: %b\n\n" % garbled.encode() if self.told.streaming else garbled.encode()
                )
            case Fail():
                return self.dialect.failure(fault, self.told, self.number)
        return data

    def _head(self, kind: str, headers: dict[str, str]) -> None:
        self.set_header("Content-Type", kind)
        self.set_header("X-Request-Id", f"req_{self.number}")
        self.set_header("Request-Id", f"req_{self.number}")
        for name, value in headers.items():
            self.set_header(name, value)

    def _die(self) -> None:
        assert self.request.connection
        self.request.connection.stream.close()  # type: ignore[attr-defined]


class _CountTokens(_Handler):
    """Anthropic's count: four characters are a token."""

    def post(self) -> None:
        self.supplier.others.append(self.told)
        self.write({"input_tokens": len(self.request.body) // 4})


class _Models(_Handler):
    """The list of models, in Anthropic's form for who speaks its dialect."""

    def get(self) -> None:
        self.supplier.others.append(self.told)
        names = self.supplier.models
        if "anthropic-version" in self.told.headers:
            about = {"type": "model", "created_at": "2026-01-01T00:00:00Z"}
            data = [{**about, "id": name, "display_name": name} for name in names]
            ends = {"first_id": names[0], "last_id": names[-1]} if names else {}
            self.write({"data": data, "has_more": False, **ends})
        else:
            told = {"object": "model", "created": CREATED, "owned_by": "supplier"}
            self.write({"object": "list", "data": [{"id": name, **told} for name in names]})


class _GeminiModels(_Handler):
    """The list of models in Google's form."""

    def get(self) -> None:
        self.supplier.others.append(self.told)
        names = self.supplier.models
        self.write({"models": [{"name": f"models/{name}", "displayName": name} for name in names]})


class _Unknown(_Handler):
    """Any other path, or a known one with another method."""

    def prepare(self) -> None:
        super().prepare()
        self.supplier.others.append(self.told)
        self.set_status(404)
        self.finish(refusal(Refuse(404, f"No {self.told.method} {self.told.path} here")))

"""The scripted supplier's HTTP: the path of each dialect, and the scripted faults."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from tests.supplier import chat, completions, embeddings, gemini, messages, responses
from tests.supplier.frames import CREATED, render_openai_error
from tests.supplier.request import Request
from tests.supplier.steps import Answer, Break, Fail, Fault, Garble, Refuse, Stall

if TYPE_CHECKING:
    from tests.supplier.supplier import Supplier

MOST_BYTES = 256 * 1024 * 1024
"""The largest request taken."""


class Dialect(Protocol):
    """The functions of ``chat``, ``completions``, ``responses``, ``messages`` and ``gemini``."""

    def render_stream(self, answer: Answer, request: Request, number: int) -> Iterator[bytes]:
        """Render the answer as server-sent events."""

    def render_reply(self, answer: Answer, request: Request, number: int) -> dict[str, Any]:
        """Render the answer as one JSON object."""

    def render_error(self, refuse: Refuse, number: int) -> dict[str, Any]:
        """Render an error's body."""

    def render_failure(self, fail: Fail, request: Request, number: int) -> bytes:
        """Render an error within a stream that has begun."""


class _ConnectionBroken(Exception):
    """The script says that the connection breaks here."""


@asynccontextmanager
async def running_server(supplier: "Supplier") -> AsyncIterator[int]:
    """Serve a supplier on 127.0.0.1 for the duration of the block; yield the port."""
    common: dict[str, Any] = {"supplier": supplier}
    rows: list[tuple[str, type[_Handler], dict[str, Any]]] = [
        ("/v1/chat/completions", _Model, {**common, "dialect": chat}),
        (completions.PATH, _Model, {**common, "dialect": completions}),
        ("/v1/responses", _Model, {**common, "dialect": responses}),
        ("/v1/messages", _Model, {**common, "dialect": messages}),
        (gemini.PATH, _Model, {**common, "dialect": gemini}),
        (embeddings.OPENAI_PATH, _Embeddings, common),
        (embeddings.GEMINI_PATH, _Embeddings, common),
        ("/v1/messages/count_tokens", _CountTokens, common),
        ("/v1/models", _Models, common),
        ("/v1beta/models", _GeminiModels, common),
        (".*", _Unknown, common),
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
    """Parse the request before it is answered."""

    # A program that uses the supplier as its proxy shows where it connects.
    SUPPORTED_METHODS = (*RequestHandler.SUPPORTED_METHODS, "CONNECT")

    def initialize(self, supplier: "Supplier") -> None:
        self.supplier = supplier

    def prepare(self) -> None:
        sent = self.request
        try:
            body = json.loads(sent.body) if sent.body else None
        except ValueError:
            body = sent.body.decode(errors="replace")
        headers = {name.lower(): value for name, value in sent.headers.get_all()}
        self.parsed = Request(sent.method or "", sent.path, headers, body)

    def finish_with(self, document: Any) -> None:
        """Send a scripted document: JSON, bytes, or a status with one of them."""
        status, body = document if isinstance(document, tuple) else (200, document)
        self.set_status(status)
        self.finish(body if isinstance(body, bytes) else json.dumps(body))

    def compute_etag(self) -> None:
        """Omit the ETag: no supplier sends one."""


class _Model(_Handler):
    """One of the paths that a model answers at."""

    def initialize(self, supplier: "Supplier", dialect: Dialect) -> None:  # type: ignore[override]
        super().initialize(supplier)
        self.dialect = dialect

    def on_connection_close(self) -> None:
        self.parsed.mark_gone()

    async def post(self) -> None:
        self.number, step = self.supplier.take(self.parsed)
        try:
            if isinstance(step, Refuse):
                await self._refuse(step)
            elif self.parsed.streaming:
                await self._stream(step)
            else:
                await self._reply(step)
        except (_ConnectionBroken, StreamClosedError):
            self._close()

    async def _refuse(self, refuse: Refuse) -> None:
        self.set_status(refuse.status)
        self._set_head("application/json", refuse.headers)
        body = (
            self.dialect.render_error(refuse, self.number) if refuse.body is None else refuse.body
        )
        await self.finish(body)

    async def _reply(self, answer: Answer) -> None:
        body = json.dumps(self.dialect.render_reply(answer, self.parsed, self.number)).encode()
        whole = await self._apply_faults(answer.faults, body)
        self._set_head("application/json", answer.headers)
        await self.finish(whole)

    async def _stream(self, answer: Answer) -> None:
        events = [*self.dialect.render_stream(answer, self.parsed, self.number), b""]
        self._set_head("text/event-stream; charset=utf-8", answer.headers)
        for sent, event in enumerate(events):
            due = [fault for fault in answer.faults if fault.after == sent]
            self.write(await self._apply_faults(due, event))
            await self.flush()
            if any(isinstance(fault, Fail) for fault in due):
                return
            if answer.pause:
                await asyncio.sleep(answer.pause)

    async def _apply_faults(self, faults: Iterable[Fault], data: bytes) -> bytes:
        for fault in faults:
            data = await self._apply_fault(fault, data)
        return data

    async def _apply_fault(self, fault: Fault, data: bytes) -> bytes:
        match fault:
            case Stall():
                await fault.hang()
            case Break(sent=sent):
                if sent:
                    self.write(data[:sent])
                    await self.flush()
                raise _ConnectionBroken
            case Garble(data=garbled):
                return (
                    b"data: %b\n\n" % garbled.encode()
                    if self.parsed.streaming
                    else garbled.encode()
                )
            case Fail():
                return self.dialect.render_failure(fault, self.parsed, self.number)
        return data

    def _set_head(self, kind: str, headers: dict[str, str]) -> None:
        self.set_header("Content-Type", kind)
        self.set_header("X-Request-Id", f"req_{self.number}")
        self.set_header("Request-Id", f"req_{self.number}")
        for name, value in headers.items():
            self.set_header(name, value)

    def _close(self) -> None:
        assert self.request.connection
        self.request.connection.stream.close()  # type: ignore[attr-defined]


class _Embeddings(_Handler):
    """The vectors of texts, or a scripted document."""

    def post(self) -> None:
        self.supplier.others.append(self.parsed)
        if self.parsed.path in self.supplier.documents:
            self.finish_with(self.supplier.documents[self.parsed.path])
            return
        body, is_counted = self.parsed.body, self.supplier.counts_embeddings
        try:
            if self.parsed.path == embeddings.OPENAI_PATH:
                self.write(embeddings.answer_openai(body, is_counted=is_counted))
            else:
                path = self.parsed.path
                self.write(embeddings.answer_gemini(path, body, is_counted=is_counted))
        except ValueError as error:
            self.set_status(400)
            self.write(render_openai_error(Refuse(400, str(error))))


class _CountTokens(_Handler):
    """Anthropic's count: four characters are a token."""

    def post(self) -> None:
        self.supplier.others.append(self.parsed)
        self.write({"input_tokens": len(self.request.body) // 4})


class _Models(_Handler):
    """The list of models, in Anthropic's form for callers of its dialect."""

    def get(self) -> None:
        self.supplier.others.append(self.parsed)
        more = self.supplier.about
        if "anthropic-version" in self.parsed.headers:
            names, after = _cut_page(self.supplier, self.get_query_argument("after_id", ""))
            about = {"type": "model", "created_at": "2026-01-01T00:00:00Z"}
            data = [
                {**about, "id": name, "display_name": name, **more.get(name, {})} for name in names
            ]
            ends = {"first_id": names[0], "last_id": names[-1]} if names else {}
            self.write({"data": data, "has_more": bool(after), **ends})
        else:
            about = {"object": "model", "created": CREATED, "owned_by": "supplier"}
            listed = [{"id": one, **about, **more.get(one, {})} for one in self.supplier.models]
            self.write({"object": "list", "data": listed})


class _GeminiModels(_Handler):
    """The list of models in Google's form."""

    def get(self) -> None:
        self.supplier.others.append(self.parsed)
        names, after = _cut_page(self.supplier, self.get_query_argument("pageToken", ""))
        more = self.supplier.about
        listed = [
            {"name": f"models/{name}", "displayName": name, **more.get(name, {})} for name in names
        ]
        self.write({"models": listed, **({"nextPageToken": after} if after else {})})


def _cut_page(supplier: "Supplier", after: str) -> tuple[list[str], str]:
    """Return the models of the page after a name, and its last one if there are more."""
    names = supplier.models
    first = names.index(after) + 1 if after in names else 0
    end = first + max(1, -(-len(names) // supplier.pages))
    return names[first:end], names[end - 1] if end < len(names) else ""


class _Unknown(_Handler):
    """Any other path, or a known one with another method: a scripted document, or 404."""

    def prepare(self) -> None:
        super().prepare()
        self.supplier.others.append(self.parsed)
        if self.parsed.path in self.supplier.documents:
            self.finish_with(self.supplier.documents[self.parsed.path])
            return
        self.set_status(404)
        self.finish(
            render_openai_error(Refuse(404, f"No {self.parsed.method} {self.parsed.path} here"))
        )

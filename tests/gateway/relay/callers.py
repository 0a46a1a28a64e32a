"""Callers of each dialect, byte by byte, and the rules for every answer that they get."""

import asyncio
import http.client
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agentd.gateway.ledger.record import RequestRecord
from agentd.llm.endpoint import ChannelDialect
from tests.gateway.conftest import PRICES, GatewaySetup
from tests.gateway.relay.raw_supplier import RawSupplier
from tests.supplier.supplier import Supplier
from tests.support.daemon import PATIENCE, Serving, check_defences, until

if TYPE_CHECKING:  # they take seconds to import, and not all tests use them
    import openai
    from google import genai

DIALECTS: tuple[ChannelDialect, ...] = ("openai-chat", "openai-responses", "anthropic", "gemini")
CHANNELS: dict[ChannelDialect, str] = {
    "openai-chat": "chat",
    "openai-responses": "responses",
    "anthropic": "messages",
    "gemini": "gemini",
}
"""The channels of ``GatewaySetup`` by their dialect; ``by-…`` are the models through them."""

every_dialect = pytest.mark.parametrize("dialect", DIALECTS)
"""Each caller."""

ENDS = {
    "openai-chat": b"[DONE]",
    "openai-responses": b"response.completed",
    "anthropic": b"message_stop",
    "gemini": b'"finishReason"',
}
"""What stands in a stream only if the reply is whole."""


def build_drain_setup(raw_supplier: RawSupplier) -> Callable[[GatewaySetup], None]:
    """Return a function that adds channels which drain after their caller left, and ``odd``."""

    def prepare(setup: GatewaySetup) -> None:
        for dialect, name in CHANNELS.items():
            setup.channels.append(setup.build_channel(f"patient-{name}", dialect, on_leave="drain"))
        setup.channels.append(setup.build_channel("odd", "openai-chat") | {"url": raw_supplier.url})
        for channel in setup.channels[4:]:
            way = {"channel": channel["name"], "model": "scripted-large"}
            more = {"prices": PRICES, "max_output": 1000}
            setup.models.append({"name": channel["name"], "routes": [way], **more})

    return prepare


def build_call(
    dialect: ChannelDialect, model: str, *, stream: bool = False, text: str = "hello"
) -> tuple[str, dict[str, Any]]:
    """Build the address and the body of a call."""
    said = [{"role": "user", "content": text}]
    body: dict[str, Any] = {"model": model, "stream": stream}
    match dialect:
        case "openai-chat":
            return "/v1/chat/completions", {**body, "messages": said}
        case "openai-responses":
            return "/v1/responses", {**body, "input": text}
        case "anthropic":
            return "/v1/messages", {**body, "max_tokens": 100, "messages": said}
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    contents = [{"role": "user", "parts": [{"text": text}]}]
    return f"/v1beta/models/{model}:{method}", {"contents": contents}


@dataclass(frozen=True)
class CallResult:
    """The response that a caller received; ``whole`` if it came to a proper end."""

    dialect: ChannelDialect
    status: int
    headers: http.client.HTTPMessage
    body: bytes
    whole: bool

    @property
    def id(self) -> str:
        """The id of the request in the ledger."""
        return self.headers["x-agentd-request-id"]

    @property
    def channel(self) -> str:
        """The channel that answered."""
        return self.headers["x-agentd-channel"]

    @property
    def ended(self) -> bool:
        """True if the stream says that the reply is whole."""
        return ENDS[self.dialect] in self.body

    @property
    def events(self) -> list[Any]:
        """The JSON of a stream's events."""
        lines = [line for line in self.body.split(b"\n") if line.startswith(b"data:")]
        return [json.loads(line[5:]) for line in lines if b"[DONE]" not in line]

    def error(self) -> dict[str, Any]:
        """Return the error of the body or of the last event, in its dialect's form."""
        streamed = self.status == 200
        result = self.events[-1] if streamed else json.loads(self.body)
        match self.dialect:
            case "openai-responses" if streamed:
                assert result["type"] in ("error", "response.failed"), result
                found = result["response"]["error"] if "response" in result else result
                assert {"code", "message"} <= set(found)
            case "anthropic":
                assert (result["type"], set(result)) == ("error", {"type", "error", "request_id"})
                found = result["error"]
                assert set(found) == {"type", "message"}
            case "gemini":
                found = result["error"]
                assert set(found) == {"code", "message", "status"}
                assert streamed or found["code"] == self.status
            case _:
                found = result["error"]
                assert found.keys() - {"resets_at"} == {"message", "type", "param", "code"}
        assert found["message"]
        return dict(found)

    def text(self) -> str:
        """Return the reply's text."""
        said = b"".join(self.body.split())
        return "".join(
            map(
                str,
                _iter_texts(
                    self.events if said.startswith((b"data", b"event")) else [json.loads(self.body)]
                ),
            )
        )


def _iter_texts(result: list[Any]) -> Iterator[str]:
    """Yield every piece of the reply's text, in any dialect."""
    for one in result:
        if not isinstance(one, dict):
            continue
        kind = one.get("type", "")
        if kind in ("response.output_text.delta", "content_block_delta"):
            delta = one["delta"]
            yield delta if isinstance(delta, str) else delta.get("text", "")
        elif not kind.startswith("response."):
            for choice in one.get("choices") or ():
                yield (choice.get("delta") or choice.get("message") or {}).get("content") or ""
            for item in (*(one.get("output") or ()), one):
                for part in item.get("content") or ():
                    yield part.get("text", "")
            for candidate in one.get("candidates") or ():
                yield from (part.get("text", "") for part in candidate["content"]["parts"])


@dataclass(frozen=True)
class Caller:
    """Someone with an access key."""

    port: int
    key: str

    def build_request(self, path: str, body: Any, *lines: str) -> bytes:
        """Encode a request."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = [
            f"POST {path} HTTP/1.1",
            "Host: localhost",
            f"Authorization: Bearer {self.key}",
            "Content-Type: application/json",
            f"Content-Length: {len(data)}",
            *lines,
        ]
        return "\r\n".join([*head, "", ""]).encode() + data

    def connect(self) -> socket.socket:
        """Open a connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def begin_call(
        self, dialect: ChannelDialect, model: str, *, stream: bool = True, text: str = "hello"
    ) -> socket.socket:
        """Send a request without reading its answer."""
        line = self.connect()
        line.sendall(self.build_request(*build_call(dialect, model, stream=stream, text=text)))
        return line

    def ask(
        self,
        dialect: ChannelDialect,
        model: str,
        *,
        stream: bool = False,
        text: str = "hello",
        body: Any = None,
    ) -> CallResult:
        """Send a request and read its answer to the end; ``body`` instead of the usual one."""
        path, usual = build_call(dialect, model, stream=stream, text=text)
        with self.connect() as line:
            line.sendall(self.build_request(path, usual if body is None else body))
            return read_answer(line, dialect)


def wait_for_bytes(line: socket.socket, words: bytes) -> None:
    """Wait until these bytes arrived, without reading them."""
    until(lambda: words in line.recv(2**20, socket.MSG_PEEK))


def read_answer(line: socket.socket, dialect: ChannelDialect) -> CallResult:
    """Read an answer up to its end."""
    response = http.client.HTTPResponse(line)
    response.begin()
    check_defences(response.headers)
    assert "html" not in response.headers["Content-Type"]
    try:
        body, whole = response.read(), True
    except (http.client.IncompleteRead, ConnectionError) as error:
        body, whole = getattr(error, "partial", b""), False
    return CallResult(dialect, response.status, response.headers, body, whole)


class RunningGateway:
    """A running gateway, for all tests of a module."""

    def __init__(self, setup: GatewaySetup, daemon: Serving) -> None:
        self.setup = setup
        self.daemon = daemon
        self.supplier = setup.supplier

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the daemon."""
        assert self.daemon._loop
        return self.daemon._loop

    def add_caller(self, **fields: Any) -> Caller:
        """Add an access key, and return a caller with it."""
        return Caller(self.daemon.port, self.setup.add_key(**fields))

    def open_openai_client(self, key: str) -> "openai.OpenAI":
        """Open OpenAI's client, which tries once."""
        import openai

        base = f"{self.daemon.url}/v1"
        return openai.OpenAI(base_url=base, api_key=key, max_retries=0, timeout=60)

    def open_google_client(self, key: str) -> "genai.Client":
        """Open Google's client, which tries once."""
        from google import genai

        options = genai.types.HttpOptions(base_url=self.daemon.url, timeout=60_000)
        return genai.Client(api_key=key, http_options=options)

    def wait_for_record(self, result: CallResult) -> RequestRecord:
        """Return the record of a call."""
        return self.wait_for_record_by_id(result.id)

    def wait_for_record_by_id(self, request_id: str) -> RequestRecord:
        """Return the one record of a request."""
        (entry,) = until(lambda: self.setup.read_records(f'"id":"{request_id}"'))
        assert isinstance(entry, RequestRecord)
        return entry

    def wait_for_records_of(self, caller: Caller, count: int) -> list[RequestRecord]:
        """Wait until a caller has so many records."""
        until(lambda: len(self.read_records_of(caller)) >= count)
        entries = self.read_records_of(caller)
        assert len(entries) == count
        return entries

    def read_records_of(self, caller: Caller) -> list[RequestRecord]:
        """Read the records that a caller has by now."""
        return self.setup.read_records(f'"key":"{caller.key.split("-")[2]}"')


@contextmanager
def running_gateway(
    folder: Path, prepare: Callable[[GatewaySetup], None] = lambda _: None, **settings: Any
) -> Iterator[RunningGateway]:
    """A gateway that ``prepare`` changed before its files are written, with its supplier."""
    with Supplier() as supplier:
        setup = GatewaySetup(folder, supplier)
        setup.settings["sync_ledger"] = False  # which only makes the tests slower
        prepare(setup)
        setup.write()
        with Serving(folder, **settings) as daemon:
            yield RunningGateway(setup, daemon)

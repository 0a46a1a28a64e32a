"""Callers of each dialect, byte by byte, and what is true of whatever they are told."""

import asyncio
import http.client
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentd.proxy.channel import ChannelDialect
from agentd.proxy.entry import Entry
from tests.supplier.supplier import Supplier
from tests.web.gateway.bare import Bare
from tests.web.gateway.conftest import PRICES, House
from tests.web.support import PATIENCE, Serving, check_defences, until

DIALECTS: tuple[ChannelDialect, ...] = ("openai-chat", "openai-responses", "anthropic", "gemini")
CHANNELS: dict[ChannelDialect, str] = {
    "openai-chat": "chat",
    "openai-responses": "responses",
    "anthropic": "messages",
    "gemini": "gemini",
}
"""The channels of ``House`` by what they speak; ``by-…`` are the models through them."""

every_dialect = pytest.mark.parametrize("dialect", DIALECTS)
"""Each caller."""

ENDS = {
    "openai-chat": b"[DONE]",
    "openai-responses": b"response.completed",
    "anthropic": b"message_stop",
    "gemini": b'"finishReason"',
}
"""What stands in a stream only if the reply is whole."""


def patient(odd: Bare) -> Callable[[House], None]:
    """Prepares channels that hear out whose caller left (``patient-…``), and one that is odd."""

    def prepare(house: House) -> None:
        for dialect, name in CHANNELS.items():
            house.channels.append(house.channel(f"patient-{name}", dialect, on_leave="drain"))
        house.channels.append(house.channel("odd", "openai-chat") | {"url": odd.url})
        for channel in house.channels[4:]:
            way = {"channel": channel["name"], "model": "scripted-large"}
            more = {"prices": PRICES, "max_output": 1000}
            house.models.append({"name": channel["name"], "ways": [way], **more})

    return prepare


def asked(
    dialect: ChannelDialect, model: str, *, stream: bool = False, text: str = "hello"
) -> tuple[str, dict[str, Any]]:
    """The address and body of a request."""
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
class Told:
    """What a caller was answered; ``whole``: up to a proper end."""

    dialect: ChannelDialect
    status: int
    headers: http.client.HTTPMessage
    body: bytes
    whole: bool

    @property
    def id(self) -> str:
        """The request's, as the ledger has it."""
        return self.headers["x-agentd-request-id"]

    @property
    def channel(self) -> str:
        """Which one answered."""
        return self.headers["x-agentd-channel"]

    @property
    def ended(self) -> bool:
        """Whether the stream says that the reply is whole."""
        return ENDS[self.dialect] in self.body

    @property
    def events(self) -> list[Any]:
        """The JSON of a stream's events."""
        lines = [line for line in self.body.split(b"\n") if line.startswith(b"data:")]
        return [json.loads(line[5:]) for line in lines if b"[DONE]" not in line]

    def error(self) -> dict[str, Any]:
        """The error, in its dialect's form: of the body, or of the stream's last event."""
        streamed = self.status == 200
        told = self.events[-1] if streamed else json.loads(self.body)
        match self.dialect:
            case "openai-responses" if streamed:
                assert told["type"] in ("error", "response.failed"), told
                found = told["response"]["error"] if "response" in told else told
                assert {"code", "message"} <= set(found)
            case "anthropic":
                assert (told["type"], set(told)) == ("error", {"type", "error", "request_id"})
                found = told["error"]
                assert set(found) == {"type", "message"}
            case "gemini":
                found = told["error"]
                assert set(found) == {"code", "message", "status"}
                assert streamed or found["code"] == self.status
            case _:
                found = told["error"]
                assert set(found) == {"message", "type", "param", "code"}
        assert found["message"]
        return dict(found)

    def text(self) -> str:
        """What the model said."""
        said = b"".join(self.body.split())
        return "".join(
            map(
                str,
                _texts(
                    self.events if said.startswith((b"data", b"event")) else [json.loads(self.body)]
                ),
            )
        )


def _texts(told: list[Any]) -> Iterator[str]:
    """Every piece of the reply's text, in any dialect."""
    for one in told:
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

    def request(self, path: str, body: Any, *lines: str) -> bytes:
        """A request as bytes."""
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

    def connected(self) -> socket.socket:
        """A connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def begin(
        self, dialect: ChannelDialect, model: str, *, stream: bool = True, text: str = "hello"
    ) -> socket.socket:
        """A request that was sent, and of whose answer nothing was read."""
        line = self.connected()
        line.sendall(self.request(*asked(dialect, model, stream=stream, text=text)))
        return line

    def ask(
        self,
        dialect: ChannelDialect,
        model: str,
        *,
        stream: bool = False,
        text: str = "hello",
        body: Any = None,
    ) -> Told:
        """A request and its answer, read to the end; ``body`` instead of the usual one."""
        path, usual = asked(dialect, model, stream=stream, text=text)
        with self.connected() as line:
            line.sendall(self.request(path, usual if body is None else body))
            return read(line, dialect)


def hears(line: socket.socket, words: bytes) -> None:
    """Return once these were told, of which nothing is taken yet."""
    until(lambda: words in line.recv(2**20, socket.MSG_PEEK))


def read(line: socket.socket, dialect: ChannelDialect) -> Told:
    """An answer, up to its end."""
    response = http.client.HTTPResponse(line)
    response.begin()
    check_defences(response.headers)
    assert "html" not in response.headers["Content-Type"]
    try:
        body, whole = response.read(), True
    except (http.client.IncompleteRead, ConnectionError) as error:
        body, whole = getattr(error, "partial", b""), False
    return Told(dialect, response.status, response.headers, body, whole)


class Standing:
    """A house whose daemon is up, for all tests of a module."""

    def __init__(self, house: House, daemon: Serving) -> None:
        self.house = house
        self.daemon = daemon
        self.supplier = house.supplier

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The daemon's."""
        assert self.daemon._loop
        return self.daemon._loop

    def caller(self, **fields: Any) -> Caller:
        """Someone with a new key."""
        return Caller(self.daemon.port, self.house.key(**fields))

    def entry(self, told: Told) -> Entry:
        """What the ledger says of a call."""
        return self.booked(told.id)

    def booked(self, request_id: str) -> Entry:
        """The entry of a request, of which there is one."""
        (entry,) = until(lambda: self.house.booked(f'"id":"{request_id}"'))
        assert isinstance(entry, Entry)
        return entry

    def of(self, caller: Caller, count: int) -> list[Entry]:
        """The entries of a caller, once there are so many."""
        until(lambda: len(self.so_far(caller)) >= count)
        entries = self.so_far(caller)
        assert len(entries) == count
        return entries

    def so_far(self, caller: Caller) -> list[Entry]:
        """The entries of a caller that are there by now."""
        return self.house.booked(f'"key":"{caller.key.split("-")[2]}"')


@contextmanager
def standing(
    folder: Path, prepare: Callable[[House], None] = lambda _: None, **settings: Any
) -> Iterator[Standing]:
    """A house that ``prepare`` changed before it is written, its daemon and its supplier."""
    with Supplier() as supplier:
        house = House(folder, supplier)
        house.settings["sync_ledger"] = False  # which only makes the tests slower
        prepare(house)
        house.write()
        with Serving(folder, **settings) as daemon:
            yield Standing(house, daemon)

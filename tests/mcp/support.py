"""A client of ``/mcp`` that speaks the protocol by hand, in any revision."""

import http.client
import itertools
import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from agentd.agent.engine import Approver, EngineEvent, Question, ReplyCompleted, TurnRequest
from agentd.chats.approval import ApprovalKind
from agentd.core.sse import SseReader
from agentd.mcp.revisions import META_CAPABILITIES, META_REVISION, SESSIONLESS, WITH_SESSIONS
from tests.support.daemon import KEY, PATIENCE, Engine, Serving

EVENTS = "application/json, text/event-stream"
NAMED = {"tools/call": "name", "resources/read": "uri"}


@dataclass
class McpResponse:
    """A response: its status, its headers, and its messages in the order in which they came."""

    status: int
    headers: Mapping[str, str]
    messages: list[Any]

    @property
    def last(self) -> Any:
        """The answer to the request."""
        return self.messages[-1]

    @property
    def result(self) -> Any:
        """The result of the request."""
        return self.last["result"]

    @property
    def code(self) -> int:
        """The code of the error."""
        return int(self.last["error"]["code"])


@dataclass
class McpStream:
    """A response that is read while it comes."""

    connection: http.client.HTTPConnection
    response: http.client.HTTPResponse
    reader: SseReader = field(default_factory=SseReader)
    waiting: list[Any] = field(default_factory=list)

    def read(self) -> Any:
        """Return the next message; None at the end."""
        while not self.waiting:
            data = self.response.read1(65536)
            if not data:
                return None
            self.waiting += [json.loads(event.data) for event in self.reader.feed(data)]
        return self.waiting.pop(0)

    def read_until(self, method: str) -> Any:
        """Return the first message of a method, or the answer for ``""``."""
        while (message := self.read()) is not None:
            if message.get("method", "") == method:
                return message
        raise AssertionError(f"the stream ended without {method or 'an answer'}")

    def __iter__(self) -> Iterator[Any]:
        """Yield the messages up to the end."""
        while (message := self.read()) is not None:
            yield message

    def close(self) -> None:
        """Hang up."""
        self.response.close()
        self.connection.close()


class AskingEngine(Engine):
    """Asks before it answers a prompt that begins with "run" or "which"; else it echoes.

    It asks once for each part of the rest, which "then" separates.
    """

    async def run(
        self, assignment: TurnRequest, approver: Approver
    ) -> AsyncGenerator[EngineEvent, None]:
        """Carry out one prompt."""
        word, _, subject = assignment.prompt.partition(" ")
        if word not in ("run", "which"):
            async for event in super().run(assignment, approver):
                yield event
            return
        choices = ("red", "blue") if word == "which" else ()
        kind: ApprovalKind = "question" if choices else "shell"
        for part in subject.split(" then "):
            answer = await approver.ask(Question(kind, "shell", part, choices=choices))
        yield ReplyCompleted(f"{'allowed' if answer.allowed else 'denied'}: {answer.reason}")


class McpHandClient:
    """A client with one key; ``revision`` decides whether it has a session."""

    def __init__(
        self,
        serving: Serving,
        revision: str = SESSIONLESS,
        *,
        key: str | None = KEY,
        capabilities: Mapping[str, Any] | None = None,
    ) -> None:
        self.serving = serving
        self.revision = revision
        self.key = key
        self.capabilities = dict(capabilities or {})
        self.session = ""
        self._ids = itertools.count(1)
        self._open: list[McpStream] = []

    def __enter__(self) -> Self:
        """Begin a session, where the revision has them."""
        if self.revision in WITH_SESSIONS:
            self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        """Hang up."""
        for stream in self._open:
            stream.close()

    def begin(self) -> Any:
        """Begin a session and return the result."""
        asked = {
            "protocolVersion": self.revision,
            "capabilities": self.capabilities,
            "clientInfo": {"name": "by hand", "version": "1"},
        }
        self.session = ""
        begun = self.send({"id": 0, "method": "initialize", "params": asked})
        self.session = begun.headers["Mcp-Session-Id"]
        self.send({"method": "notifications/initialized"})
        return begun.result

    def build(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Build a request with all that its revision demands."""
        built = dict(params or {})
        if not self.session:
            own = {META_REVISION: self.revision, META_CAPABILITIES: self.capabilities}
            built["_meta"] = {**own, **built.get("_meta", {})}
        return {"id": next(self._ids), "method": method, "params": built}

    def call(self, method: str, **params: Any) -> McpResponse:
        """Send a request and return its response."""
        return self.send(self.build(method, params))

    def call_tool(self, tool: str, /, **arguments: Any) -> Any:
        """Call a tool and return its result."""
        return self.call("tools/call", name=tool, arguments=arguments).result

    def send(self, message: Any, headers: Mapping[str, str] | None = None) -> McpResponse:
        """Send a message, or anything else, and return the response once it has ended."""
        stream = self.open(message, headers)
        response = stream.response
        if response.headers.get_content_type() == "text/event-stream":
            messages = list(stream)
        else:
            body = response.read()
            messages = [json.loads(body)] if body else []
        stream.close()
        return McpResponse(response.status, response.headers, messages)

    def open(self, message: Any, headers: Mapping[str, str] | None = None) -> McpStream:
        """Send a message and return the response, which is to be read."""
        if isinstance(message, dict):
            message = {"jsonrpc": "2.0", **message}
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return self._open_request("POST", body, {**self.make_headers(message), **(headers or {})})

    def listen(self) -> McpStream:
        """Open the stream of a session's changes."""
        return self._open_request("GET", None, {**self.make_headers(None), "Accept": EVENTS})

    def make_headers(self, message: Any) -> dict[str, str]:
        """Return the headers that go with a message."""
        made = {"X-API-Key": self.key, "Accept": EVENTS, "Content-Type": "application/json"}
        if self.session:
            made |= {"Mcp-Session-Id": self.session, "MCP-Protocol-Version": self.revision}
        elif isinstance(message, dict) and message.get("method") != "initialize":
            method = str(message.get("method", ""))
            made |= {"MCP-Protocol-Version": self.revision, "Mcp-Method": method}
            if method in NAMED:
                made["Mcp-Name"] = str(message["params"].get(NAMED[method]))
        return {name: value for name, value in made.items() if value is not None}

    def _open_request(self, method: str, body: bytes | None, headers: dict[str, str]) -> McpStream:
        connection = http.client.HTTPConnection("127.0.0.1", self.serving.port, timeout=PATIENCE)
        connection.request(method, "/mcp", body, headers)
        stream = McpStream(connection, connection.getresponse())
        self._open.append(stream)
        return stream

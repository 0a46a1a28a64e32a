"""``agentd mcp``: the running daemon's MCP server for clients that start a program.

Messages go from standard input to the daemon's ``/mcp`` and back to standard output, one per line.
When the daemon was restarted, the client's session is begun anew without its notice.
"""

import argparse
import http.client
import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from http import HTTPStatus
from typing import Any, BinaryIO

from agentd.cli.client import (
    KEY_VARIABLE,
    DaemonConnection,
    find_daemon_url,
    read_key_file,
    require_key,
)
from agentd.cli.options import Subcommands, add_url_option, resolve_layout
from agentd.core.errors import AgentdError, Unauthorized, Unavailable
from agentd.core.sse import SseReader
from agentd.http.routing import JSON_LIMIT
from agentd.mcp.messages import INTERNAL_ERROR, INVALID_REQUEST
from agentd.mcp.revisions import find_revision, list_routing_headers

MOST_REQUESTS = 100
"""Requests that may be under way at the same time."""
LAST_SECONDS = 2.0
"""Seconds for requests under way to be answered when standard input has ended."""
SILENCE_SECONDS = 60.0
"""A response without a byte for so long counts as lost: the daemon sends signs of life."""
RECONNECT_SECONDS = 1.0
_CHUNK = 64 * 1024
_EVENTS = "text/event-stream"

EXAMPLES = f"""\
examples:
  export {KEY_VARIABLE}=$(agentd keys generate editor)
  claude mcp add agentd -e {KEY_VARIABLE}=${KEY_VARIABLE} -- agentd mcp
  codex mcp add agentd --env {KEY_VARIABLE}=${KEY_VARIABLE} -- agentd mcp

Clients that speak HTTP do not need this program: their address is the daemon's URL with /mcp,
with the key in the header Authorization: Bearer KEY, or X-API-Key.
"""

Message = dict[str, Any]


def add_parser(commands: Subcommands) -> None:
    """Register the command with argparse."""
    parser = commands.add_parser(
        "mcp",
        help="serve the Model Context Protocol on standard input and output",
        description="Connect an MCP client that starts a program to the running daemon.",
        epilog=EXAMPLES,
    )
    parser.add_argument(
        "--key-file", metavar="FILE", help=f"file with the API key; default: {KEY_VARIABLE}"
    )
    add_url_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Pass messages on until standard input ends."""
    key = read_key_file(args.key_file) if args.key_file else require_key()
    layout = resolve_layout(args)

    def find_url() -> str:
        url: str = args.url or find_daemon_url(layout)
        return url

    find_url()  # a daemon that is not there is reported now, not with the first message
    bridge = McpBridge(find_url, key, sys.stdout.buffer)
    with suppress(BrokenPipeError):
        bridge.pass_on(_read_lines(sys.stdin.buffer))
    return 0


class McpBridge:
    """Passes messages between a client on standard input and output and the daemon."""

    def __init__(self, find_url: Callable[[], str], key: str, output: BinaryIO) -> None:
        self._find_url = find_url
        self._key = key
        self._output = output
        self._write_lock = threading.Lock()
        self._session_lock = threading.Lock()
        self._session = ""
        self._revision = ""
        self._initialize: Message = {}
        """The client's first request, to begin another session with."""
        self._subscribed: dict[str, None] = {}
        self._running: dict[threading.Thread, None] = {}
        self._connections: dict[object, DaemonConnection | None] = {}
        """The connections of the requests that are not answered yet, by the request's id."""
        self._is_listening = False

    def pass_on(self, lines: Iterator[bytes]) -> None:
        """Pass on all lines; then end the session, once what is under way has been answered."""
        for line in lines:
            message = _parse(line)
            if message is None:
                self._write_error(None, INVALID_REQUEST, "A line must be one JSON-RPC message")
            elif "method" in message and "id" in message and message["method"] != "initialize":
                self._start(message)
            else:
                self._pass_in_order(message)
        for thread in list(self._running):
            thread.join(LAST_SECONDS)
        self._end_session()

    def _start(self, message: Message) -> None:
        """Pass on a request in a thread of its own: others must not wait for its answer."""
        if len(self._running) >= MOST_REQUESTS:
            self._write_error(message["id"], INTERNAL_ERROR, "Too many requests at the same time")
            return
        thread = threading.Thread(target=self._run_request, args=(message,), daemon=True)
        self._running[thread] = None
        thread.start()

    def _run_request(self, message: Message) -> None:
        try:
            with suppress(BrokenPipeError):
                self._exchange(message)
        finally:
            self._running.pop(threading.current_thread(), None)

    def _pass_in_order(self, message: Message) -> None:
        """Pass on what the next message may depend on."""
        method = message.get("method")
        if method == "initialize":
            self._initialize, self._session = message, ""
        elif method == "notifications/cancelled" and not self._session:
            self._cancel(message)
            return
        self._exchange(message)
        if method == "notifications/initialized" and not self._is_listening:
            self._is_listening = True
            threading.Thread(target=self._listen, daemon=True).start()

    def _cancel(self, message: Message) -> None:
        """Hang up on a request: without a session, this is what cancels it."""
        params = message.get("params")
        number = params.get("requestId") if isinstance(params, dict) else None
        connection = None
        if isinstance(number, str | int):
            connection = self._connections.pop(number, None)
        if connection:
            connection.hang_up()

    def _exchange(self, message: Message) -> None:
        """Send a message and write what answers it; an error, too, where one is expected."""
        request_id = message.get("id") if "method" in message else None
        session = self._session
        if request_id is not None:
            self._connections[request_id] = None
        try:
            status = self._send(message, request_id)
            if status == HTTPStatus.NOT_FOUND and session and self._renew_session(session):
                status = self._send(message, request_id, is_last=True)
        except AgentdError as error:
            if request_id is not None and self._is_expected(request_id):
                text = "; ".join(part for part in (error.message, error.details) if part)
                self._write_error(request_id, INTERNAL_ERROR, text)
        finally:
            self._connections.pop(request_id, None)

    def _send(self, message: Message, request_id: object, *, is_last: bool = False) -> int:
        """Send a message, write what answers it, and return the status.

        The answer that a session has ended is written only when it ``is_last``.
        """
        connection = self._connect()
        if self._is_expected(request_id):
            self._connections[request_id] = connection
        with closing(connection):
            response = self._request(connection, "POST", message)
            is_gone = response.status == HTTPStatus.NOT_FOUND and bool(self._session)
            if not is_gone or is_last:
                self._take_response(response, message)
        return response.status

    def _take_response(self, response: http.client.HTTPResponse, message: Message) -> None:
        if response.headers.get_content_type() == _EVENTS:
            for data in self._read_events(response):
                self._write(data)
            return
        body = _read(response)
        if message.get("method") == "initialize":
            self._keep_session(response, body)
        if "method" not in message or "id" not in message:
            return
        if _is_message(body):
            self._write(body)
        else:
            _raise_refusal(response.status, body)

    def _keep_session(self, response: http.client.HTTPResponse, body: bytes) -> None:
        result = json.loads(body).get("result") if _is_message(body) else None
        if isinstance(result, dict):
            self._session = response.headers.get("Mcp-Session-Id", "")
            self._revision = str(result.get("protocolVersion", ""))

    def _renew_session(self, lost: str) -> bool:
        """Begin another session in place of a lost one, and return whether there is one."""
        with self._session_lock:
            if self._session != lost:  # another thread has done it
                return bool(self._session)
            with closing(self._connect()) as connection:
                response = self._request(connection, "POST", self._initialize)
                self._keep_session(response, _read(response))
            if self._session == lost:
                return False
            self._tell("notifications/initialized", {})
            for number, uri in enumerate(self._subscribed):
                self._tell("resources/subscribe", {"uri": uri}, f"again-{number}")
            return True

    def _tell(self, method: str, params: Message, request_id: str = "") -> None:
        """Send a message of our own; its answer is not the client's."""
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        with closing(self._connect()) as connection:
            numbered = {**message, "id": request_id} if request_id else message
            self._request(connection, "POST", numbered).read()

    def _listen(self) -> None:
        """Write the changes that the session has subscribed to, over as many streams as needed."""
        pause = threading.Event()
        while True:
            session = self._session
            with suppress(AgentdError, BrokenPipeError), closing(self._connect()) as connection:
                response = self._request(connection, "GET", None)
                if response.status == HTTPStatus.NOT_FOUND:
                    self._renew_session(session)
                elif response.status == HTTPStatus.OK:
                    for data in self._read_events(response):
                        self._write(data)
            pause.wait(RECONNECT_SECONDS)

    def _end_session(self) -> None:
        if self._session:
            with suppress(AgentdError), closing(self._connect()) as connection:
                self._request(connection, "DELETE", None).read()

    def _connect(self) -> DaemonConnection:
        return DaemonConnection(self._find_url(), SILENCE_SECONDS)

    def _request(
        self, connection: DaemonConnection, method: str, message: Message | None
    ) -> http.client.HTTPResponse:
        body = None if message is None else json.dumps(message).encode()
        if message and message.get("method") in ("resources/subscribe", "resources/unsubscribe"):
            self._note_subscription(message)
        return connection.send(method, "/mcp", body, self._list_headers(message))

    def _note_subscription(self, message: Message) -> None:
        params = message.get("params")
        uri = params.get("uri") if isinstance(params, dict) else None
        if not isinstance(uri, str):
            return
        if message["method"] == "resources/unsubscribe":
            self._subscribed.pop(uri, None)
        else:
            self._subscribed[uri] = None

    def _list_headers(self, message: Message | None) -> Mapping[str, str]:
        headers = {
            "X-API-Key": self._key,
            "Content-Type": "application/json",
            "Accept": f"application/json, {_EVENTS}" if message else _EVENTS,
        }
        if message and (found := find_revision(message)):
            return {**headers, **list_routing_headers(message, found)}
        if self._session and not (message and message.get("method") == "initialize"):
            headers |= {"Mcp-Session-Id": self._session, "MCP-Protocol-Version": self._revision}
        return headers

    def _read_events(self, response: http.client.HTTPResponse) -> Iterator[bytes]:
        reader = SseReader()
        try:
            while data := response.read1(_CHUNK):
                for event in reader.feed(data):
                    yield event.data.encode()
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            raise Unavailable("The connection to agentd was lost", "Try again.") from error

    def _is_expected(self, request_id: object) -> bool:
        """Return whether a request is to be answered: it was not cancelled."""
        return request_id in self._connections

    def _write(self, message: bytes) -> None:
        with self._write_lock:
            self._output.write(message + b"\n")
            self._output.flush()

    def _write_error(self, request_id: object, code: int, text: str) -> None:
        answer: Message = {"jsonrpc": "2.0", "error": {"code": code, "message": text}}
        if request_id is not None:
            answer["id"] = request_id
        self._write(json.dumps(answer).encode())


def _read_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the lines; one that is too long comes as an empty one."""
    while line := stream.readline(JSON_LIMIT + 1):
        if len(line) <= JSON_LIMIT or line.endswith(b"\n"):
            if line.strip():
                yield line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(JSON_LIMIT)
        yield b""


def _parse(line: bytes) -> Message | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or isinstance(found.get("id"), list | dict):
        return None
    return found


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read()
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable("The connection to agentd was lost", "Try again.") from error


def _is_message(body: bytes) -> bool:
    found = _parse(body)
    return found is not None and found.get("jsonrpc") == "2.0"


def _raise_refusal(status: int, body: bytes) -> None:
    """Raise what the daemon refused a message with, before it looked at it as one."""
    found = _parse(body) or {}
    message, details = str(found.get("message", f"HTTP {status}")), str(found.get("details", ""))
    if status == HTTPStatus.UNAUTHORIZED:
        raise Unauthorized(message, f"Set {KEY_VARIABLE} to a key: agentd keys generate NAME")
    raise AgentdError(message, details)

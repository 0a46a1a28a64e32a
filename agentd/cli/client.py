"""Client of a running daemon for the commands: the remote API and the live events."""

import http.client
import json
import os
import re
import socket
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from types import MappingProxyType, TracebackType
from typing import Any, Self
from urllib.parse import SplitResult, quote, urlsplit

from agentd.app.state import DaemonInfo, is_served_by, read_daemon_info
from agentd.core.errors import (
    AgentdError,
    BadRequest,
    Forbidden,
    NotFound,
    Unauthorized,
    Unavailable,
)
from agentd.core.sse import ServerSentEvent, SseReader
from agentd.storage.layout import Layout

KEY_VARIABLE = "AGENTD_KEY"
_RESPONSE_SECONDS = 75.0
"""Timeout of a request: a status may wait for 60."""
_SILENCE_SECONDS = 45.0
"""A live connection without a byte for so long counts as lost."""
_START_SECONDS = 3.0
"""The seconds to wait for a daemon that is just starting."""
_CHUNK = 64 * 1024
_URL_PATH = re.compile("[!-~]*")
"""Printable ASCII without blanks: http.client sends no other path."""


class Client(AbstractContextManager["Client"]):
    """Calls a running daemon with one key."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url
        self._key = key
        self._connection = DaemonConnection(url, _RESPONSE_SECONDS)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        """Return the client itself."""
        return self

    def create_chat(self, chat: Mapping[str, object]) -> int:
        """Create a chat and return its id."""
        return int(self.request("POST", "/api/remote/chats", chat)["chatId"])

    def get_status(self, chat_id: int, wait: float) -> dict[str, Any]:
        """Return a chat's status once it is idle, or after ``wait`` seconds."""
        return self.request("GET", f"/api/remote/chats/{chat_id}/status?wait={wait:g}")

    def list_messages(self, chat_id: int) -> list[dict[str, Any]]:
        """Return the messages of a chat."""
        found: list[dict[str, Any]] = self.request("GET", f"/api/remote/chats/{chat_id}/messages")[
            "messages"
        ]
        return found

    def list_approvals(self) -> list[dict[str, Any]]:
        """Return the open approvals of all chats, the oldest first."""
        found: list[dict[str, Any]] = self.request("GET", "/api/chat/approvals")["approvals"]
        return found

    def decide(self, chat_id: int, number: int, decision: Mapping[str, object]) -> dict[str, Any]:
        """Decide an approval and return it as it is then."""
        return self.request("POST", f"/api/chat/{chat_id}/approvals/{number}", decision)

    def create_login_code(self) -> dict[str, Any]:
        """Return a one-time code and when it expires; this needs the management key."""
        return self.request("POST", "/api/agent/session")

    def list_managed(self, resource: str) -> list[dict[str, Any]]:
        """Return all resources of a kind, such as ``channels``; this needs the management key."""
        items: list[dict[str, Any]] = []
        cursor = ""
        while True:
            page = self.request("GET", f"/api/agent/{resource}?limit=200&cursor={quote(cursor)}")
            items += page["items"]
            cursor = page["next"]
            if not cursor:
                return items

    def import_entries(self, entries: Mapping[str, object], *, dry_run: bool) -> dict[str, Any]:
        """Create channels and models as one change; this needs the management key."""
        flag = "true" if dry_run else "false"
        return self.request("POST", f"/api/agent/import?dry_run={flag}", entries)

    def follow_chat(self, chat_id: int) -> Iterator[dict[str, Any]]:
        """Yield each message of a chat as soon as it exists, until the chat is idle.

        A queue that is held, or waits for a supplier's limit, counts as idle.
        """
        seen = 0
        for event in EventListener(self._key, [chat_id]).listen(self._url):
            found: list[dict[str, Any]] = []
            done = False
            match event.name, json.loads(event.data):
                case (("resumed" | "gap"), _):  # later events all arrive; fetch the earlier ones
                    done = self.get_status(chat_id, 0)["status"] == "completed"
                    found = self.list_messages(chat_id)
                case "messageUpdate", [_, message]:
                    found = [message]
                case "chatUpdate", [chat]:
                    done = chat["status"] == "completed" or bool(chat["held"])
                    done = done or bool(chat["waitsUntil"] and chat["status"] == "queued")
            for message in found:
                if message["id"] > seen:
                    seen = message["id"]
                    yield message
            if done:
                return

    def request(
        self,
        method: str,
        path: str,
        payload: Mapping[str, object] | bytes | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> dict[str, Any]:
        """Return the JSON of an answer; ``payload`` is sent as JSON, or bytes as they are."""
        body = payload if payload is None or isinstance(payload, bytes) else json.dumps(payload)
        headers = {"X-API-Key": self._key, "Content-Type": "application/json", **headers}
        try:
            response = self._connection.send(method, path, body, headers)
            content = _read_answer(response)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise make_unreachable_error(self._url, error) from error
        _raise_for_status(response.status, content)
        return content


class EventListener:
    """Listens to the live events, over as many connections as needed.

    ``cursor`` is the id of the last event seen; empty: only new events.
    """

    def __init__(self, key: str, chats: Iterable[int] = (), cursor: str = "") -> None:
        self.cursor = cursor
        self._key = key
        self._query = f"?chats={','.join(map(str, chats))}" if chats else ""

    def listen(self, url: str) -> Iterator[ServerSentEvent]:
        """Yield the events after the cursor. Raises ``Unavailable`` when the connection is lost."""
        connection = DaemonConnection(url, _SILENCE_SECONDS)
        headers = {"X-API-Key": self._key} | ({"Last-Event-ID": self.cursor} if self.cursor else {})
        try:
            response = connection.send("GET", f"/api/events{self._query}", None, headers)
            if response.status != 200:
                _raise_for_status(response.status, _read_answer(response))
            if response.headers.get_content_type() != "text/event-stream":
                raise ValueError("not the events of agentd")
            reader = SseReader()
            while data := response.read1(_CHUNK):
                for event in reader.feed(data):
                    self.cursor = event.id or self.cursor
                    yield event
                self.cursor = reader.last_id or self.cursor
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise make_unreachable_error(url, error) from error
        finally:
            connection.close()
        raise Unavailable(f"{url} ended the connection")


class DaemonConnection:
    """A connection to the daemon at a URL, over TLS where it says https.

    The URL may have a path, below which a reverse proxy passes on what the daemon is asked. It is
    opened with the first request. Raises ``BadRequest`` for what is no such URL.
    """

    def __init__(self, url: str, timeout: float) -> None:
        address = _parse_url(url)
        self._url = url
        self._base = address.path.rstrip("/")
        is_tls = address.scheme == "https"
        protocol = http.client.HTTPSConnection if is_tls else http.client.HTTPConnection
        self._connection = protocol(address.hostname or "", address.port, timeout=timeout)

    def send(
        self, method: str, path: str, body: str | bytes | None, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        """Send a request and return the response. Raises ``Unavailable`` if there is none."""
        try:
            self._connection.request(method, self._base + path, body, headers)
            return self._connection.getresponse()
        except (OSError, http.client.HTTPException, AttributeError) as error:
            # AttributeError: another thread hung up, and http.client did not expect that.
            raise make_unreachable_error(self._url, error) from error

    def hang_up(self) -> None:
        """End what another thread waits for; closing alone would not wake it."""
        if self._connection.sock:
            with suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection; another request opens it again."""
        self._connection.close()


def _parse_url(url: str) -> SplitResult:
    """Return the parts of a daemon's URL. Raises ``BadRequest`` if it is none."""
    wrong = "its host or port is not valid"
    try:
        address = urlsplit(url)
        if address.scheme not in ("http", "https"):
            wrong = "it does not begin with http:// or https://"
        elif not _URL_PATH.fullmatch(address.path):
            wrong = "its path has a character that no URL has"
        elif address.hostname and address.port != 0:  # parsed only now
            return address
    except ValueError:
        pass
    what = f"{url} is not the URL of a daemon: {wrong}"
    raise BadRequest(what, "Give one such as --url http://127.0.0.1:8750.")


def require_key() -> str:
    """Return the key of the environment. Raises ``Unauthorized`` when there is none."""
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key:
        raise Unauthorized(
            f"{KEY_VARIABLE} is not set",
            f"Make a key once with: export {KEY_VARIABLE}=$(agentd keys generate laptop)",
        )
    _require_sendable(key, KEY_VARIABLE)
    return key


def read_key_file(path: str) -> str:
    """Return the key in a file. Raises ``Unauthorized`` when it has none."""
    try:
        with open(path, encoding="utf-8") as file:
            key = file.read(4096).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Unauthorized(f"the key file {path} cannot be read: {error}") from error
    if not key:
        raise Unauthorized(f"the key file {path} is empty", "Write an API key into it.")
    _require_sendable(key, f"the key file {path}")
    return key


def _require_sendable(key: str, source: str) -> None:
    """Raise ``Unauthorized`` for a key that no header can hold; it is not repeated."""
    if not (key.isascii() and key.isprintable()):
        what = f"{source} has a character that no key has, such as a line break"
        raise Unauthorized(what, "Set it to the key alone, as agentd keys generate printed it.")


def find_daemon_url(layout: Layout) -> str:
    """Return the URL of the state folder's daemon; wait for one that is just starting."""
    return _find_daemon(layout, "Start one with: agentd serve, or give --url.").url


def find_public_url(layout: Layout) -> str:
    """Return the URL at which browsers reach the state folder's daemon."""
    daemon = _find_daemon(layout, "Start one with: agentd serve, or name its folder with --state.")
    return daemon.public_url or daemon.url


def _find_daemon(layout: Layout, what_to_do: str) -> DaemonInfo:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        daemon = read_daemon_info(layout)
        if daemon and _is_running(daemon.pid) and is_served_by(daemon, layout):
            return daemon
        if time.monotonic() >= deadline:
            raise Unavailable(f"no daemon serves {layout.state}", what_to_do)
        time.sleep(0.05)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def make_unreachable_error(url: str, cause: Exception) -> Unavailable:
    """Return what is told of a daemon that could not be asked, or whose answer is none."""
    if isinstance(cause, ssl.SSLCertVerificationError):
        return Unavailable(
            f"the certificate of {url} is not trusted: {cause.verify_message}",
            "Have this machine trust its authority, or name that file in SSL_CERT_FILE.",
        )
    if isinstance(cause, ssl.SSLError):
        return Unavailable(
            f"what answers at {url} does not speak TLS, or not as this machine does",
            "If it is an agentd without TLS, give its URL with http://.",
        )
    return Unavailable(f"no agentd answers at {url}", "Start one with: agentd serve")


def _read_answer(response: http.client.HTTPResponse) -> dict[str, Any]:
    """Return the JSON of an answer. Raises ``ValueError`` for what is none of agentd's."""
    content = json.loads(response.read() or b"{}")
    names = ("message", "details") if response.status >= 400 else ()
    if not (isinstance(content, dict) and all(isinstance(content.get(one), str) for one in names)):
        raise ValueError("not an answer of agentd")
    return content


def _raise_for_status(status: int, content: dict[str, Any]) -> None:
    if status == 401:
        raise Unauthorized(content["message"], "Make a key with: agentd keys generate NAME")
    if status == 403:
        raise Forbidden(content["message"], content["details"])
    if status == 404:
        raise NotFound(content["message"], content["details"])
    if status in (429, 503):
        raise Unavailable(content["message"], content["details"])
    if status >= 400:
        raise AgentdError(content["message"], content["details"])

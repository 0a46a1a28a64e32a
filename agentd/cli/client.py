"""The daemon as the commands use it: the remote API, and the live events."""

import http.client
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

from agentd.disk.layout import Layout
from agentd.disk.state import announced
from agentd.errors import AgentdError, Unauthorized, Unavailable
from agentd.wire.sse import Reader, Received

KEY_VARIABLE = "AGENTD_KEY"
_PATIENCE = 75.0
"""Seconds for an answer: a status may wait for 60."""
_SILENCE = 45.0
"""Seconds without a sign of life after which a live connection counts as lost."""
_START = 3.0
"""Seconds for a daemon that is just starting."""
_PIECE = 64 * 1024


class Client(AbstractContextManager["Client"]):
    """Speaks to a running daemon with one key."""

    def __init__(self, url: str, key: str) -> None:
        address = urlsplit(url)
        self._url = url
        self._key = key
        self._connection = http.client.HTTPConnection(
            address.hostname or "localhost", address.port, timeout=_PATIENCE
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Hang up."""
        self._connection.close()

    def __enter__(self) -> Self:
        """The client itself."""
        return self

    def create(self, wish: Mapping[str, str]) -> int:
        """Create a chat (endpoint 1); its id."""
        return int(self._ask("POST", "/api/remote/chats", wish)["chatId"])

    def status(self, chat_id: int, wait: float) -> dict[str, Any]:
        """A chat's status once it is at rest, or after ``wait`` seconds (endpoint 2)."""
        return self._ask("GET", f"/api/remote/chats/{chat_id}/status?wait={wait:g}")

    def messages(self, chat_id: int, since: str = "") -> list[dict[str, Any]]:
        """The messages, all or since a moment (endpoint 3)."""
        query = f"?since={quote(since)}" if since else ""
        found: list[dict[str, Any]] = self._ask(
            "GET", f"/api/remote/chats/{chat_id}/messages{query}"
        )["messages"]
        return found

    def approvals(self) -> list[dict[str, Any]]:
        """The open questions of all chats, the longest open first."""
        found: list[dict[str, Any]] = self._ask("GET", "/api/chat/approvals")["approvals"]
        return found

    def decide(self, chat_id: int, number: int, answer: Mapping[str, object]) -> dict[str, Any]:
        """Answer a question; the question as it is now."""
        return self._ask("POST", f"/api/chat/{chat_id}/approvals/{number}", answer)

    def login_code(self) -> dict[str, Any]:
        """A one-time code, and until when it is good; this needs the management key."""
        return self._ask("POST", "/api/agent/session")

    def follow(self, chat_id: int) -> Iterator[dict[str, Any]]:
        """Each message of a chat as soon as it is there, until the chat has nothing more to do.

        A queue that is held, or waits for a supplier's limit, has nothing more to do for now.
        """
        seen = 0
        for event in Listener(self._key, [chat_id]).listen(self._url):
            found: list[dict[str, Any]] = []
            done = False
            match event.name, json.loads(event.data):
                case (("resumed" | "gap"), _):  # from here on nothing is missed: what was before?
                    done = self.status(chat_id, 0)["status"] == "completed"
                    found = self.messages(chat_id)
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

    def _ask(
        self, method: str, path: str, wish: Mapping[str, object] | None = None
    ) -> dict[str, Any]:
        body = None if wish is None else json.dumps(wish)
        headers = {"X-API-Key": self._key, "Content-Type": "application/json"}
        try:
            self._connection.request(method, path, body, headers)
            response = self._connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read() or b"{}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _absent(self._url) from error
        _check(response.status, answer)
        return answer


class Listener:
    """Listens to the live events, over as many connections as it takes.

    ``mark`` is the id to come back with; empty: from now on.
    """

    def __init__(self, key: str, chats: Iterable[int] = (), mark: str = "") -> None:
        self.mark = mark
        self._key = key
        self._query = f"?chats={','.join(map(str, chats))}" if chats else ""

    def listen(self, url: str) -> Iterator[Received]:
        """The events from ``mark`` on; ``Unavailable`` when the connection is lost."""
        address = urlsplit(url)
        host = address.hostname or "localhost"
        connection = http.client.HTTPConnection(host, address.port, timeout=_SILENCE)
        headers = {"X-API-Key": self._key} | ({"Last-Event-ID": self.mark} if self.mark else {})
        try:
            connection.request("GET", f"/api/events{self._query}", headers=headers)
            response = connection.getresponse()
            if response.status != 200:
                _check(response.status, json.loads(response.read() or b"{}"))
            reader = Reader()
            while data := response.read1(_PIECE):
                for event in reader.feed(data):
                    self.mark = event.id or self.mark
                    yield event
                self.mark = reader.last_id or self.mark
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _absent(url) from error
        finally:
            connection.close()
        raise Unavailable(f"{url} ended the connection")


def given_key() -> str:
    """The key of the environment. Raises ``Unauthorized`` when there is none."""
    key = os.environ.get(KEY_VARIABLE, "")
    if not key:
        raise Unauthorized(
            f"{KEY_VARIABLE} is not set",
            f"Make a key once with: export {KEY_VARIABLE}=$(agentd keys generate laptop)",
        )
    return key


def daemon_url(layout: Layout) -> str:
    """Where this state folder's daemon listens; one that is just starting is waited for."""
    deadline = time.monotonic() + _START
    while True:
        daemon = announced(layout)
        if daemon and _lives(daemon.pid):
            return daemon.url
        if time.monotonic() >= deadline:
            raise Unavailable(
                f"no daemon serves {layout.state}", "Start one with: agentd serve, or give --url."
            )
        time.sleep(0.05)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _absent(url: str) -> Unavailable:
    return Unavailable(f"no agentd answers at {url}", "Start one with: agentd serve")


def _check(status: int, answer: dict[str, Any]) -> None:
    """Raise what an answer says that is no success."""
    if status == 401:
        raise Unauthorized(answer["message"], "Make a key with: agentd keys generate NAME")
    if status in (429, 503):
        raise Unavailable(answer["message"], answer["details"])
    if status >= 400:
        raise AgentdError(answer["message"], answer["details"])

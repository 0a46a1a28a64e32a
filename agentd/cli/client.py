"""The remote API as the commands use it: one connection, JSON in and out."""

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

from agentd.errors import AgentdError, Unauthorized, Unavailable

_PATIENCE = 75.0
"""Seconds for an answer: a status may wait for 60."""


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

    def follow(self, chat_id: int) -> Iterator[dict[str, Any]]:
        """Each message of a chat as it comes, until the chat is at rest."""
        seen, since = 0, ""
        while True:
            status = self.status(chat_id, 0.5)
            for message in self.messages(chat_id, since):
                if message["id"] > seen:
                    seen, since = message["id"], message["createdAt"]
                    yield message
            if status["status"] != "processing":
                return

    def _ask(self, method: str, path: str, wish: Mapping[str, str] | None = None) -> dict[str, Any]:
        body = None if wish is None else json.dumps(wish)
        headers = {"X-API-Key": self._key, "Content-Type": "application/json"}
        try:
            self._connection.request(method, path, body, headers)
            response = self._connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read() or b"{}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unavailable(
                f"no agentd answers at {self._url}", "Start one with: agentd serve"
            ) from error
        if response.status == 401:
            raise Unauthorized(answer["message"], "Make a key with: agentd keys generate NAME")
        if response.status >= 400:
            raise AgentdError(answer["message"], answer["details"])
        return answer

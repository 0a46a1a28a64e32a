"""What a session needs of the running daemon: its HTTP API and its live events."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from agentd.core.errors import AgentdError
from agentd.core.sse import ServerSentEvent


class DaemonApi(Protocol):
    """The API of the daemon as one key may use it; every method may be called by any thread.

    All raise ``AgentdError``: ``Unavailable`` where no daemon answers, ``Unauthorized`` for a
    wrong key.
    """

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        once: str = "",
    ) -> dict[str, Any]:
        """Return the answer to a request; with ``once``, an idempotency key, it is repeated."""
        ...

    def upload_picture(self, data: bytes, kind: str) -> str:
        """Upload a picture and return its path in the workspace."""
        ...

    def listen(self, chat_id: int) -> Iterator[ServerSentEvent]:
        """Yield the live events of a chat over one connection."""
        ...


def read_setting(daemon: DaemonApi, name: str) -> str:
    """Return the value of a setting in force."""
    found = daemon.call("GET", "/api/settings/all")["settings"]
    return str(next(one["value"] for one in found if one["name"] == name))


def find_folder(daemon: DaemonApi, chat_id: int, workspace: str) -> str:
    """Return the folder that a chat works in: its work tree, once that is made."""
    try:
        return daemon.call("GET", f"/api/chat/{chat_id}/worktree")["folder"] or workspace
    except AgentdError:
        return workspace

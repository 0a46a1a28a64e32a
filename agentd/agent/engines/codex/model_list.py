"""The models that Codex offers, by its method ``model/list``."""

from collections.abc import Iterator

from agentd import __version__
from agentd.agent.engines.external.conversation import Step, TurnDone
from agentd.agent.engines.external.json_rpc import (
    RpcError,
    RpcPeer,
    RpcResult,
    get_path,
    get_text,
    iter_list,
)
from agentd.agent.engines.external.model_list import MOST_MODELS, ModelListing


class CodexModelListing(ModelListing):
    """Reads all pages of the list; hidden models are left out."""

    def __init__(self) -> None:
        super().__init__()
        self._peer = RpcPeer(marked=False)
        self._pages = 0

    def on_start(self) -> Iterator[Step]:
        """Send ``initialize``."""
        client = {"name": "agentd", "title": "agentd", "version": __version__}
        yield self._peer.request("initialize", {"clientInfo": client, "capabilities": None})

    def on_line(self, line: bytes) -> Iterator[Step]:
        """Handle one message of Codex."""
        match self._peer.parse(line):
            case RpcResult(method="initialize"):
                yield self._peer.notify("initialized")
                yield self._peer.request("model/list", {})
            case RpcResult(method="model/list", value=value):
                yield from self._read_page(value)
            case RpcError():
                yield TurnDone()

    def _read_page(self, value: object) -> Iterator[Step]:
        for model in iter_list(value, "data"):
            if get_path(model, "hidden") is not True:
                self.add(get_text(model, "model") or get_text(model, "id"))
        self._pages += 1
        cursor = get_text(value, "nextCursor")
        if cursor and self._pages < MOST_MODELS:
            yield self._peer.request("model/list", {"cursor": cursor})
        else:
            yield TurnDone()

"""The models that an ACP agent offers, from its answer to ``session/new``."""

from collections.abc import Iterator

from agentd import __version__
from agentd.agent.engines.acp.session import list_offered_models
from agentd.agent.engines.external.conversation import Step, TurnDone
from agentd.agent.engines.external.json_rpc import RpcError, RpcPeer, RpcResult
from agentd.agent.engines.external.model_list import ModelListing


class AcpModelListing(ModelListing):
    """Begins a session in a folder, which stays empty."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = folder
        self._peer = RpcPeer(marked=True)

    def on_start(self) -> Iterator[Step]:
        """Send ``initialize``."""
        given = {
            "protocolVersion": 1,
            "clientCapabilities": {},
            "clientInfo": {"name": "agentd", "title": "agentd", "version": __version__},
        }
        yield self._peer.request("initialize", given)

    def on_line(self, line: bytes) -> Iterator[Step]:
        """Handle one message of the agent."""
        match self._peer.parse(line):
            case RpcResult(method="initialize"):
                given = {"cwd": self._folder, "mcpServers": []}
                yield self._peer.request("session/new", given)
            case RpcResult(value=value):
                for name in list_offered_models(value):
                    self.add(name)
                yield TurnDone()
            case RpcError():
                yield TurnDone()

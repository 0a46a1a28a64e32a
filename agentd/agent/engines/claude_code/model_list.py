"""The models that Claude Code offers, from its response to ``initialize``."""

from collections.abc import Iterator

import msgspec

from agentd.agent.engines.claude_code.questions import build_control_request
from agentd.agent.engines.external.conversation import Step, TurnDone
from agentd.agent.engines.external.json_rpc import get_text, iter_list
from agentd.agent.engines.external.model_list import ModelListing

_REQUEST = "agentd-models"


class ClaudeModelListing(ModelListing):
    """Opens the control channel and reads the list."""

    def on_start(self) -> Iterator[Step]:
        """Open the control channel."""
        yield build_control_request(_REQUEST, "initialize")

    def on_line(self, line: bytes) -> Iterator[Step]:
        """Handle one message of Claude Code."""
        try:
            given = msgspec.json.decode(line)
        except (ValueError, RecursionError):
            return
        if get_text(given, "response", "request_id") == _REQUEST:
            for model in iter_list(given, "response", "response", "models"):
                self.add(get_text(model, "value"))
            yield TurnDone()

"""The custom commands that an editor offers to its person.

Source: https://agentclientprotocol.com/protocol/slash-commands.
"""

import logging
from collections.abc import Callable

from agentd.acp.daemon import DaemonApi
from agentd.acp.updates import Update, make_command
from agentd.core.errors import AgentdError

log = logging.getLogger(__name__)


class OfferedCommands:
    """The commands of one chat, as the editor knows them."""

    def __init__(
        self, daemon: DaemonApi, chat_id: int, send_update: Callable[[Update], None]
    ) -> None:
        self._daemon = daemon
        self._chat_id = chat_id
        self._send_update = send_update
        self._known: list[Update] = []

    def tell(self) -> None:
        """Tell the editor of the commands, if they have changed."""
        try:
            found = self._daemon.call("GET", f"/api/commands?chatId={self._chat_id}")["commands"]
        except AgentdError as error:  # the session works without them
            log.info("chat %d: %s", self._chat_id, error.message)
            return
        commands = [make_command(one) for one in found]
        if commands != self._known:
            self._known = commands
            self._send_update(
                {"sessionUpdate": "available_commands_update", "availableCommands": commands}
            )

"""The official Python client: goes through all that an editor does, and prints it as JSON.

Its argument is ``{"command", "env", "folder"}``.
"""

import asyncio
import json
import sys
from typing import Any

from acp import PROTOCOL_VERSION, spawn_agent_process, text_block
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    EnvVariable,
    HttpHeader,
    HttpMcpServer,
    McpServerStdio,
    RequestPermissionResponse,
    TextContentBlock,
)

SERVERS = [
    McpServerStdio(name="a", command="x", args=["y"], env=[EnvVariable(name="A", value="1")]),
    HttpMcpServer(
        type="http",
        name="b",
        url="https://docs.example/mcp",
        headers=[HttpHeader(name="A", value="1")],
    ),
]


class Observer:
    """What the client is told and asked."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.asked: list[Any] = []

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        """Note an update."""
        self.updates.append(update)

    async def request_permission(
        self, options: Any, session_id: str, tool_call: Any, **_: Any
    ) -> RequestPermissionResponse:
        """Allow what the agent asks for."""
        self.asked.append(tool_call.title)
        option = next(one for one in options if one.kind == "allow_once")
        chosen = AllowedOutcome(outcome="selected", option_id=option.option_id)
        return RequestPermissionResponse(outcome=chosen)

    def on_connect(self, conn: Any) -> None:
        """Connect."""

    @property
    def kinds(self) -> list[str]:
        """The kinds of the updates, each once."""
        return sorted({one.session_update for one in self.updates})

    @property
    def reply(self) -> str:
        """The agent's text."""
        return "".join(
            one.content.text
            for one in self.updates
            if one.session_update == "agent_message_chunk"
            and isinstance(one.content, TextContentBlock)
        )


async def go_through(wish: dict[str, Any]) -> dict[str, Any]:
    """Return what the client sees."""
    observer: Any = Observer()
    program, *words = wish["command"]
    async with spawn_agent_process(observer, program, *words, env=wish["env"]) as (client, _):
        begun = await client.initialize(PROTOCOL_VERSION, ClientCapabilities())
        made = await client.new_session(cwd=wish["folder"], mcp_servers=SERVERS)
        session = made.session_id
        told = await client.prompt(session_id=session, prompt=[text_block("Go")])
        shown = {"kinds": observer.kinds, "told": told.stop_reason}
        observer.updates = []
        asked = await client.prompt(session_id=session, prompt=[text_block("run ls")])
        await client.set_session_mode(session_id=session, mode_id="deny")
        set_option = await client.set_config_option(
            config_id="model", session_id=session, value="mine"
        )
        reply, observer.updates = observer.reply, []
        await client.load_session(cwd=wish["folder"], session_id=session, mcp_servers=[])
        replayed = observer.kinds
        listed = await client.list_sessions()
        await client.close_session(session_id=session)
    assert set_option
    return {
        **shown,
        "agent": begun.agent_info.name if begun.agent_info else "",
        "asked": observer.asked,
        "stopped": asked.stop_reason,
        "reply": reply,
        "replayed": replayed,
        "models": [one.current_value for one in set_option.config_options],
        "listed": [one.session_id for one in listed.sessions] == [session],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(go_through(json.loads(sys.argv[1])))))

"""How long a turn takes beside its engine: a program that works through a state folder's chats.

``dispatching.py FOLDER CHAT CHAT ROUNDS``: prompts go to the two chats in turn, through the real
service, dispatcher and store, to an engine that answers at once. Prints the median seconds from
the append of a prompt to the end of its turn, for each chat, as a JSON list.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator
from os.path import join
from statistics import median

from agentd.agent.engine import Approver, EngineEvent, ReplyCompleted, TurnRequest
from agentd.agent.mcp_servers.directory import McpDirectory
from agentd.agent.processes.table import ProcessTable
from agentd.app.agent import EngineComponent
from agentd.app.config_files import ConfigFiles
from agentd.app.state import open_state
from agentd.chats.repository import ChatRepository
from agentd.chats.service import ChatService
from agentd.chats.store import ChatFiles
from agentd.chats.turns import TurnRecorder
from agentd.core.clock import SystemClock
from agentd.core.events import EventBus
from agentd.settings.model import Settings
from agentd.storage.journal import GroupCommitter
from agentd.storage.layout import Layout


class PromptEngine:
    """Answers at once."""

    name = "prompt"

    async def run(
        self, assignment: TurnRequest, approver: Approver
    ) -> AsyncGenerator[EngineEvent, None]:
        yield ReplyCompleted("Done.")


async def main(folder: str, chat_ids: list[int], rounds: int) -> list[float]:
    layout = Layout(join(folder, "state"), join(folder, "config"))
    state = open_state(layout)
    bus, committer = EventBus(), GroupCommitter(layout, state.sequences)
    files = ChatFiles(layout, state.sequences, committer)
    clock = SystemClock()
    shelf = ChatRepository(files, clock, state.sequences, bus, state.chats)
    chats = ChatService(shelf)
    settings = Settings(workspace=folder)
    written = ConfigFiles(settings, layout, None, bus)
    crew = EngineComponent(
        written, layout, {}, McpDirectory(layout, {}, ""), ProcessTable(), PromptEngine()
    )
    dispatcher = crew.build_agent(chats, TurnRecorder(shelf), clock, bus).dispatcher
    dispatcher.start(chats.list_summaries())
    waits: list[list[float]] = [[] for _ in chat_ids]
    for _ in range(rounds):
        for chat_id, took in zip(chat_ids, waits, strict=True):
            began = time.perf_counter()
            await chats.append_prompt(chat_id, "Go on.", "", "key:benchmark")
            await chats.wait_until_idle(chat_id, 10)
            took.append(time.perf_counter() - began)
    await dispatcher.stop(10)
    await committer.close()
    await files.close()
    state.release()
    return [median(took) for took in waits]


if __name__ == "__main__":
    _, folder, small, large, rounds = sys.argv
    json.dump(asyncio.run(main(folder, [int(small), int(large)], int(rounds))), sys.stdout)

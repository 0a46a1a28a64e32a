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

from agentd.agent.engine import Approver, Assignment, Progress, Replied
from agentd.catalog.settings import Settings
from agentd.chats.service import ChatService
from agentd.chats.shelf import Shelf
from agentd.chats.turns import Turns
from agentd.clock import SystemClock
from agentd.daemon.crew import Crew
from agentd.daemon.written import HandWritten
from agentd.disk.chats import ChatFiles
from agentd.disk.journal import Committer
from agentd.disk.layout import Layout
from agentd.disk.state import open_state
from agentd.events import Bus


class PromptEngine:
    """Answers at once."""

    name = "prompt"

    async def run(
        self, assignment: Assignment, approver: Approver
    ) -> AsyncGenerator[Progress, None]:
        yield Replied("Done.")


async def main(folder: str, chat_ids: list[int], rounds: int) -> list[float]:
    layout = Layout(join(folder, "state"), join(folder, "config"))
    state = open_state(layout)
    bus, committer = Bus(), Committer(layout, state.sequences)
    files = ChatFiles(layout, state.sequences, committer)
    clock = SystemClock()
    shelf = Shelf(files, clock, state.sequences, bus, state.chats)
    chats = ChatService(shelf)
    settings = Settings(workspace=folder)
    written = HandWritten(settings, layout, None, bus)
    crew = Crew(written, layout, {}, PromptEngine())
    dispatcher = crew.hired(chats, Turns(shelf), clock, bus).dispatcher
    dispatcher.start(chats.summaries())
    waits: list[list[float]] = [[] for _ in chat_ids]
    for _ in range(rounds):
        for chat_id, took in zip(chat_ids, waits, strict=True):
            began = time.perf_counter()
            await chats.append(chat_id, "Go on.", "", "key:benchmark")
            await chats.rest(chat_id, 10)
            took.append(time.perf_counter() - began)
    await dispatcher.stop(10)
    await committer.close()
    await files.close()
    state.release()
    return [median(took) for took in waits]


if __name__ == "__main__":
    _, folder, small, large, rounds = sys.argv
    json.dump(asyncio.run(main(folder, [int(small), int(large)], int(rounds))), sys.stdout)

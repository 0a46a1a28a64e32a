"""The daemon with an engine that never finishes: prompts wait. ``held_engine.py OPTION VALUE …``.

Only the prompt ``STREAM`` is answered, by 200 tokens a second without end.
"""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from itertools import count

from agentd.agent.engine import Approver, EngineEvent, ReplyDelta, TurnRequest
from agentd.app import daemon, engines
from agentd.cli.serve import enable_garbage_collection
from agentd.settings import sources

STREAM = "stream"


class HeldEngine:
    """Takes a prompt and keeps it."""

    name = "held"

    def __init__(self, *_: object) -> None:
        pass

    async def run(
        self, assignment: TurnRequest, approver: Approver
    ) -> AsyncGenerator[EngineEvent, None]:
        if assignment.prompt != STREAM:
            await asyncio.Event().wait()
        for number in count():
            await asyncio.sleep(0.005)
            yield ReplyDelta("\n\n" if number % 60 == 59 else f"token{number % 10} ")


def main() -> int:
    names = [name.removeprefix("--") for name in sys.argv[1::2]]
    options = dict(zip(names, sys.argv[2::2], strict=True))
    engines.OfflineEngine = HeldEngine  # type: ignore[misc]
    return daemon.run(
        *sources.load(options, os.environ, os.getcwd()), os.environ, enable_garbage_collection
    )


if __name__ == "__main__":
    sys.exit(main())

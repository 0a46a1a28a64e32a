"""The daemon with an engine that never finishes: prompts wait. ``held.py OPTION VALUE …``."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator

from agentd import daemon
from agentd.agent.engine import Approver, Assignment, Progress
from agentd.daemon import crew
from agentd.disk import settings


class HeldEngine:
    """Takes a prompt and keeps it."""

    name = "held"

    def __init__(self, *_: object) -> None:
        pass

    async def run(
        self, assignment: Assignment, approver: Approver
    ) -> AsyncGenerator[Progress, None]:
        await asyncio.Event().wait()
        for never in ():
            yield never


def main() -> int:
    names = [name.removeprefix("--") for name in sys.argv[1::2]]
    options = dict(zip(names, sys.argv[2::2], strict=True))
    crew.OfflineEngine = HeldEngine
    return daemon.run(*settings.load(options, os.environ, os.getcwd()), os.environ)


if __name__ == "__main__":
    sys.exit(main())

# ruff: noqa: S311
"""A real daemon process whose engine keeps a ledger of its own, started by the hundred.

``python -m tests.crash.daemon_with_ledger`` loads everything once and then forks a daemon for
each line ``{"state": DIR, "ledger": FILE, "plant": NAME}`` on standard input, answering with
its process id. The child runs ``agentd.app.daemon`` as it is, with another engine; ``plant`` is a
bug to build in, for the checker to find.
"""

import asyncio
import gc
import importlib
import json
import logging
import os
import random
import secrets
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import NoReturn

from agentd.agent.engine import (
    Approver,
    EngineEvent,
    Question,
    ReplyCompleted,
    ToolUsed,
    TurnRequest,
)
from agentd.app import background, daemon
from agentd.app import state as folders
from agentd.core import ids
from agentd.settings.model import Settings
from agentd.storage.layout import Layout
from tests.crash import keeping, plants
from tests.crash.keys import KEY_HASH, MANAGEMENT_HASH
from tests.crash.oracle import Given

LOADED_LATER = (
    "agentd.app.channel_checks",
    "agentd.app.management",
    "agentd.app.management_routes",
    "agentd.gateway.ledger.tail",
    "agentd.gateway.metrics.exposition",
    "agentd.gateway.secrets.rule_store",
    "cronsim.explain",
    "cryptography.hazmat.primitives.asymmetric.ed25519",
    "cryptography.hazmat.primitives.ciphers.aead",
    "multipart",
    "py_vapid",
    "re2",
    "watchdog.observers",
)
"""What a daemon imports after its start, which takes a third of a second for each kill."""


LINE_BYTES = 128
"""The size of every line of the engine's ledger: pages of memory hold whole lines only.

Linux looks for SIGKILL after each page that it copies for a ``write``, so a line that began in one
page and ended in the next was cut in two now and then, even a short one.
"""


class LedgerEngine:
    """Notes each prompt, in one append that a killed process cannot take back, then replies."""

    name = "ledger"

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    async def run(
        self, assignment: TurnRequest, approver: Approver
    ) -> AsyncGenerator[EngineEvent, None]:
        """Reply with the prompt's own words."""
        self._note(*Given.of(assignment.chat_id, assignment.prompt))
        if assignment.prompt.startswith("ask."):
            await self._ask(assignment, approver)
        await asyncio.sleep(random.random() * 0.01)
        yield ToolUsed("look", "at it", "seen")
        yield ReplyCompleted(assignment.prompt)

    async def _ask(self, assignment: TurnRequest, approver: Approver) -> None:
        """Ask whether it may go on, and note what it was told."""
        subject = assignment.prompt.split()[0]
        decided = await approver.ask(Question("shell", "look", subject))
        self._note(subject, decided.allowed)

    def _note(self, *what: str | int) -> None:
        line = json.dumps(what, ensure_ascii=False).encode().ljust(LINE_BYTES - 1) + b"\n"
        if len(line) != LINE_BYTES:
            raise ValueError(f"Too long for the engine's ledger: {what}")
        os.write(self._fd, line)


async def serve(state: str, engine: LedgerEngine) -> int:
    """Live until SIGTERM."""
    settings = Settings(
        port=0,
        agent_api_key=KEY_HASH,
        proxy_app_hash=MANAGEMENT_HASH,
        drain_seconds=0.1,
        max_parallel_turns=4,
        workspace=state,
    )
    layout = Layout(state, os.path.join(state, "..", "config"))
    async with daemon.start_daemon(settings, layout, {}, engine) as running:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, running.stop, 0)
        loop.add_signal_handler(signal.SIGUSR1, _write_task_count, state)
        return await running.stopped


def _write_task_count(state: str) -> None:
    path = build_task_count_path(state)
    path.with_suffix(".new").write_text(str(len(asyncio.all_tasks())))
    path.with_suffix(".new").rename(path)


def build_task_count_path(state: str) -> Path:
    """Return the path of the number of tasks, which the daemon writes after ``SIGUSR1``."""
    return Path(state, "..", "tasks")


def _run_daemon(order: dict[str, str]) -> NoReturn:
    code = 70
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(log, 2)
        random.seed()
        ids._PROCESS = secrets.token_hex(4)  # as of a process that was not forked
        logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
        plants.build_in(order.get("plant", ""))
        background.MEMORY_SECONDS = 0.2  # what it keeps for good is to be seen soon
        background.MEMORY_GROWN = 1024 * 1024
        code = asyncio.run(serve(order["state"], LedgerEngine(order["ledger"])))
    finally:
        sys.stderr.flush()
        os._exit(code)


def import_all() -> None:
    """Import what each forked daemon would import after its start."""
    for module in LOADED_LATER:
        importlib.import_module(module)
    gc.freeze()


def main() -> None:
    """Fork a daemon per line; the system reaps them."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    keeping.call_no_push_services()
    import_all()
    folders.PATIENCE = 60.0  # what a killed one was starting may take longer to let go of its lock
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _run_daemon(json.loads(line))
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

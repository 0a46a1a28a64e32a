"""A daemon that dies by SIGKILL at some point of an import: ``python -m … FOLDER POINT``."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentd.gateway.admin.changes_store import ChangeJournal
from agentd.gateway.channels.store import ChannelRepository
from agentd.gateway.limits.budget_store import BudgetRepository
from agentd.gateway.models.store import GatewayModelRepository
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.support.daemon import Serving

IMPORT = {
    "channels": [
        {
            "name": "moved",
            "dialects": ["openai-chat"],
            "url": "https://api.example.com/v1",
            "key": "sk-moved-0123456789abcdef",
        }
    ],
    "models": [{"name": "moved-large", "routes": [{"channel": "moved"}]}],
    "budgets": [{"name": "moved-team", "tag": "team", "limits": {"day": "3"}}],
}

POINTS: dict[str, tuple[type, str]] = {
    "before channels": (ChannelRepository, "add_all"),
    "before models": (GatewayModelRepository, "add_all"),
    "before the journal": (ChangeJournal, "append"),
    "undo before channels": (ChannelRepository, "remove_all"),
    "undo before budgets": (BudgetRepository, "remove_all"),
    "undo before the journal": (ChangeJournal, "append"),
}


def kill_instead(owner: type, name: str) -> None:
    """Let a method kill this process, unless it is a dry run."""
    real: Callable[..., Any] = getattr(owner, name)

    async def act(*given: Any, **options: Any) -> Any:
        if not options.get("dry_run"):
            os.kill(os.getpid(), signal.SIGKILL)
        return await real(*given, **options)

    setattr(owner, name, act)


def main(folder: str, point: str) -> None:
    """Import, and undo it if the point says so; the process dies within."""
    with Serving(Path(folder), environ={"PROXY_APP_HASH": HASH}) as daemon:
        client = daemon.client(MANAGEMENT_KEY)
        if point.startswith("undo"):
            number = client.post("/api/agent/import", IMPORT)["change"]
            kill_instead(*POINTS[point])
            with contextlib.suppress(OSError):
                client.post(f"/api/agent/changes/{number}/undo", None)
        else:
            kill_instead(*POINTS[point])
            with contextlib.suppress(OSError):
                client.post("/api/agent/import", IMPORT)


if __name__ == "__main__":
    main(*sys.argv[1:])

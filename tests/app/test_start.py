"""A start imports what answering needs, and leaves the rest until it is needed.

No time is judged here: it is the names of the modules that tell why a start is short.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from agentd.gateway.licence.store import LicenceFile
from agentd.storage.layout import Layout
from tests.support.paths import REPOSITORY

LATE = {
    "agentd.agent.engines.acp.conversation": "the first turn",
    "agentd.agent.engines.claude_code.conversation": "the first turn",
    "agentd.agent.engines.codex.conversation": "the first turn",
    "agentd.agent.engines.native.engine": "the first turn",
    "agentd.agent.engines.offline.engine": "the first turn",
    "agentd.app.management": "the first request to the management API",
    "agentd.app.reports": "the first request to the management API",
    "agentd.bots.polling": "the first bot",
    "agentd.gateway.admin.api.routes": "the first request to the management API",
    "agentd.gateway.admin.imports": "the first request to the management API",
    "agentd.live.websocket": "the first WebSocket",
    "agentd.mcp.api": "the first client of the Model Context Protocol",
    "cmarkgfm": "the first message that is rendered",
    "http_ece": "the first push notification",
    "multipart": "the first form with files",
    "nh3": "the first message that is rendered",
    "pathspec": "the first search of the workspace",
    "python_socks": "the first call through a SOCKS proxy",
    "opentelemetry": "a collector in the settings",
    "py_vapid": "the first push notification",
    "re2": "the first request whose secrets are masked",
    "segno": "the first QR code",
    "telegram": "the first bot",
    "tornado.web": "the first WebSocket",
    "watchdog": "the thread that watches",
}
"""Large modules, and the event that each waits for."""

CHANNEL = {"name": "fast", "url": "http://127.0.0.1:9", "dialects": ["openai-chat"], "local": True}
MODEL = {"name": "fast", "routes": [{"channel": "fast"}], "prices": {"input": 1, "output": 2}}


@pytest.fixture
def configured(layout: Layout) -> Layout:
    """A gateway that takes calls."""
    for folder in (layout.state, layout.config):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    channels = {"channels": [{**CHANNEL, "key": "sk-0123456789"}]}
    for path, said in ((layout.channels, channels), (layout.models, {"proxy": [MODEL]})):
        Path(path).write_text(json.dumps(said))
        Path(path).chmod(0o600)
    LicenceFile(layout).install_own("2026-01-01T00:00:00.000Z")
    return layout


def list_imports_until_serving(layout: Layout) -> set[str]:
    """Return the names of all modules; the interpreter reports each one that it imports."""
    places = ["--state", layout.state, "--config", layout.config]
    result = [sys.executable, "-X", "importtime", "-m", "agentd", *places, "serve", "--port", "0"]
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    folder = os.path.dirname(layout.state)
    found = set()
    with subprocess.Popen(
        result, stderr=subprocess.PIPE, text=True, cwd=folder, env=environ
    ) as child:
        try:
            for line in child.stderr or ():
                if line.startswith("import time:"):
                    found.add(line.rpartition("|")[2].strip())
                elif " serving " in line:
                    return found
        finally:
            child.kill()
    raise AssertionError("it did not start")


def test_without_a_licence_nothing_is_verified_or_encrypted_at_the_start(layout: Layout) -> None:
    """The library for that takes seven megabytes of memory."""
    assert "cryptography" not in list_imports_until_serving(layout)


def test_what_is_large_is_imported_when_it_is_needed(configured: Layout) -> None:
    found = list_imports_until_serving(configured)
    assert {"agentd.http.server", "agentd.gateway.relay.relay"} <= found
    early = {name: f"should wait for {LATE[name]}" for name in LATE.keys() & found}
    assert not early


@pytest.mark.parametrize("name", LATE)
def test_what_is_to_come_late_is_there(name: str) -> None:
    assert find_spec(name), "the list names what is no more"

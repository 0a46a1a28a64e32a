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

from agentd.disk.layout import Layout
from agentd.disk.licence import LicenceFile

ROOT = Path(__file__).parent.parent.parent

LATE = {
    "agentd.agent.acp.conversation": "the first turn",
    "agentd.agent.claude_code.conversation": "the first turn",
    "agentd.agent.codex.conversation": "the first turn",
    "agentd.agent.native.engine": "the first turn",
    "agentd.agent.offline.engine": "the first turn",
    "agentd.bots.polling": "the first bot",
    "agentd.disk.tree": "the first edit of a list that a person wrote",
    "agentd.web.websocket": "the first WebSocket",
    "multipart": "the first form with files",
    "python_socks": "the first call through a SOCKS proxy",
    "ruamel.yaml": "the first edit of a list that a person wrote",
    "telegram": "the first bot",
    "tornado.web": "the first WebSocket",
    "watchdog": "the thread that watches",
}
"""What is large, and what it waits for."""

CHANNEL = {"name": "fast", "url": "http://127.0.0.1:9", "dialects": ["openai-chat"], "local": True}
MODEL = {"name": "fast", "ways": [{"channel": "fast"}], "prices": {"input": 1, "output": 2}}


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


def imported_until_it_serves(layout: Layout) -> set[str]:
    """The names of all modules; the interpreter tells each as it comes."""
    places = ["--state", layout.state, "--config", layout.config]
    told = [sys.executable, "-X", "importtime", "-m", "agentd", *places, "serve", "--port", "0"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    folder = os.path.dirname(layout.state)
    found = set()
    with subprocess.Popen(
        told, stderr=subprocess.PIPE, text=True, cwd=folder, env=environ
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


def test_what_is_large_is_imported_when_it_is_needed(configured: Layout) -> None:
    found = imported_until_it_serves(configured)
    assert {"agentd.web.server", "agentd.proxy.gateway.relay"} <= found
    early = {name: f"should wait for {LATE[name]}" for name in LATE.keys() & found}
    assert not early


@pytest.mark.parametrize("name", LATE)
def test_what_is_to_come_late_is_there(name: str) -> None:
    assert find_spec(name), "the list names what is no more"

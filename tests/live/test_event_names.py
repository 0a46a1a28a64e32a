"""Every event that is published is described, and known to the browser."""

import re
from pathlib import Path

import agentd

ROOT = Path(agentd.__file__).parent
NAME = re.compile(r'^    name: ClassVar\[str\] = "([a-z]+(?:[A-Z][a-z]+)+)"$', re.MULTILINE)
"""An event's name, as its class gives it; tools of the agent have names of another form."""


def list_event_names() -> set[str]:
    """Return the names of all events."""
    found = {name for path in ROOT.rglob("*.py") for name in NAME.findall(path.read_text())}
    assert {"messageUpdate", "gatewayUpdate", "schedulesUpdate"} <= found
    return found


def test_every_event_is_described() -> None:
    described = set(re.findall(r"`(\w+)`", (ROOT / "API.md").read_text()))
    assert list_event_names() - described == set()


def test_the_browser_listens_to_every_event() -> None:
    text = (ROOT / "ui" / "static" / "core" / "live.js").read_text()
    names = re.search(r"const NAMES = \[(.*?)\];", text, re.DOTALL)
    assert names
    assert list_event_names() == set(re.findall(r'"(\w+)"', names[1]))

"""What persons decided about servers of workspaces: kept, found again, withdrawn."""

import threading
from pathlib import Path

import pytest

from agentd.agent.mcp_servers import decisions
from agentd.agent.mcp_servers.decisions import (
    ServerDecision,
    keep_decision,
    load_decisions,
    withdraw_decision,
)
from agentd.core.errors import ConfigError, NotFound
from agentd.storage.layout import Layout

AT = "2026-01-01T00:00:00.000Z"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path / "state"), str(tmp_path))


def make_decision(digest: str, *, allowed: bool = True) -> ServerDecision:
    return ServerDecision("shop", digest, allowed, AT)


def test_the_last_decision_about_a_content_holds_until_it_is_withdrawn(layout: Layout) -> None:
    assert load_decisions(layout) == ()
    for digest, allowed in (("a", True), ("b", False), ("a", False)):
        keep_decision(layout, make_decision(digest, allowed=allowed))
    kept = (make_decision("b", allowed=False), make_decision("a", allowed=False))
    assert load_decisions(layout) == kept
    assert withdraw_decision(layout, "b") == kept[0]
    assert load_decisions(layout) == kept[1:]
    with pytest.raises(NotFound):
        withdraw_decision(layout, "b")
    assert Path(layout.mcp_decisions).stat().st_mode & 0o777 == 0o600


def test_the_oldest_decisions_are_forgotten(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "MOST_DECISIONS", 3)
    for digest in "abcde":
        keep_decision(layout, make_decision(digest))
    assert [one.digest for one in load_decisions(layout)] == ["c", "d", "e"]


def test_decisions_of_several_at_once_are_all_kept(layout: Layout) -> None:
    threads = [
        threading.Thread(target=keep_decision, args=(layout, make_decision(str(number))))
        for number in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(int(one.digest) for one in load_decisions(layout)) == list(range(12))


@pytest.mark.parametrize("content", ["", "[]", "{", '{"format": 2, "decisions": []}', "\0\0"])
def test_a_damaged_file_is_reported_and_not_written_over(layout: Layout, content: str) -> None:
    path = Path(layout.mcp_decisions)
    path.parent.mkdir(mode=0o700)
    path.write_text(content)
    path.chmod(0o600)
    for change in (
        lambda: load_decisions(layout),
        lambda: keep_decision(layout, make_decision("a")),
        lambda: withdraw_decision(layout, "a"),
    ):
        with pytest.raises(ConfigError, match="is damaged"):
            change()
    assert path.read_text() == content

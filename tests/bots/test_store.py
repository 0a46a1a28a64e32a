"""``bots.yml``: strict, private, edited with its comments kept; memories that outlive a restart."""

import os
from pathlib import Path

import pytest
from msgspec import structs

from agentd.bots.model import BotSettings
from agentd.bots.state import BotState, Button, ChatLink
from agentd.bots.store import BotStateFiles, BotsYmlFile, read_token
from agentd.core.errors import ConfigError, Conflict, NotFound
from agentd.storage.layout import Layout

TOKEN = "123456789:" + "Abc_def-" * 4 + "xyz"
OTHER = "987654321:" + "Abc_def-" * 4 + "xyz"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path / "state"), str(tmp_path / "config"))


def write_file(layout: Layout, text: str, mode: int = 0o600) -> BotsYmlFile:
    """Return the file with this content."""
    path = Path(layout.bots_settings)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return BotsYmlFile(layout)


def test_a_bot_is_read_with_its_defaults(layout: Layout) -> None:
    file = write_file(layout, f"bots:\n  - {{id: a, token: '{TOKEN}', users: [7]}}\n")
    (bot,) = file.load()
    assert bot == BotSettings(id="a", token=TOKEN, users=(7,))
    assert (bot.name, bot.enabled, bot.kind, bot.skill) == ("a", True, "telegram", "none")
    assert bot.base_url == "https://api.telegram.org"
    assert TOKEN not in repr(bot)
    assert bot.masked_token == "****" + TOKEN[-4:]


def test_without_a_file_there_are_no_bots(layout: Layout) -> None:
    assert BotsYmlFile(layout).load() == ()
    assert write_file(layout, "# nothing\n").load() == ()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_can_read_is_refused(layout: Layout, mode: int) -> None:
    with pytest.raises(ConfigError, match="chmod"):
        write_file(layout, "bots: []\n", mode).load()


@pytest.mark.parametrize(
    ("entry", "line", "result"),
    [
        (f"id: A B, token: '{TOKEN}'", 3, "bots\\[0\\].id"),
        ("id: a", 3, '"token" is missing'),
        (f"id: a, token: '{TOKEN}', user: [1]", 3, 'did you mean "users"'),
        (f"id: a, token: '{TOKEN}', users: [me]", 3, "whole number"),
        (f"id: a, token: '{TOKEN}', kind: signal", 3, "telegram"),
        (f"id: a, token: '{TOKEN}', base_url: 'ftp://x'", 3, "base_url"),
        (f"id: a, token: '{TOKEN} '", 3, "expected a bot token"),
        ("id: a, token: 'file:x'", 3, "begins with / or ~/"),
        ("id: a, token: 'env:1x'", 3, "name of an environment variable"),
    ],
)
def test_mistakes_are_reported_with_their_line_and_never_the_token(
    layout: Layout, entry: str, line: int, result: str
) -> None:
    with pytest.raises(ConfigError, match=result) as caught:
        write_file(layout, f"format: 1\nbots:\n  - {{{entry}}}\n").load()
    assert [problem.line for problem in caught.value.problems] == [line]
    assert TOKEN not in str(caught.value)


def test_two_bots_share_neither_id_nor_token(layout: Layout) -> None:
    entry = f"  - {{id: a, token: '{TOKEN}'}}\n"
    with pytest.raises(ConfigError, match="id of a bot above") as caught:
        write_file(layout, f"bots:\n{entry}{entry}").load()
    assert "same token" in str(caught.value)
    assert TOKEN not in str(caught.value)


def test_edits_leave_comments_and_the_rest_as_they_are(layout: Layout) -> None:
    file = write_file(
        layout,
        f"# my bots\nformat: 1\nbots:\n  # the first\n  - id: a\n    token: '{TOKEN}'  # secret\n"
        "    users: [1, 2]  # me and her\n    enabled: true\n",
    )
    (first,) = file.load()
    file.add(BotSettings(id="b", token=OTHER, users=(3,), title="B: 'x' #1", enabled=False))
    file.change(structs.replace(first, enabled=False, users=(1, 2, 3)))
    a, b = file.load()
    assert (a.enabled, a.users) == (False, (1, 2, 3))
    assert b == BotSettings(id="b", token=OTHER, users=(3,), title="B: 'x' #1", enabled=False)
    text = Path(file.path).read_text()
    for comment in ("# my bots", "  # the first", "# secret", "# me and her"):
        assert comment in text
    assert os.stat(file.path).st_mode & 0o777 == 0o600
    file.remove("a")
    assert [bot.id for bot in file.load()] == ["b"]
    with pytest.raises(NotFound):
        file.remove("a")
    with pytest.raises(Conflict):
        file.add(b)


def test_the_first_bot_makes_the_file(layout: Layout) -> None:
    file = BotsYmlFile(layout)
    file.add(BotSettings(id="a", token=TOKEN))
    assert [bot.id for bot in file.load()] == ["a"]
    assert os.stat(file.path).st_mode & 0o777 == 0o600


def test_tokens_are_fetched_from_where_they_are(layout: Layout, tmp_path: Path) -> None:
    place = tmp_path / "token"
    place.write_text(f"{TOKEN}\n")
    place.chmod(0o600)
    of = lambda token: BotSettings(id="a", token=token)  # noqa: E731
    assert read_token(of(TOKEN), {}) == TOKEN
    assert read_token(of("env:T"), {"T": TOKEN}) == TOKEN
    assert read_token(of(f"file:{place}"), {}) == TOKEN
    for token, environ, result in [
        ("env:T", {}, "T is not set"),
        ("env:T", {"T": "secret words"}, "not a bot token"),
        (f"file:{place}.none", {}, "there is no token"),
    ]:
        with pytest.raises(ConfigError, match=result) as caught:
            read_token(of(token), environ)
        assert "secret words" not in str(caught.value)
    place.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_token(of(f"file:{place}"), {})


def test_a_memory_is_the_same_after_a_restart(layout: Layout) -> None:
    files = BotStateFiles(layout)
    assert files.load("a") == BotState()
    memory = BotState(
        7, 8, "2026-01-01T00:00:00.000Z", {-5: ChatLink(3, 4, "x"), 6: ChatLink(1)}, {}, 9
    )
    memory.buttons = {8: Button(3, "p"), 9: Button(3, "q")}
    files.save("a", memory)
    assert BotStateFiles(layout).load("a") == memory
    assert list(BotStateFiles(layout).load("a").buttons) == [8, 9]
    assert os.stat(layout.get_bot_state_path("a")).st_mode & 0o777 == 0o600
    assert os.stat(layout.bots).st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "text", ['{"memory":{"offset":"x"}}', '{"memory":{"handled_at":"2026-99-99T99:99:99.999Z"}}']
)
def test_a_damaged_memory_is_reported_and_not_overwritten(layout: Layout, text: str) -> None:
    files = BotStateFiles(layout)
    files.save("a", BotState())
    path = Path(layout.get_bot_state_path("a"))
    path.write_text(text)
    with pytest.raises(ConfigError, match="is damaged"):
        files.load("a")
    assert path.read_text() == text

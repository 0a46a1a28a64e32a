"""Custom commands from real folders: nothing is read from elsewhere, and errors have lines."""

import asyncio
from pathlib import Path

import pytest

from agentd.agent.custom_commands import store as commands_store
from agentd.agent.custom_commands.store import LARGEST_FILE, CommandDirectory, CommandSet
from agentd.storage.layout import Layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    (tmp_path / "work").mkdir()
    return Layout(str(tmp_path / "state"), str(tmp_path / "config"))


def put(file: Path, text: str | bytes = "Do it.\n") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def read(layout: Layout, tmp_path: Path, **more: bool) -> CommandSet:
    return asyncio.run(CommandDirectory(layout, str(tmp_path / "work")).get_commands(**more))


def test_commands_of_the_configuration_win_over_those_of_the_workspace(
    layout: Layout, tmp_path: Path
) -> None:
    put(tmp_path / "config/commands/review.md", "Mine")
    for folder in (".claude/commands", ".opencode/command", ".opencode/commands"):
        put(tmp_path / "work" / folder / "review.md", f"From {folder}")
    put(tmp_path / "work/.claude/commands/db/up.md", "Theirs")
    put(tmp_path / "work/.opencode/command/db/up.md", "Not this one")
    put(tmp_path / "work/.opencode/command/notes.txt", "No command")
    found = read(layout, tmp_path)
    assert [(one.name, one.body, one.source) for one in found.all] == [
        ("db:up", "Theirs", "workspace"),
        ("review", "Mine", "config"),
    ]
    assert not found.problems
    own = read(layout, tmp_path, configured_only=True)
    assert [one.name for one in own.all] == ["review"]


def test_a_link_out_of_the_folder_is_not_followed(layout: Layout, tmp_path: Path) -> None:
    secret = put(tmp_path / "secret/key.md", "s3cret")
    commands = tmp_path / "work/.claude/commands"
    put(commands / "fine.md")
    (commands / "file.md").symlink_to(secret)
    (commands / "folder").symlink_to(secret.parent)
    (tmp_path / "work/.opencode").symlink_to(secret.parent)
    (tmp_path / "config").mkdir()
    (tmp_path / "config/commands").symlink_to(secret.parent)
    found = read(layout, tmp_path)
    assert [one.name for one in found.all] == ["fine"]
    assert sorted((one.where, one.what) for one in found.problems) == [
        (".claude/commands/file.md", "is a symbolic link; put the file itself there"),
        *(
            (path, f"{path} leads out of the workspace through a link.")
            for path in (".opencode/command", ".opencode/commands")
        ),
        (
            str(tmp_path / "config/commands"),
            "is a symbolic link; put the folder itself there",
        ),
    ]


@pytest.mark.parametrize(
    ("name", "text", "line", "what"),
    [
        ("big.md", b"x" * (LARGEST_FILE + 1), 0, f"is larger than {LARGEST_FILE} bytes"),
        ("binary.md", b"\x89PNG\r\n\x1a\n", 1, "byte 0x89 is not UTF-8; save the file as UTF-8"),
        ("a b.md", b"x", 0, "cannot be a command's name"),
        ("empty.md", b"---\ndescription: d\n---\n", 0, "has no text"),
        ("yaml.md", b"---\nmodel: m\ndescription: [a\n  b\n---\nx\n", 5, ""),
        ("map.md", b"---\ndescription:\n  a: b\n---\nx\n", 3, ""),
    ],
)
def test_a_broken_file_is_reported_and_hides_no_other(
    layout: Layout, tmp_path: Path, name: str, text: bytes, line: int, what: str
) -> None:
    put(tmp_path / "config/commands/fine.md")
    file = put(tmp_path / "config/commands" / name, text)
    found = read(layout, tmp_path)
    assert [one.name for one in found.all] == ["fine"]
    (problem, *_) = found.problems
    assert (problem.where, problem.line) == (str(file), line)
    assert what in problem.what
    assert list(commands_store.check(layout)) == list(found.problems)


def test_without_any_folder_there_are_no_commands(layout: Layout, tmp_path: Path) -> None:
    assert read(layout, tmp_path) == CommandSet()

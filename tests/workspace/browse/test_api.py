"""``/api/workspace`` of a serving daemon."""

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from agentd.agent.tools import files
from agentd.workspace.browse.reader import LARGEST_TEXT, WorkspaceReader
from tests.support.daemon import PATIENCE, Client, Serving, build_request, send_raw
from tests.support.fixtures import Serve

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture
def root(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    (work / "src").mkdir(parents=True)
    (work / ".git").mkdir()
    (work / ".git" / "config").write_text("[remote]\n url = https://word@example.org\n")
    (work / "src" / "a b&c.py").write_text("one\nNeedle <b>two</b>\n")
    (work / "z.txt").write_text("zed")
    (work / "dot.png").write_bytes(PNG)
    (work / "data.bin").write_bytes(b"a\0b")
    (work / ".env").write_text("TOKEN=needle-secret\n")
    (work / "out").symlink_to("/etc")
    return work


@pytest.fixture
def daemon(serve: Serve, root: Path) -> Serving:
    return serve(workspace=str(root))


@pytest.fixture
def client(daemon: Serving) -> Client:
    return daemon.client()


def test_a_folder_lists_folders_first_and_neither_git_nor_protected_files(client: Client) -> None:
    listed = client.get("/api/workspace/folder")
    names = [(one["path"], one["kind"]) for one in listed["entries"]]
    assert names[0] == ("src", "folder")
    assert ("z.txt", "file") in names
    assert ("out", "link") in names
    assert not {".git", ".env"} & {path for path, _ in names}
    inner = client.get("/api/workspace/folder?path=src")
    assert inner["entries"] == [{"path": "src/a b&c.py", "kind": "file", "size": 22}]


def test_a_file_is_text_an_image_or_binary(client: Client, daemon: Serving, root: Path) -> None:
    text = client.get("/api/workspace/file?path=src/a%20b%26c.py")
    assert (text["kind"], text["text"]) == ("text", "one\nNeedle <b>two</b>\n")
    assert client.get("/api/workspace/file?path=dot.png")["kind"] == "image"
    assert client.get("/api/workspace/file?path=data.bin")["kind"] == "binary"
    path = "/api/workspace/image?path=dot.png"
    (image,) = send_raw(daemon.port, build_request("GET", path, "Connection: close"))
    assert (image.body, image.headers["Content-Type"]) == (PNG, "image/png")
    assert client.get("/api/workspace/image?path=z.txt").status == 404
    (root / "long.txt").write_bytes(b"x" * 99 + b"\n" + b"line\n" * LARGEST_TEXT)
    long = client.get("/api/workspace/file?path=long.txt")
    assert long["truncated"]
    assert long["text"].endswith("line\n")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("../agentd.yml", 403),
        ("/etc/passwd", 403),
        ("out/passwd", 403),
        (".env", 403),
        (".git/config", 403),
        ("none", 404),
        ("src", 404),
        ("", 404),
    ],
)
def test_what_may_not_be_read_is_refused(client: Client, path: str, status: int) -> None:
    answer = client.get(f"/api/workspace/file?path={path}")
    assert answer.status == status
    assert b"word@" not in answer.body


def test_a_pipe_does_not_hold_a_reader(client: Client, root: Path) -> None:
    os.mkfifo(root / "pipe")
    assert client.get("/api/workspace/file?path=pipe").status == 404


def test_a_search_finds_names_and_lines_and_no_secrets(client: Client) -> None:
    found = client.get("/api/workspace/search?text=needle")
    lines = [(one["path"], one["line"]) for one in found["lines"]]
    assert lines == [("src/a b&c.py", 2)]
    assert client.get("/api/workspace/search?text=b%26c")["files"] == ["src/a b&c.py"]
    assert client.get("/api/workspace/search?text=%20")["lines"] == []
    assert client.get(f"/api/workspace/search?text={'x' * 201}").status == 400
    assert client.get("/api/workspace/search?text=one&path=..").status == 403


def test_many_searches_at_once_leave_threads_to_all_else(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    search = files._search

    def search_later(*given: Any) -> Any:
        go_on.wait()
        return search(*given)

    async def search_and_read() -> None:
        reader = WorkspaceReader(str(root))
        searches = [asyncio.create_task(reader.search("zed", "")) for _ in range(50)]
        try:
            for _ in range(20):  # the first ones come before some of the searches
                await asyncio.wait_for(reader.read_file("z.txt"), PATIENCE)
        finally:
            go_on.set()
        found = await asyncio.gather(*searches)
        assert {(len(one.lines.hits), one.lines.truncated) for one in found} == {(1, False)}

    monkeypatch.setattr(files, "_search", search_later)
    asyncio.run(search_and_read())

"""Files are written whole, where it was said, and nowhere else."""

import asyncio
import os
import threading
import time
from collections.abc import Awaitable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentd.agent.tools import safe_write
from agentd.agent.tools.files import FolderWorkspace
from agentd.agent.tools.model import EditFile, WriteFile
from agentd.agent.tools.results import WrittenFile
from agentd.core.errors import AgentdError, BadRequest, Conflict, Forbidden, NotFound, Unavailable
from agentd.system.folder import Place
from agentd.system.protected_paths import ProtectedPlaces
from tests.support.examples import limit_examples

T = TypeVar("T")


def do(work: Awaitable[T]) -> T:
    async def wait() -> T:
        async with asyncio.timeout(100):
            return await work

    return asyncio.run(wait())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace beside a secret, with links of every kind and folders that stay shut."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("secret")
    work = tmp_path / "work"
    (work / "src").mkdir(parents=True)
    (work / ".git" / "hooks").mkdir(parents=True)
    (work / "state").mkdir()
    (work / "a").write_text("inside\n")
    (work / "in").symlink_to("src")
    (work / "out").symlink_to(tmp_path / "secret")
    (work / "file").symlink_to("../secret/key")
    (work / "gone").symlink_to("src/none")
    (work / "loop").symlink_to("loop")
    os.mkfifo(work / "pipe")
    return work


@pytest.fixture
def workspace(root: Path) -> FolderWorkspace:
    return FolderWorkspace(str(root), protected=ProtectedPlaces(state=str(root / "state")))


def write(workspace: FolderWorkspace, path: str, text: str = "new") -> WrittenFile:
    return do(workspace.write_file(WriteFile(path, text), do(workspace.resolve_place(path))))


def edit(workspace: FolderWorkspace, path: str, old: str, new: str, **more) -> WrittenFile:
    return do(
        workspace.edit_file(EditFile(path, old, new, **more), do(workspace.resolve_place(path)))
    )


def read_everything(folder: Path) -> dict[str, bytes]:
    """Return every file beneath a folder with its content, links not followed."""
    found = {}
    for at, _, names in os.walk(folder):
        for name in names:
            path = Path(at) / name
            if path.is_file() and not path.is_symlink():
                found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def test_a_new_file_is_made_with_its_folders_and_the_persons_mode(root):
    workspace = FolderWorkspace(str(root), umask=0o027)
    before = os.umask(0o077)
    try:
        assert write(workspace, "x/y/z.txt", "a\nb") == WrittenFile(
            "x/y/z.txt",
            2,
            created=True,
            diff="--- /dev/null\n+++ b/x/y/z.txt\n@@ -0,0 +1,2 @@\n+a\n+b",
        )
    finally:
        os.umask(before)
    assert (root / "x/y/z.txt").read_text() == "a\nb"
    assert (root / "x/y/z.txt").stat().st_mode & 0o777 == 0o640
    assert (root / "x/y").stat().st_mode & 0o777 == 0o750


def test_an_old_file_is_replaced_and_keeps_its_mode(workspace, root):
    (root / "a").chmod(0o755)
    inode = (root / "a").stat().st_ino
    assert write(workspace, "a") == WrittenFile(
        "a", 1, diff="--- a/a\n+++ b/a\n@@ -1,1 +1,1 @@\n-inside\n+new"
    )
    assert (root / "a").read_text() == "new"
    assert (root / "a").stat().st_mode & 0o777 == 0o755
    assert (root / "a").stat().st_ino != inode
    assert not [path for path in os.listdir(root) if path.startswith(".agentd-")]


def test_the_lines_of_a_file_are_those_of_its_diff_with_form_feeds_in_them(workspace):
    written = write(workspace, "paged.c", "one\f\ntwo\u2028\n")
    assert (written.lines, "@@ -0,0 +1,2 @@" in written.diff) == (2, True)
    assert edit(workspace, "paged.c", "two", "2").lines == 2


def test_a_file_with_another_name_elsewhere_keeps_its_content_there(workspace, root):
    os.link(root.parent / "secret" / "key", root / "hard")
    write(workspace, "hard")
    assert (root.parent / "secret" / "key").read_text() == "secret"
    assert (root / "hard").read_text() == "new"


def test_an_edit_replaces_exactly_what_was_said(workspace, root):
    (root / "a").write_bytes("één\ntwee\ntwee\n".encode())
    head = "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n"
    assert edit(workspace, "a", "één", "1") == WrittenFile(
        "a", 3, places=1, diff=f"{head}-één\n+1\n twee\n twee"
    )
    assert edit(workspace, "a", "twee", "2", all=True) == WrittenFile(
        "a", 3, places=2, diff=f"{head} 1\n-twee\n-twee\n+2\n+2"
    )
    assert (root / "a").read_text() == "1\n2\n2\n"
    with pytest.raises(BadRequest, match="not in the file"):
        edit(workspace, "a", "drie", "3")
    with pytest.raises(NotFound):
        edit(workspace, "none", "a", "b")


def test_what_is_no_text_is_not_edited(workspace, root, monkeypatch):
    (root / "a").write_bytes(b"\xff\xfe")
    with pytest.raises(BadRequest, match="not UTF-8"):
        edit(workspace, "a", "a", "b")
    monkeypatch.setattr(safe_write, "LARGEST_WRITTEN", 10)
    (root / "a").write_bytes(b"x" * 11)
    with pytest.raises(BadRequest, match="too large to edit"):
        edit(workspace, "a", "x", "b")
    with pytest.raises(BadRequest, match="too much for one file"):
        write(workspace, "b", "é" * 6)
    with pytest.raises(BadRequest, match="half a character"):
        write(workspace, "b", "\ud800")


def test_a_file_that_changed_meanwhile_is_not_overwritten_by_an_edit(workspace, root, monkeypatch):
    real = safe_write.replace_text

    def edit_late(text: str, *arguments, **more):
        (root / "a").write_text("somebody else\n")
        return real(text, *arguments, **more)

    monkeypatch.setattr(safe_write, "replace_text", edit_late)
    with pytest.raises(Conflict, match="changed by somebody else"):
        edit(workspace, "a", "inside", "mine")
    assert (root / "a").read_text() == "somebody else\n"
    assert not [path for path in os.listdir(root) if path.startswith(".agentd-")]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(workspace, root, monkeypatch):
    def fail_when_full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(safe_write.os, "fsync", fail_when_full)
    with pytest.raises(Unavailable, match="cannot be written: No space left"):
        write(workspace, "a")
    assert (root / "a").read_text() == "inside\n"
    assert not [path for path in os.listdir(root) if path.startswith(".agentd-")]


@pytest.mark.parametrize(
    "path", [".git/config", ".git", ".GIT/hooks/x", "src/.git/config", ".git/hooks/pre-commit"]
)
def test_what_belongs_to_git_is_never_written(workspace, root, path):
    before = read_everything(root)
    with pytest.raises(Forbidden, match="belongs to git"):
        write(workspace, path)
    with pytest.raises(Forbidden, match="belongs to git"):
        do(workspace.resolve_place(str(root.parent / "secret" / path)))
    assert read_everything(root) == before


def test_git_is_not_reached_through_a_link_or_a_forged_place(workspace, root):
    (root / "hooks").symlink_to(".git/hooks")
    with pytest.raises(Forbidden, match="belongs to git"):
        write(workspace, "hooks/pre-commit")
    with pytest.raises(Forbidden, match="belongs to git"):
        do(workspace.write_file(WriteFile("x", ""), Place(".git/config")))


def test_what_is_agentds_own_is_never_written(workspace, root):
    for path in ("state/x", "state", str(root / "state" / "x"), "src/../state/x"):
        with pytest.raises((Forbidden, BadRequest)):
            write(workspace, path)
    (root / "in-state").symlink_to("state")
    with pytest.raises(Forbidden, match="state folder"):
        write(workspace, "in-state/x")
    with pytest.raises(Forbidden, match="state folder"):
        do(workspace.write_file(WriteFile("x", ""), Place(str(root / "state" / "x"), outside=True)))
    assert os.listdir(root / "state") == []


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("a", Place("a")),
        ("./src//b", Place("src/b")),
        ("in/b", Place("src/b")),
        ("gone", Place("src/none")),
        ("src/../b", Place("b")),
        ("out/key", Place("{beside}/secret/key", True)),
        ("file", Place("{beside}/secret/key", True)),
        ("../b", Place("{beside}/b", True)),
        ("/srv/x", Place("/srv/x", True)),
    ],
)
def test_a_path_is_placed_where_it_really_leads(workspace, root, path, place):
    wanted = Place(place.path.format(beside=root.parent), place.outside)
    assert do(workspace.resolve_place(path)) == wanted


def test_an_absolute_path_inside_is_inside(workspace, root):
    assert do(workspace.resolve_place(str(root / "src" / "b"))) == Place("src/b")


@pytest.mark.parametrize("path", ["", ".", "..", "/", "src/", "~/x", "a\0b", "x\ud800", "../.."])
def test_what_is_no_path_of_a_file_is_refused(workspace, path):
    with pytest.raises(BadRequest):
        do(workspace.resolve_place(path))


def test_only_regular_files_are_replaced(workspace, root):
    for path in ("pipe", "src"):
        with pytest.raises(BadRequest, match="not a regular file"):
            write(workspace, path)
    with pytest.raises(AgentdError):
        write(workspace, "loop")
    with pytest.raises(AgentdError):
        write(workspace, "a/b")
    with pytest.raises(AgentdError):
        write(workspace, "x" * 300)
    assert (root / "a").read_text() == "inside\n"


def test_a_workspace_that_vanished_is_reported(tmp_path):
    with pytest.raises(Unavailable, match="cannot be opened"):
        write(FolderWorkspace(str(tmp_path / "gone")), "a")


PIECES = ["a", "src", "in", "out", "file", "gone", "loop", "pipe", ".git", "state", ".env", "key"]
PATHS = st.lists(st.sampled_from([*PIECES, "..", ".", "", "~", "new", "secret"]), max_size=6).map(
    "/".join
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=limit_examples(200),
    deadline=None,
)
@given(path=PATHS | st.text())
def test_no_path_is_written_outside_unless_the_place_says_so(root, path):
    workspace = FolderWorkspace(str(root), protected=ProtectedPlaces(state=str(root / "state")))
    with suppress(AgentdError):
        place = do(workspace.resolve_place(path))
        if not (place.outside or place.protected):
            do(workspace.write_file(WriteFile(path, "canary"), place))
    assert read_everything(root.parent / "secret") == {"key": b"secret"}
    assert {path.name for path in root.parent.iterdir()} == {"secret", "work"}
    assert os.listdir(root / "state") == []
    assert os.listdir(root / ".git") == ["hooks"]
    assert not (root / ".env").is_file()


def test_a_swapper_in_the_background_never_wins(root, workspace):
    (root / "here").mkdir()
    over = threading.Event()
    numbers = count()

    def swap() -> None:
        while not over.is_set():
            # The writer may make the folder anew while it is away.
            with suppress(OSError):
                os.rename(root / "here", root / f"kept{next(numbers)}")
                os.symlink(root.parent / "secret", root / "here")
            with suppress(OSError):
                os.unlink(root / "here")
                os.mkdir(root / "here")

    pen = safe_write.SafeWriter(str(root), ProtectedPlaces(), 0o022)
    swapper = threading.Thread(target=swap)
    swapper.start()
    written = tries = 0
    until = time.monotonic() + 60
    try:
        while tries < 1500 or (not written and time.monotonic() < until):
            tries += 1
            with suppress(AgentdError):
                place = pen.resolve_place("here/b")
                if not place.outside:
                    pen.write(WriteFile("here/b", "canary"), place)
                    written += 1
    finally:
        over.set()
        swapper.join()
    assert read_everything(root.parent / "secret") == {"key": b"secret"}
    assert written


def test_descriptors_are_given_back(root, workspace):
    before = len(os.listdir("/proc/self/fd"))
    pen = safe_write.SafeWriter(str(root), ProtectedPlaces(), 0o022)
    for path in ("a", "x/y/z", "pipe", "a/b", "src", "loop", ".git/x", "out/key/no"):
        with suppress(AgentdError):
            pen.write(WriteFile(path, "x"), Place(path))
        with suppress(AgentdError):
            pen.edit(EditFile(path, "x", "y"), Place(path))
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("wanted", [WriteFile("a", "late"), EditFile("a", "inside", "late")])
def test_nothing_is_written_any_more_once_a_stopped_turn_has_ended(
    root, workspace, monkeypatch, wanted
):
    begun, may_write = threading.Event(), threading.Event()
    put = safe_write.SafeWriter._write_whole

    def write_slowly(*arguments, **more):
        begun.set()
        assert may_write.wait(60)
        return put(*arguments, **more)

    monkeypatch.setattr(safe_write.SafeWriter, "_write_whole", write_slowly)

    async def stop_write() -> bytes:
        use = workspace.write_file if isinstance(wanted, WriteFile) else workspace.edit_file
        work = asyncio.ensure_future(use(wanted, Place("a")))
        await asyncio.to_thread(begun.wait, 60)
        work.cancel()
        await asyncio.wait([work], timeout=0.1)
        ended = work.done()
        seen = (root / "a").read_bytes()
        may_write.set()
        await asyncio.wait([work])
        assert work.cancelled()
        return seen if ended else (root / "a").read_bytes()

    expected = b"late" if isinstance(wanted, WriteFile) else b"late\n"
    assert do(stop_write()) == expected

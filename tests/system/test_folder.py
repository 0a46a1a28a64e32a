"""Whatever path is asked for, nothing outside the root is opened."""

import os
import string
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentd.core.errors import AgentdError, BadRequest, Forbidden, NotFound
from agentd.system.folder import MAX_FOLDER_ENTRIES, ConfinedFolder, WorkBudget, make_printable
from agentd.system.protected_paths import ProtectedPlaces
from tests.support.examples import limit_examples

SECRET = "outside"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace beside a secret, with links of every kind."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text(SECRET)
    (tmp_path / "work-beside").mkdir()
    (tmp_path / "work-beside" / "key").write_text(SECRET)
    work = tmp_path / "work"
    (work / "src" / "deep").mkdir(parents=True)
    (work / "a").write_text("inside")
    (work / "src" / "b").write_text("inside")
    (work / "in").symlink_to("src")
    (work / "out").symlink_to(tmp_path / "secret")
    (work / "up").symlink_to("..")
    (work / "file").symlink_to("../secret/key")
    (work / "twice").symlink_to("up")
    (work / "loop").symlink_to("loop")
    (work / "gone").symlink_to("nothing")
    (work / "src" / "deep" / "beside").symlink_to(tmp_path / "work-beside")
    return work


def read_content(tree: ConfinedFolder, path: str) -> str:
    with tree.open_file(tree.resolve(path), path) as descriptor:
        return os.read(descriptor, 100).decode()


THERE = ["a", "b", "key", "src", "deep", "secret", "work", "work-beside", "etc"]
LINKS = ["in", "out", "up", "file", "twice", "loop", "gone", "beside"]
SIGNS = [".", "..", "", "~", "...", "..\\", "%2e%2e"]
PIECES = st.sampled_from(THERE) | st.sampled_from(LINKS) | st.sampled_from(SIGNS)
PATHS = st.one_of(st.lists(PIECES, max_size=8).map("/".join), st.text(string.printable), st.text())


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=limit_examples(400),
)
@given(path=PATHS)
def test_no_path_leaves_the_root(root, path):
    tree = ConfinedFolder(str(root))
    with suppress(AgentdError):
        assert read_content(tree, path) == "inside"
    with suppress(AgentdError):
        steps = tree.resolve(path)
        if tree.is_folder(steps, path):
            inner = list(tree.walk(steps, WorkBudget()))
            assert SECRET not in {found.name for found in inner}
            assert all(".." not in found.path.split("/") for found in inner)
            assert "key" not in {found.name for found in inner}


@pytest.mark.parametrize(
    "path", ["out/key", "up/secret/key", "file", "twice/secret/key", "src/deep/beside/key", "up"]
)
def test_a_link_that_leads_out_is_refused_by_name(root, path):
    with pytest.raises(Forbidden, match="leads out of the workspace"):
        ConfinedFolder(str(root)).resolve(path)


@pytest.mark.parametrize("path", ["..", "../secret/key", "src/../a", "/etc/passwd", "//etc/passwd"])
def test_dots_and_absolute_paths_are_refused(root, path):
    with pytest.raises(Forbidden, match="not inside the workspace"):
        ConfinedFolder(str(root)).resolve(path)


def test_a_link_that_stays_inside_is_followed(root):
    assert read_content(ConfinedFolder(str(root)), "in/b") == "inside"


def test_a_broken_link_and_a_loop_are_reported(root):
    with pytest.raises(NotFound, match=r"no gone"):
        read_content(ConfinedFolder(str(root)), "gone")
    with pytest.raises((Forbidden, NotFound)):
        read_content(ConfinedFolder(str(root)), "loop")


def test_a_folder_swapped_for_a_link_after_the_check_is_not_followed(root):
    tree = ConfinedFolder(str(root))
    steps = tree.resolve("src/b")
    (root / "src").rename(root / "moved")
    (root / "src").symlink_to(root.parent / "secret")
    with pytest.raises(NotFound), tree.open_file(steps, "src/b"):
        pass
    (root.parent / "secret" / "b").write_text(SECRET)
    with pytest.raises((Forbidden, NotFound)), tree.open_file(steps, "src/b"):
        pass


def test_a_file_swapped_for_a_link_at_the_last_moment_is_not_followed(root, monkeypatch):
    def swap(mode: int, path: str) -> None:
        (root / "a").unlink()
        (root / "a").symlink_to(root.parent / "secret" / "key")

    monkeypatch.setattr("agentd.system.folder._require_regular", swap)
    with pytest.raises(Forbidden, match="became a link"):
        read_content(ConfinedFolder(str(root)), "a")


def test_a_swapper_in_the_background_never_wins(root):
    tree = ConfinedFolder(str(root))
    (root.parent / "secret" / "b").write_text(SECRET)
    (root / "here").mkdir()
    (root / "here" / "b").write_text("inside")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            os.rename(root / "here", root / "kept")
            os.symlink(root.parent / "secret", root / "here")
            os.unlink(root / "here")
            os.rename(root / "kept", root / "here")

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen = set()
    try:
        for _ in range(3000):
            try:
                seen.add(read_content(tree, "here/b"))
            except AgentdError as error:
                seen.add(type(error).__name__)
    finally:
        over.set()
        swapper.join()
    assert SECRET not in seen
    assert read_content(tree, "here/b") == "inside"


def test_what_is_no_regular_file_is_not_opened(root):
    os.mkfifo(root / "pipe")
    with pytest.raises(BadRequest, match="not a regular file"):
        read_content(ConfinedFolder(str(root)), "pipe")
    with pytest.raises(BadRequest, match="is a folder"):
        read_content(ConfinedFolder(str(root)), "src")
    with pytest.raises(BadRequest, match="is a folder"):
        read_content(ConfinedFolder(str(root)), ".")


@pytest.mark.parametrize(
    ("what", "refusal"), [("state", "state folder"), ("config", "own configuration")]
)
def test_a_protected_folder_is_neither_opened_nor_walked(root, what, refusal):
    tree = ConfinedFolder(str(root), ProtectedPlaces(**{what: str(root / "src")}))
    for path in ("src", "src/b", "in/b"):
        with pytest.raises(Forbidden, match=refusal):
            tree.resolve(path)
    paths = {found.path for found in tree.walk((), WorkBudget())}
    assert "a" in paths
    assert not any(path.startswith("src") for path in paths)


def test_a_walk_goes_by_name_and_passes_over_generated_folders(root):
    (root / "node_modules" / "x").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("")
    paths = [found.path for found in ConfinedFolder(str(root)).walk((), WorkBudget())]
    assert "node_modules" in paths
    assert "node_modules/x" not in paths
    assert ".git/config" not in paths
    assert paths.index("src") + 1 == paths.index("src/b")
    assert "in/b" not in paths


def test_a_spent_budget_ends_a_walk_and_says_so(root):
    budget = WorkBudget(entries=3)
    assert len(list(ConfinedFolder(str(root)).walk((), budget))) == 3
    assert budget.truncated
    stopped = WorkBudget()
    stopped.stop()
    assert list(ConfinedFolder(str(root)).walk((), stopped)) == []
    assert stopped.truncated
    late = WorkBudget(seconds=-1)
    assert not late.take(entries=1)


def test_an_enormous_folder_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr("agentd.system.folder.MAX_FOLDER_ENTRIES", 5)
    assert MAX_FOLDER_ENTRIES > 5
    for number in range(9):
        (tmp_path / str(number)).touch()
    budget = WorkBudget()
    assert len(list(ConfinedFolder(str(tmp_path)).walk((), budget))) == 5
    assert budget.truncated


def test_descriptors_are_given_back(root):
    tree = ConfinedFolder(str(root))
    before = len(os.listdir("/proc/self/fd"))
    for path in ("a", "src/b", "out/key", "src", "gone", "loop", "src/none"):
        with suppress(AgentdError):
            read_content(tree, path)
        next(tree.walk((), WorkBudget()))
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_name_of_any_bytes_can_be_shown(root):
    (Path(os.fsdecode(os.fsencode(str(root)) + b"/\xff\xfe"))).write_text("")
    names = [
        make_printable(found.path) for found in ConfinedFolder(str(root)).walk((), WorkBudget())
    ]
    assert "\ufffd\ufffd" in names
    "".join(names).encode()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_reported(root):
    (root / "a").chmod(0)
    with pytest.raises(Forbidden, match="may not be read"):
        read_content(ConfinedFolder(str(root)), "a")
    (root / "src").chmod(0)
    paths = [found.path for found in ConfinedFolder(str(root)).walk((), WorkBudget())]
    assert "src" in paths
    assert "src/b" not in paths
    (root / "src").chmod(0o700)

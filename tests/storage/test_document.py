"""A document is the old one or the new one, and an error says which file, why and what to do."""

import errno
import grp
import os
import pwd
import resource
import stat
import tracemalloc
from pathlib import Path

import pytest

from agentd.core.errors import ConfigError, Conflict, Unavailable
from agentd.storage import document


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "thing.json")


def test_what_is_replaced_is_read_back_with_a_private_mode(path):
    document.replace_document(path, b"one")
    document.replace_document(path, b"two")
    found = document.read_document(path, 10)
    assert found is not None
    assert found.data == b"two"
    assert found.stamp == document.get_stamp(path)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert os.listdir(os.path.dirname(path)) == ["thing.json"]


@pytest.mark.parametrize("size", [0, 5, 100_000])
def test_reading_takes_memory_for_the_file_not_for_the_largest_one_allowed(path, size):
    document.replace_document(path, b"x" * size)
    tracemalloc.start()
    try:
        found = document.read_document(path, 16 * 2**30)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found is not None
    assert found.data == b"x" * size
    assert most < 100_000 + 2 * size


def test_a_file_that_grows_while_it_is_read_is_read_to_its_end(path, monkeypatch):
    document.replace_document(path, b"x" * 50_000)
    read = os.read

    def grow(descriptor: int, most: int) -> bytes:
        with open(path, "ab") as file:
            file.write(b"y" * 30_000 if os.stat(path).st_size < 100_000 else b"")
        return read(descriptor, most)

    monkeypatch.setattr(os, "read", grow)
    found = document.read_document(path, 2**30)
    assert found is not None
    assert found.data == b"x" * 50_000 + b"y" * 60_000


def test_a_file_that_does_not_exist_is_none(path):
    assert document.read_document(path, 10) is None
    assert document.get_stamp(path) is None


def test_every_change_moves_the_stamp(path):
    seen = None
    for text in (b"a", b"b", b"c"):
        document.replace_document(path, text)
        assert document.get_stamp(path) != seen
        seen = document.get_stamp(path)


def _write_beyond_limit(path: str) -> None:
    """Let writes fail beyond 4096 bytes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        document.replace_document(path, b"x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("unnamed", [True, False])
def test_when_the_disk_takes_no_more_the_old_document_stays_and_nothing_else(
    path, unnamed, monkeypatch
):
    if not unnamed:
        _forbid_tmpfile(monkeypatch)
    document.replace_document(path, b"old")
    with pytest.raises(Unavailable, match="file size limit"):
        _write_beyond_limit(path)
    assert Path(path).read_bytes() == b"old"
    assert os.listdir(os.path.dirname(path)) == ["thing.json"]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.ENOSPC, "disk full"),
        (errno.EIO, "the disk failed"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, f"user id {os.geteuid()}"),
    ],
)
def test_a_failing_sync_is_reported_with_the_path_and_leaves_the_old_document(
    path, code, words, monkeypatch
):
    document.replace_document(path, b"old")

    def fail(_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(Unavailable, match=words) as caught:
        document.replace_document(path, b"new")
    assert path in caught.value.message
    assert caught.value.details
    assert Path(path).read_bytes() == b"old"
    assert os.listdir(os.path.dirname(path)) == ["thing.json"]


def test_the_bytes_are_synced_before_the_rename_and_the_folder_after_it(path, monkeypatch):
    order = []
    fsync, rename = os.fsync, os.rename

    def note_fsync(descriptor: int) -> None:
        order.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def note_rename(*names: str, **folders: int) -> None:
        order.append("rename")
        rename(*names, **folders)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "rename", note_rename)
    document.replace_document(path, b"new")
    assert order == ["file", "rename", "folder"]


def _forbid_tmpfile(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def open_without_tmpfile(
        name: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "not here")
        return real(name, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", open_without_tmpfile)


def test_a_file_system_without_unnamed_files_is_written_by_name(path, monkeypatch):
    _forbid_tmpfile(monkeypatch)
    document.replace_document(path, b"one")
    document.replace_document(path, b"two")
    assert Path(path).read_bytes() == b"two"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert os.listdir(os.path.dirname(path)) == ["thing.json"]


def test_a_foreign_edit_in_between_is_a_conflict_and_stays(path):
    document.replace_document(path, b"ours")
    seen = document.get_stamp(path)
    Path(path).write_bytes(b"theirs")
    with pytest.raises(Conflict, match="changed by somebody else"):
        document.replace_document(path, b"newer", expected=seen)
    assert Path(path).read_bytes() == b"theirs"
    assert os.listdir(os.path.dirname(path)) == ["thing.json"]


def test_a_file_that_appeared_where_none_was_expected_is_a_conflict(path):
    document.replace_document(path, b"ours", expected=None)
    with pytest.raises(Conflict):
        document.replace_document(path, b"again", expected=None)


def test_create_never_overwrites(path):
    document.create_document(path, b"one")
    with pytest.raises(Conflict, match="exists already"):
        document.create_document(path, b"two")
    assert Path(path).read_bytes() == b"one"
    assert os.listdir(os.path.dirname(path)) == ["thing.json"]


def test_a_symbolic_link_is_not_followed(path, tmp_path):
    (tmp_path / "victim").write_text("private")
    os.symlink(tmp_path / "victim", path)
    with pytest.raises(ConfigError, match="symbolic link"):
        document.read_document(path, 100)


def test_neither_a_pipe_nor_a_folder_nor_a_device_is_read(path, tmp_path):
    os.mkfifo(path)
    for odd in (path, str(tmp_path), "/dev/zero"):
        with pytest.raises(ConfigError, match="not a regular file"):
            document.read_document(odd, 100)


def test_a_file_beyond_the_limit_is_refused(path):
    document.replace_document(path, b"12345")
    assert document.read_document(path, 5) is not None
    with pytest.raises(ConfigError, match="larger than 4 bytes"):
        document.read_document(path, 4)


@pytest.mark.parametrize("mode", [0o602, 0o622, 0o666])
def test_a_guarded_file_that_others_may_write_is_refused(path, mode):
    document.replace_document(path, b"key")
    os.chmod(path, mode)
    assert document.read_document(path, 10) is not None
    with pytest.raises(ConfigError, match="chmod go-w"):
        document.read_document(path, 10, own=True)


@pytest.mark.parametrize(
    ("name", "members", "is_primary", "is_own"),
    [
        ("ann", [], True, True),
        ("ann", ["ann"], True, True),
        ("ann", ["ann", "bob"], True, False),
        ("staff", [], True, False),
        ("ann", [], False, False),
        (None, [], True, False),
    ],
)
def test_the_group_may_write_a_guarded_file_only_where_it_is_the_user_alone(
    path, monkeypatch, name, members, is_primary, is_own
):
    """Systems that give everybody a group of their own let it write to whatever they make."""

    def find_group(gid):
        if name is None:
            raise KeyError(gid)
        return grp.struct_group((name, "x", gid, members))

    document.replace_document(path, b"key")
    os.chmod(path, 0o660)
    primary = os.stat(path).st_gid + (0 if is_primary else 1)
    person = pwd.struct_passwd(("ann", "x", os.geteuid(), primary, "", "/", "/bin/sh"))
    monkeypatch.setattr(grp, "getgrgid", find_group)
    monkeypatch.setattr(pwd, "getpwuid", lambda _: person)
    assert document.can_others_write(os.stat(path)) is not is_own
    if is_own:
        assert document.read_document(path, 10, own=True) is not None
    else:
        with pytest.raises(ConfigError, match="chmod go-w"):
            document.read_document(path, 10, own=True)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_private_file_that_others_may_read_is_refused(path, mode):
    document.replace_document(path, b"key")
    assert document.read_document(path, 10, private=True) is not None
    os.chmod(path, mode)
    with pytest.raises(ConfigError, match=f"chmod 600 {path}"):
        document.read_document(path, 10, private=True)


def test_a_guarded_file_may_be_readable_by_all(path):
    document.replace_document(path, b"key")
    os.chmod(path, 0o644)
    assert document.read_document(path, 10, own=True) is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_guarded_file_of_another_user_is_refused_with_the_remedy(path):
    document.replace_document(path, b"key")
    os.chown(path, 12345, -1)
    with pytest.raises(ConfigError, match=f"chown 0 {path}"):
        document.read_document(path, 10, own=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has files of root here")
def test_a_guarded_file_of_root_is_taken(path, monkeypatch):
    document.replace_document(path, b"key")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert document.read_document(path, 10, own=True) is not None


def test_a_guarded_file_with_a_second_name_is_refused(path, tmp_path):
    document.replace_document(path, b"key")
    os.link(path, tmp_path / "other")
    with pytest.raises(ConfigError, match="hard link"):
        document.read_document(path, 10, own=True)


def test_a_missing_folder_is_reported(tmp_path):
    with pytest.raises(Unavailable, match="no such file or folder"):
        document.replace_document(str(tmp_path / "none" / "thing"), b"")


def test_folders_are_made_private_all_the_way(tmp_path):
    document.make_folder(str(tmp_path / "a" / "b"))
    document.make_folder(str(tmp_path / "a" / "b"))
    for folder in (tmp_path / "a", tmp_path / "a" / "b"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_sweeping_removes_only_what_was_half_written(path, tmp_path):
    document.replace_document(path, b"whole")
    (tmp_path / ".tmp-thing.json-dead-1").write_bytes(b"ha")
    document.remove_temporaries(str(tmp_path))
    assert os.listdir(tmp_path) == ["thing.json"]


@pytest.mark.parametrize("verb", ["read", "sweep", "remove"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_nobody_is_reported_to_free_space_where_nothing_was_to_be_written(verb, code):
    result = document.explain_os_error("/x", verb, OSError(code, ""))
    assert result.message == f"cannot {verb} /x: {os.strerror(code)}"
    assert "kernel's log" in result.details
    assert "kernel's log" not in document.explain_os_error("/x", "write", OSError(code, "")).details


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path):
    (tmp_path / "a").write_text("")
    for path in ("a", "a/b"):
        with pytest.raises(ConfigError, match=r"/a: is not a folder; move it away"):
            document.make_folder(str(tmp_path / path))

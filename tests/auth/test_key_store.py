"""The named keys on the disk: what is written, what is refused, and what never comes back."""

import errno
import json
import os
import stat
import threading
import time
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.auth import key_store as disk_keys
from agentd.auth.key import KeyRing, NamedKey, issue_key
from agentd.auth.key_store import KeyFile
from agentd.core.errors import (
    AgentdError,
    ConfigError,
    ConfigProblem,
    Conflict,
    Forbidden,
    NotFound,
    Unauthorized,
    Unavailable,
)
from agentd.gateway.keys import model as keys_model
from agentd.gateway.keys.file import AccessKeyFile
from agentd.storage import lock
from agentd.storage.layout import Layout
from tests.support.examples import limit_examples

AT = "2026-01-01T00:00:00.000Z"
LAPTOP_KEY, LAPTOP = issue_key("laptop", AT)
PHONE_KEY, PHONE = issue_key("phone", AT)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path / "state"), str(tmp_path / "config"))


@pytest.fixture
def file(layout: Layout) -> KeyFile:
    return KeyFile(layout, AccessKeyFile(layout))


def read_text(layout: Layout) -> str:
    return Path(layout.keys).read_text()


def list_good_names(file: KeyFile) -> list[str]:
    kept = file.read()
    assert not kept.problem
    return [key.name for key in kept.named if key.sha256 not in kept.revoked]


def test_without_a_file_there_are_no_keys(file):
    kept = file.read()
    assert (kept.named, kept.problem, kept.is_torn) == ((), "", False)
    assert file.get_stamp() is None


def test_what_is_added_is_read_back(file, layout):
    file.add(LAPTOP)
    file.add(PHONE)
    assert file.read().named == (LAPTOP, PHONE)
    assert LAPTOP_KEY not in read_text(layout)
    assert read_text(layout).startswith("# Named API keys")
    assert stat.S_IMODE(os.stat(layout.keys).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(layout.state).st_mode) == 0o700


def make_by(name: str, maker: str, *, answers: bool = True) -> NamedKey:
    return issue_key(name, AT, maker, answers=answers)[1]


def test_a_key_that_is_not_valid_makes_no_other_key(file, layout):
    """Of two processes, one may revoke the key while the other waits to make one with it."""
    file.add(LAPTOP)
    file.add(PHONE)
    older = read_text(layout)
    file.revoke("laptop", AT, with_children=True)
    makes = (
        lambda: file.add(make_by("child", "key:laptop")),
        lambda: file.renew(make_by("phone", "key:laptop")),
    )
    for make in makes:
        with pytest.raises(Unauthorized):
            make()
    assert file.read().named == (PHONE,)
    Path(layout.keys).write_text(older)  # it is back in the file, but revoked all the same
    for make in (*makes, lambda: file.renew(make_by("laptop", "key:laptop"))):
        with pytest.raises(Unauthorized):
            make()
    assert read_text(layout) == older


def test_a_key_that_may_not_answer_any_more_makes_none_that_may(file):
    file.add(make_by("ci", "cli", answers=False))
    file.add(PHONE)
    with pytest.raises(Forbidden):
        file.add(make_by("child", "key:ci"))
    with pytest.raises(Forbidden):
        file.renew(make_by("phone", "key:ci"))
    file.add(make_by("child", "key:ci", answers=False))
    file.renew(make_by("ci", "key:ci"))
    assert [(one.name, one.answers) for one in file.read().named] == [
        ("ci", False),
        ("phone", True),
        ("child", False),
    ]


@pytest.mark.parametrize("maker", ["", "cli", "user:ann", "key:environment"])
def test_makers_that_are_in_no_file_of_keys_make_keys(file, maker):
    file.add(make_by("made", maker))
    file.renew(make_by("made", maker))
    assert list_good_names(file) == ["made"]


def test_a_key_without_the_scope_answers_stays_so_when_it_is_regenerated(file, layout):
    file.add(issue_key("laptop", AT)[1])
    file.add(issue_key("ci", AT, answers=False)[1])
    assert Path(layout.keys).read_text().count("answers: false") == 1
    assert "answers: true" not in Path(layout.keys).read_text()
    file.renew(issue_key("ci", AT)[1])
    file.renew(issue_key("laptop", AT)[1])
    assert [(one.name, one.answers) for one in file.read().named] == [
        ("laptop", True),
        ("ci", False),
    ]


def test_a_regenerated_key_is_made_by_who_regenerates_it_unless_that_is_itself(file, layout):
    file.add(PHONE)
    file.add(make_by("laptop", "user:ann"))
    for maker, known in {
        "key:laptop": "user:ann",
        "": "user:ann",
        "key:phone": "key:phone",
    }.items():
        file.renew(make_by("laptop", maker))
        assert file.read().named[1].created_by == known
    file.renew(make_by("phone", ""))
    assert read_text(layout).count("created_by") == 1
    assert file.revoke("phone", AT, with_children=True).revoked == ("phone", "laptop")


def test_a_name_is_taken_once(file):
    file.add(LAPTOP)
    with pytest.raises(Conflict, match="regenerate laptop"):
        file.add(issue_key("laptop", AT)[1])


def test_comments_of_a_person_survive_every_change(file, layout):
    file.add(LAPTOP)
    hand_made = (
        read_text(layout).replace("  - name", "  # Ann's, ask her\n  - name") + "# the end\n"
    )
    assert "Ann" in hand_made
    Path(layout.keys).write_text(hand_made)
    file.add(PHONE)
    file.revoke("phone", AT)
    file.renew(issue_key("laptop", AT)[1])
    assert "# Ann's, ask her" in read_text(layout)
    assert "# the end" in read_text(layout)
    assert list_good_names(file) == ["laptop"]


def test_revoking_one_leaves_the_other(file):
    file.add(LAPTOP)
    file.add(PHONE)
    file.revoke("laptop", AT)
    assert file.read().named == (PHONE,)
    with pytest.raises(NotFound, match='no key named "laptop"'):
        file.revoke("laptop", AT)


class UnreachableAccessKeys:
    """The gateway's access keys, whose file cannot be used."""

    def __init__(self, error: AgentdError) -> None:
        self._error = error

    def find_by_maker(self) -> Mapping[str, Sequence[Any]]:
        raise self._error

    def remove_made_by(self, makers: Set[str]) -> Sequence[Any]:
        raise self._error


@pytest.mark.parametrize("with_children", [True, False])
@pytest.mark.parametrize(
    ("error", "kind", "details"),
    [
        (ConfigError([ConfigProblem("access-keys.yml", 3, "is wrong")]), Conflict, "is wrong"),
        (Unavailable("The disk fails", "Free space."), Unavailable, "Free space."),
    ],
)
def test_a_key_is_revoked_though_its_access_keys_cannot_be_reached(
    file, layout, error, kind, details, with_children
):
    file.add(LAPTOP)
    file.add(PHONE)
    with pytest.raises(kind, match="laptop: revoked, but access keys") as caught:
        KeyFile(layout, UnreachableAccessKeys(error)).revoke(
            "laptop", AT, with_children=with_children
        )
    assert details in caught.value.details
    assert list_good_names(file) == ["phone"]
    assert file.read().named == (LAPTOP, PHONE)  # who made what is still known
    assert file.revoke("laptop", AT, with_children=with_children).revoked == ("laptop",)
    assert file.read().named == (PHONE,)


def test_an_unknown_name_is_reported_with_its_neighbour(file):
    file.add(LAPTOP)
    for change in (
        lambda: file.revoke("latop", AT),
        lambda: file.renew(issue_key("latop", AT)[1]),
        lambda: file.reinstate("latop"),
    ):
        with pytest.raises(NotFound, match='did you mean "laptop"'):
            change()


def test_regenerating_revokes_the_key_before(file, layout):
    file.add(LAPTOP)
    key, kept = issue_key("laptop", AT)
    older = read_text(layout)
    file.renew(kept)
    assert KeyRing("", file.read().named).match(key) == "laptop"
    assert KeyRing("", file.read().named).match(LAPTOP_KEY) is None
    file.complete_renewal("laptop", kept.sha256, AT)
    Path(layout.keys).write_text(older)
    assert list_good_names(file) == []


def test_a_revoked_key_does_not_come_back_with_an_older_file_until_it_is_reinstated(file, layout):
    file.add(LAPTOP)
    file.add(PHONE)
    older = read_text(layout)
    file.revoke("laptop", AT)
    with pytest.raises(NotFound):
        file.reinstate("laptop")
    Path(layout.keys).write_text(older)
    assert list_good_names(file) == ["phone"]
    file.reinstate("laptop")
    assert list_good_names(file) == ["laptop", "phone"]
    with pytest.raises(NotFound, match="is not revoked"):
        file.reinstate("laptop")


def test_deleting_by_hand_is_no_tombstone(file, layout):
    file.add(LAPTOP)
    saved = read_text(layout)
    os.unlink(layout.keys)
    assert list_good_names(file) == []
    Path(layout.keys).write_text(saved)
    assert list_good_names(file) == ["laptop"]


def test_damaged_tombstones_let_nobody_in(file, layout):
    file.add(LAPTOP)
    file.revoke("laptop", AT)
    file.add(PHONE)
    for damage in (b"", b"{", b'{"format":2}', b'{"revoked":[{}]}', b"\xff"):
        Path(layout.revoked).write_bytes(damage)
        assert "revoked.json" in file.read().problem


def _chmod(path: str) -> None:
    Path(path).chmod(0o602)


def _link(path: str) -> None:
    os.rename(path, path + ".real")
    os.symlink(path + ".real", path)


def _put_pipe(path: str) -> None:
    os.unlink(path)
    os.mkfifo(path)


def _put_second_name(path: str) -> None:
    os.link(path, path + ".other")


def _put_folder(path: str) -> None:
    os.unlink(path)
    os.mkdir(path)


def _put_foreign_file(path: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(path, 12345, -1)


@pytest.mark.parametrize(
    "spoil", [_chmod, _link, _put_pipe, _put_second_name, _put_folder, _put_foreign_file]
)
@pytest.mark.parametrize("which", ["keys", "revoked"])
def test_a_file_that_others_could_change_lets_nobody_in_and_says_why(file, layout, spoil, which):
    file.add(LAPTOP)
    file.add(PHONE)
    file.revoke("phone", AT)
    spoil(getattr(layout, which))
    kept = file.read()
    assert kept.named == ()
    assert getattr(layout, which) in kept.problem
    assert not kept.is_torn
    with pytest.raises(ConfigError):
        file.revoke("laptop", AT)


@pytest.mark.parametrize(
    ("wrong", "result"),
    [
        ("keys: [", "not YAML"),
        ("format: 2\n", "expected 1"),
        ("keys:\n- name: a\n", '"salt" is missing'),
        ("kesy: []\n", 'did you mean "keys"'),
        ("keys: &x []\n", "anchor"),
    ],
)
def test_mistakes_are_reported_and_let_nobody_in(file, layout, wrong, result):
    file.add(LAPTOP)
    Path(layout.keys).write_text(wrong)
    kept = file.read()
    assert (kept.named, kept.is_torn) == ((), True)
    assert result in kept.problem
    with pytest.raises(ConfigError):
        file.add(PHONE)
    assert read_text(layout) == wrong


def test_two_keys_of_one_name_are_a_mistake(file, layout):
    file.add(LAPTOP)
    file.add(PHONE)
    Path(layout.keys).write_text(read_text(layout).replace("phone", "laptop"))
    assert "two keys have the name laptop" in file.read().problem
    line = read_text(layout).splitlines().index("  - name: 'laptop'", 5) + 1
    assert f"keys.yml:{line}: " in file.read().problem


@pytest.mark.parametrize("content", ["", " \n\n"])
def test_an_empty_file_may_be_half_saved(file, layout, content):
    file.add(LAPTOP)
    Path(layout.keys).write_text(content)
    assert file.read().is_torn
    file.add(PHONE)
    assert file.read().named == (PHONE,)


def test_a_file_that_is_just_being_saved_is_never_taken_for_one_emptied_long_ago(
    file, layout, monkeypatch
):
    # On a busy machine a thread may rest for longer between truncating a file and dating it.
    monkeypatch.setattr(disk_keys, "MTIME_SETTLE_SECONDS", 0.2)
    file.add(LAPTOP)
    whole = read_text(layout)
    read = [file.read()]
    began = time.time()

    def save() -> None:
        for _ in range(40):
            os.utime(layout.keys, (0, 0))
            Path(layout.keys).write_text(whole)
            count = len(read)
            while len(read) < count + 2:  # one that began after it was saved
                time.sleep(0.001)

    saving = threading.Thread(target=save)
    saving.start()
    while saving.is_alive():
        read.append(file.read())
    saving.join()
    # The time of a file is that of a clock tick: it may be a little before ours.
    assert all(kept.modified_at > began - 1 for kept in read if kept.is_torn)


def test_a_file_of_comments_alone_is_no_keys(file, layout):
    os.mkdir(layout.state)
    Path(layout.keys).write_text("# mine\n")
    kept = file.read()
    assert (kept.named, kept.problem, kept.is_torn) == ((), "", False)
    file.add(LAPTOP)
    assert read_text(layout).startswith("# mine\n")


def test_an_edit_between_reading_and_writing_is_a_conflict_and_stays(file, layout, monkeypatch):
    file.add(LAPTOP)
    real = disk_keys.yaml_editor.edit_content

    def save_meanwhile(where: str, data: bytes, change: Any) -> bytes:
        Path(layout.keys).write_text("# theirs\n")
        return real(where, data, change)

    monkeypatch.setattr(disk_keys.yaml_editor, "edit_content", save_meanwhile)
    with pytest.raises(Conflict):
        file.add(PHONE)
    assert read_text(layout) == "# theirs\n"


def test_two_who_change_the_keys_wait_for_each_other(file, layout, monkeypatch):
    monkeypatch.setattr(lock, "WAIT_SECONDS", 0.05)
    os.mkdir(layout.state)
    with FileLock(layout.keys_lock), pytest.raises(Unavailable, match="somebody else"):
        file.add(LAPTOP)
    file.add(LAPTOP)


def test_that_another_process_ends_a_renewal_is_seen_before_the_next_request(file, layout):
    file.add(LAPTOP)
    other, renewed = KeyFile(layout), issue_key("laptop", AT)[1]
    other.renew(renewed)
    assert [one.sha256 for one in file.read().renewals] == [LAPTOP.sha256]
    before = file.get_stamp()
    other.complete_renewal("laptop", renewed.sha256, AT)
    assert file.get_stamp() != before
    kept = file.read()
    assert (kept.named, kept.renewals, kept.revoked) == ((renewed,), (), {LAPTOP.sha256})


def test_a_lock_that_is_a_link_does_not_touch_its_target(file, layout, tmp_path):
    os.mkdir(layout.state)
    (tmp_path / "victim").write_text("precious")
    os.symlink(tmp_path / "victim", layout.keys_lock)
    with pytest.raises((ConfigError, Unavailable)):
        file.add(LAPTOP)
    assert (tmp_path / "victim").read_text() == "precious"


def test_last_uses_are_remembered_and_a_damaged_memory_is_none(file, layout):
    file.add(LAPTOP)
    assert file.load_last_used() == {}
    file.save_last_used({LAPTOP.sha256: AT})
    assert file.load_last_used() == {LAPTOP.sha256: AT}
    assert AT not in read_text(layout).replace(LAPTOP.created, "")
    Path(layout.last_used).write_bytes(b"{")
    assert file.load_last_used() == {}


def _mutate(data: st.DataObject, content: bytes) -> bytes:
    """Damage a saved file in one of many ways."""
    at = data.draw(st.integers(0, len(content)))
    to = data.draw(st.integers(at, min(len(content), at + 80)))
    piece = data.draw(
        st.sampled_from([b"", b"\t", b"\xef\xbb\xbf", b"\r\n", b"\0", b"\xe9", b"[" * 5000, b"<<: ",
                         b"&a ", b"*a", b"- ", b": ", b"#", b"'", b"\n", b"0", b"f", b"keys:\n"])
        | st.binary(max_size=4)
    )  # fmt: skip
    return content[:at] + piece + content[to:]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Layout, list[str], list[bytes]]:
    """Three good keys, before them one that was revoked, and the file before and after that."""
    layout = Layout(str(tmp_path_factory.mktemp("saved")), "")
    file = KeyFile(layout, AccessKeyFile(layout))
    issued = [issue_key(f"k{number}", AT) for number in range(4)]
    for _, kept in issued:
        file.add(kept)
    before = Path(layout.keys).read_bytes()
    file.revoke("k0", AT)
    return layout, [key for key, _ in issued], [before, Path(layout.keys).read_bytes()]


@settings(max_examples=limit_examples(200))
@given(st.data())
def test_no_mutation_of_the_file_lets_anybody_else_in(saved, data):
    layout, (revoked, *others), versions = saved
    mutated = _mutate(data, data.draw(st.sampled_from(versions)))
    Path(layout.keys).write_bytes(mutated)
    kept = KeyFile(layout, AccessKeyFile(layout)).read()
    ring = KeyRing("", [key for key in kept.named if key.sha256 not in kept.revoked])
    assert ring.match(revoked) is None
    for entry in kept.named:
        assert ring.match(entry.sha256) is None
        assert ring.match(entry.salt) is None
    if mutated in versions:
        assert all(ring.match(key) for key in others)
    if kept.problem:
        assert not ring.is_configured


@given(st.binary(max_size=60))
def test_any_bytes_as_tombstones_are_trouble_or_read(saved, content):
    layout, _, (_, after) = saved
    Path(layout.keys).write_bytes(after)
    tombstones = Path(layout.revoked).read_bytes()
    Path(layout.revoked).write_bytes(content)
    try:
        kept = KeyFile(layout, AccessKeyFile(layout)).read()
        assert bool(kept.problem) != bool(kept.named)
    finally:
        Path(layout.revoked).write_bytes(tombstones)


# Renewing a key while the disk fails, or the process dies.


def check_keys(layout: Layout, *keys: str) -> list[bool]:
    """Return for each key whether a process that starts now accepts it."""
    kept = KeyFile(layout, AccessKeyFile(layout)).read()
    assert not kept.problem
    good = [key for key in kept.named if key.sha256 not in kept.revoked]
    ring = KeyRing("", good, renewals=kept.renewals)
    return [ring.match(key) is not None for key in keys]


class SimulatedKill(BaseException):
    """A stand-in for ``kill -9``: from some call on, nothing reaches the disk any more."""


CALLS = ("open", "write", "fsync", "rename", "link", "unlink")


def fail_at(patch: pytest.MonkeyPatch, at: int, kind: str) -> list[str]:
    """Let the ``at``-th call that touches the disk fail; return the calls that were made."""
    made: list[str] = []

    def wrap_call(name: str, real: Any) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            made.append(name)
            if len(made) == at or (len(made) > at and kind in ("dies", "EIO for good")):
                if kind == "dies":
                    raise SimulatedKill
                code = getattr(errno, kind.partition(" ")[0])
                raise OSError(code, os.strerror(code))
            return real(*args, **named)

        return call

    for name in CALLS:
        patch.setattr(os, name, wrap_call(name, getattr(os, name)))
    return made


@pytest.mark.parametrize("kind", ["EIO", "ENOSPC", "EIO for good", "dies"])
@pytest.mark.parametrize("again", [False, True], ids=["once", "after one that was not answered"])
def test_a_renewal_that_is_not_answered_leaves_the_key_before_good(tmp_path, kind, again):
    """Whichever call fails, and wherever the process dies: else nobody has a good key."""
    at = 0
    while True:
        at += 1
        layout = Layout(str(tmp_path / f"state{at}"), str(tmp_path / "config"))
        KeyFile(layout, AccessKeyFile(layout)).add(LAPTOP)
        KeyFile(layout, AccessKeyFile(layout)).add(PHONE)
        if again:
            KeyFile(layout, AccessKeyFile(layout)).renew(issue_key("laptop", AT)[1])
        key, kept = issue_key("laptop", AT)
        refused = True
        with pytest.MonkeyPatch.context() as patch:
            made = fail_at(patch, at, kind)
            with suppress(Unavailable, ConfigError, SimulatedKill):
                KeyFile(layout, AccessKeyFile(layout)).renew(kept)
                refused = False
        before, new, other = check_keys(layout, LAPTOP_KEY, key, PHONE_KEY)
        assert before, (at, made)
        assert other
        assert new or refused
        if len(made) < at:
            break
    assert at > 7


@pytest.mark.parametrize("kind", ["EIO", "ENOSPC", "EIO for good", "dies"])
def test_a_new_key_that_was_reported_is_valid_whatever_happens_while_the_one_before_ends(
    tmp_path, kind
):
    at = 0
    while True:
        at += 1
        layout = Layout(str(tmp_path / f"state{at}"), str(tmp_path / "config"))
        file = KeyFile(layout, AccessKeyFile(layout))
        file.add(LAPTOP)
        older = read_text(layout)
        key, kept = issue_key("laptop", AT)
        file.renew(kept)
        assert file.read().renewals == ()
        settled = False
        with pytest.MonkeyPatch.context() as patch:
            made = fail_at(patch, at, kind)
            with suppress(Unavailable, ConfigError, SimulatedKill):
                file.complete_renewal("laptop", kept.sha256, AT)
                settled = True
        assert check_keys(layout, key) == [True]
        assert not (settled and check_keys(layout, LAPTOP_KEY)[0])
        KeyFile(layout, AccessKeyFile(layout)).complete_renewal("laptop", kept.sha256, AT)
        assert check_keys(layout, key, LAPTOP_KEY) == [True, False]
        Path(layout.keys).write_text(older)
        assert check_keys(layout, LAPTOP_KEY) == [False], (at, made)
        if len(made) < at:
            break
    assert at > 7


def test_revoking_a_key_takes_those_before_it_away_too(file, layout):
    file.add(LAPTOP)
    key, kept = issue_key("laptop", AT)
    file.renew(kept)
    assert check_keys(layout, LAPTOP_KEY, key) == [True, True]
    older = read_text(layout)
    KeyFile(layout, AccessKeyFile(layout)).revoke("laptop", AT)
    assert check_keys(layout, LAPTOP_KEY, key) == [False, False]
    Path(layout.keys).write_text(older)
    assert check_keys(layout, LAPTOP_KEY, key) == [False, False]


@settings(max_examples=limit_examples(30))
@given(st.lists(st.sampled_from(["regenerate", "deliver", "restart"]), max_size=6))
def test_no_older_file_brings_a_key_back_that_a_revoked_name_ever_had(tmp_path_factory, steps):
    """Also one whose delivery was never confirmed: somebody may have it all the same."""
    layout = Layout(str(tmp_path_factory.mktemp("revoked")), "")
    file, keys, older, digest = KeyFile(layout), [LAPTOP_KEY], [], ""
    file.add(LAPTOP)
    for step in steps:
        older.append(read_text(layout))
        if step == "restart":
            file = KeyFile(layout)
        elif step == "deliver":
            file.complete_renewal("laptop", digest, AT)
        else:
            key, kept = issue_key("laptop", AT)
            file.renew(kept)
            keys.append(key)
            digest = kept.sha256
    older.append(read_text(layout))
    file.revoke("laptop", AT)
    for content in older:
        Path(layout.keys).write_text(content)
        assert not any(check_keys(layout, *keys))


@pytest.mark.parametrize("kind", ["dies", "EIO"])
def test_revoking_with_all_that_a_key_made_is_finished_by_the_same_call(tmp_path, kind):
    """Wherever it is cut off: the key itself is the last to go, and makes no more before."""
    for at in range(1, 100):
        layout = Layout(str(tmp_path / f"{at}"), str(tmp_path / "config"))
        file, gateway = KeyFile(layout, AccessKeyFile(layout)), AccessKeyFile(layout)
        file.add(LAPTOP)
        file.add(issue_key("child", AT, "key:laptop")[1])
        for name, by in (("a", "key:laptop"), ("b", "key:child"), ("c", "key:child")):
            gateway.add(keys_model.issue(name, AT, by)[1])
        gateway.add(keys_model.issue("mine", AT, "user:ann")[1])
        with pytest.MonkeyPatch.context() as patch:
            done = fail_at(patch, at, kind)
            with suppress(SimulatedKill, Unavailable):
                file.revoke("laptop", AT, with_children=True)
        again = KeyFile(layout, AccessKeyFile(layout))
        if len(gateway.read().keys) < 4:
            assert list_good_names(again) == []
        if again.read().named:
            again.revoke("laptop", AT, with_children=True)
        assert (again.read().named, [key.name for key in gateway.read().keys]) == ((), ["mine"])
        if len(done) < at:  # nothing was cut off any more
            break
    assert at > 10


def test_a_damaged_memory_of_renewals_admits_nobody_and_is_reported(file, layout):
    file.add(LAPTOP)
    key, kept = issue_key("laptop", AT)
    file.renew(kept)
    Path(layout.renewals).write_text("{")
    assert check_keys(layout, LAPTOP_KEY, key) == [False, True]
    with pytest.raises(ConfigError, match=r"renewals\.json"):
        file.check()


def test_a_key_that_was_ended_is_never_taken_for_the_last_that_arrived(tmp_path):
    """Also when the process dies in between: an unanswered renewal keeps the one in use."""
    at, ended = 0, 0
    while True:
        at += 1
        layout = Layout(str(tmp_path / f"state{at}"), str(tmp_path / "config"))
        file = KeyFile(layout, AccessKeyFile(layout))
        file.add(LAPTOP)
        key, kept = issue_key("laptop", AT)
        file.renew(kept)
        with pytest.MonkeyPatch.context() as patch:
            made = fail_at(patch, at, "dies")
            with suppress(Unavailable, ConfigError, SimulatedKill):
                file.complete_renewal("laptop", kept.sha256, AT)
        if check_keys(layout, LAPTOP_KEY, key) == [False, True]:
            ended += 1
            newer, unanswered = issue_key("laptop", AT)
            KeyFile(layout, AccessKeyFile(layout)).renew(unanswered)
            assert check_keys(layout, LAPTOP_KEY, key, newer) == [False, True, True], (at, made)
        if len(made) < at:
            break
    assert ended > 1


def list_renewed(layout: Layout) -> list[str]:
    """Return the names of the renewals that are remembered."""
    kept = json.loads(Path(layout.renewals).read_bytes())
    return [one["name"] for one in kept["renewals"]]


def test_ending_a_key_leaves_those_of_other_names(file, layout):
    file.add(LAPTOP)
    file.add(PHONE)
    file.renew(issue_key("phone", AT)[1])
    key, kept = issue_key("laptop", AT)
    file.renew(kept)
    file.complete_renewal("laptop", kept.sha256, AT)
    assert check_keys(layout, PHONE_KEY, LAPTOP_KEY, key) == [True, False, True]
    assert [one["name"] for one in json.loads(Path(layout.renewals).read_bytes())["renewals"]] == [
        "phone"
    ]


def test_a_renewal_that_ends_twice_ends_no_later_one(file, layout):
    file.add(LAPTOP)
    second, kept = issue_key("laptop", AT)
    file.renew(kept)
    file.complete_renewal("laptop", kept.sha256, AT)
    third, later = issue_key("laptop", AT)
    file.renew(later)
    file.complete_renewal("laptop", kept.sha256, AT)
    assert check_keys(layout, LAPTOP_KEY, second, third) == [False, True, True]


def test_renewals_of_keys_that_are_gone_are_not_kept_for_ever(file, layout):
    file.add(LAPTOP)
    for number in range(3):
        file.add(issue_key(f"key-{number}", AT)[1])
        file.renew(issue_key(f"key-{number}", AT)[1])
        file.revoke(f"key-{number}", AT)
    file.renew(issue_key("laptop", AT)[1])
    assert [one["name"] for one in json.loads(Path(layout.renewals).read_bytes())["renewals"]] == [
        "laptop"
    ]


def test_what_was_rebuilt_later_is_not_revoked_when_an_earlier_renewal_ends_late(file, layout):
    """The disk was full, and ending the key before is tried again."""
    file.add(LAPTOP)
    second, earlier = issue_key("laptop", AT)
    file.renew(earlier)
    third, later = issue_key("laptop", AT)
    file.renew(later)
    file.complete_renewal("laptop", earlier.sha256, AT)
    assert check_keys(layout, LAPTOP_KEY, second, third) == [False, True, True]
    file.complete_renewal("laptop", later.sha256, AT)
    assert check_keys(layout, LAPTOP_KEY, second, third) == [False, False, True]

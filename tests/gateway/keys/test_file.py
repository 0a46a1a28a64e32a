"""The access keys on the disk: what is written, what is told, and who is never let in."""

import os
import stat
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from agentd.core.errors import Conflict, NotFound, Unauthorized, Unavailable
from agentd.gateway.keys.entries import AccessKeyEntries
from agentd.gateway.keys.file import AccessKeyFile
from agentd.gateway.keys.keyring import Keyring
from agentd.gateway.keys.limits import KeyLimits
from agentd.gateway.keys.model import AccessKey, issue, reissue
from agentd.storage import lock
from agentd.storage.layout import Layout
from tests.auth.test_key_store import SimulatedKill, _mutate, fail_at
from tests.support.examples import limit_examples

NOW = "2026-01-31T12:00:00.000Z"
LAPTOP_KEY, LAPTOP = issue("laptop", NOW)
PHONE_KEY, PHONE = issue("phone", NOW)
FULL = structs.replace(
    issue("all that can be said", NOW)[1],
    enabled=False,
    expires="2027-01-01T00:00:00.000Z",
    models=("gpt-*", "o?"),
    channels=(),
    limits=KeyLimits(Decimal("100"), Decimal("0.10"), Decimal(20), Decimal("1E+2"), 60, 10**6, 0),
    keep_bodies=True,
    before=PHONE.secret,
    before_until=NOW,
    created_by="user:ann",
)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path / "state"), str(tmp_path / "config"))


@pytest.fixture
def file(layout: Layout) -> AccessKeyFile:
    return AccessKeyFile(layout)


def read_file(layout: Layout) -> str:
    return Path(layout.access_keys).read_text()


def write_file(layout: Layout, content: str) -> None:
    path = Path(layout.access_keys)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(0o600)


def format_entry(key: AccessKey, more: str = "") -> str:
    secret = key.secret
    return (
        f"- id: {key.id}\n  name: {key.name}\n  created: {key.created}\n"
        f"  secret: {{salt: {secret.salt!r}, sha256: {secret.sha256!r}, last4: {secret.last4!r}}}\n"
        f"{more}"
    )


def test_without_a_file_there_are_no_keys(file):
    assert (file.read().keys, file.read().problems, file.get_stamp()) == ((), (), None)


def test_every_field_is_read_back_as_it_was_written(file, layout):
    for key in (LAPTOP, FULL, PHONE):
        file.add(key)
    assert file.read().keys == (LAPTOP, FULL, PHONE)
    assert AccessKeyFile(layout).read().keys == (LAPTOP, FULL, PHONE)
    assert LAPTOP_KEY not in read_file(layout)
    assert read_file(layout).startswith("# The access keys of agentd's model gateway")
    assert stat.S_IMODE(os.stat(layout.access_keys).st_mode) == 0o600


def test_a_change_leaves_every_other_byte(file, layout):
    laptop, phone = format_entry(LAPTOP), format_entry(PHONE)
    before = f"keys:  # mine\n# ann's\n{laptop}  # inside\n\n# bob's\n{phone}# end\n"
    write_file(layout, before)
    file.change(LAPTOP.id, lambda key: structs.replace(key, enabled=False, models=("a", "b")))
    lines = ["  enabled: false\n", "  models: ['a', 'b']\n"]
    assert sorted(set(read_file(layout).splitlines(True)) - set(before.splitlines(True))) == lines
    file.change(LAPTOP.id, lambda key: structs.replace(key, enabled=True, models=None))
    assert read_file(layout) == before


def test_limits_are_changed_one_by_one(file, layout):
    write_file(
        layout, f"keys:\n{format_entry(LAPTOP, '  limits: {day: 5, parallel: 3}  # few' + chr(10))}"
    )
    limits = KeyLimits(day=Decimal("2.5"), month=Decimal(20))
    file.change(LAPTOP.id, lambda key: structs.replace(key, limits=limits))
    assert "limits: {day: 2.5, month: 20}  # few\n" in read_file(layout)
    file.change(LAPTOP.id, lambda key: structs.replace(key, limits=KeyLimits()))
    assert file.read().keys == (LAPTOP,)
    assert "limits" not in read_file(layout)


def test_a_key_is_renamed_and_reissued_and_removed(file):
    file.add(LAPTOP)
    file.add(PHONE)
    _, renewed = reissue(LAPTOP, NOW, 60)
    assert file.change(LAPTOP.id, lambda _: structs.replace(renewed, name="desk")).name == "desk"
    assert [key.name for key in file.read().keys] == ["desk", "phone"]
    assert file.read().keys[0].before == LAPTOP.secret
    assert file.remove(LAPTOP.id).name == "desk"
    assert file.remove(PHONE.id) == PHONE
    assert file.read().keys == ()
    file.add(LAPTOP)
    assert file.read().keys == (LAPTOP,)


@pytest.mark.parametrize("name", ["laptop", "LapTop"])
def test_a_name_is_taken_however_it_is_written(file, name):
    file.add(LAPTOP)
    file.add(PHONE)
    with pytest.raises(Conflict, match='"laptop" already'):
        file.add(issue(name, NOW)[1])
    with pytest.raises(Conflict, match='"laptop" already'):
        file.change(PHONE.id, lambda key: structs.replace(key, name=name))
    assert file.read().keys == (LAPTOP, PHONE)


def test_an_older_file_brings_no_key_back_that_was_taken_away(file, layout):
    file.add(LAPTOP)
    file.add(PHONE)
    older = read_file(layout)
    file.remove(LAPTOP.id)
    letters, after = reissue(PHONE, NOW, 3600)
    file.change(PHONE.id, lambda _: after)
    newer = read_file(layout)
    write_file(layout, older)
    kept = file.read()
    assert kept.keys == ()
    assert [problem.line for problem in kept.problems] == [6, 10]
    assert "agentd proxy key reinstate" in kept.problems[0].what
    assert "phone" in file.reinstate("PHONE").name
    assert file.read().keys == (PHONE,)
    with pytest.raises(NotFound, match="was not revoked"):
        file.reinstate(PHONE.id)
    with pytest.raises(NotFound):
        file.reinstate("nobody")
    write_file(layout, newer)
    assert Keyring(file.read().keys).authenticate(letters, NOW).id == PHONE.id


def test_a_dry_run_takes_nothing_away_and_what_is_put_back_is_valid_again(file, layout):
    file.add(LAPTOP)
    file.remove(LAPTOP.id, dry_run=True)
    assert file.read().keys == (LAPTOP,)
    assert not Path(layout.access_keys_revoked).exists()
    file.remove(LAPTOP.id)
    assert LAPTOP.secret.sha256 in Path(layout.access_keys_revoked).read_text()
    assert stat.S_IMODE(os.stat(layout.access_keys_revoked).st_mode) == 0o600
    file.add(LAPTOP)  # as an undo does
    assert file.read().keys == (LAPTOP,)


def test_a_change_that_fails_takes_no_key_away(file, layout, monkeypatch):
    file.add(LAPTOP)

    def raise_disk_full(*_, **__):
        raise Unavailable("disk full")

    with monkeypatch.context() as patch:
        patch.setattr("agentd.storage.document.replace_document", raise_disk_full)
        with pytest.raises(Unavailable):
            file.remove(LAPTOP.id)
    assert file.read().keys == (LAPTOP,)


def test_an_undo_that_fails_makes_no_secret_valid_again(file, layout):
    for key in (LAPTOP, PHONE):
        file.add(key)
    older = read_file(layout)
    file.remove(PHONE.id)

    def save_meanwhile(key: AccessKey) -> AccessKey:
        write_file(layout, read_file(layout) + "# a person's remark\n")
        return key

    with pytest.raises(Conflict):
        file.edit_all([LAPTOP.id], save_meanwhile, [PHONE])
    write_file(layout, older)
    assert file.read().keys == (LAPTOP,)


def test_without_a_sound_memory_of_what_was_taken_away_nobody_is_admitted(file, layout):
    file.add(LAPTOP)
    Path(layout.access_keys_revoked).write_text("{")
    kept = file.read()
    assert kept.keys == ()
    assert "is damaged" in str(kept.problems[0])


def test_a_client_that_does_not_exist_is_not_changed(file):
    file.add(LAPTOP)
    with pytest.raises(NotFound):
        file.change(PHONE.id, lambda key: key)
    with pytest.raises(NotFound):
        file.remove(PHONE.id)


def test_a_mistake_takes_its_own_key_down_and_is_reported_with_its_line(file, layout):
    write_file(
        layout,
        f"keys:\n{format_entry(LAPTOP, '  limits: {day: .nan}' + chr(10))}{format_entry(PHONE)}",
    )
    kept = file.read()
    assert kept.keys == (PHONE,)
    assert [problem.line for problem in kept.problems] == [6]
    assert "day" in kept.problems[0].what
    file.change(PHONE.id, lambda key: structs.replace(key, enabled=False))
    assert not file.read().keys[0].enabled


@pytest.mark.parametrize("same", ["id", "name"])
def test_of_two_keys_with_the_same_id_or_name_the_first_holds(file, layout, same):
    other = structs.replace(PHONE, **{same: getattr(LAPTOP, same)})
    write_file(layout, f"keys:\n{format_entry(LAPTOP)}{format_entry(other)}")
    kept = file.read()
    assert kept.keys == (LAPTOP,)
    assert kept.problems[0].line == 6


def test_a_list_in_brackets_is_read_and_left_to_its_writer(file, layout):
    secret = LAPTOP.secret
    write_file(
        layout,
        f"keys: [{{id: {LAPTOP.id}, name: laptop, created: '{NOW}', secret: {{salt: {secret.salt},"
        f" sha256: {secret.sha256}, last4: {secret.last4}}}}}]\n",
    )
    assert file.read().keys == (LAPTOP,)
    with pytest.raises(Conflict, match="by hand"):
        file.add(PHONE)


@pytest.mark.parametrize("content", ["keys: [", "key: []\n", "format: 2\n", "keys:\n- a\n[]\n"])
def test_a_file_that_is_broken_as_a_whole_lets_nobody_in(file, layout, content):
    write_file(layout, content)
    kept = file.read()
    assert kept.keys == ()
    assert kept.problems
    with pytest.raises(Conflict, match="has errors"):
        file.add(LAPTOP)
    assert read_file(layout) == content


def test_a_key_that_was_pasted_into_the_file_is_not_reported(file, layout):
    write_file(layout, f"keys:\n{format_entry(PHONE).replace(PHONE.id, LAPTOP_KEY)}")
    assert LAPTOP_KEY[-32:] not in "".join(map(str, file.read().problems))


def test_a_file_that_others_may_write_lets_nobody_in(file, layout):
    file.add(LAPTOP)
    Path(layout.access_keys).chmod(0o602)
    assert file.read().keys == ()
    assert "others" in file.read().problems[0].what


def test_two_who_change_the_keys_wait_for_each_other(file, layout, monkeypatch):
    file.add(LAPTOP)
    monkeypatch.setattr(lock, "WAIT_SECONDS", 0.05)
    with (
        FileLock(layout.access_keys_lock, thread_local=False),
        pytest.raises(Unavailable, match="somebody else"),
    ):
        file.add(PHONE)
    file.add(PHONE)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Layout, bytes]:
    layout = Layout(str(tmp_path_factory.mktemp("saved")), "")
    file = AccessKeyFile(layout)
    for key in (LAPTOP, FULL, PHONE):
        file.add(key)
    return layout, Path(layout.access_keys).read_bytes()


@settings(max_examples=limit_examples(200))
@given(st.data())
def test_no_mutation_of_the_file_lets_anybody_else_in_or_makes_it_unreadable(saved, data):
    layout, content = saved
    Path(layout.access_keys).write_bytes(_mutate(data, content))
    kept = AccessKeyFile(layout).read()
    ring = Keyring(kept.keys)
    for key in kept.keys:
        assert not key.matches(key.secret.sha256, NOW)
        assert ring.find(key.id) is key


def test_thousands_of_keys_are_known_by_their_text_after_an_edit(file, layout, monkeypatch):
    keys = [issue(f"key {number}", NOW)[1] for number in range(2000)]
    write_file(layout, "keys:\n" + "".join(map(format_entry, keys)))
    assert len(file.read().keys) == 2000
    parsed = []
    real = AccessKeyEntries._parse

    def count_and_parse(self, text):
        parsed.append(text)
        return real(self, text)

    monkeypatch.setattr(AccessKeyEntries, "_parse", count_and_parse)
    file.change(keys[1000].id, lambda key: structs.replace(key, enabled=False))
    assert len(file.read().keys) == 2000
    assert len(parsed) == 1


# Reissuing a key while the disk fails, or the process dies.


def check_keys_after_start(layout: Layout, *keys: str) -> list[bool]:
    """Return which keys a process that starts now accepts."""
    kept = AccessKeyFile(layout).read()
    ring = Keyring(kept.keys, kept.pending)
    return [_is_accepted(ring, key) for key in keys]


def _is_accepted(ring: Keyring, key: str) -> bool:
    with suppress(Unauthorized):
        return bool(ring.authenticate(key, NOW))
    return False


def reissue_key(file: AccessKeyFile, grace: int = 0) -> tuple[str, AccessKey]:
    """Give the laptop a new secret; the old one is valid until it is settled."""
    letters: list[str] = []

    def revise(key: AccessKey) -> AccessKey:
        new, after = reissue(key, NOW, grace)
        letters.append(new)
        return after

    after = file.reissue(LAPTOP.id, revise)
    return letters[0], after


@pytest.mark.parametrize("kind", ["EIO", "ENOSPC", "EIO for good", "dies"])
@pytest.mark.parametrize("again", [False, True], ids=["once", "after one that was not answered"])
def test_a_reissue_that_is_not_answered_leaves_the_letters_before_good(tmp_path, kind, again):
    """Whichever call fails, and wherever the process dies: else nobody has good letters."""
    at = 0
    while True:
        at += 1
        layout = Layout(str(tmp_path / f"state{at}"), str(tmp_path / "config"))
        AccessKeyFile(layout).add(LAPTOP)
        AccessKeyFile(layout).add(PHONE)
        if again:
            reissue_key(AccessKeyFile(layout))
        letters = ""
        with pytest.MonkeyPatch.context() as patch:
            made = fail_at(patch, at, kind)
            with suppress(Unavailable, SimulatedKill):
                letters, _ = reissue_key(AccessKeyFile(layout))
        assert check_keys_after_start(layout, LAPTOP_KEY, PHONE_KEY) == [True, True], (at, made)
        assert not letters or check_keys_after_start(layout, letters) == [True]
        if len(made) < at:
            break
    assert at > 7


@pytest.mark.parametrize("kind", ["EIO", "ENOSPC", "EIO for good", "dies"])
def test_letters_that_were_reported_are_valid_whatever_happens_while_those_before_end(
    tmp_path, kind
):
    at = 0
    while True:
        at += 1
        layout = Layout(str(tmp_path / f"state{at}"), str(tmp_path / "config"))
        file = AccessKeyFile(layout)
        file.add(LAPTOP)
        older = read_file(layout)
        letters, after = reissue_key(file)
        settled = False
        with pytest.MonkeyPatch.context() as patch:
            made = fail_at(patch, at, kind)
            with suppress(Unavailable, SimulatedKill):
                file.revoke_previous(LAPTOP.id, after.secret.sha256)
                settled = True
        assert check_keys_after_start(layout, letters) == [True]
        assert not (settled and check_keys_after_start(layout, LAPTOP_KEY)[0])
        AccessKeyFile(layout).revoke_previous(LAPTOP.id, after.secret.sha256)
        assert check_keys_after_start(layout, letters, LAPTOP_KEY) == [True, False]
        write_file(layout, older)
        assert check_keys_after_start(layout, LAPTOP_KEY) == [False], (at, made)
        if len(made) < at:
            break
    assert at > 7


@pytest.mark.parametrize("grace", [0, 3600])
def test_letters_that_were_ended_are_never_taken_for_the_last_that_arrived(tmp_path, grace):
    """Also when the process dies in between: a reissue that is not answered keeps those in use."""
    at, ended = 0, 0
    while True:
        at += 1
        layout = Layout(str(tmp_path / f"state{at}"), str(tmp_path / "config"))
        file = AccessKeyFile(layout)
        file.add(LAPTOP)
        letters, after = reissue_key(file)
        with pytest.MonkeyPatch.context() as patch:
            made = fail_at(patch, at, "dies")
            with suppress(Unavailable, SimulatedKill):
                file.revoke_previous(LAPTOP.id, after.secret.sha256)
        if check_keys_after_start(layout, LAPTOP_KEY, letters) == [False, True]:
            ended += 1
            newer, _ = reissue_key(AccessKeyFile(layout), grace)
            found = check_keys_after_start(layout, LAPTOP_KEY, letters, newer)
            assert found == [False, True, True], (at, made)
        if len(made) < at:
            break
    assert ended > 1


def test_ending_the_letters_of_one_key_leaves_those_of_others(file, layout):
    file.add(LAPTOP)
    file.add(PHONE)
    file.reissue(PHONE.id, lambda key: reissue(key, NOW, 0)[1])
    letters, after = reissue_key(file)
    file.revoke_previous(LAPTOP.id, after.secret.sha256)
    assert check_keys_after_start(layout, PHONE_KEY, LAPTOP_KEY, letters) == [True, False, True]


def test_removing_a_key_ends_no_letters_of_another_that_is_reissued(file, layout):
    file.add(LAPTOP)
    file.add(PHONE)
    letters, _ = reissue_key(file)
    file.remove(PHONE.id)
    assert check_keys_after_start(layout, LAPTOP_KEY, letters, PHONE_KEY) == [True, True, False]


def test_only_the_keys_of_a_maker_are_removed_with_it(file, layout):
    file.add(structs.replace(LAPTOP, created_by="key:ci"))
    file.add(structs.replace(PHONE, created_by="key:other"))
    assert file.remove_made_by({"key:nobody"}) == ()
    assert [key.name for key in file.remove_made_by({"key:ci", "key:nobody"})] == [LAPTOP.name]
    assert check_keys_after_start(layout, LAPTOP_KEY, PHONE_KEY) == [False, True]


def test_a_key_that_a_check_keeps_is_not_removed(file, layout):
    file.add(LAPTOP)

    def refuse(key: AccessKey) -> None:
        raise Conflict(f"{key.name} stays")

    with pytest.raises(Conflict, match="stays"):
        file.remove(LAPTOP.id, refuse)
    assert check_keys_after_start(layout, LAPTOP_KEY) == [True]


def test_letters_that_are_ended_twice_end_no_later_ones(file, layout):
    file.add(LAPTOP)
    second, after = reissue_key(file)
    file.revoke_previous(LAPTOP.id, after.secret.sha256)
    third, _ = reissue_key(file)
    file.revoke_previous(LAPTOP.id, after.secret.sha256)
    assert check_keys_after_start(layout, LAPTOP_KEY, second, third) == [False, True, True]


def test_removing_a_key_takes_the_letters_before_away_too(file, layout):
    file.add(LAPTOP)
    first = read_file(layout)
    letters, _ = reissue_key(file)
    assert check_keys_after_start(layout, LAPTOP_KEY, letters) == [True, True]
    second = read_file(layout)
    AccessKeyFile(layout).remove(LAPTOP.id)
    assert check_keys_after_start(layout, LAPTOP_KEY, letters) == [False, False]
    for older in (first, second):
        write_file(layout, older)
        assert check_keys_after_start(layout, LAPTOP_KEY, letters) == [False, False]


@settings(max_examples=limit_examples(30))
@given(st.lists(st.sampled_from(["reissue", "with grace", "deliver", "restart"]), max_size=6))
def test_no_older_file_brings_a_secret_back_that_a_removed_key_ever_had(tmp_path_factory, steps):
    """Also one whose delivery was never confirmed: somebody may have it all the same."""
    layout = Layout(str(tmp_path_factory.mktemp("removed")), "")
    file, keys, older, digest = AccessKeyFile(layout), [LAPTOP_KEY], [], ""
    file.add(LAPTOP)
    for step in steps:
        older.append(read_file(layout))
        if step == "restart":
            file = AccessKeyFile(layout)
        elif step == "deliver":
            file.revoke_previous(LAPTOP.id, digest)
        else:
            letters, after = reissue_key(file, grace=3600 if step == "with grace" else 0)
            keys.append(letters)
            digest = after.secret.sha256
    older.append(read_file(layout))
    file.remove(LAPTOP.id)
    for content in older:
        write_file(layout, content)
        assert not any(check_keys_after_start(layout, *keys))


def test_a_reissue_that_was_undone_is_not_ended_later(file, layout):
    file.add(LAPTOP)
    letters, after = reissue_key(file)
    file.change(LAPTOP.id, lambda _: LAPTOP)
    file.revoke_previous(LAPTOP.id, after.secret.sha256)
    assert check_keys_after_start(layout, LAPTOP_KEY, letters) == [True, False]


def test_a_reissue_that_is_only_tried_changes_nothing(file, layout):
    file.add(LAPTOP)
    before = read_file(layout)
    file.reissue(LAPTOP.id, lambda key: reissue(key, NOW, 0)[1], dry_run=True)
    assert read_file(layout) == before
    assert not Path(layout.access_keys_renewals).exists()
    assert check_keys_after_start(layout, LAPTOP_KEY) == [True]


def test_a_damaged_memory_of_reissues_keeps_no_letters_good_and_is_reported(file, layout):
    file.add(LAPTOP)
    letters, _ = reissue_key(file)
    Path(layout.access_keys_renewals).write_text("{")
    assert check_keys_after_start(layout, LAPTOP_KEY, letters) == [False, True]
    (problem,) = file.read().problems
    assert problem.where == layout.access_keys_renewals
    with pytest.raises(Conflict, match="is damaged"):
        reissue_key(file)
    assert check_keys_after_start(layout, letters) == [True]
    file.remove(LAPTOP.id)
    assert check_keys_after_start(layout, letters) == [False]

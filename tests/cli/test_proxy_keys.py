"""The commands for the gateway's access keys, on real files."""

import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from agentd.cli.main import main
from agentd.core.clock import SystemClock
from agentd.core.errors import Unauthorized
from agentd.gateway.keys.file import AccessKeyFile
from agentd.gateway.keys.keyring import Keyring
from agentd.gateway.keys.limits import KeyLimits
from agentd.gateway.keys.model import AccessKey, issue
from agentd.storage.layout import Layout


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in list(os.environ):
        if name.startswith(("AGENT", "XDG_", "STATE_DIR", "CONFIGURATION_DIR")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AGENTD_STATE", "state")
    monkeypatch.setenv("AGENTD_CONFIG", "config")
    return tmp_path


@pytest.fixture
def key(capsys):
    """Type ``agentd proxy key`` with these words; the last line of what it prints."""

    def type_(*words: str, code: int = 0) -> str:
        assert main(["proxy", "key", *words]) == code
        return capsys.readouterr().out.strip().rpartition("\n")[2]

    return type_


def read_keys() -> tuple[AccessKey, ...]:
    return AccessKeyFile(Layout("state", "config")).read().keys


def is_accepted(presented: str) -> bool:
    try:
        kept = AccessKeyFile(Layout("state", "config")).read()
        return bool(Keyring(kept.keys, kept.pending).authenticate(presented, SystemClock().now()))
    except Unauthorized:
        return False


def test_a_key_is_shown_once_and_kept_as_a_hash(key, folder, capsys):
    made = key("add", "laptop")
    assert is_accepted(made)
    assert made[-32:] not in (folder / "state" / "proxy" / "access-keys.yml").read_text()
    for words in (["list"], ["show", "laptop"], ["list", "--json"], ["disable", "laptop"]):
        main(["proxy", "key", *words])
    result = capsys.readouterr()
    assert made[-32:] not in result.out + result.err
    assert read_keys()[0].secret.sha256 not in result.out + result.err
    assert made[-4:] in result.out


def test_every_field_can_be_said(key):
    key(
        "add", "ann", "--total", "100", "--day", "0.50", "--week", "3", "--month", "10",
        "--requests-per-minute", "60", "--tokens-per-minute", "1000000", "--parallel", "4",
        "--model", "gpt-*", "--model", "sonnet", "--channel", "main", "--expires", "2030-01-31",
        "--keep-bodies", "--address", "10.0.0.0/8", "--address", "192.0.2.7",
        "--owner", "ann@example.org", "--tag", "research", "--tag", "2026",
    )  # fmt: skip
    (ann,) = read_keys()
    assert (ann.owner, ann.tags) == ("ann@example.org", ("research", "2026"))
    assert ann.addresses == ("10.0.0.0/8", "192.0.2.7")
    assert ann.limits == KeyLimits(
        Decimal(100), Decimal("0.5"), Decimal(3), Decimal(10), 60, 1_000_000, 4
    )
    assert (ann.models, ann.channels) == (("gpt-*", "sonnet"), ("main",))
    assert ann.expires == "2030-01-31T00:00:00.000Z"
    assert ann.keep_bodies


def test_what_is_changed_is_changed_and_nothing_else(key):
    key(
        "add", "ann", "--day", "5", "--month", "50", "--model", "a", "--expires", "30d",
        "--address", "192.0.2.7", "--owner", "ann", "--tag", "research",
    )  # fmt: skip
    (before,) = read_keys()
    key("change", "ann", "--day", "none", "--parallel", "0", "--model", "none", "--name", "Bob")
    (after,) = read_keys()
    assert after.limits == KeyLimits(month=Decimal(50), parallel=0)
    assert (after.models, after.name, after.expires) == (None, "Bob", before.expires)
    assert after.addresses == ("192.0.2.7",)
    assert after.secret == before.secret
    assert (after.owner, after.tags) == ("ann", ("research",))
    key("change", after.id, "--expires", "none", "--owner", "none", "--tag", "none")
    (last,) = read_keys()
    assert (last.expires, last.owner, last.tags) == (None, "", ())


def test_a_disabled_key_opens_nothing_until_it_is_enabled(key):
    made = key("add", "ann")
    key("disable", "Ann")
    assert not is_accepted(made)
    key("enable", "ann")
    assert is_accepted(made)
    key("remove", "ann")
    assert not is_accepted(made)


def test_letters_before_a_reissue_are_valid_for_the_grace_that_was_given(key):
    first = key("add", "ann")
    second = key("reissue", "ann", "--grace", "60")
    assert is_accepted(first)
    assert is_accepted(second)
    third = key("reissue", "ann")
    assert [is_accepted(one) for one in (first, second, third)] == [False, False, True]


def test_a_key_shows_who_has_seen_its_letters_first(key, capsys):
    key("add", "ann")
    assert json.loads(key("list", "--json"))[0]["created_by"] == "cli"
    laptop = issue("laptop", "2026-01-01T00:00:00.000Z", "user:ann")[1]
    older = issue("older", "2026-01-01T00:00:00.000Z")[1]
    for one in (laptop, older):
        AccessKeyFile(Layout("state", "config")).add(one)

    def list_creators() -> list[str]:
        main(["proxy", "key", "list"])
        return [line.split()[4] for line in capsys.readouterr().out.splitlines()]

    assert list_creators() == ["BY", "cli", "user:ann", "unknown"]
    key("disable", "laptop")
    assert list_creators() == ["BY", "cli", "user:ann", "unknown"]
    key("reissue", "laptop")
    assert list_creators() == ["BY", "cli", "cli", "unknown"]


def test_letters_before_hold_when_the_new_ones_cannot_be_printed(key):
    first = key("add", "ann")
    reading, writing = os.pipe()
    os.close(reading)
    words = [sys.executable, "-m", "agentd", "proxy", "key", "reissue", "ann"]
    subprocess.run(words, check=False, stdout=writing, timeout=60)
    os.close(writing)
    assert is_accepted(first)
    assert json.loads(key("list", "--json"))[0]["last4"] == first[-4:]
    assert first[-4:] in key("list")
    assert json.loads(key("show", "ann", "--json"))["last4"] == first[-4:]
    second = key("reissue", "ann")
    assert [is_accepted(one) for one in (first, second)] == [False, True]
    assert json.loads(key("list", "--json"))[0]["last4"] == second[-4:]


def test_a_program_reads_json(key):
    made = json.loads(key("add", "ann", "--day", "5", "--json"))
    assert is_accepted(made["key"])
    assert made["last4"] == made["key"][-4:]
    listed = json.loads(key("list", "--json"))
    assert listed[0] == {name: value for name, value in made.items() if name != "key"}
    assert listed[0]["limits"] == {"day": "5"}
    assert json.loads(key("remove", "ann", "--json"))["id"] == made["id"]


@pytest.mark.parametrize(
    ("words", "code", "result"),
    [
        (["add", "one"], 1, 'an access key "one" already'),
        (["add", ""], 2, "name"),
        (["add", "a\x1b[2J"], 2, "visible"),
        (["add", "x", "--day", "nan"], 2, "day"),
        (["add", "x", "--day", "-1"], 2, "day"),
        (["add", "x", "--parallel", "1.5"], 2, "--parallel"),
        (["add", "x", "--parallel", "-1"], 2, "parallel"),
        (["add", "x", "--expires", "soon"], 2, "expected 2027-01-31, 90d or 12h"),
        (["add", "x", "--expires", "2027-31-01"], 2, "expires"),
        (["add", "x", "--expires", "99999999999d"], 2, "--expires"),
        (["add", "x", "--model", "a b"], 2, "models"),
        (["reissue", "one", "--grace", "-1"], 2, "--grace"),
        (["change", "oen", "--day", "1"], 1, 'did you mean "one"'),
        (["change", "one"], 2, "nothing to change"),
        (["remove", "nobody"], 1, "no access key"),
        (["nonsense"], 2, "invalid choice"),
        ([], 2, "VERB"),
    ],
)
def test_what_goes_wrong_is_reported_without_a_traceback(key, capsys, words, code, result):
    key("add", "one")
    before = read_keys()
    assert main(["proxy", "key", *words]) == code
    assert result in capsys.readouterr().err
    assert read_keys() == before


def test_a_removed_key_that_came_back_with_a_backup_is_valid_only_once_it_is_said(key, folder):
    presented = key("add", "laptop")
    path = folder / "state" / "proxy" / "access-keys.yml"
    older = path.read_bytes()
    key("remove", "laptop")
    path.write_bytes(older)
    assert not is_accepted(presented)
    key("reinstate", "laptop")
    assert is_accepted(presented)


def test_a_broken_key_is_reported_and_the_others_are_listed(key, capsys, folder):
    key("add", "one")
    key("add", "two")
    file = folder / "state" / "proxy" / "access-keys.yml"
    file.write_text(file.read_text().replace("name: 'two'", "nam: 'two'"))
    assert main(["proxy", "key", "list"]) == 0
    result = capsys.readouterr()
    assert "one" in result.out
    assert "two" not in result.out
    assert 'did you mean "name"' in result.err
    assert main(["check"]) == 1
    assert "access-keys.yml:" in capsys.readouterr().out


def test_help_teaches_by_example(capsys):
    for words in (["proxy"], ["proxy", "key"]):
        assert main([*words, "--help"]) == 0
    assert "examples:" in capsys.readouterr().out


def test_tags_are_added_to_several_keys_or_none(key, capsys):
    for name in ("laptop", "ann"):
        key("add", name, "--tag", "old")
    key("tag", "laptop", "ann", "--tag", "research", "--tag", "old")
    assert [one.tags for one in read_keys()] == [("old", "research")] * 2
    shown = json.loads(key("untag", "laptop", "ann", "--tag", "old", "--json"))
    assert [one["tags"] for one in shown] == [["research"]] * 2
    key("tag", "laptop", "nobody", "--tag", "new", code=1)
    key("tag", "laptop", "ann", "--tag", " blank", code=2)
    assert [one.tags for one in read_keys()] == [("research",)] * 2

"""The commands for budgets, and for limits of keys on models, warnings and raises, on files."""

import json
import os
from decimal import Decimal
from pathlib import Path

import pytest

from agentd.cli.main import main
from agentd.gateway.keys.file import AccessKeyFile
from agentd.gateway.keys.limits import KeyLimits, SoftLimits
from agentd.gateway.keys.model import AccessKey
from agentd.gateway.limits.budget_store import load
from agentd.gateway.limits.budgets import Budget
from agentd.storage.layout import Layout

FILE = Path("config/budgets.yml")
FAR = "2099-01-31T00:00:00.000Z"


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


def run(*words: str, code: int = 0) -> None:
    assert main(["proxy", *words]) == code


def get_budget(name: str) -> Budget:
    return load(Layout("state", "config"))[name]


def get_key() -> AccessKey:
    (key,) = AccessKeyFile(Layout("state", "config")).read().keys
    return key


def usd(amount: str) -> Decimal:
    return Decimal(amount)


def test_every_field_of_a_budget_can_be_said_and_changed() -> None:
    run(
        "budget", "add", "Research", "--tag", "research", "--day", "40", "--month", "500",
        "--parallel", "9", "--soft-week", "0.5", "--warn-at", "0.8",
    )  # fmt: skip
    made = get_budget("Research")
    assert (made.scope, made.tag, made.warn_at) == ("tag", "research", 0.8)
    assert made.limits == KeyLimits(day=usd("40"), month=usd("500"), parallel=9)
    assert made.soft_limits == SoftLimits(week=usd("0.5"))
    assert made.created
    run(
        "budget", "change", "Research", "--day", "none", "--month", "600", "--soft-week", "none",
        "--soft-day", "3", "--warn-at", "none", "--owner", "ann", "--name", "Ann",
    )  # fmt: skip
    changed = get_budget("Ann")
    assert (changed.scope, changed.owner, changed.warn_at) == ("owner", "ann", None)
    assert changed.limits == KeyLimits(month=usd("600"), parallel=9)
    assert changed.soft_limits == SoftLimits(day=usd("3"))
    run("budget", "remove", "Ann")
    assert load(Layout("state", "config")) == {}


def test_the_comments_of_the_file_stay() -> None:
    FILE.parent.mkdir()
    FILE.write_text("# ours\nbudgets:\n  - {name: A, tag: a}  # the first\n")
    run("budget", "change", "A", "--day", "5")
    run("budget", "add", "B", "--owner", "bob")
    text = FILE.read_text()
    assert text.startswith("# ours\n")
    assert "# the first" in text
    assert get_budget("A").limits.day == 5


def test_budgets_are_disabled_and_enabled_again() -> None:
    run("budget", "add", "A", "--tag", "a")
    run("budget", "disable", "A")
    assert not get_budget("A").enabled
    run("budget", "enable", "A")
    assert get_budget("A").enabled


def test_a_list_shows_whose_a_budget_is_and_what_is_raised(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run("budget", "list")
    assert "agentd proxy budget add" in capsys.readouterr().err
    run("budget", "add", "A", "--tag", "a", "--day", "4")
    run("budget", "raise", "A", "--day", "6", "--until", "2099-01-31")
    run("budget", "list")
    cells = capsys.readouterr().out.splitlines()[1].split()
    assert cells[:9] == ["A", "tag", "a", "enabled", "day", "4", "(raised", "until", f"{FAR})"]
    run("budget", "list", "--json")
    run("budget", "show", "A", "--json")
    listed, shown = map(json.loads, capsys.readouterr().out.splitlines())
    assert listed == [shown]
    assert shown["raised"]["limits"] == {"day": "6"}
    run("budget", "show", "A")
    assert "raised" in capsys.readouterr().out


def test_a_raise_of_a_budget_ends_by_itself_or_at_once() -> None:
    run("budget", "add", "A", "--tag", "a", "--day", "4")
    run("budget", "raise", "A", "--day", "6", "--until", "2099-01-31")
    raised = get_budget("A")
    assert raised.get_limits("2099-01-30T23:59:59.999Z").day == 6
    assert raised.get_limits(FAR).day == 4
    assert raised.raised is not None
    assert raised.raised.by == "cli"
    run("budget", "end-raise", "A")
    assert get_budget("A").raised is None


def test_a_key_has_limits_on_models_and_amounts_that_warn() -> None:
    run(
        "key", "add", "ann", "--day", "5", "--model-limit", "gpt-*", "day=2,requests-per-minute=7",
        "--model-limit", "llama3:8b", "parallel=1", "--soft-month", "20", "--warn-at", "0.5",
    )  # fmt: skip
    made = get_key()
    assert made.model_limits == {
        "gpt-*": KeyLimits(day=usd("2"), requests_per_minute=7),
        "llama3:8b": KeyLimits(parallel=1),
    }
    assert (made.soft_limits, made.warn_at) == (SoftLimits(month=usd("20")), 0.5)
    run(
        "key", "change", "ann", "--model-limit", "gpt-*", "day=none,week=9", "--model-limit",
        "llama3:8b", "none", "--soft-month", "none", "--warn-at", "none",
    )  # fmt: skip
    run("key", "change", "ann", "--warn-at", "2", code=2)
    changed = get_key()
    assert changed.model_limits == {"gpt-*": KeyLimits(week=usd("9"), requests_per_minute=7)}
    assert (changed.soft_limits, changed.warn_at) == (SoftLimits(), None)
    assert changed.limits == made.limits


def test_limits_of_a_key_and_its_models_are_raised_until_a_moment(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run("key", "add", "ann", "--day", "5", "--model-limit", "gpt-*", "day=2")
    words = ("--day", "50", "--model-limit", "gpt-*", "day=4", "--until", "2099-01-31")
    run("key", "raise", "ann", *words)
    key = get_key()
    assert key.get_limits("2099-01-01T00:00:00.000Z").day == 50
    assert key.get_model_limits("gpt-*", "2099-01-01T00:00:00.000Z").day == 4
    assert key.get_limits(FAR).day == 5
    run("key", "list")
    assert f"day 5; gpt-*: day 2 (raised until {FAR})" in capsys.readouterr().out
    run("key", "end-raise", "ann")
    assert get_key().raised is None


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("raise A --day 3 --until 2099-01-31", "--day: 3 is not more than 4"),
        ("raise A --week 3 --until 2099-01-31", "There is no limit --week"),
        ("raise A --day 9 --until 2020-01-31", "until must be in the future"),
        ("raise A --day 9 --until soon", "--until: 'soon' is not a time"),
        ("raise A --until 2099-01-31", "Name at least one limit"),
        ("change A", "nothing to change"),
        ("change A --warn-at 1.5", "--warn-at"),
        ("change A --day much", "--day: 'much' is not a number"),
        ("change A --soft-day much", "--soft-day: 'much' is not a number"),
        ("change B --day 1", "B"),
        ("add A --owner ann", "A"),
        ("add B --tag a", "is of the same tag"),
        ("add B --tag=", "expected either an owner or a tag"),
        ("add B --owner=\u200b", "owner: expected visible characters"),
        ("show B", 'There is no budget "B"'),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    capsys: pytest.CaptureFixture[str], words: str, problem: str
) -> None:
    run("budget", "add", "A", "--tag", "a", "--day", "4")
    before = FILE.read_text()
    assert main(["proxy", "budget", *words.split()]) != 0
    assert problem in capsys.readouterr().err
    assert FILE.read_text() == before


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("change ann --model-limit x foo=1", "'foo' is no limit; expected total, day"),
        ("change ann --model-limit x day=much", "--model-limit x day: 'much' is not a number"),
        ("change ann --model-limit x none", "there are no limits on 'x'"),
        ("raise ann --model-limit x day=9 --until 2099-01-31", 'There are no limits on "x"'),
        ("raise ann --model-limit gpt-* day=1 --until 2099-01-31", "1 is not more than 2"),
    ],
)
def test_limits_on_models_that_cannot_be_are_refused(
    capsys: pytest.CaptureFixture[str], words: str, problem: str
) -> None:
    run("key", "add", "ann", "--model-limit", "gpt-*", "day=2")
    before = get_key()
    run("key", *words.split(), code=2)
    assert problem in capsys.readouterr().err
    assert get_key() == before

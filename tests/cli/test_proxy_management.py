"""The commands that a running daemon carries out for the holder of the management key."""

import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentd.cli.main import main
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY, setup, start_gateway, supplier
from tests.gateway.alerts.receiver import WEBHOOK_SECRET, AlertReceiver
from tests.gateway.conftest import GatewaySetup
from tests.supplier.steps import Answer, Refuse, Say, Tokens
from tests.support.daemon import Client, Serving

__all__ = ["setup", "start_gateway", "supplier"]


@pytest.fixture
def daemon(start_gateway: Callable[..., Serving]) -> Serving:
    return start_gateway(environ={"PROXY_APP_HASH": HASH})


def list_commands(words: list[str], capsys: pytest.CaptureFixture[str]) -> Iterator[list[str]]:
    """Yield each command below one whose help lists some, and else itself, if it takes the key."""
    assert main([*words, "--help"]) == 0
    told = capsys.readouterr().out
    below = re.findall(r"^    ([a-z-]+) ", told, re.MULTILINE)
    for name in below:
        yield from list_commands([*words, name], capsys)
    if not below and "file with the management key" in told:
        yield words[1:]


def test_the_help_names_each_command_that_needs_the_daemon(
    capsys: pytest.CaptureFixture[str],
) -> None:
    needing = list(list_commands(["proxy"], capsys))
    main(["proxy", "--help"])
    [named] = re.findall(r"^(.*) ask the running daemon", capsys.readouterr().out, re.MULTILINE)
    groups = [name.split() for name in re.split(", | and ", named)]
    assert all(any(words[: len(one)] == one for one in groups) for words in needing)
    for group in groups:
        below = list(list_commands(["proxy", *group], capsys))
        assert below
        assert all(words in needing for words in below)


@pytest.fixture
def manager(daemon: Serving) -> Client:
    return daemon.client(MANAGEMENT_KEY)


@pytest.fixture
def run(
    daemon: Serving, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Any]:
    """Run a command with the key piped; return its JSON. The exit code has to be ``code``."""

    def run_(*words: str, code: int = 0) -> Any:
        key = f"{MANAGEMENT_KEY}\n".encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(key)))
        assert main(["--state", daemon.layout.state, "proxy", *words, "--json"]) == code
        said = capsys.readouterr()
        assert MANAGEMENT_KEY not in said.out + said.err
        return json.loads(said.out) if said.out else said.err

    return run_


@pytest.fixture
def receiver() -> Iterator[AlertReceiver]:
    with AlertReceiver() as serving:
        yield serving


def ask(daemon: Serving, key: str) -> int:
    body = {"model": "by-chat", "messages": [{"role": "user", "content": "hi"}]}
    headers = {"Authorization": f"Bearer {key}"}
    url = f"{daemon.url}/v1/chat/completions"
    return httpx.post(url, json=body, headers=headers, timeout=60).status_code


def test_several_are_disabled_as_one_change_which_is_undone(
    run: Callable[..., Any], manager: Client
) -> None:
    names = ["by-chat", "by-gemini"]

    def list_enabled() -> list[bool]:
        return [manager.get(f"/api/agent/models/{name}")["enabled"] for name in names]

    assert run("batch", "disable", "models", *names, "--dry-run")["change"] is None
    assert list_enabled() == [True, True]
    done = run("batch", "disable", "models", *names)
    assert done["changed"] == names
    assert list_enabled() == [False, False]
    (change,) = run("changes", "list", "--action", "disable")
    assert change["number"] == done["change"]
    run("changes", "undo", str(done["change"]), "--dry-run")
    assert list_enabled() == [False, False]
    assert run("changes", "undo", str(done["change"]))["undoes"] == done["change"]
    assert list_enabled() == [True, True]
    assert "no model" in run("batch", "delete", "models", "by-chat", "none", code=1)
    assert list_enabled() == [True, True]


def test_targets_of_alerts_are_added_tested_listed_and_removed(
    run: Callable[..., Any], manager: Client, receiver: AlertReceiver, tmp_path: Path
) -> None:
    files = {"address": receiver.url, "secret": WEBHOOK_SECRET}
    for name, text in files.items():
        (tmp_path / name).write_text(f"{text}\n")
        (tmp_path / name).chmod(0o600)
    options = [part for name in files for part in (f"--{name}-file", str(tmp_path / name))]
    run("alert", "add", "ops", *options, "--alert", "channel_down", "--local")
    (target,) = run("alert", "targets")
    assert (target["name"], target["alerts"]) == ("ops", ["channel_down"])
    assert WEBHOOK_SECRET not in json.dumps(target)
    assert run("alert", "test", "ops")["ok"]
    (message,) = receiver.received
    assert message.verify()
    assert run("alert", "disable", "ops")["enabled"] is False
    assert run("alert", "enable", "ops")["enabled"] is True
    assert run("alert", "list")["watched"]
    run("alert", "remove", "ops")
    assert run("alert", "targets") == []
    assert "no target" in run("alert", "test", "ops", code=1)


def test_a_file_with_a_secret_has_to_be_private(run: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "address"
    path.write_text("https://hooks.example.com/canary")
    path.chmod(0o644)
    said = run("alert", "add", "ops", "--address-file", str(path), code=1)
    assert str(path) in said and "canary" not in said
    assert run("alert", "targets") == []


def test_an_address_on_this_machine_needs_the_option_that_says_so(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "address"
    path.write_text("http://127.0.0.1:1/hook")
    path.chmod(0o600)
    said = run("alert", "add", "ops", "--kind", "text", "--address-file", str(path), code=1)
    assert "leads to this machine or its network; allow it with local: true (--local)" in said


def test_recorded_requests_are_priced_again_after_a_plan(
    run: Callable[..., Any], setup: GatewaySetup, manager: Client, daemon: Serving
) -> None:
    setup.supplier.answer_always(Answer((Say("hello"),), Tokens(input=1000, output=100)))
    assert ask(daemon, setup.add_key()) == 200
    (before,) = setup.wait_for_records(1)
    prices = {"prices": {"input": 6, "output": 30}}
    assert manager.patch("/api/agent/models/by-chat", prices).status == 200
    days = ("--from", before.at[:10], "--to", before.at[:10])
    assert run("reprice", "plan", *days)["changed"] == 1
    path = f"/api/agent/requests/{before.id}"
    assert manager.get(path)["request"]["cost"] == float(before.cost)
    done = run("reprice", "apply", *days)
    assert done["changed"] == 1
    assert manager.get(path)["request"]["cost"] == 2 * float(before.cost)
    (change,) = run("changes", "list", "--action", "reprice", "--limit", "1")
    assert (change["resource"], change["number"]) == ("requests", done["change"])
    run("changes", "undo", str(done["change"]))
    assert manager.get(path)["request"]["cost"] == float(before.cost)


def test_a_channels_live_state_is_shown(
    run: Callable[..., Any], setup: GatewaySetup, daemon: Serving
) -> None:
    setup.supplier.answer_always(Refuse(429, "slow down"))
    assert ask(daemon, setup.add_key()) == 429
    (state,) = run("channel", "state", "chat")
    assert (state["succeeded"], state["failed"]) == (0, 1)
    assert state["lastFailure"]["error"] == "rate_limit"
    assert [one["name"] for one in run("channel", "state")] == sorted(
        ["chat", "gemini", "messages", "responses"]
    )
    assert "no channel" in run("channel", "state", "none", code=1)

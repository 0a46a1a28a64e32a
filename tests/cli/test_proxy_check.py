"""``agentd proxy check``: every problem, and each channel called through its transport."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agentd.cli.main import main
from tests.supplier.supplier import Supplier


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in list(os.environ):
        if name.startswith(("AGENT", "XDG_", "STATE_DIR", "CONFIGURATION_DIR")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AGENTD_STATE", "state")
    monkeypatch.setenv("AGENTD_CONFIG", "config")
    (tmp_path / "config").mkdir()
    return tmp_path / "config"


def test_every_problem_of_the_gateway_s_files_is_reported_at_once(config, capsys):
    (config / "channels.yml").write_text("channels:\n- {name: a, dialects: [x], url: u}\n")
    (config / "proxy.yml").write_text("tries: 0\n")
    (config / "models.yml").write_text("proxy: [{name: m}]\n")
    (config / "secret-rules.yml").write_text("rules:\n- {id: mine, regex: '('}\n")
    (config / "secret-rules.yml").chmod(0o600)
    (config / "budgets.yml").write_text("budgets:\n- {name: b}\n")
    places = {
        "budgets.yml:2",
        "channels.yml:2",
        "proxy.yml:1",
        "models.yml:1",
        "secret-rules.yml:2",
    }
    for command in (["proxy", "check"], ["check"]):
        assert main(command) == 1
        result = capsys.readouterr().out.replace(f"{config}/", "").splitlines()
        assert {line.split(": ")[0] for line in result} == places


def test_a_route_to_an_unknown_channel_is_a_problem(config, capsys):
    (config / "models.yml").write_text("proxy:\n- name: m\n  routes: [{channel: lost}]\n")
    for command in (["proxy", "check"], ["check"]):
        assert main(command) == 1
        assert 'models.yml:3: proxy[0].routes[0].channel: "lost" is no' in capsys.readouterr().out


def test_a_missing_key_file_is_a_problem(config, capsys):
    (config / "channels.yml").write_text(
        "channels: [{name: a, dialects: [anthropic], url: 'https://a.b', key: 'file:/no/key'}]\n"
    )
    for command in (["proxy", "check"], ["check"]):
        assert main(command) == 1
        assert "channels.a.key: there is no file /no/key" in capsys.readouterr().out


def check_channels(capsys, *options: str) -> dict[str, dict[str, Any]]:
    capsys.readouterr()
    assert main(["proxy", "check", "--json", *options]) == 0, "what is not ready is no problem"
    result = json.loads(capsys.readouterr().out)["channels"]
    return {one["channel"]: one for one in result}


def test_each_channel_is_called_its_own_way_when_asked_to(config, capsys, monkeypatch):
    with Supplier() as supplier:
        (config / "channels.yml").write_text(
            "channels:\n"
            f"- {{name: acme, dialects: [anthropic], url: '{supplier.url}', key: 'env:ACME_KEY',"
            " local: true, headers: {X-Ours: tea}}\n"
            "- {name: nobody, dialects: [openai-chat], url: 'http://127.0.0.1:9', local: true}\n"
            "- {name: inside, dialects: [openai-chat], url: 'http://127.0.0.1:9', local: true,"
            " transport: {kind: http, url: 'http://127.0.0.1:9'}, enabled: false}\n"
        )
        (config / "channels.yml").chmod(0o600)
        (config / "models.yml").write_text(
            "proxy:\n"
            "- name: scripted-large\n"
            "  routes: [{channel: acme}, {channel: nobody}, {channel: acme, model: gone}]\n"
        )
        assert "ACME_KEY is not set" in check_channels(capsys)["acme"]["problem"]
        monkeypatch.setenv("ACME_KEY", "sk-canary")
        result = check_channels(capsys)
        assert {one["problem"] for one in result.values()} == {""}
        assert supplier.others == [], "without --online nobody is called"
        result = check_channels(capsys, "--online")
        assert result["acme"]["problem"] == ""
        assert result["acme"]["models"] == ["scripted-large"]
        assert result["acme"]["unlisted"] == ["gone"]
        (request,) = supplier.others
        assert request.headers["x-api-key"] == "sk-canary"
        assert request.headers["x-ours"] == "tea"
        assert result["nobody"]["problem"]
        assert result["inside"]["problem"]
        assert "canary" not in str(result)
        assert main(["proxy", "check", "--online"]) == 0
        lines = capsys.readouterr().err
        assert (
            f"channel acme: ready ({supplier.url}; scripted-large); the supplier does not list gone"
            in lines
        )
        assert "channel inside: not ready: " in lines
        assert "disabled" in lines
        assert lines.endswith("no problems, but not ready: nobody\n")
        assert main(["proxy", "check"]) == 0
        assert capsys.readouterr().err.endswith("no problems\n")


def test_a_vpn_without_an_engine_is_reported_and_no_call_goes_past_it(config, capsys, monkeypatch):
    with Supplier() as supplier:
        link = "ss://YWVzLTI1Ni1nY206Y2FuYXJ5@127.0.0.1:9"
        (config / "channels.yml").write_text(
            f"channels: [{{name: far, dialects: [openai-chat], url: '{supplier.url}', local: true,"
            f" transport: {{kind: vpn, url: '{link}'}}}}]\n"
        )
        (config / "channels.yml").chmod(0o600)
        monkeypatch.setenv("PATH", "/nowhere")
        result = check_channels(capsys, "--online")["far"]["problem"]
        assert result
        assert "canary" not in result
        assert supplier.others == []

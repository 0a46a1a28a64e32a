"""``agentd check`` reports every problem; ``agentd init`` writes files without any."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agentd.app.engine_inspection import CODING_AGENTS
from agentd.cli import init
from agentd.cli.main import main
from agentd.models.model import Models, validate
from agentd.settings.model import Settings, iter_documented
from agentd.storage.yaml import reader as yaml_reader
from tests.supplier.supplier import Supplier
from tests.support.paths import REPOSITORY

KEY = "A" * 43
"""A key of 32 bytes."""
SUBSCRIPTION = {
    **{"session": "0123456789abcdef", "user": "ann", "created": "2026-01-01T00:00:00.000Z"},
    **{"endpoint": "https://push.example.com/x", "p256dh": f"BA{'A' * 85}", "auth": "A" * 22},
}


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


def test_a_new_place_is_in_order(capsys):
    assert main(["check"]) == 0
    assert main(["init"]) == 0
    assert main(["keys", "generate", "laptop"]) == 0
    assert main(["check"]) == 0
    assert "no problems" in capsys.readouterr().err


def test_a_workspace_that_holds_the_home_is_warned_of(capsys, folder):
    assert main(["check"]) == 0
    assert f"the workspace {folder} holds the whole home folder" in capsys.readouterr().err
    (folder / "project").mkdir()
    assert main(["check", "--workspace", "project"]) == 0
    assert "whole home" not in capsys.readouterr().err


def test_models_that_the_gateway_refuses_for_want_of_a_price_are_named(capsys, folder):
    (folder / "config").mkdir()
    prices = "{input: 1, output: 2}"
    (folder / "config" / "models.yml").write_text(
        "proxy:\n"
        "- {name: unpriced, routes: [{channel: one}]}\n"
        f"- {{name: half, routes: [{{channel: one, prices: {prices}}}, {{channel: two}}]}}\n"
        f"- {{name: whole, prices: {prices}, routes: [{{channel: one}}]}}\n"
        f"- {{name: routed, routes: [{{channel: one, prices: {prices}}}]}}\n"
        "- {name: off, enabled: false, routes: [{channel: one}]}\n"
    )
    address = "dialects: [openai-chat], url: 'https://a.example'"
    (folder / "config" / "channels.yml").write_text(
        f"channels:\n- {{name: one, {address}}}\n- {{name: two, {address}}}\n"
    )
    assert main(["check"]) == 0, "it may be meant, so it is no problem"
    assert "refuses to call: unpriced, half;" in capsys.readouterr().err
    (folder / "config" / "proxy.yml").write_text("unknown_price: flag\n")
    assert main(["check"]) == 0
    assert "refuses to call" not in capsys.readouterr().err


def test_an_edit_during_a_check_does_not_mix_two_states_of_the_settings(
    capsys, folder, monkeypatch
):
    (folder / "config").mkdir()
    settings = folder / "config" / "agentd.yml"
    settings.write_text(f"workspace: {folder}\n")

    def edit_and_check(layout):
        settings.write_text("port: 70000\n")

    monkeypatch.setattr("agentd.models.store.check", edit_and_check)
    assert main(["check", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] and [one["engine"] for one in report["engines"]]


def test_every_problem_of_every_file_is_reported_at_once(capsys, folder):
    main(["keys", "generate", "laptop"])
    capsys.readouterr()
    (folder / "config").mkdir()
    (folder / "config" / "agentd.yml").write_text("port: 70000\nhots: []\n")
    (folder / ".env").write_text("AGENT_API_KEY oops\n")
    (folder / "state" / "keys.yml").write_text("keys:\n- name: x\n")
    (folder / "state" / "revoked.json").write_text("{")
    (folder / "state" / "odd").symlink_to("/etc")
    (folder / "state" / "open").touch()
    (folder / "state" / "open").chmod(0o602)
    (folder / "state").chmod(0o755)
    format_file = folder / "state" / "FORMAT"
    format_file.write_text('{"format": 3, "min_reader": 3, "generation": "g"}')
    assert main(["check"]) == 1
    result = capsys.readouterr().out.replace(str(folder), "").splitlines()
    assert result[0].startswith("/.env:1: ")
    assert result[1].startswith('/config/agentd.yml:1: port: found "70000"')
    assert result[2].startswith(
        '/config/agentd.yml:2: "hots" is not known here; did you mean "host'
    )
    assert [line.split(": ")[0] for line in result[3:]] == [
        "/state/keys.yml:2",
        "/state/keys.yml:2",
        "/state/keys.yml:2",
        "/state/revoked.json",
        "/state",
        "/state/odd",
        "/state/open",
    ]
    assert main(["check", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert not answer["ok"]
    assert len(answer["problems"]) == len(result)
    assert answer["problems"][1]["line"] == 1


def test_a_damaged_seed_is_reported_before_a_start_replaces_it(capsys, folder):
    seed = folder / "state" / "proxy" / "seed"
    for place in (seed.parent.parent, seed.parent):
        place.mkdir(mode=0o700)
    seed.write_bytes(b"short")
    seed.chmod(0o600)
    assert main(["check"]) == 1
    result = capsys.readouterr().out
    assert f"{seed}: is damaged" in result
    assert seed.read_bytes() == b"short"


def test_a_state_of_a_newer_version_is_reported_before_a_start_refuses_it(capsys, folder):
    newer = folder / "state" / "FORMAT"
    newer.parent.mkdir(mode=0o700)
    newer.write_text(json.dumps({"format": 99, "min_reader": 99, "generation": "a" * 32}))
    newer.chmod(0o600)
    assert main(["check"]) == 1
    assert f"{newer}:1: is format 99; this version of agentd reads up to" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"format": 1, "key": "AAAA", "subscriptions": []}, "key has 3 bytes; it must have 32"),
        ({"format": 1, "key": KEY, "subscriptions": [{}]}, "missing required field `session`"),
        (
            {"format": 1, "key": KEY, "subscriptions": [SUBSCRIPTION | {"auth": "AAAA"}]},
            "subscription 1: auth has 3 bytes; it must have 16",
        ),
        (
            {"format": 1, "key": "", "subscriptions": [SUBSCRIPTION]},
            "key has 0 bytes; it must have 32",
        ),
    ],
)
def test_a_damaged_file_of_push_subscriptions_is_told(capsys, folder, content, problem):
    push = folder / "state" / "push.json"
    push.parent.mkdir(mode=0o700)
    push.write_text(json.dumps({"format": 1, "key": KEY, "subscriptions": [SUBSCRIPTION]}))
    push.chmod(0o600)
    assert main(["check"]) == 0, capsys.readouterr().out
    push.write_text(json.dumps(content))
    assert main(["check"]) == 1
    told = capsys.readouterr().out
    assert f"{push}: is damaged" in told
    assert problem in told
    push.chmod(0o644)
    assert main(["check"]) == 1
    assert f"chmod 600 {push}" in capsys.readouterr().out


def test_broken_preferences_are_told_by_line(capsys, folder):
    people = folder / "state" / "people"
    people.mkdir(parents=True, mode=0o700)
    people.parent.chmod(0o700)
    (people / "ann.yml").write_text("format: 1\npins: [one]\n")
    (people / "ann.yml").chmod(0o600)
    assert main(["check"]) == 1
    assert f"{people}/ann.yml:2: pins[0]" in capsys.readouterr().out


def test_custom_commands_are_checked_too(capsys, folder):
    (folder / "config" / "commands").mkdir(parents=True)
    (folder / "config" / "commands" / "fix.md").write_text("---\ndescription:\n  a: b\n---\nFix.\n")
    (folder / "config" / "commands" / "fine.md").write_text("Do it.\n")
    assert main(["check"]) == 1
    problems = capsys.readouterr().out.splitlines()
    assert [one.split(": ")[0] for one in problems] == [f"{folder}/config/commands/fix.md:3"]


def test_hooks_and_decisions_about_them_are_checked_too(capsys, folder):
    (folder / "config").mkdir(exist_ok=True)
    (folder / "config" / "hooks.yml").write_text("hooks:\n  PreTool: []\n")
    (folder / "state").mkdir(mode=0o700, exist_ok=True)
    decisions = folder / "state" / "hook-decisions.json"
    decisions.write_text("{")
    decisions.chmod(0o600)
    assert main(["check"]) == 1
    problems = capsys.readouterr().out.splitlines()
    assert [one.split(": ")[0] for one in problems] == [
        f"{folder}/config/hooks.yml:2",
        str(decisions),
    ]


def test_an_alert_that_no_bot_would_send_is_told(capsys, folder):
    (folder / "config").mkdir(exist_ok=True)
    chat = "kind: telegram, chat: 5"
    (folder / "config" / "alerts.yml").write_text(
        "targets:\n"
        f"  - {{name: a, {chat}, bot: helper}}\n"
        f"  - {{name: b, {chat}, bot: helpr}}\n"
        f"  - {{name: c, {chat}, bot: off}}\n"
        f"  - {{name: d, {chat}, bot: gone, enabled: false}}\n"
    )
    bot = "kind: telegram, users: [5]"
    (folder / "config" / "bots.yml").write_text(
        f"bots:\n  - {{id: helper, {bot}, token: 'env:A'}}\n"
        f"  - {{id: off, {bot}, token: 'env:B', enabled: false}}\n"
    )
    for name in ("alerts.yml", "bots.yml"):
        (folder / "config" / name).chmod(0o600)
    assert main(["check"]) == 1
    problems = capsys.readouterr().out.replace(f"{folder}/config/", "").splitlines()
    assert problems == [
        'alerts.yml:3: targets[1].bot: "helpr" is none of the bots of bots.yml; did you mean'
        ' "helper"?',
        'alerts.yml:4: targets[2].bot: "off" is disabled in bots.yml',
    ]


def test_models_and_skills_are_checked_too(capsys, folder):
    (folder / "config" / "skills" / "review").mkdir(parents=True)
    (folder / "config" / "skills" / "review" / "SKILL.md").write_text("---\nname: x\n---\n")
    (folder / "config" / "skills.yml").write_text("default: reviw\n")
    (folder / "config" / "models.yml").write_text("default: sonnet\nmodels: [{name: a}]\n")
    assert main(["check"]) == 1
    result = capsys.readouterr().out.replace(f"{folder}/config/", "").splitlines()
    assert [line.split(": ")[0] for line in result] == [
        "models.yml:2",
        "skills/review/SKILL.md:2",
        "skills.yml:1",
    ]


def test_the_template_says_what_the_defaults_are(folder):
    text = init.render_settings()
    assert yaml_reader.load_yaml("f", text.encode(), Settings) == Settings()
    assert uncomment(text) != text
    assert yaml_reader.load_yaml("f", uncomment(text).encode(), Settings) == Settings()


def uncomment(text: str) -> str:
    """Return the text with every setting uncommented; prose stays a comment."""
    return "".join(
        line.removeprefix("#") if line[:1] == "#" and line[1:2] != " " else line
        for line in text.splitlines(keepends=True)
    )


def test_init_overwrites_nothing(capsys, folder):
    assert main(["init"]) == 0
    (folder / "config" / "agentd.yml").write_text("port: 1\n")
    assert main(["init"]) == 1
    assert "exists already" in capsys.readouterr().err
    assert (folder / "config" / "agentd.yml").read_text() == "port: 1\n"


def test_the_template_of_models_is_in_order_as_it_is_and_uncommented(folder):
    installed = [("/bin/codex", CODING_AGENTS[0])]
    text = init.render_models(installed)
    assert "/bin/codex" in text
    assert yaml_reader.load_yaml("f", text.encode(), Models, validate) == Models()
    models = yaml_reader.load_yaml("f", uncomment(text).encode(), Models, validate)
    assert models.names == ("sonnet", "codex")
    assert models.default == "sonnet"


def test_init_finds_the_agents_that_are_installed(capsys, folder, monkeypatch):
    for name in ("codex", "gemini"):
        write_program(folder, name, "echo 1")
    monkeypatch.setenv("PATH", str(folder / "bin"))
    assert main(["init"]) == 0
    text = (folder / "config" / "models.yml").read_text()
    assert f"# {folder}/bin/codex\n#- {{name: codex," in text
    assert "[gemini, --acp]" in text
    assert "opencode" not in text
    assert main(["check"]) == 0


def test_init_writes_what_is_missing_and_leaves_the_rest(capsys, folder):
    (folder / "config").mkdir()
    (folder / "config" / "models.yml").write_text("models: []\n")
    assert main(["init"]) == 1
    result = capsys.readouterr()
    assert result.out.endswith("agentd.yml\n")
    assert "models.yml exists already" in result.err
    assert (folder / "config" / "models.yml").read_text() == "models: []\n"


# Engines.


def write_program(folder: Path, name: str, source: str) -> str:
    """Write a program into ``bin``."""
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{source}\n")
    path.chmod(0o755)
    return str(path)


def check_engines(capsys, *options: str) -> dict[str, dict[str, Any]]:
    """Return the command's report of each engine, by its first model."""
    capsys.readouterr()
    assert main(["check", "--json", *options]) == 0, "an engine that is not ready is no problem"
    found = json.loads(capsys.readouterr().out)["engines"]
    return {(one["models"] or [one["engine"]])[0]: one for one in found}


def test_each_program_is_reported_with_its_place_and_version(capsys, folder, monkeypatch):
    codex = write_program(folder, "codex", "echo codex-cli 1.2.3; echo more")
    broken = write_program(folder, "broken", "exit 4")
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
    (folder / "config").mkdir()
    (folder / "config" / "models.yml").write_text(
        "models:\n"
        "- {name: a, engine: codex}\n"
        "- {name: b, engine: codex, model: large}\n"
        f"- {{name: c, engine: acp, command: [{broken}, acp]}}\n"
        "- {name: d, engine: acp, command: [no-such-program]}\n"
    )
    result = check_engines(capsys)
    assert set(result) == {"offline", "a", "c", "d"}
    assert result["offline"]["problem"] == ""
    assert main(["check"]) == 0
    assert capsys.readouterr().err.endswith("\nno problems, but not ready: acp\n")
    ready = {"where": codex, "version": "codex-cli 1.2.3", "problem": ""}
    assert result["a"] == {"engine": "codex", "models": ["a", "b"], **ready}
    assert result["c"]["problem"] == f"{broken} --version ended with exit code 4"
    assert "not installed, or not in PATH" in result["d"]["problem"]
    assert main(["check"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert f"engine codex: ready ({codex}; codex-cli 1.2.3; a, b)" in lines


def test_a_program_that_shows_no_version_is_not_waited_for(capsys, folder, monkeypatch):
    monkeypatch.setattr("agentd.app.engine_inspection.VERSION_SECONDS", 0.2)
    (folder / "config").mkdir()
    slow = write_program(folder, "slow", "sleep 60")
    (folder / "config" / "agentd.yml").write_text(f"engine: acp\nacp_command: [{slow}]\n")
    assert check_engines(capsys)["acp"]["problem"] == "no version within 0.2 seconds"


ANSWERS = """read line; echo '{"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1}}'
read line; sleep 60"""
DIES = """echo 'The sandbox is missing.' >&2
head -c 3400 /dev/zero | tr '\\0' ';' >&2; echo >&2; exit 1"""


def test_with_online_each_program_is_greeted_as_for_a_turn(capsys, folder):
    (folder / "config").mkdir()
    version = '[ "$1" = --version ] && { echo 1.0; exit; }\n'
    ready = write_program(folder, "ready", version + ANSWERS)
    dying = write_program(folder, "dying", version + DIES)
    old = write_program(folder, "old", version + ANSWERS.replace('Version": 1', 'Version": 0'))
    (folder / "config" / "models.yml").write_text(
        "models:\n"
        f"- {{name: a, engine: acp, command: [{ready}]}}\n"
        f"- {{name: b, engine: acp, command: [{dying}]}}\n"
        f"- {{name: c, engine: acp, command: [{old}]}}\n"
    )
    assert {one["problem"] for one in check_engines(capsys).values()} == {""}
    result = check_engines(capsys, "--online")
    assert result["a"]["problem"] == ""
    assert "The sandbox is missing." in result["b"]["problem"]
    assert len(result["b"]["problem"]) < 1000, "a reason is for a reader"
    assert "version 0 of the Agent Client Protocol" in result["c"]["problem"]


def test_a_supplier_s_key_is_looked_for_and_with_online_it_is_called(capsys, folder, monkeypatch):
    with Supplier() as supplier:
        (folder / "config").mkdir()
        (folder / "config" / "models.yml").write_text(
            "suppliers:\n"
            f"  acme: {{dialect: anthropic, url: '{supplier.url}', key: 'env:ACME_KEY'}}\n"
            "  nobody: {dialect: openai-chat, url: 'http://127.0.0.1:9'}\n"
            f"  lost: {{dialect: openai-chat, url: '{supplier.url}/lost'}}\n"
            "models:\n"
            "- {name: a, engine: native, model: x, supplier: acme}\n"
            "- {name: b, engine: native, model: x, supplier: nobody}\n"
            "- {name: c, engine: native, model: x, supplier: lost}\n"
        )
        assert "ACME_KEY is not set" in check_engines(capsys)["a"]["problem"]
        monkeypatch.setenv("ACME_KEY", "sk-canary")
        result = check_engines(capsys)
        assert result["a"]["problem"] == result["b"]["problem"] == ""
        assert supplier.others == [], "without --online nobody is called"
        result = check_engines(capsys, "--online")
        assert result["a"]["problem"] == ""
        keys = [request.headers.get("x-api-key") for request in supplier.others]
        assert keys.count("sk-canary") == 1
        assert "127.0.0.1:9 cannot be connected to" in result["b"]["problem"]
        assert result["c"]["problem"] == "it does not list its models (HTTP 404)"
        assert "sk-canary" not in str(result)


def test_the_readme_lists_every_setting_with_its_default():
    readme = (REPOSITORY / "config" / "README.md").read_text()
    for name, default, description in iter_documented():
        written = init._render_default(default)
        assert f"| `{name}` | `{written}` | {description} |" in readme


def test_a_host_on_which_no_start_could_listen_is_told_with_its_line(capsys, folder, monkeypatch):
    (folder / "config").mkdir()
    (folder / "config" / "agentd.yml").write_text("port: 0\nhost: no-such-host.invalid\n")
    assert main(["check"]) == 1
    (line,) = capsys.readouterr().out.replace(str(folder), "").splitlines()
    assert line.startswith("/config/agentd.yml:2: host: cannot listen on no-such-host.invalid: ")
    monkeypatch.setenv("AGENTD_HOST", "192.0.2.7")  # of nobody (RFC 5737)
    assert main(["check"]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("AGENTD_HOST: host: cannot listen on 192.0.2.7: ")
    assert main(["check", "--host", "localhost"]) == 0


def test_a_workspace_that_is_not_there_is_reported_with_its_line(capsys, folder):
    (folder / "config").mkdir()
    (folder / "config" / "agentd.yml").write_text(f"port: 0\nworkspace: {folder}/projct\n")
    assert main(["check"]) == 1
    expected = f"agentd.yml:2: workspace: {folder}/projct does not exist; create it"
    assert expected in capsys.readouterr().out
    (folder / "projct").write_text("")
    assert main(["check"]) == 1
    assert "projct is not a folder" in capsys.readouterr().out


def test_a_file_in_the_place_of_a_folder_is_one_problem(capsys, folder):
    for name in ("state", "config"):
        (folder / name).write_text("")
    assert main(["check"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{folder}/{name}: is not a folder; move it away, or name another"
        for name in ("config", "state")
    ]


def test_a_workspace_that_a_start_creates_is_no_problem(capsys, folder, monkeypatch):
    monkeypatch.setenv("AGENTD_DEFAULT_WORKSPACE", str(folder / "new"))
    assert main(["check"]) == 0


def test_a_licence_that_is_not_valid_is_reported_with_its_remedy(capsys, folder):
    (folder / "config").mkdir()
    (folder / "config" / "licence.key").write_text("hello\n")
    assert main(["check"]) == 1
    said = capsys.readouterr().out
    assert "licence.key: This is not a licence" in said and "agentd licence self" in said


def test_a_speech_engine_s_supplier_that_models_yml_lacks_is_reported(capsys, folder):
    (folder / "config").mkdir()
    (folder / "config" / "speech.yml").write_text(
        "engines:\n- {name: w, engine: openai, supplier: opnai, model: x}\n"
    )
    (folder / "config" / "models.yml").write_text(
        'suppliers: {openai: {dialect: openai-chat, url: "https://api.openai.com"}}\n'
    )
    assert main(["check"]) == 1
    expected = 'speech.yml:2: engines[0].supplier: "opnai" is not a supplier of models.yml'
    assert f'{expected}; did you mean "openai"?' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("models.yml", "models: [{name: a b, engine: codex}]"),
        ("models.yml", "suppliers: {a: {dialect: anthropic, url: api.example.com}}"),
        ("labels.yml", "labels: [{name: a, color: red}]"),
        ("skills.yml", "skills: {a: {color: red}}"),
        ("schedules.yml", "schedules: [{name: No Name, cron: '@daily', prompt: x}]"),
        ("bots.yml", "bots: [{id: No Id, token: 'env:X', base_url: there}]"),
        ("users.yml", "format: 1\nusers: [{name: 'a b', role: viewer, password: hello}]"),
        ("mcp.yml", "servers: [{name: a b, url: there, env: {1A: x}}]"),
        ("speech.yml", "engines: [{name: a, engine: pocketsphinx, language: '?'}]"),
        ("deployments.yml", "deployments: {a: {command: [x], health: {url: there}}}"),
        ("builds.yml", "builds: {a b: {command: [x]}}"),
        ("proxy.yml", "export: {user: é}"),
    ],
)
def test_what_a_text_has_to_look_like_is_said_in_words(capsys, folder, name, text):
    (folder / "config").mkdir()
    (folder / "config" / name).write_text(text)
    (folder / "config" / name).chmod(0o600)
    assert main(["check"]) == 1
    said = capsys.readouterr().out
    assert "expected" in said
    assert "expected text like" not in said and "[A-Za" not in said


def test_files_of_builds_and_deployments_that_a_start_passes_over_are_told(capsys, folder):
    damaged = ["builds/app/result.json", "deployments/web/deployment.json", "autofix.json"]
    for name in damaged:
        path = folder / "state" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"format": 1')
    (folder / "state").chmod(0o700)
    assert main(["check"]) == 1
    lines = capsys.readouterr().out.replace(str(folder / "state"), "").splitlines()
    assert [line.split(": ")[0] for line in lines] == [f"/{name}:1" for name in damaged]
    assert "is not found again" in lines[1]

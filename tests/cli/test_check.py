"""``agentd check`` tells every mistake; ``agentd init`` writes what it finds none in."""

import json
import os
from pathlib import Path

import pytest

from agentd.catalog.settings import Settings, documented
from agentd.cli import init
from agentd.cli.main import main
from agentd.disk import handwritten


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
    assert "all is in order" in capsys.readouterr().err


def test_every_mistake_of_every_file_is_told_at_once(capsys, folder):
    main(["keys", "generate", "laptop"])
    capsys.readouterr()
    (folder / "config").mkdir()
    (folder / "config" / "agentd.yml").write_text("port: 70000\nhots: []\n")
    (folder / ".env").write_text("AGENT_API_KEY oops\n")
    (folder / "state" / "keys.yml").write_text("keys:\n- name: x\n")
    (folder / "state" / "revoked.json").write_text("{")
    (folder / "state" / "odd").symlink_to("/etc")
    (folder / "state" / "open").touch()
    (folder / "state" / "open").chmod(0o620)
    (folder / "state").chmod(0o755)
    assert main(["check"]) == 1
    told = capsys.readouterr().out.replace(str(folder), "").splitlines()
    assert told[0].startswith("/.env:1: ")
    assert told[1].startswith('/config/agentd.yml:1: port: found "70000"')
    assert told[2].startswith('/config/agentd.yml:2: "hots" is not known here; did you mean "host')
    assert [line.split(": ")[0] for line in told[3:]] == [
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
    assert len(answer["mistakes"]) == len(told)
    assert answer["mistakes"][1]["line"] == 1


def test_models_and_skills_are_checked_too(capsys, folder):
    (folder / "config" / "skills" / "review").mkdir(parents=True)
    (folder / "config" / "skills" / "review" / "SKILL.md").write_text("---\nname: x\n---\n")
    (folder / "config" / "skills.yml").write_text("default: reviw\n")
    (folder / "config" / "models.yml").write_text("default: sonnet\nmodels: [{name: a}]\n")
    assert main(["check"]) == 1
    told = capsys.readouterr().out.replace(f"{folder}/config/", "").splitlines()
    assert [line.split(": ")[0] for line in told] == [
        "models.yml:2",
        "skills/review/SKILL.md:2",
        "skills.yml:1",
    ]


def test_the_template_says_what_the_defaults_are(folder):
    text = init.template()
    assert handwritten.load("f", text.encode(), Settings) == Settings()
    uncommented = "".join(
        line.removeprefix("#") if line[:1] == "#" and line[1:2] != " " else line
        for line in text.splitlines(keepends=True)
    )
    assert uncommented != text
    assert handwritten.load("f", uncommented.encode(), Settings) == Settings()


def test_init_overwrites_nothing(capsys, folder):
    assert main(["init"]) == 0
    (folder / "config" / "agentd.yml").write_text("port: 1\n")
    assert main(["init"]) == 1
    assert "exists already" in capsys.readouterr().err
    assert (folder / "config" / "agentd.yml").read_text() == "port: 1\n"


def test_the_readme_tells_every_setting_as_it_is():
    readme = (Path(__file__).parents[2] / "config" / "README.md").read_text()
    for name, default, description in documented():
        written = init._written(default)
        assert f"| `{name}` | `{written}` | {description} |" in readme

"""Models and skills over the API and by hand: listed, chosen, told; the files keep their words."""

import json
import os
from pathlib import Path

import pytest

from agentd.agent.engine import ReplyCompleted, UsageWindowsReported
from agentd.models.program_state import PLAN_MODE, UsageWindow
from tests.settings.test_api import Events, edit
from tests.support.daemon import Beats, Client, Serving, until
from tests.support.fixtures import Serve

CANARY = "sk-Canary-0123456789"

MODELS = f"""\
# What this host may use.
default: small   # cheap
suppliers:
  here: {{dialect: openai-chat, url: "http://127.0.0.1:9/v1", key: "{CANARY}"}}
  env: {{dialect: anthropic, url: "http://127.0.0.1:9", key: "env:NO_SUCH_KEY"}}
  file: {{dialect: anthropic, url: "http://127.0.0.1:9", key: "file:/no/such/file"}}
models:
  - {{name: small, engine: native, model: s, supplier: here, effort: low, context: 8000}}
  # the dear one
  - name: large
    engine: native
    model: l
    supplier: env
    prices: {{input: 3, output: "15.50"}}
  - {{name: filed, engine: native, model: f, supplier: file}}
  - {{name: codex, engine: codex, command: [/no/such/codex]}}
  - {{name: offline, engine: offline}}
"""

SKILLS = """\
# How they look.
default: review   # most of the time
skills:
  # first things first
  review:  {color: "#3366cc"}   # blue
  # then
  write:
    color: '#00aa00'
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A folder of hand-written files."""
    folder = tmp_path / "config"
    for name in ("review", "write", "zeal"):
        (folder / "skills" / name).mkdir(parents=True)
        text = f"---\nname: {name}\ndescription: Does {name}.\n---\nDo {name} well.\n"
        (folder / "skills" / name / "SKILL.md").write_text(text)
    (folder / "models.yml").write_text(MODELS)
    (folder / "models.yml").chmod(0o600)
    (folder / "skills.yml").write_text(SKILLS)
    return folder


@pytest.fixture
def daemon(config: Path, serve: Serve) -> Serving:
    """A daemon with these files."""
    return serve()


@pytest.fixture
def client(daemon: Serving) -> Client:
    """Its client."""
    return daemon.client()


# Models.


def test_models_are_listed_with_what_they_cost_and_whether_they_can_be_used(client, config):
    reply = client.get("/api/models")
    found = {one["name"]: one for one in reply["models"]}
    assert list(found) == ["small", "large", "filed", "codex", "offline"]
    assert reply["default"] == "small"
    assert [one["default"] for one in reply["models"]] == [True, False, False, False, False]
    assert (found["small"]["effort"], found["small"]["context"]) == ("low", 8000)
    assert found["large"]["prices"]["output"] == 15.5
    assert found["small"]["available"]
    assert found["offline"]["available"]
    assert "NO_SUCH_KEY" in found["large"]["problem"]
    assert "/no/such/file" in found["filed"]["problem"]
    assert "/no/such/codex is not installed" in found["codex"]["problem"]
    assert CANARY not in reply.body.decode()


def test_a_problem_that_is_mended_is_gone_when_one_looks_again(client, config, tmp_path):
    key = tmp_path / "key"
    edit(config / "models.yml", "/no/such/file", str(key), "in place")

    def find_problem() -> str:
        models = {one["name"]: one["problem"] for one in client.get("/api/models")["models"]}
        return models["filed"]

    until(lambda: str(key) in find_problem())
    key.touch(0o600)
    key.write_text("sk-of-somebody")
    with Beats() as beats:
        until(lambda: not find_problem())
    assert beats.seconds < 5


def test_usage_windows_of_a_program_are_shown_with_its_models_and_told_when_they_change(
    daemon, client, config
):
    (config / "models.yml").write_text(
        "models:\n  - {name: codex, engine: codex}\n  - {name: large, engine: codex, model: l}\n"
        "  - {name: other, engine: codex, command: [other-codex]}\n"
    )
    assert len(client.get("/api/models")["models"]) == 3  # the file is read by now
    used = UsageWindow("5 hours", 82, "2100-01-01T00:00:00.000Z")
    shown = {"name": "5 hours", "usedPercent": 82, "resetsAt": "2100-01-01T00:00:00.000Z"}
    daemon.engine.says = lambda _: [UsageWindowsReported((used,)), ReplyCompleted("Done.")]
    events = Events(daemon)
    client.status(client.create_chat(prompt="x", model="large"), 20)
    plan = {"id": "plan", "name": "Plan", "description": PLAN_MODE.description}
    told = {"engine": "codex", "program": {"limits": [shown], "modes": [plan]}}
    assert events.read_next("engineUpdate") == told
    reply = client.get("/api/models").json()
    known = {one["name"]: one["program"]["limits"] for one in reply["models"]}
    assert known == {"codex": [shown], "large": [shown], "other": []}
    assert reply["defaultEngine"] == {
        "engine": "offline",
        "program": {"limits": [], "modes": []},
    }
    engines = [one["program"]["limits"] for one in client.get("/api/about")["engines"]]
    assert [shown] in engines and [] in engines
    assert client.post("/api/settings/set", {"engine": "codex"}).status == 200
    assert client.get("/api/models")["defaultEngine"] == told


def test_a_model_is_selected_for_a_chat(daemon, client):
    chat = client.create_chat()
    reply = client.post("/api/models/select", {"chatId": chat, "model": "offline"})
    assert reply.json() == {"chatId": chat, "model": "offline"}
    assert client.get(f"/api/chat/{chat}")["settings"]["model"] == "offline"
    assert client.get("/api/models")["default"] == "small"


def test_a_model_is_selected_for_all_and_only_that_word_changes(daemon, client, config):
    events = Events(daemon)
    reply = client.post("/api/models/select", {"model": "large"})
    assert reply.json() == {"chatId": None, "model": "large"}
    file = config / "models.yml"
    assert file.read_text() == MODELS.replace("default: small ", "default: 'large' ")
    assert file.stat().st_mode & 0o777 == 0o600
    result = events.read_next("modelsUpdate")
    assert result["default"] == "large"
    assert CANARY not in json.dumps(result)
    chat = client.create_chat(prompt="x")
    client.status(chat, 20)
    assert daemon.engine.given[-1].model == "l"
    assert client.post("/api/models/select", {"model": ""}).status == 200
    assert client.get("/api/models")["default"] == ""
    assert file.read_text() == MODELS.replace("default: small   # cheap\n", "")


def test_a_model_that_nobody_has_is_not_selected(client, config):
    for wish in ({"model": "larg"}, {"model": "larg", "chatId": client.create_chat()}):
        reply = client.post("/api/models/select", wish)
        assert reply.status == 404
        assert 'did you mean "large"?' in reply["message"]
    assert client.post("/api/models/select", {"model": "large", "chatId": 999}).status == 404
    assert (config / "models.yml").read_text() == MODELS


def test_models_edited_by_hand_are_reported_and_a_broken_edit_is_too(daemon, client, config):
    events = Events(daemon)
    file = config / "models.yml"
    edit(file, "default: small", "default: offline")
    file.chmod(0o600)
    while events.read_next("modelsUpdate")["default"] != "offline":
        pass
    edit(file, "engine: codex", "engine: codecs")
    file.chmod(0o600)
    until(lambda: "codex" in json.dumps(client.get("/api/models")["problems"]))
    assert len(client.get("/api/models")["models"]) == 5
    assert client.post("/api/models/select", {"model": "large"}).status == 409
    assert "engine: codecs" in file.read_text()


def test_an_administrator_adds_changes_and_removes_models(daemon, config):
    admin = daemon.administrator()
    assert admin.get("/api/models")["suppliers"] == ["here", "env", "file"]
    new = {"name": "new", "engine": "acp", "command": ["opencode", "acp"]}
    reply = admin.post("/api/models", new)
    assert (reply.status, reply["command"]) == (201, ["opencode", "acp"])
    assert admin.post("/api/models", new).status == 409
    changed = {**admin.get("/api/models/large").json(), "name": "big", "model": "l2"}
    assert admin.put("/api/models/large", changed)["model"] == "l2"
    assert admin.delete("/api/models/filed").status == 204
    names = [one["name"] for one in admin.get("/api/models")["models"]]
    assert names == ["small", "big", "codex", "offline", "new"]
    text = (config / "models.yml").read_text()
    assert "# the dear one" in text
    assert CANARY in text


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("DELETE", "/small", None, 409),
        ("PUT", "/small", {"name": "tiny", "engine": "offline"}, 409),
        ("PUT", "/none", {"name": "none", "engine": "offline"}, 404),
        ("POST", "", {"name": "x", "engine": "native"}, 400),
        ("POST", "", {"name": "x", "engine": "native", "model": "m", "supplier": "nobody"}, 400),
        ("POST", "", {"name": "a b", "engine": "offline"}, 400),
    ],
)
def test_what_cannot_be_done_to_models_changes_nothing(daemon, config, method, path, body, status):
    reply = daemon.administrator().send(method, f"/api/models{path}", body)
    assert reply.status == status
    assert (config / "models.yml").read_text() == MODELS


def test_a_key_changes_no_models_for_their_commands_are_started(client, config):
    wish = {"name": "x", "engine": "acp", "command": ["sh"]}
    assert client.post("/api/models", wish).status == 403
    assert client.get("/api/models/small").status == 403
    assert client.delete("/api/models/large").status == 403
    assert (config / "models.yml").read_text() == MODELS


# Skills.


def test_skills_are_listed_in_their_order_and_read(client, config):
    reply = client.get("/api/skills")
    assert [(one["name"], one["color"]) for one in reply["skills"]] == [
        ("review", "#3366cc"), ("write", "#00aa00"), ("zeal", ""),
    ]  # fmt: skip
    assert reply["default"] == "review"
    one = client.get("/api/skills/read/write").json()
    assert one["text"] == "Do write well."
    assert one["source"] == str(config / "skills" / "write" / "SKILL.md")
    missing = client.get("/api/skills/read/wrte")
    assert missing.status == 404
    assert 'did you mean "write"?' in missing["message"]
    assert client.get("/api/skills/read/..%2F..%2Fkeys.yml").status == 404


def test_a_skill_is_selected_for_a_chat_or_offered_first(daemon, client, config):
    chat = client.create_chat()
    assert client.post("/api/skills/select", {"chatId": chat, "skill": "zeal"}).status == 200
    assert client.get(f"/api/chat/{chat}")["settings"]["skill"] == "zeal"
    assert (config / "skills.yml").read_text() == SKILLS
    events = Events(daemon)
    assert client.post("/api/skills/select", {"skill": "zeal"}).status == 200
    assert (config / "skills.yml").read_text() == SKILLS.replace(": review ", ": 'zeal' ")
    assert events.read_next("skillsUpdate")["default"] == "zeal"
    assert client.post("/api/skills/select", {"skill": "none"}).status == 200
    assert client.get("/api/skills")["default"] == "none"
    assert client.post("/api/skills/select", {"skill": "zeel"}).status == 404


def test_colours_and_order_change_and_comments_stay(client, config):
    shown = client.get("/api/skills-settings").json()
    assert [one["name"] for one in shown["skills"]] == ["review", "write", "zeal"]
    wish = [
        {"name": "zeal", "color": "#abcdef"},
        {"name": "write", "color": "#00aa00"},
        {"name": "review", "color": "#000000"},
    ]
    reply = client.put("/api/skills-settings", {"skills": wish})
    assert reply.json() == {"default": "review", "skills": wish}
    assert (config / "skills.yml").read_text() == (
        "# How they look.\ndefault: review   # most of the time\nskills:\n"
        "  zeal: {color: '#abcdef'}\n"
        "  # then\n  write:\n    color: '#00aa00'\n"
        "  # first things first\n  review:  {color: '#000000'}   # blue\n"
    )
    assert client.put("/api/skills-settings", {"skills": []}).status == 200
    assert client.get("/api/skills-settings")["skills"][0] == {"name": "review", "color": ""}


def test_the_colour_of_a_skill_that_cannot_be_read_now_stays(client, config):
    gone = '  gone: {color: "#123456"}   # on another branch\n'
    file = config / "skills.yml"
    file.write_text(file.read_text().replace("skills:\n", f"skills:\n{gone}"))
    wish = [{"name": "zeal", "color": "#abcdef"}, {"name": "review", "color": "#000000"}]
    assert client.put("/api/skills-settings", {"skills": wish}).status == 200
    assert gone in file.read_text()
    names = [one["name"] for one in client.get("/api/skills-settings")["skills"]]
    assert names == ["zeal", "review", "write"]


@pytest.mark.parametrize(
    ("wish", "status"),
    [
        ({"skills": [{"name": "review", "color": "blue"}]}, 400),
        ({"skills": [{"name": "review"}, {"name": "review"}]}, 400),
        ({"skills": [{"name": "nobody"}]}, 404),
        ({"default": "nobody"}, 404),
        ({"skills": "review"}, 400),
    ],
)
def test_looks_that_do_not_fit_are_refused(client, config, wish, status):
    assert client.put("/api/skills-settings", wish).status == status
    assert (config / "skills.yml").read_text() == SKILLS


def test_without_a_file_one_is_made(client, config):
    (config / "skills.yml").unlink()
    wish = {"default": "zeal", "skills": [{"name": "zeal", "color": "#123456"}]}
    assert client.put("/api/skills-settings", wish).status == 200
    shown = client.get("/api/skills-settings").json()
    assert shown["default"] == "zeal"
    assert shown["skills"][0] == {"name": "zeal", "color": "#123456"}


def test_a_skill_edited_by_hand_is_reported_without_any_request(daemon, config):
    events = Events(daemon)
    edit(config / "skills" / "zeal" / "SKILL.md", "Does zeal.", "Does more.")
    result = events.read_next("skillsUpdate")
    assert "Does more." in json.dumps(result)
    (config / "skills" / "write" / "SKILL.md").write_text("broken")
    result = events.read_next("skillsUpdate")
    assert [os.path.basename(one["where"]) for one in result["problems"]] == ["SKILL.md"]
    assert len(result["skills"]) == 3

"""Settings over the API and by hand: in force, told, masked, and the file as its writer left it."""

import json
import re
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agentd.agent.engine import ReplyCompleted
from agentd.auth.password import hash_password
from agentd.auth.roles import User
from agentd.auth.user_store import UserFile
from agentd.settings.model import BY_ADMINISTRATORS, BY_MANAGERS, Settings
from agentd.settings.status import AT_ONCE, MASK, RESTART, SECRET
from agentd.storage.yaml import editor as yaml_editor
from tests.support.daemon import CHEAP, HASH, KEY, WORD, Client, Serving, until
from tests.support.fixtures import Serve

ALL = "/api/settings/all"
SET = "/api/settings/set"

FILE = """\
# The settings of this host.
port:   0    # any

max_parallel_turns: 1   # one thing at a time
# from time to time more
approvals: "ask"   # carefully
hosts:
  # of the office
  - office.example   # mine
#budget_per_day: null
drain_seconds: 0
agent_api_key: {key}   # of the laptop
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A hand-written ``agentd.yml``."""
    (tmp_path / "config").mkdir()
    path = tmp_path / "config" / "agentd.yml"
    path.write_text(FILE.format(key=HASH))
    return path


@pytest.fixture
def daemon(file: Path, serve: Serve) -> Serving:
    """A daemon with that file."""
    return serve(options={"workspace": str(file.parent)})


@pytest.fixture
def client(daemon: Serving) -> Client:
    """Its administrator, who may change every setting."""
    return daemon.administrator()


def get_setting(client: Client, name: str) -> dict[str, Any]:
    """Return a setting by its name."""
    found: list[dict[str, Any]] = client.get(ALL)["settings"]
    return next(one for one in found if one["name"] == name)


def edit(path: Path, old: str, new: str, how: str = "rename") -> None:
    """Edit the file by a rename, as ``sed -i`` does, or in place."""
    text = path.read_text()
    assert old in text
    target = path.with_name(".edited") if how == "rename" else path
    target.write_text(text.replace(old, new))
    if how == "rename":
        target.rename(path)


class Events:
    """The events of ``GET /api/events``, as they come."""

    def __init__(self, daemon: Serving) -> None:
        self._client = daemon.client()
        connection = self._client.connection
        connection.request("GET", "/api/events", headers={"X-API-Key": KEY})
        self._response = connection.getresponse()

    def read_next(self, wanted: str) -> Any:
        """Return the only argument of the next event of this name."""
        name = ""
        while line := self._response.readline().decode().rstrip("\n"):
            pass
        while True:
            line = self._response.readline().decode().rstrip("\n")
            if line.startswith("event: "):
                name = line[7:]
            if line.startswith("data: ") and name == wanted:
                return json.loads(line[6:])[0]


class SettingsSetup(NamedTuple):
    """A daemon's ``agentd.yml``, and who may try to change it."""

    file: Path
    clients: dict[str, Client]


@pytest.fixture(scope="module")
def shared_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SettingsSetup]:
    """Yield one place for all tests that only ask."""
    folder = tmp_path_factory.mktemp("tried")
    with Serving(folder) as daemon:
        UserFile(daemon.layout).add(User("max", "manager", hash_password(WORD, CHEAP)))
        signing = {"user": "max", "password": WORD, "bearer": True}
        token = daemon.client(None).post("/api/session", signing)["token"]
        clients = {
            "key": daemon.client(),
            "named key": daemon.client(daemon.new_key("laptop")),
            "manager": Client(daemon.url, None, {"Authorization": f"Bearer {token}"}),
        }
        yield SettingsSetup(Path(daemon.layout.settings), clients)
        clients["manager"].close()


@pytest.fixture
def events(daemon: Serving) -> Iterator[Events]:
    """Yield the live events."""
    yield Events(daemon)


# The schema.


def test_each_setting_is_known_to_hold_at_once_or_from_the_next_start():
    names = set(Settings.__struct_fields__)
    assert names == AT_ONCE | RESTART
    assert not AT_ONCE & RESTART
    assert SECRET <= RESTART


def test_every_setting_is_described_with_what_it_takes(client):
    found = client.get(ALL)["settings"]
    assert [one["name"] for one in found] == list(Settings.__struct_fields__)
    for one in found:
        assert one["description"]
        assert one["schema"]
        assert one["restart"] == (one["name"] in RESTART)
        assert one["secret"] == (one["name"] in SECRET)
    port = get_setting(client, "port")
    assert port["schema"] == {"type": "integer", "minimum": 0, "maximum": 65535}
    assert (port["value"], port["default"], port["source"]) == (0, 8750, "agentd.yml:2")
    assert get_setting(client, "workspace")["source"] == "--workspace"
    assert get_setting(client, "engine")["source"] == "default"
    assert get_setting(client, "hosts")["file"] == ["office.example"]
    assert get_setting(client, "engine")["file"] is None


# By hand.


@pytest.mark.parametrize("how", ["rename", "in place"])
def test_an_edit_by_hand_holds_at_once(client, file, how):
    edit(file, '"ask"', "auto", how)
    assert get_setting(client, "approvals")["value"] == "auto"


def test_an_edit_is_reported_without_any_request(daemon, file, events):
    edit(file, '"ask"', "deny")
    result = events.read_next("settingsUpdate")
    assert {one["name"]: one["value"] for one in result["settings"]}["approvals"] == "deny"
    assert HASH not in json.dumps(result)


def test_a_broken_edit_changes_nothing_and_is_reported_until_it_is_repaired(client, file):
    edit(file, "max_parallel_turns: 1", "max_paralel_turns: 7")
    edit(file, '"ask"', "auto")
    (problem,) = client.get(ALL)["problems"]
    assert problem["where"] == str(file)
    assert problem["line"] == 4
    assert 'did you mean "max_parallel_turns"?' in problem["what"]
    assert get_setting(client, "approvals")["value"] == "ask"
    edit(file, "max_paralel_turns: 7", "max_parallel_turns: 7")
    assert client.get(ALL)["problems"] == []
    assert get_setting(client, "approvals")["value"] == "auto"
    assert get_setting(client, "max_parallel_turns")["value"] == 7


def test_a_key_that_is_no_hash_is_a_mistake_that_does_not_repeat_it(client, file):
    edit(file, HASH, KEY)
    text = client.get(ALL).body.decode()
    assert "looks like a key itself" in text
    assert KEY not in text


def test_a_deleted_file_means_the_defaults(client, file):
    file.unlink()
    assert get_setting(client, "max_parallel_turns")["value"] == 2
    waiting = get_setting(client, "port")
    assert (waiting["value"], waiting["next"], waiting["waits"]) == (0, 8750, True)


def test_the_mistakes_of_every_file_are_reported(client, file):
    (file.parent / "models.yml").write_text("modles: []\n")
    (file.parent / "skills.yml").write_text("colour: red\n")
    broken = file.parent / "skills" / "broken"
    broken.mkdir(parents=True)
    (broken / "SKILL.md").write_text("no front matter\n")
    (file.parent / "users.yml").write_text("usres: []\n")
    wanted = {"models.yml", "skills.yml", "SKILL.md", "users.yml"}
    until(lambda: {Path(one["where"]).name for one in client.get(ALL)["problems"]} >= wanted)


# What they do.


def test_more_turns_at_once_begin_at_once(daemon, file):
    client = daemon.client()
    daemon.engine.hold()
    chats = [client.create_chat(prompt="x") for _ in range(3)]
    until(lambda: len(daemon.engine.given) == 1)
    edit(file, "max_parallel_turns: 1", "max_parallel_turns: 3")
    until(lambda: len(daemon.engine.given) == 3)
    daemon.engine.release()
    assert all(client.messages(chat)[-1]["content"] == "echo: x" for chat in chats)


def test_a_budget_holds_from_the_next_prompt_on(daemon):
    client = daemon.client()
    daemon.engine.says = lambda given: [ReplyCompleted("dear", cost=Decimal(2))]
    chat = client.create_chat(prompt="one")
    client.status(chat, 20)
    assert daemon.administrator().post(SET, {"budget_per_chat": 1}).status == 200
    client.post(f"/api/remote/chats/{chat}/queue", {"prompt": "two"})
    until(lambda: client.get("/api/chat/approvals")["approvals"])
    assert len(daemon.engine.given) == 1


def test_a_host_is_served_as_long_as_it_stands_there(client, file):
    office = {"Host": "office.example"}
    assert client.get("/healthz", office).status == 200
    edit(file, "office.example", "home.example")
    until(lambda: client.get("/healthz", office).status == 421)
    assert client.get("/healthz", {"Host": "home.example"}).status == 200


# By the API.


def test_only_the_values_change_in_the_file(client, file):
    wish = {"max_parallel_turns": 5, "approvals": "deny", "budget_per_day": "2.50"}
    reply = client.post(SET, wish)
    assert reply.status == 200
    expected = FILE.format(key=HASH)
    for old, new in (
        ("turns: 1 ", "turns: 5 "),
        ('"ask"', "'deny'"),
        ("#budget_per_day: null\n", "#budget_per_day: null\nbudget_per_day: '2.50'\n"),
    ):
        expected = expected.replace(old, new)
    assert file.read_text() == expected
    result = {one["name"]: one for one in reply["settings"]}
    assert result.keys() == {"max_parallel_turns", "approvals", "budget_per_day"}
    assert result["approvals"]["value"] == "deny"
    assert result["budget_per_day"]["value"] == 2.5
    assert not any(one["waits"] for one in result.values())


def test_null_takes_a_setting_out_of_the_file(client, file):
    client.post(SET, {"approvals": "deny"})
    (result,) = client.post(SET, {"approvals": None})["settings"]
    assert (result["value"], result["file"], result["source"]) == ("ask", None, "default")
    assert "approvals" not in file.read_text()


def test_what_needs_a_restart_waits_for_it_and_says_so(daemon, client, file, serve):
    (result,) = client.post(SET, {"port": 1})["settings"]
    assert (result["value"], result["next"], result["waits"], result["restart"]) == (
        0,
        1,
        True,
        True,
    )
    client.post(SET, {"port": 0, "approvals": "auto"})
    assert not get_setting(client, "port")["waits"]
    daemon.stop()
    daemon.join()
    assert get_setting(serve().client(), "approvals")["value"] == "auto"


def test_what_was_said_elsewhere_comes_before_the_file_still(file, serve):
    client = serve(environ={"AGENTD_WORKSPACE": str(file.parent)}).administrator()
    (result,) = client.post(SET, {"workspace": "elsewhere"})["settings"]
    assert result["source"] == "AGENTD_WORKSPACE"
    assert result["file"] == "elsewhere"
    assert result["value"] == result["next"] == str(file.parent)
    assert not result["waits"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"prot": 1}, 'There is no setting "prot"; did you mean "port"?'),
        ({"port": 70000}, 'port: found "70000", expected a whole number 0 to 65535'),
        ({"port": "1"}, "remove the quotes"),
        ({"port": True}, 'found "true"'),
        ({"port": [1]}, "found a list"),
        ({"approvals": "asks"}, 'did you mean "ask"?'),
        ({"workspace": 5}, "workspace: found something else, expected text in quotes"),
        ({"hosts": [5]}, "hosts: found something else, expected text in quotes"),
        ({"hosts": "x"}, 'hosts: found "x", expected a list'),
        ({"approval_rules": [{"decision": "may"}]}, "approval_rules[0].decision"),
        ({"approval_rules": [{"decison": "allow"}]}, 'did you mean "decision"?'),
        ({"agent_api_key": KEY}, "looks like a key itself"),
        ({"approval_seconds": 1e300}, "approval_seconds: found"),
        (
            {"tls": {"certificate": "/none/a.crt", "key": "/none/a.key"}},
            "tls: the next start could not answer https: /none/a.crt: cannot be read",
        ),
        (
            {"state": "/dev/null/state"},
            "state: the next start could not use '/dev/null/state': /dev/null is no folder",
        ),
    ],
)
def test_what_does_not_fit_is_refused_as_the_file_would_be_and_nothing_is_written(
    client, file, changes, why
):
    before = file.read_bytes()
    reply = client.post(SET, {"max_parallel_turns": 9, **changes})
    assert reply.status == 400
    assert why in reply["message"]
    assert file.read_bytes() == before
    assert get_setting(client, "max_parallel_turns")["value"] == 1
    assert KEY not in reply.body.decode()


def test_all_mistakes_are_reported_at_once(client):
    reply = client.post(SET, {"port": -1, "engine": "native2"})
    assert "port: found" in reply["message"] + reply["details"]
    assert 'did you mean "native"?' in reply["message"] + reply["details"]


def test_a_value_that_nests_without_end_is_refused(client):
    deep = b'{"hosts":' + b"[" * 500 + b"]" * 500 + b"}"
    assert client.post(SET, deep).status == 400


def test_a_file_with_mistakes_is_not_written_over(client, file):
    edit(file, "port:", "prot:", "in place")
    broken = file.read_bytes()
    reply = client.post(SET, {"approvals": "auto"})
    assert reply.status == 409
    assert "prot" in reply["details"]
    assert file.read_bytes() == broken


def test_an_edit_meanwhile_is_a_conflict_and_stays(client, file, monkeypatch):
    real = yaml_editor.document.replace_document

    def edit_first(path, data, **how):
        edit(file, "# any", "# hers")
        monkeypatch.setattr(yaml_editor.document, "replace_document", real)
        real(path, data, **how)

    monkeypatch.setattr(yaml_editor.document, "replace_document", edit_first)
    assert client.post(SET, {"approvals": "auto"}).status == 409
    assert "# hers" in file.read_text()
    assert '"ask"' in file.read_text()
    assert client.post(SET, {"approvals": "auto"}).status == 200


def test_many_writers_at_once_lose_nothing(daemon, file):
    names = ["turn_steps", "turn_seconds", "silence_seconds", "max_parallel_turns"]
    replies: list[int] = []

    def write(name: str) -> None:
        client = daemon.client()
        replies.extend(client.post(SET, {name: number}).status for number in range(10, 20))

    threads = [threading.Thread(target=write, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(replies) == {200}
    client = daemon.client()
    assert [get_setting(client, name)["value"] for name in names] == [19] * 4


# Secrets.


def test_a_secret_is_masked_everywhere_and_the_mask_keeps_it(daemon, client, file, events):
    """Security: what is masked when read, and written back, stays what it was."""
    assert get_setting(client, "agent_api_key")["value"] == MASK
    other = "0123456789abcdef" * 4
    reply = client.post(SET, {"agent_api_key": MASK, "approvals": "auto"})
    assert reply.status == 200
    assert f"agent_api_key: {HASH}   # of" in file.read_text()
    reply = client.post(SET, {"agent_api_key": other})
    (result,) = reply["settings"]
    assert (result["value"], result["next"], result["file"], result["waits"]) == (
        MASK,
        MASK,
        MASK,
        True,
    )
    told_live = str(events.read_next("settingsUpdate"))
    for text in (reply.body.decode(), client.get(ALL).body.decode(), told_live):
        assert HASH not in text
        assert other not in text
        assert not re.search("[0-9a-f]{8}", text)


def test_an_administrator_is_made_by_hand_or_by_an_administrator(daemon, file):
    client = daemon.client()
    reply = client.post(SET, {"admin_user": "me", "approvals": "auto"})
    assert reply.status == 403
    assert get_setting(client, "approvals")["value"] == "ask"
    assert "admin_user" not in file.read_text()


# By whom.

VALUES: dict[str, Any] = {
    "host": "localhost",
    "port": 0,
    "hosts": ["evil.example"],
    "workspace": "/",
    "state": "elsewhere",
    "agent_api_key": "a" * 64,
    "admin_user": "eve",
    "admin_password_hash": "x",
    "proxy_app_hash": "b" * 64,
    "engine": "offline",
    "codex_command": ["evil"],
    "claude_command": ["evil"],
    "acp_command": ["evil"],
    "approvals": "auto",
    "approval_rules": [{"decision": "allow", "kind": "shell", "subject": "*"}],
    "on_interrupted": "retry",
}
"""A new value for each setting; 5 fits all others."""


@pytest.mark.parametrize("who", ["key", "named key", "manager"])
@pytest.mark.parametrize("name", Settings.__struct_fields__)
def test_settings_that_widen_power_are_for_administrators_alone(shared_place, name, who):
    """Specification 5.6: a key has the rights of a manager, and no more than these."""
    place = shared_place
    before = place.file.read_bytes()
    reply = place.clients[who].post(SET, {name: VALUES.get(name, 5)})
    if name in BY_MANAGERS:
        assert reply.status == 200, reply.body
        return
    assert (reply.status, reply["error"]) == (403, "Forbidden")
    assert name in reply["message"]
    assert "administrator" in reply["message"]
    mixed = place.clients[who].post(SET, {"turn_steps": 3, name: None})
    assert mixed.status == 403
    assert place.file.read_bytes() == before


def test_each_setting_is_for_managers_or_for_administrators():
    names = set(Settings.__struct_fields__)
    assert names == BY_MANAGERS | BY_ADMINISTRATORS
    assert not BY_MANAGERS & BY_ADMINISTRATORS
    assert BY_MANAGERS <= AT_ONCE


def test_a_view_of_the_settings_shows_who_may_change_each(client):
    for one in client.get(ALL)["settings"]:
        assert one["role"] == ("manager" if one["name"] in BY_MANAGERS else "administrator")

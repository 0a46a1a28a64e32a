"""``/api/keys``: what the settings card 'Access keys' does."""

import json
import re
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from agentd.gateway.keys.file import AccessKeyFile
from agentd.gateway.keys.model import issue
from tests.support.daemon import Client, Serving, until

AT = "2026-01-01T00:00:00.000Z"


def test_a_key_is_generated_shown_once_and_opens_the_api(client: Client, daemon: Serving) -> None:
    """Specification 5.3 and 2, 'Named access key'."""
    made = client.post("/api/keys", {"name": "laptop"})
    assert made.status == 201
    assert re.fullmatch("agent_[A-Za-z0-9]{32}", made["key"])
    laptop = daemon.client(made["key"])
    assert laptop.get("/api/remote/bots").status == 200
    listed = client.get("/api/keys")
    [row] = listed["keys"]
    assert (row["name"], row["revoked"]) == ("laptop", False)
    assert row["created"]
    until(lambda: client.get("/api/keys")["keys"][0]["lastUsed"])
    assert made["key"].encode() not in listed.body + Path(daemon.layout.keys).read_bytes()


def test_a_regenerated_key_is_another_and_the_one_before_opens_nothing(
    client: Client, daemon: Serving
) -> None:
    """Specification 5.3: takes effect at once; the others are not affected."""
    before, other = (client.post("/api/keys", {"name": name})["key"] for name in ("a", "b"))
    after = client.post("/api/keys/a/regenerate", None)["key"]
    found = [daemon.client(key).get("/api/remote/bots").status for key in (before, after, other)]
    assert found == [401, 200, 200]
    renewals = Path(daemon.layout.renewals)
    until(lambda: json.loads(renewals.read_bytes())["renewals"] == [])
    revoked = json.loads(Path(daemon.layout.revoked).read_bytes())["revoked"]
    assert [one["name"] for one in revoked] == ["a"]


def test_a_revoked_key_opens_nothing_from_the_next_request_on(
    client: Client, daemon: Serving
) -> None:
    key = client.post("/api/keys", {"name": "a"})["key"]
    assert client.delete("/api/keys/a").status == 200
    assert daemon.client(key).get("/api/remote/bots").status == 401
    assert client.delete("/api/keys/a").status == 404
    assert client.post("/api/keys/a/regenerate", None).status == 404
    assert client.get("/api/keys")["keys"] == []


@pytest.mark.parametrize("name", ["", "a b", "environment", "x" * 65, "../x", 1, None])
def test_what_can_be_no_name_is_reported(caller: Client, name: object) -> None:
    assert caller.post("/api/keys", {"name": name}).status == 400


def test_a_name_is_there_once(client: Client) -> None:
    client.post("/api/keys", {"name": "a"})
    assert client.post("/api/keys", {"name": "a"}).status == 409


def test_a_file_with_mistakes_is_not_written_over(client: Client, daemon: Serving) -> None:
    client.post("/api/keys", {"name": "a"})
    file = Path(daemon.layout.keys)
    broken = file.read_text().replace("sha256", "sha265")
    file.write_text(broken)
    answer = client.post("/api/keys", {"name": "b"})
    assert (answer.status, answer["error"]) == (409, "Conflict")
    assert "keys.yml:" in answer["details"]
    assert file.read_text() == broken
    until(lambda: client.get("/api/keys")["problem"])


def test_each_key_shows_who_made_it_and_goes_with_him_on_demand(
    client: Client, daemon: Serving
) -> None:
    """Else revoking a key that leaked contains nothing: its finder made keys of his own."""
    leaked = client.post("/api/keys", {"name": "leaked"})["key"]
    thief = daemon.client(leaked)
    more = thief.post("/api/keys", {"name": "more"})["key"]
    most = daemon.client(more).post("/api/keys", {"name": "most"})["key"]
    mine = daemon.administrator().post("/api/keys", {"name": "mine"})["key"]
    listed = {one["name"]: one for one in client.get("/api/keys")["keys"]}
    assert {name: one["createdBy"] for name, one in listed.items()} == {
        "leaked": "key:environment",
        "more": "key:leaked",
        "most": "key:more",
        "mine": "user:ada",
    }
    assert listed["leaked"]["children"] == ["more", "most"]
    left = client.delete("/api/keys/leaked").json()
    assert (left["revoked"], left["children"]) == (["leaked"], ["more", "most"])
    gone = client.delete("/api/keys/more?children=true").json()
    assert (gone["revoked"], gone["children"]) == (["more", "most"], [])
    found = [daemon.client(key).get("/api/chats").status for key in (leaked, more, most, mine)]
    assert found == [401, 401, 401, 200]


def get_models_status(daemon: Serving, letters: str) -> int:
    """Return the gateway's status for a request with this access key."""
    with closing(HTTPConnection("127.0.0.1", daemon.port)) as connection:
        connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {letters}"})
        return connection.getresponse().status


def test_access_keys_of_the_gateway_are_told_with_the_key_that_made_them_and_go_with_it(
    client: Client, daemon: Serving
) -> None:
    client.post("/api/keys", {"name": "leaked"})
    file = AccessKeyFile(daemon.layout)
    made = {by: issue(f"of {by}", AT, by) for by in ("key:leaked", "user:ann")}
    for _, kept in made.values():
        file.add(kept)
    robot = {"id": made["key:leaked"][1].id, "name": "of key:leaked"}
    keys = [letters for letters, _ in made.values()]
    assert [get_models_status(daemon, one) for one in keys] == [200, 200]
    assert client.get("/api/keys")["keys"][0]["accessKeys"] == [robot]
    gone = client.delete("/api/keys/leaked?children=true").json()
    assert gone == {
        "revoked": ["leaked"],
        "children": [],
        "revokedAccessKeys": [robot],
        "accessKeys": [],
    }
    assert [get_models_status(daemon, one) for one in keys] == [401, 200]


def test_a_key_is_revoked_though_the_access_keys_cannot_be_told_and_once_more_when_they_can(
    client: Client, daemon: Serving
) -> None:
    leaked = client.post("/api/keys", {"name": "leaked"})["key"]
    _, kept = issue("robot", AT, "key:leaked")
    AccessKeyFile(daemon.layout).add(kept)
    path = Path(daemon.layout.access_keys)
    sound = path.read_text()
    path.write_text("format: 2\n" + sound.split("\n", 1)[1])
    answer = client.delete("/api/keys/leaked?children=true")
    assert (answer.status, "leaked: revoked" in answer["message"]) == (409, True)
    assert "access-keys.yml" in answer["details"]
    assert daemon.client(leaked).get("/api/chats").status == 401
    path.write_text(sound)
    gone = client.delete("/api/keys/leaked?children=true").json()
    assert gone["revokedAccessKeys"] == [{"id": kept.id, "name": "robot"}]


def test_a_client_that_renews_a_key_has_made_it_unless_it_did_so_itself(
    client: Client, daemon: Serving
) -> None:
    mine = client.post("/api/keys", {"name": "mine"})["key"]
    other = client.post("/api/keys", {"name": "other"})["key"]
    mine = daemon.client(mine).post("/api/keys/mine/regenerate", None)["key"]
    daemon.client(mine).post("/api/keys/other/regenerate", None)
    listed = {one["name"]: one["createdBy"] for one in client.get("/api/keys")["keys"]}
    assert listed == {"mine": "key:environment", "other": "key:mine"}
    assert daemon.client(other).get("/api/chats").status == 401

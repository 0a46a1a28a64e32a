"""Endpoints 1, 2 and 9 of the remote API, and what is true of all nine."""

import re
import threading
from decimal import Decimal
from pathlib import Path

import pytest

from agentd.agent.engine import ReplyCompleted, ToolUsed, TurnFailed
from agentd.bots.api import RemoteBotEndpoints
from agentd.core.errors import AgentdError
from agentd.llm.price import Usage
from tests.support.daemon import (
    PATIENCE,
    Client,
    Engine,
    Serving,
    build_request,
    read_journals,
    send_raw,
    until,
)
from tests.support.fixtures import Serve

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
CHATS = "/api/remote/chats"


# Endpoint 1: a new chat.


def test_a_chat_with_a_prompt_is_created_as_queued(client: Client) -> None:
    """Specification 2, 'Chat creation request body', prompt; 3, 'Transitions', row 1."""
    reply = client.post(CHATS, {"prompt": "hello"})
    assert reply.status == 201
    assert reply["status"] == "queued"


def test_the_prompt_of_a_new_chat_is_processed_automatically(client: Client) -> None:
    """Specification 1 and 3, 'Transitions', row 1."""
    chat = client.create_chat(prompt="hello")
    said = [(message["role"], message["content"]) for message in client.messages(chat)]
    assert said == [("user", "hello"), ("assistant", "echo: hello")]


@pytest.mark.parametrize("wish", [{}, {"prompt": None}, {"title": "T", "unknown": [1, {}]}])
def test_a_chat_without_a_prompt_is_created_and_nothing_is_sent(
    client: Client, engine: Engine, wish: dict[str, object]
) -> None:
    """Specification 3, 'Transitions', row 2. A field that is not known is ignored."""
    reply = client.post(CHATS, wish)
    assert (reply.status, reply["status"]) == (201, "created")
    assert client.status(reply["chatId"], 1)["messageCount"] == 0
    assert engine.given == []


def test_the_answer_to_a_creation_has_the_specified_fields(client: Client) -> None:
    """Specification 2, 'Chat creation response'."""
    made = client.post(CHATS, {"prompt": "x"}).json()
    assert type(made["chatId"]) is int
    assert made["chatId"] > 0
    assert made["url"] == f"/{made['chatId']}"
    assert TIME.fullmatch(made["createdAt"])
    assert made["botLinked"] is None
    assert made["botLinkNote"] == ""
    assert len(made) == 6


@pytest.mark.parametrize("wish", [{}, {"title": ""}, {"title": " \t"}, {"title": None}])
def test_a_chat_without_a_title_has_the_default_one(
    client: Client, wish: dict[str, object]
) -> None:
    """Specification 2, 'Chat creation request body', title."""
    assert client.status(client.create_chat(**wish))["title"] == "Remote API Chat"


def write_skill(daemon: Serving, name: str) -> None:
    """Write a skill that says to look twice."""
    skill = Path(daemon.layout.skills, name)
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(f"---\nname: {name}\ndescription: d\n---\nLook twice.\n")


def test_title_model_skill_and_system_prompt_belong_to_the_chat(
    client: Client, daemon: Serving, engine: Engine
) -> None:
    """Specification 2, 'Chat creation request body'."""
    write_skill(daemon, "review")
    chat = client.create_chat(
        prompt="p", title="T", model="m", skill="review", systemPrompt="Be\nkind"
    )
    assert client.status(chat, 20)["title"] == "T"
    (given,) = engine.given
    assert (given.model, given.skill) == ("the m", "review")
    assert given.instructions.startswith("Be\nkind\n\n")
    assert "Look twice." in given.instructions


def test_without_a_skill_the_chat_has_none(client: Client, daemon: Serving, engine: Engine) -> None:
    """Specification 2, 'Chat creation request body', skill: no inheritance of the default."""
    write_skill(daemon, "review")
    Path(daemon.layout.skills_settings).write_text("default: review\n")
    until(lambda: client.get("/api/skills")["default"] == "review")
    client.messages(client.create_chat(prompt="p"))
    assert engine.given[0].skill == "none"
    assert engine.given[0].model == engine.given[0].instructions == ""


def test_an_unknown_skill_is_a_bad_request_and_makes_no_chat(
    client: Client, daemon: Serving
) -> None:
    reply = client.post(CHATS, {"prompt": "p", "skill": "nothing"})
    assert (reply.status, reply["error"]) == (400, "BadRequest")
    assert read_journals(daemon.layout) == {}


@pytest.mark.parametrize("skill", ["..", "../..", "/etc", "a/../b", "\0", ".", "x" * 900])
def test_a_skill_is_a_name_and_never_a_path(client: Client, skill: str) -> None:
    assert client.post(CHATS, {"skill": skill}).status == 400


@pytest.mark.parametrize("prompt", ["", " ", "\n\t ", "\u00a0\u2003"])
def test_a_blank_prompt_is_a_bad_request_and_makes_no_chat(
    client: Client, daemon: Serving, prompt: str
) -> None:
    """Specification 7, row 'BadRequest': empty prompt."""
    reply = client.post(CHATS, {"prompt": prompt})
    assert (reply.status, reply["error"]) == (400, "BadRequest")
    assert read_journals(daemon.layout) == {}


BOTS = """
bots:
  - {id: b1, title: Helper, token: "env:NO_SUCH_TOKEN"}
  - {id: b2, title: Sleeper, enabled: false, token: "env:ANOTHER_TOKEN"}
"""
"""Two bots: one without its token, one that is switched off."""


@pytest.fixture
def with_bots(tmp_path: Path, serve: Serve) -> Client:
    """A client of a daemon with two bots."""
    file = tmp_path / "config" / "bots.yml"
    file.parent.mkdir()
    file.write_text(BOTS)
    file.chmod(0o600)
    return serve().client()


@pytest.mark.parametrize(
    ("bot", "linked", "note"),
    [("b1", True, ""), ("b2", False, "switched off"), ("b3", False, "b3"), ("", None, "")],
)
def test_linking_a_bot_never_prevents_the_chat(
    with_bots: Client,
    bot: str,
    linked: bool | None,
    note: str,
) -> None:
    """Specification 2: bot linking is silent; its outcome is in botLinked and botLinkNote."""
    reply = with_bots.post(CHATS, {"botId": bot})
    assert reply.status == 201
    assert reply["botLinked"] is linked
    assert note in reply["botLinkNote"]
    assert bool(note) == bool(reply["botLinkNote"])


@pytest.mark.parametrize("bot", ["x" * 1001, "\u2028" * 100_000])
def test_an_overlong_bot_id_never_prevents_the_chat(with_bots: Client, bot: str) -> None:
    """Specification 2: bot linking can never prevent the chat from being created."""
    reply = with_bots.post(CHATS, {"botId": bot})
    assert (reply.status, reply["botLinked"]) == (201, False)
    assert len(reply["botLinkNote"]) < 1000


def test_bots_edited_by_hand_hold_for_the_next_request(with_bots: Client, tmp_path: Path) -> None:
    for number in range(5):
        bots = f'{BOTS}  - {{id: new{number}, token: "env:TOKEN_{number}"}}\n'
        (tmp_path / "config" / "bots.yml").write_text(bots)
        listed = with_bots.get("/api/remote/bots")["bots"]
        assert [bot["id"] for bot in listed] == ["b1", "b2", f"new{number}"]
        assert with_bots.post(CHATS, {"botId": f"new{number}"})["botLinked"] is True


def test_ids_rise_and_are_never_used_again(client: Client, serve: Serve, tmp_path: Path) -> None:
    first, second = client.create_chat(), client.create_chat()
    assert first < second
    chat = client.create_chat()
    replace = {"prompts": [{"prompt": "p", "isPaused": True}]}
    (prompt,) = client.put(f"{CHATS}/{chat}/queue", replace)["prompts"]
    client.delete(f"{CHATS}/{chat}/queue/{prompt['id']}")
    (another,) = client.put(f"{CHATS}/{chat}/queue", replace)["prompts"]
    assert another["id"] > prompt["id"]


# Endpoint 2: the status.


def test_the_status_has_the_specified_fields(client: Client) -> None:
    """Specification 2, 'Chat status object'."""
    chat = client.create_chat(prompt="p")
    client.messages(chat)
    status = client.status(chat)
    assert set(status) == {
        "chatId",
        "status",
        "title",
        "createdAt",
        "updatedAt",
        "messageCount",
        "totalCost",
        "error",
    }
    assert (status["chatId"], status["messageCount"], status["error"]) == (chat, 2, "")
    assert TIME.fullmatch(status["createdAt"])
    assert TIME.fullmatch(status["updatedAt"])
    assert status["createdAt"] <= status["updatedAt"]


def test_the_status_counts_every_message_and_has_the_time_of_the_last(
    client: Client, engine: Engine
) -> None:
    """Specification 2, 'Chat status object', messageCount and updatedAt."""
    engine.says = lambda _: [ToolUsed("look", "in", "out"), ReplyCompleted("a"), TurnFailed("b")]
    chat = client.create_chat(prompt="p")
    messages = client.messages(chat)
    status = client.status(chat)
    assert status["messageCount"] == len(messages) == 4
    assert status["createdAt"] <= messages[0]["createdAt"]
    assert messages[-1]["createdAt"] <= status["updatedAt"]


def test_the_status_is_processing_when_the_agent_works(client: Client, engine: Engine) -> None:
    """Specification 3: ``processing`` when the agent is working, whatever else waits."""
    engine.hold()
    chat = client.create_chat(prompt="p")
    until(lambda: engine.given)
    assert client.status(chat)["status"] == "processing"
    client.post(f"{CHATS}/{chat}/queue", {"prompt": "q"})
    assert client.status(chat)["status"] == "processing"
    engine.release()
    assert client.status(chat, 20)["status"] == "completed"


def test_the_status_is_queued_when_the_chat_is_free_but_prompts_wait(client: Client) -> None:
    """Specification 3: ``queued`` when the chat is free but its queue holds messages."""
    chat = client.create_chat()
    client.put(f"{CHATS}/{chat}/queue", {"prompts": [{"prompt": "p", "isPaused": True}]})
    assert client.status(chat, 1)["status"] == "queued"


def test_the_status_is_completed_otherwise(client: Client) -> None:
    """Specification 3: otherwise ``completed``, for a chat that never had a prompt too."""
    assert client.status(client.create_chat())["status"] == "completed"


def test_a_failed_turn_is_completed_and_reported_in_the_history(
    client: Client, engine: Engine
) -> None:
    """Specification 2 and 7: the ``error`` field of a status is always empty."""
    engine.says = lambda _: [TurnFailed("The disk burned.")]
    chat = client.create_chat(prompt="p")
    assert client.messages(chat)[-1]["content"] == "The disk burned."
    status = client.status(chat)
    assert (status["status"], status["error"]) == ("completed", "")


def test_cost_is_an_exact_sum_written_as_a_number(client: Client, engine: Engine) -> None:
    """Specification 2, 'Chat status object', totalCost: number."""
    engine.says = lambda _: [
        ReplyCompleted("a", Usage(input=1, output=2), Decimal("0.1")) for _ in range(3)
    ]
    chat = client.create_chat(prompt="p")
    client.messages(chat)
    assert b'"totalCost":0.3,' in client.get(f"{CHATS}/{chat}/status").body
    assert b'"cost":0.1}' in client.get(f"{CHATS}/{chat}/messages").body


def test_a_status_can_wait_until_the_chat_is_at_rest(
    client: Client, daemon: Serving, engine: Engine
) -> None:
    engine.hold()
    chat = client.create_chat(prompt="p")
    until(lambda: engine.given)
    found: list[str] = []
    other = daemon.client()
    thread = threading.Thread(target=lambda: found.append(other.status(chat, 20)["status"]))
    thread.start()
    assert client.status(chat, 0.05)["status"] == "processing"
    assert found == []
    engine.release()
    thread.join(PATIENCE)
    assert found == ["completed"]


@pytest.mark.parametrize(
    "wait", ["-1", "61", "60.1", "x", "", "1e9", "1e999", "+1", "nan", "inf", "9" * 5000]
)
def test_a_wait_that_is_none_is_a_bad_request(caller: Client, wait: str) -> None:
    chat = caller.create_chat()
    assert caller.get(f"{CHATS}/{chat}/status?wait={wait}").status == 400
    assert caller.get(f"{CHATS}/999999/status?wait={wait}").status == 400


@pytest.mark.parametrize("wait", ["0", "60", "0.5", "60.0", "1e-05", "41.947133354045036"])
def test_a_chat_at_rest_answers_at_once_however_long_one_would_wait(
    caller: Client, wait: str
) -> None:
    assert caller.get(f"{CHATS}/{caller.create_chat()}/status?wait={wait}").status == 200


# Endpoint 9: the bots.


def test_bots_are_listed_read_only_and_without_secrets(with_bots: Client) -> None:
    """Specification 4, endpoint 9, and 2, 'Bot object'."""
    until(lambda: with_bots.get("/api/remote/bots")["bots"][0]["pollingError"])
    reply = with_bots.get("/api/remote/bots")
    assert reply.status == 200
    helper, sleeper = reply["bots"]
    assert "NO_SUCH_TOKEN" in helper.pop("pollingError")
    assert helper == {"id": "b1", "title": "Helper", "enabled": True, "running": False}
    assert sleeper == {
        "id": "b2",
        "title": "Sleeper",
        "enabled": False,
        "running": False,
        "pollingError": None,
    }


def test_without_bots_the_list_is_empty(caller: Client) -> None:
    """Specification 4, endpoint 9."""
    assert caller.get("/api/remote/bots").json() == {"bots": []}


# Repeating a request: Idempotency-Key.

ONCE = {"Idempotency-Key": "the-first"}


def test_the_same_key_and_body_create_one_chat(
    client: Client, daemon: Serving, engine: Engine
) -> None:
    first = client.post(CHATS, {"prompt": "p"}, ONCE)
    again = client.post(CHATS, {"prompt": "p"}, ONCE)
    assert (again.status, again.json()) == (first.status, first.json())
    client.status(first["chatId"], 20)
    assert client.post(CHATS, {"prompt": "p"}, ONCE).json() == first.json()
    assert len(engine.given) == len(read_journals(daemon.layout)) == 1


def test_the_same_key_with_another_body_is_a_conflict(client: Client, daemon: Serving) -> None:
    client.post(CHATS, {"prompt": "p"}, ONCE)
    reply = client.post(CHATS, {"prompt": "q"}, ONCE)
    assert (reply.status, reply["error"]) == (409, "Conflict")
    assert len(read_journals(daemon.layout)) == 1


def test_a_prompt_that_is_appended_paused_waits_until_it_is_resumed(client: Client) -> None:
    chat = client.create_chat(title="Later")
    sent = {"prompt": "not yet", "isPaused": True}
    added = client.post(f"/api/remote/chats/{chat}/queue", sent)
    assert (added.status, added["isPaused"]) == (201, True)
    client.post(f"/api/remote/chats/{chat}/queue", {"prompt": "at once"})
    until(lambda: "at once" in [one["content"] for one in client.messages(chat)])
    assert [one["prompt"] for one in client.prompts(chat)] == ["not yet"]
    client.post(f"/api/MessageQueue/{chat}/{added['id']}/resume", {})
    until(lambda: client.prompts(chat) == [])


def test_the_same_key_and_body_append_one_prompt(client: Client, engine: Engine) -> None:
    engine.hold()
    chat = client.create_chat(prompt="first")
    until(lambda: engine.given)
    path = f"{CHATS}/{chat}/queue"
    first = client.post(path, {"prompt": "p"}, ONCE)
    assert client.post(path, {"prompt": "p"}, ONCE).json() == first.json()
    assert client.post(path, {"prompt": "q"}, ONCE).status == 409
    assert [prompt["prompt"] for prompt in client.prompts(chat)] == ["p"]


def test_a_key_is_one_callers_and_one_addresss_own(client: Client, daemon: Serving) -> None:
    other = daemon.client(daemon.new_key("laptop"))
    mine, theirs = client.create_chat(), other.create_chat()
    assert client.post(CHATS, {}, ONCE)["chatId"] != other.post(CHATS, {}, ONCE)["chatId"]
    for chat in (mine, theirs):
        assert client.post(f"{CHATS}/{chat}/queue", {"prompt": str(chat)}, ONCE).status == 201


def test_a_key_is_remembered_after_a_restart(serve: Serve) -> None:
    first = serve()
    made = first.client().post(CHATS, {"prompt": "p"}, ONCE).json()
    chat = made["chatId"]
    appended = first.client().post(f"{CHATS}/{chat}/queue", {"prompt": "q"}, ONCE).json()
    first.client().status(chat, 20)
    first.stop()
    first.join()
    second = serve()
    assert second.client().post(CHATS, {"prompt": "p"}, ONCE).json() == made
    again = second.client().post(f"{CHATS}/{chat}/queue", {"prompt": "q"}, ONCE)
    assert again.json() == appended
    assert second.client().post(CHATS, {"prompt": "other"}, ONCE).status == 409
    assert second.engine.given == []


def test_twenty_at_once_with_one_key_create_one_chat(client: Client, daemon: Serving) -> None:
    found: list[int] = []

    def create() -> None:
        other = daemon.client()
        found.append(other.post(CHATS, {"prompt": "p"}, ONCE)["chatId"])

    threads = [threading.Thread(target=create) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(found) == 20
    assert len(set(found)) == len(read_journals(daemon.layout)) == 1


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_a_key_that_is_none_is_a_bad_request(caller: Client, key: str) -> None:
    assert caller.post(CHATS, {}, {"Idempotency-Key": key}).status == 400


# What is true of all endpoints.

UNKNOWN = ["999999", "0", "-1", "x", "01", "1.0", "%31", "9" * 5000, str(2**53), "+1", "1e3"]


@pytest.mark.parametrize("chat", UNKNOWN)
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "status", None),
        ("GET", "status?wait=1", None),
        ("GET", "messages", None),
        ("GET", "queue", None),
        ("POST", "queue", {"prompt": "p"}),
        ("PUT", "queue", {"prompts": []}),
        ("PUT", "queue/1", {"prompt": "p"}),
        ("DELETE", "queue/1", None),
    ],
)
def test_an_unknown_chat_is_not_found(
    caller: Client, chat: str, method: str, path: str, body: object
) -> None:
    """Specification 4, queue rules; 7, row 'NotFound', its message's shape."""
    reply = caller.send(method, f"{CHATS}/{chat}/{path}", body)
    assert (reply.status, reply["error"]) == (404, "NotFound")
    assert reply["message"] == f"Chat {chat[:40]} not found"


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        (CHATS, {"POST"}),
        (f"{CHATS}/1/status", {"GET", "HEAD"}),
        (f"{CHATS}/1/messages", {"GET", "HEAD"}),
        (f"{CHATS}/1/queue", {"GET", "HEAD", "POST", "PUT"}),
        (f"{CHATS}/1/queue/1", {"PUT", "DELETE"}),
        ("/api/remote/bots", {"GET", "HEAD"}),
    ],
)
def test_a_wrong_method_is_405_and_names_the_right_ones(
    caller: Client, path: str, allowed: set[str]
) -> None:
    for method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "X"} - allowed:
        reply = caller.send(method, path)
        assert reply.status == 405
        assert set(reply.headers["Allow"].split(", ")) == allowed


def test_head_is_get_without_the_body(caller: Client) -> None:
    chat = caller.create_chat(prompt="p")
    caller.messages(chat)
    for path in ("status", "messages", "queue"):
        full = caller.get(f"{CHATS}/{chat}/{path}")
        head = caller.send("HEAD", f"{CHATS}/{chat}/{path}")
        assert (head.status, head.body) == (200, b"")
        assert head.headers["Content-Length"] == str(len(full.body))
        assert head.headers["Content-Type"] == full.headers["Content-Type"]
        assert head.headers["ETag"] == full.headers["ETag"]
    assert caller.send("HEAD", f"{CHATS}/999999/status").status == 404


@pytest.mark.parametrize(
    "path",
    [
        "/x",
        "/api",
        "/api/",
        "/api/remote",
        f"{CHATS}/",
        f"{CHATS}/1",
        f"{CHATS}/1/x",
        "/api/x",
    ],
)
def test_an_unknown_path_is_not_found(caller: Client, path: str) -> None:
    for method in ("GET", "POST", "DELETE", "HEAD"):
        reply = caller.send(method, path, {} if method == "POST" else None)
        assert reply.status == 404


def test_every_answer_is_json_that_nobody_keeps_and_has_an_id(caller: Client) -> None:
    """Every answer of this suite is checked like this (``support.check``); here it is seen once."""
    replies = [
        caller.get("/api/remote/bots"),
        caller.post(CHATS, {}),
        caller.get("/nothing"),
        *send_raw(int(caller.url.rsplit(":", 1)[1]), b"nonsense\r\n\r\n"),
    ]
    assert [reply.status for reply in replies] == [200, 201, 404, 400]
    for reply in replies:
        assert reply.headers["Content-Type"] == "application/json; charset=utf-8"
        assert reply.headers["Cache-Control"] == "no-store"
    assert len({reply.headers["X-Request-Id"] for reply in replies}) == 4


def test_an_unexpected_error_is_500_with_the_exceptions_text_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, serve: Serve
) -> None:
    """Specification 7, row 'InternalServerError': details holds the exception text."""

    def fail_unexpectedly(self: RemoteBotEndpoints, call: object) -> None:
        raise ZeroDivisionError("one by none")

    monkeypatch.setattr(RemoteBotEndpoints, "list_bots", fail_unexpectedly)
    reply = serve().client().get("/api/remote/bots")
    assert (reply.status, reply["error"]) == (500, "InternalServerError")
    assert reply["details"] == "ZeroDivisionError: one by none"


def test_every_kind_of_error_has_a_status_of_its_table() -> None:
    """Specification 7: every error body has the form, whatever went wrong."""
    from agentd.acp.messages import AcpInvalidParams
    from agentd.core.errors import ConfigError
    from agentd.gateway.relay.request import GatewayError
    from agentd.http.errors import ERROR_KINDS
    from agentd.mcp.messages import McpError

    # Told by the command line, in the callers' dialects, and as messages of protocols.
    elsewhere = {ConfigError, GatewayError, McpError, AcpInvalidParams}
    assert set(AgentdError.__subclasses__()) - elsewhere <= set(ERROR_KINDS)


def test_a_tool_message_names_its_tool_and_a_prompt_may_be_long(
    client: Client, engine: Engine
) -> None:
    """Specification 8: sizes are ours to limit: 256 KiB of text for a prompt, 413 beyond."""
    engine.says = lambda _: [ToolUsed("look", "in", "out"), ReplyCompleted("done")]
    chat = client.create_chat(prompt="ä" * 128 * 1024)
    assert [one["role"] for one in client.messages(chat)] == ["user", "tool", "assistant"]
    for wish in ({"prompt": "x" * (256 * 1024 + 1)}, {"systemPrompt": "x" * 1024 * 1024}):
        reply = client.post(CHATS, wish)
        assert (reply.status, reply["error"]) == (413, "TooLarge")


def test_a_named_key_opens_the_remote_api(client: Client, daemon: Serving) -> None:
    """Specification 5.3 and 5.4; 8: the prefix ``agent_`` and 32 characters."""
    key = daemon.new_key("laptop")
    assert re.fullmatch("agent_[A-Za-z0-9]{32}", key)
    answer = send_raw(
        daemon.port, build_request("GET", "/api/remote/bots", "Connection: close", key=key)
    )
    assert [reply.status for reply in answer] == [200]

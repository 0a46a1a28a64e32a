"""``agentd acp`` as a process, by hand: sessions, prompts, permissions, and what goes wrong."""

import base64
from pathlib import Path
from typing import Any

import pytest

from agentd.acp.messages import AUTH_REQUIRED, INVALID_PARAMS, RESOURCE_NOT_FOUND
from agentd.agent.engine import ReplyCompleted, ReplyDelta, ToolStarted, ToolUsed, TurnFailed
from tests.acp.conftest import Start
from tests.acp.support import Editor, say_all, write_text
from tests.live.hub.support import delete_by_hand
from tests.support.daemon import KEY, Serving, until

PNG = base64.b64encode(
    base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
    )
).decode()


def test_it_says_what_it_can_do(editor: Editor) -> None:
    for version in (0, 1, 99):
        found = editor.call("initialize", protocolVersion=version)
        assert found["protocolVersion"] == 1
        assert found["agentCapabilities"]["loadSession"] is True
        assert found["agentCapabilities"]["promptCapabilities"]["image"] is True
        assert found["agentInfo"]["name"] == "agentd"


def test_without_a_daemon_or_a_key_each_request_says_what_to_do(
    start: Start, tmp_path: Path
) -> None:
    alone = start()
    alone.begin()
    assert "agentd serve" in alone.refuse("session/new", cwd=str(tmp_path))["message"]
    with Serving(tmp_path):
        keyless, wrong = start(key=None), start(key="wrong")
        for editor in (keyless, wrong):
            editor.begin()
            for method in ("authenticate", "session/new"):
                refused = editor.refuse(method, methodId="key", cwd=str(tmp_path))
                assert refused["code"] == AUTH_REQUIRED
                assert "agentd keys generate" in refused["message"]
        assert alone.call("authenticate", methodId="key") == {}


def test_a_key_can_come_from_a_file(house: Serving, start: Start, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    editor = start("--key-file", str(tmp_path / "key"), key=None)
    editor.begin()
    assert editor.open()
    assert editor.end() == (0, "")


def test_what_is_no_message_is_answered_and_does_no_harm(editor: Editor) -> None:
    for line, code in (
        (b"x", -32700),
        (b"[]", -32600),
        (b'"x"', -32600),
        (b"\xff\xfe", -32700),
        (b"[" * 100_000, -32700),
        (b"{}", -32600),
        (b'{"id": {}, "method": "session/new"}', -32600),
        (b'{"id": true, "method": "session/new"}', -32600),
    ):
        editor.write(line)
        assert editor.read()["error"]["code"] == code, line
    assert editor.refuse("no/such")["code"] == -32601
    editor.write(b'{"jsonrpc": "2.0", "id": 7, "method": "session/new", "params": [1]}')
    assert editor.read_answer(7)["error"]["code"] == INVALID_PARAMS
    editor.write(b'{"jsonrpc": "2.0", "id": 999, "result": {}}')
    editor.notify("session/cancel", sessionId="none")
    editor.notify("no/such")
    assert editor.open()


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"prompt": "text"},
        {"prompt": []},
        {"prompt": [write_text("  ")]},
        {"prompt": [{"type": "audio", "data": ""}]},
        {"prompt": [{"type": "image", "data": "!", "mimeType": "image/png"}]},
        {"prompt": [{"type": "resource", "resource": {"uri": "file:///a.zip", "blob": "AAAA"}}]},
    ],
    ids=str,
)
def test_a_prompt_that_no_chat_can_be_given_is_refused(editor: Editor, params: Any) -> None:
    session = editor.open()
    assert editor.refuse("session/prompt", sessionId=session, **params)["code"] == INVALID_PARAMS


def test_the_folder_must_be_in_the_workspace_and_one_within_is_told(
    house: Serving, editor: Editor, tmp_path: Path
) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "away").symlink_to("/usr")
    made = editor.call("session/new", cwd=str(tmp_path / "inside"), mcpServers=[])
    told = house.client().get(f"/api/chat/{made['sessionId']}")["settings"]["systemPrompt"]
    assert "has opened the folder inside/ of the workspace" in told
    plain = house.client().get(f"/api/chat/{editor.open()}")
    assert not plain["settings"]["systemPrompt"]
    for folder in ("/usr", str(tmp_path.parent), f"{tmp_path}x", str(tmp_path / "away"), "inside"):
        refused = editor.refuse("session/new", cwd=folder, mcpServers=[])
        assert refused["code"] == INVALID_PARAMS
    refused = editor.refuse("session/new", cwd="/usr", mcpServers=[])
    assert str(tmp_path) in refused["message"]
    assert "agentd serve --workspace /usr" in refused["message"]


def test_a_turn_is_shown_as_it_goes(house: Serving, editor: Editor, tmp_path: Path) -> None:
    house.engine.says = say_all
    session = editor.open()
    assert editor.read_answer(editor.ask(session, "Go"))["result"] == {"stopReason": "end_turn"}
    assert editor.reply == "I see.Done."
    (plan,) = editor.list_updates("plan")
    assert [one["status"] for one in plan["entries"]] == ["completed", "in_progress", "pending"]
    assert [one["content"] for one in plan["entries"]] == ["read it", "change it", "test it"]
    calls = [one for one in editor.updates if "toolCallId" in one and one.get("content")]
    todo, edit, shell = calls
    assert todo["kind"] == "think"
    assert (edit["kind"], edit["status"]) == ("edit", "completed")
    assert edit["content"] == [
        {
            "type": "diff",
            "path": str(tmp_path / "notes.txt"),
            "oldText": "buy milk\nwater\n",
            "newText": "buy bread\nwater\n",
        }
    ]
    assert edit["locations"] == [{"path": str(tmp_path / "notes.txt"), "line": 1}]
    assert (shell["title"], shell["kind"], shell["status"]) == ("make test", "execute", "failed")
    assert shell["content"][0]["content"]["text"] == "it broke"
    assert not editor.list_updates("user_message_chunk")
    assert house.client().status(int(session))["title"] == "Go"


def test_each_use_of_a_tool_is_one_call_however_soon_it_ends(
    house: Serving, editor: Editor
) -> None:
    paths = [f"path=src/{number}.py" for number in range(30)]
    house.engine.says = lambda _: [
        step
        for path in paths
        for step in (
            ToolStarted("read_file", path),
            ToolUsed("read_file", path, "1 line"),
        )
    ]
    editor.read_answer(editor.ask(editor.open(), "read it all"))
    begun = editor.list_updates("tool_call")
    assert [one["title"] for one in begun] == [f"read_file {path}" for path in paths]


def test_text_grows_before_the_turn_ends(house: Serving, editor: Editor) -> None:
    session = editor.open()
    house.engine.says = lambda _: [ReplyDelta("One "), ReplyDelta("two"), ReplyCompleted("One two")]
    house.engine.hold()
    asked = editor.ask(session, "Count")
    until(lambda: house.engine.given)
    house.engine.release()
    assert editor.read_answer(asked)["result"]["stopReason"] == "end_turn"
    assert editor.reply == "One two"


def test_a_failed_turn_is_an_error_and_the_next_prompt_works(
    house: Serving, editor: Editor
) -> None:
    session = editor.open()
    house.engine.says = lambda _: [TurnFailed("The supplier is on fire.")]
    refused = editor.read_answer(editor.ask(session, "Go"))["error"]
    assert "on fire" in refused["message"]
    house.engine.says = lambda _: [
        TurnFailed("The reply was cut off: it reached the model's output limit.")
    ]
    assert editor.read_answer(editor.ask(session, "Go"))["result"]["stopReason"] == "max_tokens"
    house.engine.says = lambda _: [ReplyCompleted("Better.")]
    assert editor.read_answer(editor.ask(session, "Go"))["result"]["stopReason"] == "end_turn"
    assert editor.reply.endswith("Better.")


def test_content_reaches_the_agent(house: Serving, editor: Editor, tmp_path: Path) -> None:
    session = editor.open()
    resource = {"uri": (tmp_path / "a b.py").as_uri(), "text": "x = 1\n```\n"}
    prompt = [
        write_text("Look at "),
        {"type": "resource_link", "uri": (tmp_path / "src/c.py").as_uri() + "#L3-5", "name": "c"},
        write_text(" and this"),
        {"type": "resource", "resource": resource},
        {"type": "resource_link", "uri": "https://example.org/x", "name": "x"},
        {"type": "resource_link", "uri": "odd://[no-address", "name": "y"},
        {"type": "image", "data": PNG, "mimeType": "image/png"},
    ]
    editor.call("session/prompt", sessionId=session, prompt=prompt)
    (given,) = house.engine.given
    assert given.prompt.startswith("Look at `src/c.py:3-5` and this\n\n`a b.py`:\n````\nx = 1\n")
    assert "`https://example.org/x``odd://[no-address`" in given.prompt
    path = given.prompt.rpartition("Attached files:\n- ")[2]
    assert (tmp_path / path).read_bytes() == base64.b64decode(PNG)


@pytest.mark.parametrize(
    ("option", "reply", "status"),
    [
        ("allow", "allowed: ", "completed"),
        ("always", "allowed: ", "completed"),
        ("deny", "denied: A person denied it.", "failed"),
        ("never", "denied: A person denied it.", "failed"),
    ],
)
def test_the_editor_decides(
    house: Serving, editor: Editor, option: str, reply: str, status: str
) -> None:
    session = editor.open()
    asked = editor.ask(session, "run ls")
    request = editor.read_request()
    assert request["method"] == "session/request_permission"
    call = request["params"]["toolCall"]
    assert (call["title"], call["kind"], call["status"]) == ("ls", "execute", "pending")
    kinds = [one["kind"] for one in request["params"]["options"]]
    assert kinds == ["allow_once", "allow_always", "reject_once", "reject_always"]
    editor.respond(request, outcome={"outcome": "selected", "optionId": option})
    assert editor.read_answer(asked)["result"] == {"stopReason": "end_turn"}
    assert editor.reply == reply
    about = [one for one in editor.updates if one.get("toolCallId") == call["toolCallId"]]
    assert about[-1]["status"] == status
    again = editor.ask(session, "run ls")
    if option in ("allow", "deny"):
        editor.respond(editor.read_request(), outcome={"outcome": "cancelled"})
        (still_open,) = house.client().get("/api/chat/approvals")["approvals"]
        path = f"/api/chat/{session}/approvals/{still_open['id']}"
        house.client().post(path, {"decision": "deny"})
    editor.read_answer(again)
    assert not editor.requests
    assert ("denied for the whole chat" in editor.reply) == (option == "never")


def test_an_editor_whose_key_may_not_answer_is_told_and_the_question_stays(
    house: Serving, start: Start
) -> None:
    editor = start(key=house.new_key("editor", answers=False))
    editor.begin()
    session = editor.open()
    asked = editor.ask(session, "run ls")
    request = editor.read_request()
    editor.respond(request, outcome={"outcome": "selected", "optionId": "allow"})
    editor.read_until(lambda: "answers" in editor.reply)
    (still_open,) = house.client().get("/api/chat/approvals")["approvals"]
    path = f"/api/chat/{session}/approvals/{still_open['id']}"
    house.client().post(path, {"decision": "deny"})
    assert editor.read_answer(asked)["result"] == {"stopReason": "end_turn"}
    assert editor.reply.endswith("denied: A person denied it.")
    error = editor.refuse("session/set_mode", sessionId=session, modeId="auto")
    assert "answers" in error["message"]


def test_an_answer_elsewhere_withdraws_the_request(house: Serving, editor: Editor) -> None:
    session = editor.open()
    asked = editor.ask(session, "run ls")
    request = editor.read_request()
    client = house.client()
    (approval,) = client.get("/api/chat/approvals")["approvals"]
    decided = {"decision": "allow", "note": "go on"}
    client.post(f"/api/chat/{session}/approvals/{approval['id']}", decided)
    assert editor.read_answer(asked)["result"] == {"stopReason": "end_turn"}
    assert editor.withdrawn == [request["id"]]
    assert editor.reply == "allowed: go on"
    editor.respond(request, outcome={"outcome": "selected", "optionId": "deny"})
    assert editor.open()


def test_a_question_offers_its_choices(editor: Editor) -> None:
    session = editor.open()
    asked = editor.ask(session, "which colour?")
    request = editor.read_request()
    assert [one["name"] for one in request["params"]["options"]][:2] == ["red", "blue"]
    editor.respond(request, outcome={"outcome": "selected", "optionId": "choice-1"})
    editor.read_answer(asked)
    assert editor.reply == "allowed: blue"


def test_a_question_is_a_form_where_the_editor_has_them(house: Serving, start: Start) -> None:
    editor = start()
    editor.begin(elicitation={"form": {}})
    session = editor.open()
    asked = editor.ask(session, "which colour?")
    request = editor.read_request()
    assert request["method"] == "elicitation/create"
    assert request["params"]["sessionId"] == session
    editor.respond(request, action="accept", content={"answer": "green"})
    editor.read_answer(asked)
    assert editor.reply == "allowed: green"


@pytest.mark.parametrize("pictures", [0, 3])
def test_a_prompt_that_is_cancelled_at_once_is_not_worked_on(
    house: Serving, editor: Editor, pictures: int
) -> None:
    session = editor.open()
    picture = {"type": "image", "mimeType": "image/png", "data": PNG}
    prompt = [write_text("run ls"), *[picture] * pictures]
    number = editor.send("session/prompt", sessionId=session, prompt=prompt)
    editor.notify("session/cancel", sessionId=session)
    assert editor.read_answer(number)["result"] == {"stopReason": "cancelled"}
    assert editor.read_answer(editor.ask(session, "Hello"))["result"]["stopReason"] == "end_turn"
    assert not editor.requests


def test_cancel_ends_the_turn_and_takes_back_what_waits(house: Serving, editor: Editor) -> None:
    session = editor.open()
    asked = editor.ask(session, "run sleep")
    request = editor.read_request()
    waiting = editor.ask(session, "Later")
    until(lambda: house.client().prompts(int(session)))
    editor.notify("session/cancel", sessionId=session)
    editor.respond(request, outcome={"outcome": "cancelled"})
    for number in (asked, waiting):
        assert editor.read_answer(number)["result"] == {"stopReason": "cancelled"}
    assert not house.client().prompts(int(session))
    assert editor.read_answer(editor.ask(session, "Again"))["result"]["stopReason"] == "end_turn"
    assert editor.reply == "echo: Again"


def test_whoever_waits_for_a_prompt_is_answered_when_its_session_ends(
    house: Serving, editor: Editor, tmp_path: Path
) -> None:
    session = editor.open()
    running = editor.ask(session, "run sleep")
    editor.read_request()
    waiting = editor.ask(session, "Later")
    until(lambda: house.client().prompts(int(session)))
    editor.call("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
    for number in (running, waiting):
        assert "closed" in editor.read_answer(number)["error"]["message"]
    again = editor.ask(session, "Much later")
    until(lambda: len(house.client().prompts(int(session))) == 2)
    assert editor.call("session/close", sessionId=session) == {}
    assert editor.read_answer(again)["result"] == {"stopReason": "cancelled"}


def test_prompts_that_wait_are_worked_on_in_their_order_and_none_is_shown_to_who_sent_it(
    house: Serving, editor: Editor
) -> None:
    session = editor.open()
    house.engine.hold()
    asked = [editor.ask(session, f"<{number}>") for number in range(12)]
    until(lambda: len(house.client().prompts(int(session))) == len(asked) - 1)
    house.engine.release()
    for number in asked:
        assert editor.read_answer(number)["result"] == {"stopReason": "end_turn"}
    assert editor.reply == "".join(f"echo: <{number}>" for number in range(len(asked)))
    assert not editor.list_updates("user_message_chunk")


def test_whoever_waits_for_a_prompt_is_answered_when_the_key_is_revoked(
    house: Serving, start: Start
) -> None:
    editor = start(key=house.new_key("editor"))
    editor.begin()
    session = editor.open()
    asked = editor.ask(session, "run sleep")
    request = editor.read_request()
    delete_by_hand(house.layout, "editor")
    assert "key" in editor.read_answer(asked)["error"]["message"]
    editor.read_until(lambda: editor.withdrawn)
    assert editor.withdrawn == [request["id"]]


def test_a_stop_in_the_browser_is_a_cancelled_turn(house: Serving, editor: Editor) -> None:
    session = editor.open()
    asked = editor.ask(session, "run sleep")
    editor.read_request()
    house.client().post(f"/api/chat/{session}/stop", {})
    assert editor.read_answer(asked)["result"] == {"stopReason": "cancelled"}


def test_a_deleted_prompt_or_chat_is_an_error(house: Serving, editor: Editor) -> None:
    session = editor.open()
    client = house.client()
    asked = editor.ask(session, "run sleep")
    editor.read_request()
    waiting = editor.ask(session, "Later")
    until(lambda: client.prompts(int(session)))
    (prompt,) = client.prompts(int(session))
    client.delete(f"/api/remote/chats/{session}/queue/{prompt['id']}")
    assert "removed" in editor.read_answer(waiting)["error"]["message"]
    client.post(f"/api/chat/{session}/stop", {})
    editor.read_answer(asked)
    assert editor.call("session/delete", sessionId=session) == {}
    assert client.get(f"/api/remote/chats/{session}/status").status == 404
    assert editor.refuse("session/prompt", sessionId=session)["code"] == RESOURCE_NOT_FOUND


def test_two_editors_and_the_browser_agree_on_one_chat(
    house: Serving, editor: Editor, start: Start, tmp_path: Path
) -> None:
    house.engine.says = say_all
    session = editor.open()
    editor.read_answer(editor.ask(session, "First"))
    other = start()
    other.begin()
    loaded = other.call("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
    assert loaded["modes"]["currentModeId"] == "-"
    assert other.reply == "I see.Done."
    shown = other.list_updates("user_message_chunk")
    assert [one["content"]["text"] for one in shown] == ["First"]
    assert [one["status"] for one in other.list_updates("tool_call")][1:] == ["completed", "failed"]
    resumed = start()
    resumed.begin()
    resumed.call("session/resume", sessionId=session, cwd=str(tmp_path), mcpServers=[])
    editor.updates.clear()
    other.updates.clear()
    house.client().post(f"/api/remote/chats/{session}/queue", {"prompt": "From the browser"})
    for one in (editor, other, resumed):
        one.read_until(lambda one=one: one.reply.endswith("Done."))
    for one in (editor, other, resumed):
        assert one.reply == "I see.Done."
        (prompt,) = one.list_updates("user_message_chunk")
        assert prompt["content"]["text"] == "From the browser"


def test_sessions_are_listed_in_pages(house: Serving, editor: Editor, tmp_path: Path) -> None:
    made = [house.client().create_chat(title=f"Chat {number}") for number in range(60)]
    first = editor.call("session/list", cwd=str(tmp_path))
    second = editor.call("session/list", cursor=first["nextCursor"])
    found = [*first["sessions"], *second["sessions"]]
    assert [one["sessionId"] for one in found] == [str(number) for number in reversed(made)]
    assert found[0]["title"] == "Chat 59"
    assert found[0]["cwd"] == str(tmp_path)
    assert "nextCursor" not in second
    assert editor.call("session/list", cwd="/usr") == {"sessions": []}
    assert editor.refuse("session/list", cursor="x")["code"] == INVALID_PARAMS


def test_modes_models_and_skills_are_those_of_the_chat(
    house: Serving, editor: Editor, tmp_path: Path
) -> None:
    made = editor.call("session/new", cwd=str(tmp_path), mcpServers=[])
    session = made["sessionId"]
    assert [one["id"] for one in made["modes"]["availableModes"]] == ["-", "ask", "auto", "deny"]
    options = {one["id"]: one for one in made["configOptions"]}
    assert [one["value"] for one in options["model"]["options"]] == ["-", "m", "mine", "chats"]
    assert editor.call("session/set_mode", sessionId=session, modeId="deny") == {}
    asked = editor.ask(session, "run ls")
    assert editor.read_answer(asked)["result"] == {"stopReason": "end_turn"}
    assert editor.reply.startswith("denied: ")
    changed = editor.call(
        "session/set_config_option", sessionId=session, configId="model", value="mine"
    )
    options = {one["id"]: one for one in changed["configOptions"]}
    assert options["model"]["currentValue"] == "mine"
    assert options["mode"]["currentValue"] == "deny"
    settings = house.client().get(f"/api/chat/{session}")["settings"]
    assert (settings["model"], settings["approvals"]) == ("mine", "deny")
    for option, value in (("model", "none"), ("mode", "all"), ("no", "x"), ("model", 1)):
        refused = editor.refuse(
            "session/set_config_option", sessionId=session, configId=option, value=value
        )
        assert refused["code"] == INVALID_PARAMS
    editor.updates.clear()
    house.client().put(f"/api/chat/{session}/settings", {"approvals": "auto"})
    editor.read_until(lambda: editor.list_updates("config_option_update"))
    (mode,) = editor.list_updates("current_mode_update")
    assert mode["currentModeId"] == "auto"


def test_the_commands_of_the_chat_are_offered_and_told_again_when_they_change(
    house: Serving, editor: Editor, tmp_path: Path
) -> None:
    folder = tmp_path / ".claude" / "commands"
    folder.mkdir(parents=True)
    review = "---\ndescription: Reviews a file\nargument-hint: [file]\n---\nReview $1.\n"
    (folder / "review.md").write_text(review)
    session = editor.call("session/new", cwd=str(tmp_path), mcpServers=[])["sessionId"]
    editor.read_until(lambda: editor.list_updates("available_commands_update"))
    (offered,) = editor.list_updates("available_commands_update")
    assert offered["availableCommands"] == [
        {"name": "review", "description": "Reviews a file", "input": {"hint": "[file]"}}
    ]
    (folder / "review.md").unlink()
    asked = editor.ask(session, "hello")
    editor.read_until(lambda: len(editor.list_updates("available_commands_update")) == 2)
    assert editor.list_updates("available_commands_update")[1]["availableCommands"] == []
    assert editor.read_answer(asked)["result"] == {"stopReason": "end_turn"}


def test_no_empty_chats_stay_behind(house: Serving, editor: Editor) -> None:
    empty, used = editor.open(), editor.open()
    closed = editor.open()
    editor.read_answer(editor.ask(used, "Hello"))
    assert editor.call("session/close", sessionId=closed) == {}
    assert editor.end() == (0, "")
    found = [one["chatId"] for one in house.client().get("/api/chats")["chats"]]
    assert found == [int(used)], empty


def test_standard_output_carries_the_protocol_alone(house: Serving, start: Start) -> None:
    editor = start("--verbose")
    editor.begin()
    session = editor.open()
    house.stop()
    house.join()
    assert editor.refuse("session/prompt", sessionId=session, prompt=[write_text("x")])
    code, said = editor.end()
    assert code == 0
    assert "connecting again" in said

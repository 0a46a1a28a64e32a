"""``/mcp`` on a real daemon, spoken by hand: sessions, tools, resources, waits, questions."""

import http.client
import json
from base64 import b64encode
from typing import Any

import pytest

from agentd.mcp.messages import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
    UNSUPPORTED_REVISION,
)
from agentd.mcp.revisions import META_SUBSCRIPTION, REVISIONS, SESSIONLESS, WITH_SESSIONS
from agentd.mcp.tools import TOOLS, WAIT
from tests.mcp.conftest import Connect
from tests.mcp.support import EVENTS, McpHandClient, McpResponse
from tests.support.daemon import KEY, Serving, until

CAN_ASK = {"elicitation": {}}
READ_ONLY = {one.name for one in TOOLS if one.method == "GET"} | {WAIT}


def create_chat(mcp: McpHandClient, prompt: str | None = None) -> int:
    made = mcp.call_tool("create_chat", **({"prompt": prompt} if prompt else {}))
    return int(made["structuredContent"]["chatId"])


def wait_for(mcp: McpHandClient, chat: int, seconds: float = 60) -> Any:
    return mcp.call_tool(WAIT, chatId=chat, seconds=seconds)["structuredContent"]


# Beginning and ending.


def test_every_revision_names_the_server_and_its_capabilities(mcp: McpHandClient) -> None:
    if mcp.revision == SESSIONLESS:
        found = mcp.call("server/discover").result
        assert found["supportedVersions"] == list(REVISIONS)
        info = found["_meta"]["io.modelcontextprotocol/serverInfo"]
    else:
        found = mcp.begin()
        assert found["protocolVersion"] == mcp.revision
        info = found["serverInfo"]
    assert info["name"] == "agentd"
    assert found["capabilities"]["resources"]["subscribe"] is True
    assert "create_chat" in found["instructions"]


@pytest.mark.parametrize("wanted", ["2024-11-05", "2025-03-26", "2031-01-01", ""])
def test_a_session_of_an_unknown_revision_is_offered_the_newest(
    connect: Connect, wanted: str
) -> None:
    mcp = connect(WITH_SESSIONS[1])
    mcp.revision = wanted
    begun = mcp.send({"id": 1, "method": "initialize", "params": {"protocolVersion": wanted}})
    assert begun.result["protocolVersion"] == WITH_SESSIONS[0]


def test_an_ended_session_is_gone_and_another_can_begin(connect: Connect) -> None:
    mcp = connect(WITH_SESSIONS[0])
    connection = http.client.HTTPConnection("127.0.0.1", mcp.serving.port)
    for expected in (204, 404):
        connection.request("DELETE", "/mcp", headers=mcp.make_headers(None))
        response = connection.getresponse()
        response.read()
        assert response.status == expected
    connection.close()
    assert mcp.call("tools/list").status == 404
    mcp.begin()
    assert mcp.call("tools/list").status == 200


def test_a_session_belongs_to_its_key(house: Serving, connect: Connect) -> None:
    mcp = connect(WITH_SESSIONS[0])
    mcp.key = house.new_key("other")
    assert mcp.call("tools/list").status == 404


def test_the_session_must_be_named(connect: Connect) -> None:
    mcp = connect(WITH_SESSIONS[0])
    answer = mcp.send(mcp.build("tools/list"), {"Mcp-Session-Id": "x"})
    assert answer.status == 404
    mcp.session = ""
    answer = mcp.send({"id": 1, "method": "tools/list"}, {"MCP-Protocol-Version": mcp.revision})
    assert (answer.status, answer.code) == (400, INVALID_REQUEST)


def test_without_a_valid_key_nothing_is_answered(house: Serving) -> None:
    for key in ("wrong", "", KEY + "x"):
        mcp = McpHandClient(house, key=key)
        assert mcp.call("tools/list").status == 401


def send_keys(house: Serving, headers: dict[str, str]) -> McpResponse:
    """Send a request whose key comes in these headers, and in no other."""
    with McpHandClient(house) as mcp:
        mcp.key = None
        return mcp.send(mcp.build("tools/list"), headers)


def test_the_key_may_come_as_a_bearer(house: Serving) -> None:
    assert send_keys(house, {"Authorization": f"Bearer {KEY}"}).status == 200
    assert send_keys(house, {"authorization": f"bearer {KEY}"}).status == 200
    both = {"Authorization": f"Bearer {KEY}", "X-API-Key": KEY}
    assert send_keys(house, both).status == 200
    name = house.new_key("bearer")
    assert send_keys(house, {**both, "X-API-Key": name}).status == 200
    assert send_keys(house, {**both, "Authorization": "Bearer wrong"}).status == 200
    assert send_keys(house, {**both, "X-API-Key": "wrong"}).status == 401, (
        "it decides, as elsewhere"
    )


def test_a_bearer_that_is_no_key_is_told_to_send_one(house: Serving) -> None:
    login = house.administrator().headers["Authorization"]
    basic = "Basic " + b64encode(f"key:{KEY}".encode()).decode()
    for value in ("Bearer wrong", "Bearer ", "Bearer", KEY, login, basic):
        refused = send_keys(house, {"Authorization": value})
        assert refused.status == 401, value
        assert refused.headers["WWW-Authenticate"] == 'Bearer realm="agentd"'
        assert KEY not in json.dumps(refused.last)
    assert send_keys(house, {}).headers["WWW-Authenticate"] == 'Bearer realm="agentd"'
    for path in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/openid-configuration"):
        assert house.client(None).get(path).status == 404, "there is no authorization server"


def test_elsewhere_a_bearer_is_a_login_and_no_key(house: Serving) -> None:
    client = house.client(None)
    for path in ("/api/remote/chats/1/status", "/api/chats"):
        refused = client.get(path, {"Authorization": f"Bearer {KEY}"})
        assert refused.status == 401
        assert refused.headers["WWW-Authenticate"] == 'ApiKey realm="agentd"'


def test_pages_of_other_origins_are_refused(mcp: McpHandClient) -> None:
    for origin, expected in (("https://evil.example", 403), ("http://localhost:1", 200)):
        answer = mcp.send(mcp.build("tools/list"), {"Origin": origin})
        assert answer.status == expected
    for method in ("GET", "DELETE"):
        connection = http.client.HTTPConnection("127.0.0.1", mcp.serving.port)
        headers = {**mcp.make_headers(None), "Origin": "https://evil.example"}
        connection.request(method, "/mcp", headers=headers)
        assert connection.getresponse().status == 403
        connection.close()


# What is not the protocol.


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", None),
        (b"", None),
        (b"[]", INVALID_REQUEST),
        (b'"x"', INVALID_REQUEST),
        (b'{"a":1}', -32600),
    ],
)
def test_what_is_no_message_is_refused(mcp: McpHandClient, body: bytes, code: int | None) -> None:
    answer = mcp.send(body)
    assert answer.status == 400
    assert code is None or answer.code == code


def test_a_batch_is_refused(mcp: McpHandClient) -> None:
    one = {"jsonrpc": "2.0", **mcp.build("tools/list")}
    answer = mcp.send(json.dumps([one, one]).encode())
    assert (answer.status, answer.code) == (400, INVALID_REQUEST)


def test_an_unknown_method_is_not_found(mcp: McpHandClient) -> None:
    answer = mcp.call("prompts/list")
    assert answer.code == METHOD_NOT_FOUND
    assert answer.status == (404 if mcp.revision == SESSIONLESS else 200)


def test_another_body_than_json_is_refused(mcp: McpHandClient) -> None:
    assert mcp.send(mcp.build("tools/list"), {"Content-Type": "text/plain"}).status == 415


def test_a_body_over_the_limit_is_refused(mcp: McpHandClient) -> None:
    answer = mcp.send(b'{"x":"' + b"x" * 1024 * 1024 + b'"}')
    assert answer.status == 413


def test_headers_that_contradict_the_message_are_refused(connect: Connect) -> None:
    mcp = connect(SESSIONLESS)
    request = mcp.build("tools/call", {"name": "list_models"})
    assert mcp.send(request, {"Mcp-Name": "stop_chat"}).code == HEADER_MISMATCH
    assert mcp.send(request, {"Mcp-Method": "tools/list"}).code == HEADER_MISMATCH
    assert mcp.send(request, {"MCP-Protocol-Version": "2025-11-25"}).code == HEADER_MISMATCH
    mcp.revision = "2031-01-01"
    answer = mcp.call("tools/list")
    assert (answer.status, answer.code) == (400, UNSUPPORTED_REVISION)


# Tools.


def test_the_tools_are_described(mcp: McpHandClient) -> None:
    tools = {one["name"]: one for one in mcp.call("tools/list").result["tools"]}
    assert set(tools) == {WAIT, *(one.name for one in TOOLS)}
    for name, tool in tools.items():
        schema = tool["inputSchema"]
        assert schema["type"] == "object"
        assert set(schema.get("required", [])) <= set(schema["properties"])
        assert tool["annotations"]["readOnlyHint"] is (name in READ_ONLY)
    assert set(tools["create_chat"]["inputSchema"]["properties"]) >= {"prompt", "model", "skill"}
    assert tools["queue_prompt"]["inputSchema"]["required"] == ["chatId", "prompt"]
    assert "$ref" not in json.dumps(tools)


def test_a_chat_is_created_and_answers(mcp: McpHandClient) -> None:
    chat = create_chat(mcp, "Hello")
    outcome = wait_for(mcp, chat)
    assert (outcome["idle"], outcome["reply"]) == (True, "echo: Hello")
    assert outcome["questions"] == []
    mcp.call_tool("queue_prompt", chatId=chat, prompt="Again")
    assert wait_for(mcp, chat)["reply"] == "echo: Again"
    read = mcp.call_tool("read_messages", chatId=chat, limit=2)["structuredContent"]
    assert [one["content"] for one in read["messages"]] == ["Again", "echo: Again"]
    assert read["earlier"] is True


def test_a_result_has_the_same_as_text_and_as_an_object(mcp: McpHandClient) -> None:
    lists = ("models", "skills", "commands", "builds", "deployments", "chats")
    for name in (f"list_{what}" for what in lists):
        found = mcp.call_tool(name)
        assert json.loads(found["content"][0]["text"]) == found["structuredContent"]


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("get_chat", {"chatId": 999_999}, "Chat 999999 not found"),
        ("get_chat", {"chatId": "x"}, "not found"),
        ("get_chat", {"chatId": [1]}, "'chatId' must be"),
        ("get_chat", {}, "'chatId' is missing"),
        ("create_chat", {"prompt": ""}, "empty"),
        ("create_chat", {"prompt": 7}, "$.prompt"),
        ("create_chat", {"promt": "x"}, 'did you mean "prompt"'),
        ("create_chat", {"skill": "nobody"}, "No skill"),
        ("run_build", {"name": "../x"}, "not found"),
        ("list_chats", {"limit": 0}, "limit"),
        (WAIT, {"chatId": 999_999}, "Chat 999999 not found"),
    ],
)
def test_what_a_tool_refuses_its_caller_reads(
    mcp: McpHandClient, name: str, arguments: dict[str, Any], words: str
) -> None:
    found = mcp.call_tool(name, **arguments)
    assert found["isError"] is True
    assert words in found["content"][0]["text"]


def test_an_unknown_tool_and_a_senseless_wait_are_errors(mcp: McpHandClient) -> None:
    assert mcp.call("tools/call", name="x", arguments={}).code == INVALID_PARAMS
    for arguments in ({}, {"chatId": True}, {"chatId": 1, "seconds": -1}, {"chatId": 1, "x": 1}):
        answer = mcp.call("tools/call", name=WAIT, arguments=arguments)
        assert answer.code == INVALID_PARAMS
        assert answer.status == (400 if mcp.revision == SESSIONLESS else 200)


def test_a_running_turn_is_stopped(house: Serving, mcp: McpHandClient) -> None:
    chat = create_chat(mcp, "run long")
    until(lambda: mcp.call_tool("list_questions")["structuredContent"]["approvals"])
    assert mcp.call_tool("stop_chat", chatId=chat)["structuredContent"]["stopped"] is True
    outcome = wait_for(mcp, chat)
    assert outcome["held"]
    assert outcome["idle"] is True


# Waiting, progress, questions.


def test_a_wait_ends_with_a_question_that_a_tool_answers(mcp: McpHandClient) -> None:
    chat = create_chat(mcp, "run ls")
    outcome = wait_for(mcp, chat)
    (question,) = outcome["questions"]
    assert (outcome["idle"], question["subject"]) == (False, "ls")
    answer = {"chatId": chat, "approvalId": question["id"], "decision": "allow", "note": "go"}
    decided = mcp.call_tool("answer_question", **answer)["structuredContent"]
    assert decided["answeredBy"] == "key:environment"
    assert wait_for(mcp, chat)["reply"] == "allowed: go"
    assert mcp.call_tool("answer_question", **answer)["isError"] is True


def test_a_key_without_the_scope_answers_sees_questions_and_answers_none(
    house: Serving, connect: Connect
) -> None:
    for revision in REVISIONS:
        key = house.new_key(f"silent-{revision}", answers=False)
        mcp = connect(revision, key=key, capabilities=CAN_ASK)
        offered = {one["name"] for one in mcp.call("tools/list").result["tools"]}
        assert "list_questions" in offered
        assert "answer_question" not in offered
        chat = create_chat(mcp, "run ls")
        outcome = wait_for(mcp, chat)  # its person is not asked either
        (question,) = outcome["questions"]
        answer = {"chatId": chat, "approvalId": question["id"], "decision": "allow"}
        refused = mcp.call_tool("answer_question", **answer)
        assert refused["isError"] is True
        assert '"answers"' in refused["content"][0]["text"]
        (still_open,) = house.client().get(f"/api/chat/{chat}/approvals")["approvals"]
        assert still_open["id"] == question["id"]
        house.client().post(f"/api/chat/{chat}/approvals/{question['id']}", {"decision": "deny"})


def test_an_answer_in_a_repeated_call_needs_the_scope_too(house: Serving, connect: Connect) -> None:
    mcp = connect(SESSIONLESS, capabilities=CAN_ASK)
    chat = create_chat(mcp, "run ls")
    params = {"name": WAIT, "arguments": {"chatId": chat}}
    (name,) = mcp.call("tools/call", **params).result["inputRequests"]
    silent = connect(SESSIONLESS, key=house.new_key("silent", answers=False), capabilities=CAN_ASK)
    allowed = {"action": "accept", "content": {"decision": "allow"}}
    refused = silent.call("tools/call", **params, inputResponses={name: allowed}).result
    assert refused["isError"] is True
    assert '"answers"' in refused["content"][0]["text"]
    denied = mcp.call("tools/call", **params, inputResponses={name: {"action": "decline"}}).result
    assert denied["structuredContent"]["reply"].startswith("denied")


def test_progress_comes_while_the_turn_runs(house: Serving, mcp: McpHandClient) -> None:
    house.engine.hold()
    chat = create_chat(mcp, "Slow")
    params = {"name": WAIT, "arguments": {"chatId": chat}, "_meta": {"progressToken": 7}}
    stream = mcp.open(mcp.build("tools/call", params))
    house.engine.release()
    messages = list(stream)
    told = [one["params"] for one in messages[:-1]]
    assert messages[-1]["result"]["structuredContent"]["reply"] == "echo: Slow"
    assert [one["progress"] for one in told] == list(range(1, len(told) + 1))
    assert all(one["progressToken"] == 7 for one in told)
    assert told[-1]["message"] == "assistant: echo: Slow"


def test_without_events_the_answer_alone_comes(mcp: McpHandClient) -> None:
    chat = create_chat(mcp, "Hello")
    params = {"name": WAIT, "arguments": {"chatId": chat}, "_meta": {"progressToken": 7}}
    answer = mcp.send(mcp.build("tools/call", params), {"Accept": "application/json"})
    (only,) = answer.messages
    assert only["result"]["structuredContent"]["reply"] == "echo: Hello"


def test_the_time_of_a_wait_ends(house: Serving, mcp: McpHandClient) -> None:
    house.engine.hold()
    chat = create_chat(mcp, "Slow")
    assert wait_for(mcp, chat, 0)["idle"] is False
    assert wait_for(mcp, chat, 0.01)["idle"] is False
    house.engine.release()
    assert wait_for(mcp, chat)["idle"] is True


def test_a_client_with_a_session_is_asked_during_the_wait(connect: Connect) -> None:
    for revision in WITH_SESSIONS:
        mcp = connect(revision, capabilities=CAN_ASK)
        chat = create_chat(mcp, "run ls")
        params = {"name": WAIT, "arguments": {"chatId": chat}}
        stream = mcp.open(mcp.build("tools/call", params))
        asked = stream.read_until("elicitation/create")
        assert "ls" in asked["params"]["message"]
        content = {"decision": "allow", "note": "yes"}
        reply = {"id": asked["id"], "result": {"action": "accept", "content": content}}
        assert mcp.send(reply).status == 202
        outcome = stream.read_until("")["result"]["structuredContent"]
        assert outcome["reply"] == "allowed: yes"


def test_a_client_without_session_asks_and_repeats_the_call(connect: Connect) -> None:
    mcp = connect(SESSIONLESS, capabilities=CAN_ASK)
    chat = create_chat(mcp, "which colour?")
    params = {"name": WAIT, "arguments": {"chatId": chat}}
    first = mcp.call("tools/call", **params).result
    assert first["resultType"] == "input_required"
    ((name, asked),) = first["inputRequests"].items()
    assert asked["method"] == "elicitation/create"
    assert asked["params"]["requestedSchema"]["properties"]["choice"]["enum"] == ["red", "blue"]
    answer = {"action": "accept", "content": {"choice": "blue"}}
    last = mcp.call("tools/call", **params, inputResponses={name: answer}).result
    assert last["structuredContent"]["reply"] == "allowed: blue"


def test_a_declined_question_is_denied_and_a_dismissed_one_stays_open(connect: Connect) -> None:
    mcp = connect(SESSIONLESS, capabilities=CAN_ASK)
    chat = create_chat(mcp, "run ls")
    params = {"name": WAIT, "arguments": {"chatId": chat}}
    (name,) = mcp.call("tools/call", **params).result["inputRequests"]
    dismissed = {"inputResponses": {name: {"action": "cancel"}}}
    outcome = mcp.call("tools/call", **params, **dismissed).result["structuredContent"]
    assert (outcome["idle"], len(outcome["questions"])) == (False, 1)
    declined = {"inputResponses": {name: {"action": "decline"}}}
    outcome = mcp.call("tools/call", **params, **declined).result["structuredContent"]
    assert outcome["reply"].startswith("denied")


def test_a_question_that_is_answered_elsewhere_is_withdrawn(connect: Connect) -> None:
    mcp = connect(WITH_SESSIONS[0], capabilities=CAN_ASK)
    chat = create_chat(mcp, "run ls then pwd")
    stream = mcp.open(mcp.build("tools/call", {"name": WAIT, "arguments": {"chatId": chat}}))
    asked = stream.read_until("elicitation/create")
    (question,) = wait_for(connect(SESSIONLESS), chat)["questions"]
    mcp.call_tool("answer_question", chatId=chat, approvalId=question["id"], decision="deny")
    withdrawn = stream.read_until("notifications/cancelled")
    assert withdrawn["params"]["requestId"] == asked["id"]
    late = {"id": asked["id"], "result": {"action": "accept", "content": {"decision": "allow"}}}
    assert mcp.send(late).status == 202
    second = stream.read_until("elicitation/create")
    assert "pwd" in second["params"]["message"]
    mcp.send({"id": second["id"], "result": {"action": "decline"}})
    assert stream.read_until("")["result"]["structuredContent"]["reply"].startswith("denied")


def test_a_cancelled_wait_ends_and_the_chat_goes_on(house: Serving, connect: Connect) -> None:
    house.engine.hold()
    mcp = connect(WITH_SESSIONS[0])
    chat = create_chat(mcp, "Slow")
    request = mcp.build("tools/call", {"name": WAIT, "arguments": {"chatId": chat}})
    stream = mcp.open(request)
    mcp.send({"method": "notifications/cancelled", "params": {"requestId": request["id"]}})
    assert stream.read_until("")["result"]["structuredContent"]["idle"] is False
    house.engine.release()
    assert wait_for(mcp, chat)["reply"] == "echo: Slow"


# Resources.


def test_chats_are_resources(mcp: McpHandClient) -> None:
    chat = create_chat(mcp, "Hello")
    wait_for(mcp, chat)
    uris = [one["uri"] for one in mcp.call("resources/list").result["resources"]]
    assert f"agentd://chats/{chat}" in uris
    parts = {}
    for part in ("", "/messages", "/queue"):
        uri = f"agentd://chats/{chat}{part}"
        (content,) = mcp.call("resources/read", uri=uri).result["contents"]
        assert content["uri"] == uri
        parts[part] = json.loads(content["text"])
    assert parts[""]["chat"]["chatId"] == chat
    assert [one["content"] for one in parts["/messages"]["messages"]] == ["Hello", "echo: Hello"]
    assert parts["/queue"]["prompts"] == []
    assert len(mcp.call("resources/templates/list").result["resourceTemplates"]) == 3


@pytest.mark.parametrize("uri", ["agentd://chats/999999", "agentd://chats/0", "file:///x", ""])
def test_there_are_no_other_resources(mcp: McpHandClient, uri: str) -> None:
    expected = INVALID_PARAMS if mcp.revision == SESSIONLESS else RESOURCE_NOT_FOUND
    assert mcp.call("resources/read", uri=uri).code == expected
    if mcp.revision != SESSIONLESS:
        assert mcp.call("resources/subscribe", uri=uri).code == expected


def test_the_list_of_resources_has_pages(serve: Any) -> None:
    with McpHandClient(serve()) as mcp:
        made = [create_chat(mcp) for _ in range(60)]
        found, cursor = [], None
        while True:
            page = mcp.call("resources/list", **({"cursor": cursor} if cursor else {})).result
            found += [int(one["uri"].rpartition("/")[2]) for one in page["resources"]]
            if (cursor := page.get("nextCursor")) is None:
                break
        assert sorted(found) == sorted(made)


def test_a_session_is_told_of_what_it_subscribed_to(connect: Connect) -> None:
    mcp = connect(WITH_SESSIONS[0])
    chat = create_chat(mcp)
    uri = f"agentd://chats/{chat}/messages"
    mcp.call("resources/subscribe", uri=uri)
    stream = mcp.listen()
    mcp.call_tool("queue_prompt", chatId=chat, prompt="Hello")
    assert stream.read_until("notifications/resources/updated")["params"] == {"uri": uri}
    assert mcp.call("resources/unsubscribe", uri=uri).result == {}


def test_what_changed_before_the_stream_was_opened_is_told(connect: Connect) -> None:
    mcp = connect(WITH_SESSIONS[1])
    create_chat(mcp)
    assert mcp.listen().read_until("notifications/resources/list_changed")


def test_a_stream_without_session_tells_what_it_acknowledged(connect: Connect) -> None:
    mcp = connect(SESSIONLESS)
    chat = create_chat(mcp)
    uri = f"agentd://chats/{chat}"
    wanted = {
        "resourcesListChanged": True,
        "toolsListChanged": True,
        "resourceSubscriptions": [uri, "agentd://chats/999999"],
    }
    request = mcp.build("subscriptions/listen", {"notifications": wanted})
    stream = mcp.open(request)
    first = stream.read()
    assert first["method"] == "notifications/subscriptions/acknowledged"
    assert first["params"]["notifications"] == {
        "resourcesListChanged": True,
        "resourceSubscriptions": [uri],
    }
    mcp.call_tool("queue_prompt", chatId=chat, prompt="Hello")
    changed = stream.read_until("notifications/resources/updated")
    assert changed["params"]["uri"] == uri
    create_chat(mcp)
    listed = stream.read_until("notifications/resources/list_changed")
    for message in (first, changed, listed):
        assert message["params"]["_meta"][META_SUBSCRIPTION] == request["id"]


# Ends.


@pytest.mark.parametrize("revision", REVISIONS)
def test_streams_end_with_their_key(house: Serving, connect: Connect, revision: str) -> None:
    name = f"lost-{revision}"
    key = house.new_key(name)
    mcp = connect(revision, key=key)
    house.engine.hold()
    chat = create_chat(mcp, "Slow")
    waiting = mcp.open(mcp.build("tools/call", {"name": WAIT, "arguments": {"chatId": chat}}))
    assert waiting.response.status == 200
    if revision == SESSIONLESS:
        wanted = {"notifications": {"resourcesListChanged": True}}
        stream = mcp.open(mcp.build("subscriptions/listen", wanted))
    else:
        stream = mcp.listen()
    house.client().delete(f"/api/keys/{name}")
    list(stream)
    *_, last = waiting
    assert last["result"]["isError"]
    assert "structuredContent" not in last["result"]
    assert mcp.call("tools/list").status == 401
    house.engine.release()


def test_a_daemon_that_stops_ends_its_streams(serve: Any) -> None:
    serving = serve()
    with McpHandClient(serving) as mcp:
        wanted = {"notifications": {"resourcesListChanged": True}}
        stream = mcp.open(mcp.build("subscriptions/listen", wanted))
        stream.read_until("notifications/subscriptions/acknowledged")
        serving.stop()
        (last,) = list(stream)
        assert last["result"]["_meta"][META_SUBSCRIPTION] == last["id"]


def test_the_stream_of_changes_is_of_events_alone(connect: Connect) -> None:
    mcp = connect(WITH_SESSIONS[0])
    connection = http.client.HTTPConnection("127.0.0.1", mcp.serving.port)
    connection.request("GET", "/mcp", headers=mcp.make_headers(None) | {"Accept": "text/html"})
    assert connection.getresponse().status == 400
    connection.close()
    assert EVENTS.endswith("text/event-stream")

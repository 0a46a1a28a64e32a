"""The calls of Gemini's clients, at the addresses of older and newer ones."""

from collections.abc import Callable, Iterator
from urllib.parse import unquote

import httpx
import pytest

from tests.gateway.conftest import GatewaySetup
from tests.supplier.steps import Answer, Refuse, Say, Tokens
from tests.support.daemon import Serving

HELLO = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}
SAID = Answer((Say("one two three"),), Tokens(input=1000, output=100))

every_version = pytest.mark.parametrize("version", ["v1beta", "v1"])
every_model = pytest.mark.parametrize("model", ["by-gemini", "by-chat", "by-messages"])


@pytest.fixture
def client(setup: GatewaySetup, start_gateway: Callable[..., Serving]) -> Iterator[httpx.Client]:
    """A client with an access key."""
    headers = {"x-goog-api-key": setup.add_key()}
    with httpx.Client(base_url=start_gateway().url, headers=headers, trust_env=False) as client:
        yield client


@every_version
@every_model
def test_a_reply_comes_whole(
    setup: GatewaySetup, client: httpx.Client, version: str, model: str
) -> None:
    setup.supplier.script(SAID)
    reply = client.post(f"/{version}/models/{model}:generateContent", json=HELLO)
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("application/json")
    (candidate,) = reply.json()["candidates"]
    assert candidate["content"]["parts"] == [{"text": "one two three"}]
    (entry,) = setup.wait_for_records(1)
    assert (entry.outcome, str(entry.cost)) == ("ok", "0.0045")
    assert entry.endpoint == f"/{version}/models/{{name}}"


@every_version
@every_model
def test_a_stream_comes_as_events(
    setup: GatewaySetup, client: httpx.Client, version: str, model: str
) -> None:
    setup.supplier.script(SAID)
    path = f"/{version}/models/{model}:streamGenerateContent?alt=sse"
    with client.stream("POST", path, json=HELLO) as reply:
        assert reply.status_code == 200
        assert reply.headers["content-type"].startswith("text/event-stream")
        result = "".join(reply.iter_lines())
    assert "three" in result
    assert '"finishReason":"STOP"' in result.replace(": ", ":")
    assert setup.wait_for_records(1)[0].stream


@every_version
@pytest.mark.parametrize("query", ["", "?alt=json", "?alt=", "?alt=sse&alt=json"])
def test_a_stream_in_another_form_is_refused_before_anything_is_asked(
    setup: GatewaySetup, client: httpx.Client, version: str, query: str
) -> None:
    path = f"/{version}/models/by-gemini:streamGenerateContent{query}"
    reply = client.post(path, json=HELLO)
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
    assert "?alt=sse" in error["message"]
    assert not setup.supplier.requests


@every_version
def test_what_is_no_method_is_not_found(client: httpx.Client, version: str) -> None:
    for call in ("by-gemini", "by-gemini:predict", ":", "by-gemini:generatecontent"):
        reply = client.post(f"/{version}/models/{call}", json=HELLO)
        assert (reply.status_code, reply.json()["error"]["status"]) == (404, "NOT_FOUND")


def test_one_model_is_reported(client: httpx.Client) -> None:
    result = client.get("/v1beta/models/by-chat").json()
    assert (result["name"], result["outputTokenLimit"]) == ("models/by-chat", 1000)
    assert result in client.get("/v1beta/models").json()["models"]
    near = client.get("/v1beta/models/by-chatt").json()["error"]["message"]
    assert 'did you mean "by-chat"?' in near
    missing = client.get("/v1beta/models/no-such")
    assert (missing.status_code, missing.json()["error"]["status"]) == (404, "NOT_FOUND")


@every_version
@pytest.mark.parametrize("name", ["vendor/by-chat", "a/b/c:free", "vendor%2Fby-chat"])
def test_a_name_with_slashes_is_sent_as_it_is(
    setup: GatewaySetup, start_gateway: Callable[..., Serving], version: str, name: str
) -> None:
    (named,) = [one for one in setup.models if one["name"] == "by-chat"]
    setup.models += [{**named, "name": other} for other in ("vendor/by-chat", "a/b/c:free")]
    setup.supplier.script(SAID)
    headers = {"x-goog-api-key": setup.add_key()}
    with httpx.Client(base_url=start_gateway().url, headers=headers, trust_env=False) as client:
        assert client.get(f"/{version}/models/{name}").json()["name"].endswith(unquote(name))
        reply = client.post(f"/{version}/models/{name}:generateContent", json=HELLO)
        assert reply.json()["candidates"][0]["content"]["parts"] == [{"text": "one two three"}]
        assert client.get(f"/{version}/models/none/such").status_code == 404
        assert client.get(f"/{version}/models/").status_code == 404
    assert setup.wait_for_records(1)[0].model == unquote(name)


def test_anthropics_status_of_overload_is_reported(
    setup: GatewaySetup, client: httpx.Client
) -> None:
    """529 is no status that HTTP knows."""
    setup.supplier.script(Refuse(529, "busy", "overloaded_error"))
    said = {"model": "by-messages", "max_tokens": 9, "messages": [{"role": "user", "content": "?"}]}
    reply = client.post("/v1/messages", json=said)
    assert (reply.status_code, reply.json()["error"]["type"]) == (529, "overloaded_error")


@pytest.mark.parametrize("named", ["scripted-large", "models/scripted-large"])
@pytest.mark.parametrize("field", ["generateContentRequest", "generate_content_request"])
def test_a_count_of_a_whole_request_names_the_suppliers_model(
    setup: GatewaySetup, start_gateway: Callable[..., Serving], field: str, named: str
) -> None:
    path = "/v1beta/models/scripted-large:countTokens"
    setup.supplier.documents[path] = {"totalTokens": 12}
    setup.models[3]["routes"][0]["model"] = named
    key, url = setup.add_key(), start_gateway().url
    asked = {**HELLO, "systemInstruction": {"parts": [{"text": "Be brief."}]}}
    with httpx.Client(base_url=url, headers={"x-goog-api-key": key}, trust_env=False) as client:
        reply = client.post(
            "/v1beta/models/by-gemini:countTokens",
            json={field: {"model": "models/by-gemini", **asked}},
        )
    assert reply.json() == {"totalTokens": 12}
    (sent,) = setup.supplier.others
    assert sent.path == path
    assert sent.body == {field: {"model": "models/scripted-large", **asked}}


GOOGLES_LIMIT = {
    "code": 429,
    "message": "You exceeded your current quota, please check your plan and billing details.",
    "status": "RESOURCE_EXHAUSTED",
    "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "36s"}],
}
NO_KEY = {
    "code": 400,
    "message": "API key not valid. Please pass a valid API key.",
    "status": "INVALID_ARGUMENT",
    "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}],
}
CALLS = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hello"}]},
    "/v1/messages": {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 9},
    "/v1beta/models/by-gemini:generateContent": HELLO,
}


@pytest.mark.parametrize("path", CALLS)
def test_googles_limit_for_a_minute_is_waited_and_is_no_unpaid_account(
    setup: GatewaySetup, client: httpx.Client, path: str
) -> None:
    setup.supplier.script(Refuse(429, body={"error": GOOGLES_LIMIT}))
    asked = {**CALLS[path], "model": "by-gemini"}
    first, second = (client.post(path, json=asked) for _ in range(2))
    assert (first.status_code, second.status_code) == (429, 429)
    assert "own key" not in first.text
    assert 1 <= int(second.headers["retry-after"]) <= 36
    assert len(setup.supplier.requests) == 1
    assert [entry.error for entry in setup.wait_for_records(2)] == ["rate_limit", "rate_limit"]


@pytest.mark.parametrize("path", CALLS)
def test_a_key_that_google_does_not_know_is_not_taken_for_the_callers_fault(
    setup: GatewaySetup, start_gateway: Callable[..., Serving], path: str
) -> None:
    setup.models[3]["routes"].append({"channel": "chat", "model": "other", "priority": 1})
    setup.supplier.script(Refuse(400, body={"error": NO_KEY}), SAID)
    key, url = setup.add_key(), start_gateway().url
    with httpx.Client(base_url=url, headers={"x-goog-api-key": key}, trust_env=False) as client:
        reply = client.post(path, json={**CALLS[path], "model": "by-gemini"})
    assert (reply.status_code, reply.headers["x-agentd-channel"]) == (200, "chat")
    assert "one two three" in reply.text

"""Access of keys to models: keys as they are now, models by exactly their names."""

import json
import re
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.gateway.conftest import GatewaySetup
from tests.supplier.steps import Say
from tests.support.daemon import PATIENCE, Serving, until

HELLO = [{"role": "user", "content": "hello"}]


def ask_model(daemon: Serving, key: str, model: str = "by-chat") -> int:
    """Return the status of a request."""
    return post_body(daemon, key, json.dumps({"model": model, "messages": HELLO}).encode())


def post_body(daemon: Serving, key: str, body: bytes) -> int:
    """Return the status of a request with this body."""
    connection = HTTPConnection("127.0.0.1", daemon.port, timeout=PATIENCE)
    with closing(connection):
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        connection.request("POST", "/v1/chat/completions", body, headers)
        return connection.getresponse().status


def edit_keys_file(setup: GatewaySetup, pattern: str, instead: str) -> None:
    """Change ``access-keys.yml`` as a person does, in an editor."""
    path = Path(setup.layout.access_keys)
    text = path.read_text()
    changed = re.sub(pattern, instead, text, flags=re.DOTALL)
    assert changed != text, text
    saved = path.with_suffix(".new")
    saved.write_text(changed)
    saved.chmod(0o600)
    saved.rename(path)


def test_a_key_that_is_disabled_by_hand_opens_nothing_from_the_next_request_on(
    setup: GatewaySetup, start_gateway: Callable[..., Serving]
) -> None:
    key, daemon = setup.add_key(), start_gateway()
    setup.supplier.script(Say("hi"), Say("again"))
    assert ask_model(daemon, key) == 200
    edit_keys_file(setup, r"( +)(created: [^\n]+\n)", r"\1\2\1enabled: false\n")
    assert ask_model(daemon, key) == 401
    edit_keys_file(setup, r" +enabled: false\n", "")
    assert ask_model(daemon, key) == 200


def test_a_key_that_is_deleted_by_hand_opens_nothing_from_the_next_request_on(
    setup: GatewaySetup, start_gateway: Callable[..., Serving]
) -> None:
    key, other = setup.add_key(name="gone"), setup.add_key(name="stays")
    daemon = start_gateway()
    setup.supplier.script(Say("hi"), Say("again"))
    assert ask_model(daemon, key) == 200
    edit_keys_file(setup, r"- id: '\w+'\n  name: 'gone'\n.*?(?=- id:)", "")
    assert ask_model(daemon, key) == 401
    assert ask_model(daemon, other) == 200


def test_an_expired_key_opens_nothing(
    setup: GatewaySetup, start_gateway: Callable[..., Serving]
) -> None:
    key, daemon = setup.add_key(expires="2026-01-02T00:00:00.000Z"), start_gateway()
    assert ask_model(daemon, key) == 401
    assert not setup.supplier.requests


@pytest.mark.parametrize(
    ("named", "status"),
    [
        ("by-chat", 200),
        ("BY-CHAT", 404),
        ("by-chat ", 404),
        (" by-chat", 404),
        ("by-chat\n", 404),
        ("by-messages", 404),
        ("scripted-large", 404),
        ("by-*", 404),
        ("", 400),
    ],
    ids=repr,
)
def test_a_model_is_called_by_exactly_its_name_and_only_if_the_key_allows_it(
    setup: GatewaySetup, start_gateway: Callable[..., Serving], named: str, status: int
) -> None:
    """Row 62 of the threats: aliases, case and blanks open no model that is not allowed."""
    key, daemon = setup.add_key(models=["by-chat"]), start_gateway()
    setup.supplier.script(Say("hi"))
    assert ask_model(daemon, key, named) in (status, 400 if status == 404 else status)
    assert len(setup.supplier.requests) == (status == 200)


def test_a_request_that_names_two_models_is_refused(
    setup: GatewaySetup, start_gateway: Callable[..., Serving]
) -> None:
    key, daemon = setup.add_key(models=["by-chat"]), start_gateway()
    body = b'{"model": "by-chat", "messages": [], "model": "by-messages"}'
    assert post_body(daemon, key, body) == 400
    assert not setup.supplier.requests


def test_no_second_channel_is_tried_that_the_key_may_not_use(
    setup: GatewaySetup, start_gateway: Callable[..., Serving]
) -> None:
    setup.channels.append(setup.build_channel("dead", "openai-chat", url="http://127.0.0.1:9"))
    setup.models[0]["routes"] = [{"channel": "dead"}, {"channel": "chat", "priority": 1}]
    key, daemon = setup.add_key(channels=["dead"]), start_gateway()
    assert ask_model(daemon, key) >= 500
    assert not setup.supplier.requests
    (entry,) = setup.wait_for_records(1)
    assert (entry.channel, entry.tries) == ("dead", 1)


def test_edited_models_and_channels_hold_within_a_second_and_broken_ones_never(
    setup: GatewaySetup, start_gateway: Callable[..., Serving]
) -> None:
    key, daemon = setup.add_key(), start_gateway()
    setup.supplier.script(*[Say("hi")] * 50)
    assert ask_model(daemon, key) == 200
    models = Path(setup.layout.models)
    models.write_text("proxy: [{name: broken")
    assert ask_model(daemon, key) == 200
    setup.models[0]["name"] = "renamed"
    setup.write()
    until(lambda: ask_model(daemon, key, "renamed") == 200)
    assert ask_model(daemon, key, "by-chat") == 404


@pytest.mark.parametrize(
    ("path", "result"),
    [
        ("/v1/nothing", {"message", "type", "param", "code"}),
        ("/v1beta/nothing", {"code", "message", "status"}),
    ],
)
def test_an_address_that_leads_nowhere_is_refused_in_the_dialect_of_its_callers(
    setup: GatewaySetup, start_gateway: Callable[..., Serving], path: str, result: set[str]
) -> None:
    key, daemon = setup.add_key(), start_gateway()
    for headers, status in (({"Authorization": f"Bearer {key}"}, 404), ({}, 401)):
        with closing(HTTPConnection("127.0.0.1", daemon.port, timeout=PATIENCE)) as connection:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            assert answer.status == status
            assert json.loads(answer.read())["error"].keys() == result


def test_a_client_that_has_no_key_or_another_is_shown_what_one_looks_like(
    setup: GatewaySetup, start_gateway: Callable[..., Serving]
) -> None:
    daemon = start_gateway()
    for headers, said in (
        ({}, "needs an access key"),
        ({"X-Api-Key": "sk-x"}, "not an access key"),
    ):
        with closing(HTTPConnection("127.0.0.1", daemon.port, timeout=PATIENCE)) as connection:
            connection.request("POST", "/v1/messages", b"{}", headers)
            answer = connection.getresponse()
            result = json.loads(answer.read())["error"]["message"]
        assert answer.status == 401
        assert said in result and '"sk-agentd-"' in result


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/v1/v1/messages", "/v1/messages"),  # a base address with too much ...
        ("/v1/v1beta/models/x:generateContent", "/v1beta/models/x:generateContent"),
        ("/chat/completions", "/v1/chat/completions"),  # ... and with too little
        ("/v1/chat/completions/", "/v1/chat/completions"),
        ("/v1/chat/completion", "/v1/chat/completions"),
        ("/v1/respones", "/v1/responses"),
        ("/v1/nothing/of/the/kind", None),
        ("/nothing", None),
    ],
)
def test_a_client_that_came_astray_is_shown_which_address_may_be_meant(
    setup: GatewaySetup, start_gateway: Callable[..., Serving], path: str, meant: str | None
) -> None:
    key, daemon = setup.add_key(), start_gateway()
    with closing(HTTPConnection("127.0.0.1", daemon.port, timeout=PATIENCE)) as connection:
        connection.request("POST", path, b"{}", {"Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        result = json.loads(answer.read())
    assert answer.status == 404
    message = (result["error"] if path.startswith("/v1") else result)["message"]
    assert meant is None or f'did you mean "{meant}"?' in message
    if path.startswith("/v1"):
        assert result["error"]["code"] == "unknown_url"
    assert meant or "did you mean" not in str(result)


def test_a_client_that_uses_another_method_is_shown_which_are_possible(
    setup: GatewaySetup, start_gateway: Callable[..., Serving]
) -> None:
    key, daemon = setup.add_key(), start_gateway()
    with closing(HTTPConnection("127.0.0.1", daemon.port, timeout=PATIENCE)) as connection:
        connection.request("GET", "/v1/messages", headers={"Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        result = json.loads(answer.read())["error"]["message"]
    assert answer.status == 405
    assert result.endswith("allowed: POST")

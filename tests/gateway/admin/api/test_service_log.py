"""The gateway's service log by the management API, newest first."""

import json
from pathlib import Path

import openai
import pytest

from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.supplier.steps import Answer, Refuse, Say, Tokens
from tests.support.daemon import until


def get_notes(manager, query=""):
    return manager.get(f"/api/agent/service-log{query}")["items"]


def test_a_filter_that_is_none_is_refused(manager):
    assert manager.get("/api/agent/service-log?level=loud").status == 400
    assert manager.get("/api/agent/service-log?limit=0").status == 400
    assert manager.get("/api/agent/service-log?cursor=x").status == 400


@pytest.fixture
def gateway(setup, start_gateway):
    """A running one: how a caller calls it, and who manages it."""

    def call_model(key: str, text: str = "hello", model: str = "by-chat"):
        with openai.OpenAI(base_url=f"{daemon.url}/v1", api_key=key, max_retries=0) as client:
            client.chat.completions.create(
                model=model, messages=[{"role": "user", "content": text}]
            )

    daemon = start_gateway(environ={"PROXY_APP_HASH": HASH})
    return call_model, daemon.client(MANAGEMENT_KEY)


def get_kinds(manager) -> list[str]:
    return [one["kind"] for one in get_notes(manager)]


def test_a_channel_that_rests_and_comes_back_is_noted(setup, gateway):
    call, manager = gateway
    key = setup.add_key()
    setup.supplier.script(Refuse(500), Answer((Say("hi"),), Tokens(1, 1)))
    with pytest.raises(openai.APIStatusError):
        call(key)
    call(key)
    back, rests = until(
        lambda: found if len(found := get_notes(manager, "?channel=chat")) > 1 else 0
    )
    assert (rests["kind"], rests["level"]) == ("channel_cooldown", "warning")
    assert (back["kind"], back["level"]) == ("channel_recovered", "info")
    assert get_notes(manager, "?level=info&channel=chat") == [back]


def test_a_limit_that_is_reached_is_noted_once(setup, gateway):
    call, manager = gateway
    key = setup.add_key(limits={"day": 0})
    for _ in range(3):
        with pytest.raises(openai.RateLimitError):
            call(key)
    (one,) = until(lambda: get_notes(manager, "?kind=limit_reached"))
    assert one["key"] == setup.keys[-1]
    assert get_kinds(manager).count("limit_reached") == 1


def test_a_file_with_mistakes_and_a_good_one_are_noted(setup, gateway):
    _, manager = gateway
    whole = Path(setup.layout.channels).read_text()
    Path(setup.layout.channels).write_text("channels: 3")
    (one,) = until(lambda: get_notes(manager, "?kind=config_invalid"))
    assert "channels.yml" in one["text"]
    Path(setup.layout.channels).write_text(whole)
    until(lambda: get_notes(manager, "?kind=config_reloaded"))


def test_a_start_and_a_stop_are_noted(setup, gateway, serve):
    _, manager = gateway
    until(lambda: "started" in get_kinds(manager))
    setup.daemon.stop()
    setup.daemon.join()
    again = serve(setup.folder, environ={"PROXY_APP_HASH": HASH}).client(MANAGEMENT_KEY)
    until(lambda: get_kinds(again)[:3] == ["started", "stopping", "started"])


def test_a_secret_that_is_not_to_be_sent_is_noted_without_it(setup, gateway):
    call, manager = gateway
    wish = {"id": "canary", "regex": "CANARY-[0-9]{8}", "mode": "block"}
    assert manager.post("/api/agent/secret-rules", wish).status == 201
    with pytest.raises(openai.APIStatusError):
        call(setup.add_key(), "here is CANARY-12345678")
    (one,) = until(lambda: get_notes(manager, "?kind=secret_blocked"))
    assert "canary" in one["text"]
    assert "12345678" not in str(get_notes(manager))
    assert not setup.supplier.requests


def test_notes_come_page_by_page_the_newest_first(setup, gateway):
    """The proxy specification, sections 1 and 2: the proxy-service log is read."""
    _, manager = gateway
    for number in range(4):
        name = f"n{number}"
        text = json.dumps({"channels": [*setup.channels, setup.build_channel(name, "anthropic")]})
        Path(setup.layout.channels).write_text(text)
        until(lambda number=number: get_kinds(manager).count("config_reloaded") > number)
    first = manager.get("/api/agent/service-log?limit=2").json()
    second = manager.get(f"/api/agent/service-log?limit=2&cursor={first['next']}").json()
    numbers = [one["n"] for one in first["items"] + second["items"]]
    assert numbers == sorted(numbers, reverse=True)
    assert len(set(numbers)) == 4
    assert first["dropped"] == 0


def test_a_mistake_in_the_access_keys_is_noted_with_its_line_and_its_mending(setup, gateway):
    _, manager = gateway
    setup.add_key()
    path = Path(setup.layout.access_keys)
    good = path.read_text()
    path.write_text(f"{good}nonsense: 5\n")
    (broken,) = until(lambda: get_notes(manager, "?kind=config_invalid"))
    assert f"{path}:{good.count(chr(10)) + 1}: " in broken["text"]
    assert "refused" in broken["text"]
    path.write_text(good)
    until(
        lambda: any(str(path) in one["text"] for one in get_notes(manager, "?kind=config_reloaded"))
    )

"""What befell the gateway is told, the newest first."""

import json
from pathlib import Path

import openai
import pytest

from tests.supplier.steps import Answer, Refuse, Say, Tokens
from tests.web.manage.conftest import HASH, MANAGEMENT_KEY
from tests.web.support import until


def noted(manager, query=""):
    return manager.get(f"/api/agent/service-log{query}")["items"]


def test_a_filter_that_is_none_is_refused(manager):
    assert manager.get("/api/agent/service-log?level=loud").status == 400
    assert manager.get("/api/agent/service-log?limit=0").status == 400
    assert manager.get("/api/agent/service-log?cursor=x").status == 400


@pytest.fixture
def gateway(house, up):
    """A running one: how a caller calls it, and who manages it."""

    def call(key: str, text: str = "hello", model: str = "by-chat"):
        with openai.OpenAI(base_url=f"{daemon.url}/v1", api_key=key, max_retries=0) as client:
            client.chat.completions.create(
                model=model, messages=[{"role": "user", "content": text}]
            )

    daemon = up(environ={"PROXY_APP_HASH": HASH})
    return call, daemon.client(MANAGEMENT_KEY)


def kinds(manager) -> list[str]:
    return [one["kind"] for one in noted(manager)]


def test_a_channel_that_rests_and_comes_back_is_noted(house, gateway):
    call, manager = gateway
    key = house.key()
    house.supplier.script(Refuse(500), Answer((Say("hi"),), Tokens(1, 1)))
    with pytest.raises(openai.APIStatusError):
        call(key)
    call(key)
    back, rests = until(lambda: found if len(found := noted(manager, "?channel=chat")) > 1 else 0)
    assert (rests["kind"], rests["level"]) == ("channel_rests", "warning")
    assert (back["kind"], back["level"]) == ("channel_back", "info")
    assert noted(manager, "?level=info&channel=chat") == [back]


def test_a_limit_that_is_reached_is_noted_once(house, gateway):
    call, manager = gateway
    key = house.key(limits={"day": 0})
    for _ in range(3):
        with pytest.raises(openai.RateLimitError):
            call(key)
    (one,) = until(lambda: noted(manager, "?kind=limit_reached"))
    assert one["key"] == house.keys[-1]
    assert kinds(manager).count("limit_reached") == 1


def test_a_file_with_mistakes_and_a_good_one_are_noted(house, gateway):
    _, manager = gateway
    whole = Path(house.layout.channels).read_text()
    Path(house.layout.channels).write_text("channels: 3")
    (one,) = until(lambda: noted(manager, "?kind=file_broken"))
    assert "channels.yml" in one["text"]
    Path(house.layout.channels).write_text(whole)
    until(lambda: noted(manager, "?kind=file_read"))


def test_a_start_and_a_stop_are_noted(house, gateway, serve):
    _, manager = gateway
    until(lambda: "started" in kinds(manager))
    house.daemon.stop()
    house.daemon.join()
    again = serve(house.folder, environ={"PROXY_APP_HASH": HASH}).client(MANAGEMENT_KEY)
    until(lambda: kinds(again)[:3] == ["started", "stopping", "started"])


def test_a_secret_that_is_not_to_be_sent_is_noted_without_it(house, gateway):
    call, manager = gateway
    wish = {"id": "canary", "regex": "CANARY-[0-9]{8}", "mode": "block"}
    assert manager.post("/api/agent/secret-rules", wish).status == 201
    with pytest.raises(openai.APIStatusError):
        call(house.key(), "here is CANARY-12345678")
    (one,) = until(lambda: noted(manager, "?kind=secret_blocked"))
    assert "canary" in one["text"]
    assert "12345678" not in str(noted(manager))
    assert not house.supplier.requests


def test_notes_come_page_by_page_the_newest_first(house, gateway):
    """The proxy specification, sections 1 and 2: the proxy-service log is read."""
    _, manager = gateway
    for number in range(4):
        name = f"n{number}"
        text = json.dumps({"channels": [*house.channels, house.channel(name, "anthropic")]})
        Path(house.layout.channels).write_text(text)
        until(lambda number=number: kinds(manager).count("file_read") > number)
    first = manager.get("/api/agent/service-log?limit=2").json()
    second = manager.get(f"/api/agent/service-log?limit=2&cursor={first['next']}").json()
    numbers = [one["n"] for one in first["items"] + second["items"]]
    assert numbers == sorted(numbers, reverse=True)
    assert len(set(numbers)) == 4
    assert first["dropped"] == 0


def test_a_mistake_in_the_access_keys_is_noted_with_its_line_and_its_mending(house, gateway):
    _, manager = gateway
    house.key()
    path = Path(house.layout.access_keys)
    good = path.read_text()
    path.write_text(f"{good}nonsense: 5\n")
    (broken,) = until(lambda: noted(manager, "?kind=file_broken"))
    assert f"{path}:{good.count(chr(10)) + 1}: " in broken["text"]
    assert "open nothing" in broken["text"]
    path.write_text(good)
    until(lambda: any(str(path) in one["text"] for one in noted(manager, "?kind=file_read")))

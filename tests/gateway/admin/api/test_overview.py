"""The overview: all figures of the browser's first page, in one response."""

from contextlib import suppress
from pathlib import Path

import openai
import pytest

from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.gateway.conftest import PRICES, GatewaySetup
from tests.supplier.steps import Answer, Refuse, Say, Tokens
from tests.support.daemon import Client, Serving, at_noon, until


def get_overview(manager: Client) -> dict:
    reply = manager.get("/api/agent/overview")
    assert reply.status == 200, reply.body
    return reply.json()


def call(daemon: Serving, key: str, model: str = "by-chat") -> None:
    with openai.OpenAI(base_url=f"{daemon.url}/v1", api_key=key, max_retries=0) as caller:
        caller.chat.completions.create(model=model, messages=[{"role": "user", "content": "hi"}])


def test_each_figure_is_that_of_the_report_that_has_it_in_full(
    setup: GatewaySetup, start_gateway
) -> None:
    with at_noon() as now:
        key = setup.add_key(name="ann", limits={"day": 1})
        daemon = start_gateway(environ={"PROXY_APP_HASH": HASH})
        manager = daemon.client(MANAGEMENT_KEY)
        for number in range(1, 4):
            setup.supplier.script(Answer((Say("hi"),), Tokens(input=1000, output=100)))
            call(daemon, key)
            assert get_overview(manager)["summary"]["today"]["requests"] == number
        setup.supplier.script(Refuse(400, "no"))
        with pytest.raises(openai.BadRequestError):
            call(daemon, key)
        overview = get_overview(manager)

        day = now[:10]
        assert overview["day"] == day
        summary = manager.get("/api/agent/summary").json()
        for one in (overview["summary"], summary):  # what passes between the two calls is time
            one["at"] = one["channels"]["unhealthy"][0]["secondsSinceFailure"] = ""
        assert overview["summary"] == summary
        reports = f"/api/agent/reports/{{}}?from={day}&to={day}"
        (hour,) = overview["hours"]
        (by_hour,) = manager.get(reports.format("by-hour"))["items"]
        assert f"{day}T{hour['hour']:02}" == by_hour["name"]
        for name in ("requests", "ok", "cost"):
            assert hour[name] == by_hour[name], name
        assert (hour["requests"], hour["ok"], overview["yesterdayHours"]) == (4, 3, [])
        latency = manager.get(f"{reports.format('latency')}&by=hour").json()
        assert overview["firstToken"] == latency["total"]["firstToken"]
        assert hour["firstToken"] == latency["items"][0]["firstToken"]["p50"] is not None
        (by_channel,) = manager.get(reports.format("by-channel"))["items"]
        first, *others = overview["channels"]
        assert (first["name"], first["requests"], first["ok"]) == (by_channel["name"], 4, 3)
        assert {one["requests"] for one in others} == {0}
        (limit,) = overview["limits"]
        (same,) = manager.get("/api/agent/reports/limits")["items"]
        assert {**limit, "daysLeft": 0} == {**same, "daysLeft": 0}
        assert limit["used"] > 0
        latest = manager.get("/api/agent/requests?limit=8").json()["items"]
        assert overview["latest"] == latest
        assert len(latest) == 4


def test_every_channel_that_is_shown_has_its_figures_however_many_others_were_busy(
    setup: GatewaySetup, start_gateway
) -> None:
    with at_noon():
        names = [f"channel-{number}" for number in range(8)]
        setup.channels = [setup.build_channel(name, "openai-chat") for name in names]
        setup.models = [
            {"name": name, "routes": [{"channel": name, "model": "large"}], "prices": PRICES}
            for name in names
        ]
        key, poor = setup.add_key(), setup.add_key(limits={"day": 0})
        daemon = start_gateway(environ={"PROXY_APP_HASH": HASH})
        manager = daemon.client(MANAGEMENT_KEY)
        setup.supplier.script(*[Say("hi")] * len(names))
        for name in names:
            call(daemon, key, name)
        for _ in range(2):  # those for which no channel was called are the most
            with pytest.raises(openai.RateLimitError):
                call(daemon, poor, names[0])
        shown = get_overview(manager)["channels"]
        assert {one["name"]: one["requests"] for one in shown} == dict.fromkeys(names, 1)
        assert None not in [one["firstToken"] for one in shown]


def test_a_change_shows_at_once_though_nothing_was_requested(manager: Client) -> None:
    before = get_overview(manager)
    assert before["limits"] == []
    manager.post("/api/agent/keys", {"name": "new", "limits": {"day": 5}})
    assert [one["title"] for one in get_overview(manager)["limits"]] == ["new"]
    manager.post("/api/agent/budgets", {"name": "team", "tag": "team", "limits": {"month": 7}})
    found = [(one["scope"], one["title"]) for one in get_overview(manager)["limits"]]
    assert sorted(found) == [("key", "new"), ("tag", "team")]
    name = before["channels"][0]["name"]
    manager.post(f"/api/agent/channels/{name}/disable", {})
    channels = get_overview(manager)["channels"]
    assert [one["name"] for one in channels if not one["enabled"]] == [name]


def test_channels_that_were_disabled_low_balances_and_alerts_show_at_once(
    setup: GatewaySetup, manager: Client
) -> None:
    before = get_overview(manager)
    assert (before["disabledChannels"], before["lowBalances"], before["firing"]) == ([], [], [])
    told = {"balance_infos": [{"currency": "USD", "total_balance": "0"}]}
    setup.supplier.documents["/user/balance"] = told
    manager.patch("/api/agent/channels/chat", {"balance": {"source": "deepseek", "low": "5.5"}})
    manager.post("/api/agent/channels/chat/balance", {})
    low = {"channel": "chat", "amount": 0, "currency": "USD", "low": 5.5}
    assert get_overview(manager)["lowBalances"] == [low]

    manager.patch("/api/agent/settings", {"disable_channel_after": 1})
    setup.supplier.answer_always(Refuse(401))
    key = manager.post("/api/agent/keys", {"name": "ann"})["key"]
    with suppress(openai.APIStatusError):
        call(setup.daemon, key, "by-gemini")
    (channel,) = until(lambda: get_overview(manager)["disabledChannels"])
    assert channel["name"] == "gemini"
    assert "did not accept its key" in channel["reason"]

    target = {"name": "ops", "kind": "slack", "url": "https://alerts.example.com/x"}
    assert manager.post("/api/agent/alert-targets", target).status == 201
    until(lambda: len(get_overview(manager)["firing"]) == 2)
    kinds = {(one["kind"], one["subject"]) for one in get_overview(manager)["firing"]}
    assert kinds == {("balance_low", "chat"), ("channel_disabled", "gemini")}


def test_an_unchanged_overview_is_not_built_again(manager: Client) -> None:
    first, again = (manager.get("/api/agent/overview").body for _ in range(2))
    assert first == again, "its time is that of the first"


def test_a_file_with_a_mistake_shows_at_once(setup: GatewaySetup, manager: Client) -> None:
    assert get_overview(manager)["summary"]["problems"] == []
    Path(setup.layout.channels).write_text("channels: [{}]")
    problems = until(lambda: get_overview(manager)["summary"]["problems"])
    assert "channels.yml" in problems[0]

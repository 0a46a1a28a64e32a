"""Models that name others to try: after which failures, for whom, at whose price."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from agentd.llm.endpoint import ChannelDialect
from tests.gateway.conftest import PRICES, GatewaySetup
from tests.gateway.relay.callers import (
    CHANNELS,
    DIALECTS,
    Caller,
    CallResult,
    RunningGateway,
    build_call,
    every_dialect,
    running_gateway,
)
from tests.supplier.steps import Answer, Break, Fail, Refuse, Say, Stall, Step, Tokens
from tests.supplier.supplier import Supplier
from tests.support.ports import find_free_port

DEAR = {"input": "30", "output": "150"}
"""Ten times what the others cost."""

TOKENS = Tokens(input=1000, output=100)

TOO_LONG = Refuse(400, "prompt is too long: 9 > 8 maximum", "invalid_request_error")
FILTERED = Refuse(400, "Output blocked by content filtering policy", "invalid_request_error")
WRONG = Refuse(400, "Not like that", "invalid_request_error")

streamed_or_whole = pytest.mark.parametrize("stream", [False, True])


@pytest.fixture(scope="module")
def other() -> Iterator[Supplier]:
    """The second supplier, which has the fallbacks."""
    with Supplier() as made:
        yield made


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, other: Supplier) -> Iterator[RunningGateway]:
    def prepare(setup: GatewaySetup) -> None:
        second = {"url": other.url, "cool_down": 0}
        setup.channels += [
            setup.build_channel("first", *DIALECTS, cool_down=0),
            setup.build_channel("spare", *DIALECTS, cool_down=0),
            setup.build_channel("patient", *DIALECTS, cool_down=0, on_leave="drain"),
            setup.build_channel("resting", *DIALECTS, cool_down=300),
            setup.build_channel("disabled", *DIALECTS, enabled=False),
            setup.build_channel("closed", *DIALECTS)
            | {"url": f"http://127.0.0.1:{find_free_port()}"},
            setup.build_channel("second", *DIALECTS) | second,
            *(
                setup.build_channel(f"second-{name}", dialect) | second
                for dialect, name in CHANNELS.items()
            ),
        ]
        setup.models += [
            build_model("main", "first", fallbacks=["backup", "last"]),
            build_model("two", "first", "spare", fallbacks=["backup"]),
            build_model("drained", "patient", fallbacks=["backup"]),
            build_model("tired", "resting", fallbacks=["backup"]),
            build_model("closed", "closed", fallbacks=["last"]),
            build_model("off", "disabled", fallbacks=["backup"]),
            build_model("each", "first", fallbacks=["hidden", "unpriced", "dear", "last"]),
            build_model(
                "sorted",
                "first",
                fallbacks=["backup"],
                context_fallbacks=["large"],
                content_fallbacks=["lenient", "last"],
            ),
            build_model("backup", "second", prices=DEAR, max_output=500, fallbacks=["deep"]),
            build_model("deep", "second"),
            build_model("last", "second"),
            build_model("large", "second", context_fallbacks=["huge"]),
            build_model("huge", "second"),
            build_model("lenient", "second"),
            build_model("hidden", "second", enabled=False),
            build_model("unpriced", "second", prices=None),
            build_model("dear", "second", prices=DEAR),
            *(
                build_model(f"to-{name}", "first", fallbacks=[f"at-{name}"])
                for name in CHANNELS.values()
            ),
            *(build_model(f"at-{name}", f"second-{name}") for name in CHANNELS.values()),
        ]

    with running_gateway(tmp_path_factory.mktemp("gateway"), prepare) as made:
        yield made


@pytest.fixture(autouse=True)
def _anew(gateway: RunningGateway, other: Supplier) -> None:
    for supplier in (gateway.supplier, other):
        supplier.forget()


def build_model(name: str, *channels: str, **more: Any) -> dict[str, Any]:
    """Build a model that is served by these channels in order, under its own name."""
    routes = [{"channel": channel, "priority": number} for number, channel in enumerate(channels)]
    return {"name": name, "routes": routes, "prices": PRICES, "max_output": 1000, **more}


def make_answer(text: str = "well") -> Answer:
    return Answer((Say(text),), TOKENS)


def list_called_models(supplier: Supplier, since: int = 0) -> list[str]:
    """Return the models that a supplier was called for."""
    return [request.model for request in supplier.requests[since:]]


class RoutedCall:
    """A request to a model, and which models either supplier was asked for because of it."""

    def __init__(
        self,
        gateway: RunningGateway,
        other: Supplier,
        dialect: ChannelDialect,
        name: str,
        *,
        caller: Caller | None = None,
        stream: bool = False,
    ) -> None:
        before = len(gateway.supplier.requests), len(other.requests)
        self.told = (caller or gateway.add_caller()).ask(dialect, name, stream=stream)
        self.first = list_called_models(gateway.supplier, before[0])
        self.second = list_called_models(other, before[1])
        self.entry = gateway.wait_for_record(self.told)


@every_dialect
@streamed_or_whole
def test_a_fallback_answers_when_all_routes_failed(
    gateway: RunningGateway, other: Supplier, dialect: ChannelDialect, stream: bool
) -> None:
    gateway.supplier.script(Refuse(500, "Oh"), Refuse(529, "Busy"))
    other.script(make_answer())
    done = RoutedCall(gateway, other, dialect, "two", stream=stream)
    assert (done.told.status, done.told.text(), done.told.channel) == (200, "well", "second")
    assert done.told.headers["x-agentd-fallback"] == "backup"
    assert (done.first, done.second) == (["two", "two"], ["backup"])
    entry = done.entry
    assert (entry.model, entry.fallback, entry.channel) == ("two", "backup", "second")
    assert (entry.outcome, entry.tries, entry.estimated) == ("ok", 3, False)
    assert [(one.channel, one.model) for one in entry.failed_tries] == [
        ("first", ""),
        ("spare", ""),
    ]


@every_dialect
@streamed_or_whole
def test_a_fallback_costs_its_own_price_and_writes_no_more_than_it_may(
    gateway: RunningGateway, other: Supplier, dialect: ChannelDialect, stream: bool
) -> None:
    gateway.supplier.script(Refuse(500, "Oh"))
    other.script(make_answer())
    caller = gateway.add_caller(limits={"total": "1"})
    done = RoutedCall(gateway, other, dialect, "main", caller=caller, stream=stream)
    assert done.entry.cost == Decimal("0.045")
    body = other.requests[-1].body
    config = body.get("generationConfig") or body
    names = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
    limits = [config[name] for name in names if config.get(name)]
    assert limits == [100 if dialect == "anthropic" else 500]


@every_dialect
def test_a_stream_that_begins_with_a_failure_is_had_from_a_fallback(
    gateway: RunningGateway, other: Supplier, dialect: ChannelDialect
) -> None:
    gateway.supplier.script(Answer((Say("no"),), faults=(Fail(0),)))
    other.script(make_answer())
    told = RoutedCall(gateway, other, dialect, "main", stream=True).told
    assert (told.status, told.text(), told.ended) == (200, "well", True)


@every_dialect
def test_nothing_is_tried_once_the_caller_has_a_part_of_the_reply(
    gateway: RunningGateway, other: Supplier, dialect: ChannelDialect
) -> None:
    gateway.supplier.script(Answer((Say("some of the reply", cut=4),), faults=(Break(4),)))
    done = RoutedCall(gateway, other, dialect, "main", stream=True)
    assert (done.told.status, done.told.ended, done.second) == (200, False, [])
    assert (done.entry.outcome, done.entry.fallback) == ("broken", "")


REFUSALS: dict[str, tuple[Refuse, list[str]]] = {
    "a request that is too long": (TOO_LONG, ["large"]),
    "content that a filter refuses": (FILTERED, ["lenient"]),
    "a failure of the supplier": (Refuse(503, "Busy"), ["backup"]),
    "a request that is wrong": (WRONG, []),
}


@every_dialect
@streamed_or_whole
@pytest.mark.parametrize("what", REFUSALS)
def test_each_refusal_has_its_own_fallbacks(
    gateway: RunningGateway, other: Supplier, dialect: ChannelDialect, stream: bool, what: str
) -> None:
    refusal, models = REFUSALS[what]
    gateway.supplier.script(refusal)
    other.script(make_answer())
    done = RoutedCall(gateway, other, dialect, "sorted", stream=stream)
    assert (done.first, done.second) == (["sorted"], models)
    if models:
        assert (done.told.status, done.told.text()) == (200, "well")
        assert done.entry.fallback == models[0]
    else:
        assert done.told.status == 400
        assert "Not like that" in done.told.error()["message"]
        assert "x-agentd-fallback" not in done.told.headers


@pytest.mark.parametrize(
    ("first", "second", "models"),
    [
        (TOO_LONG, TOO_LONG, ["large", "huge"]),
        (FILTERED, FILTERED, ["lenient", "last"]),
        (FILTERED, Refuse(500, "Oh"), ["lenient", "last"]),
        (FILTERED, WRONG, ["lenient"]),
        (Refuse(500, "Oh"), Refuse(500, "Oh"), ["backup", "deep"]),
    ],
)
def test_the_fallbacks_of_a_fallback_are_tried_before_the_rest_of_the_list(
    gateway: RunningGateway, other: Supplier, first: Refuse, second: Refuse, models: list[str]
) -> None:
    for dialect in ("openai-chat", "anthropic"):
        gateway.supplier.script(first)
        other.script(second, make_answer())
        done = RoutedCall(gateway, other, dialect, "sorted")
        assert done.second == models
        tried = [(one.channel, one.model) for one in done.entry.failed_tries]
        assert tried[:2] == [("first", ""), ("second", models[0])]
        assert done.entry.fallback == models[-1]
        other.forget()


@every_dialect
def test_the_last_failure_is_told_when_every_model_failed(
    gateway: RunningGateway, other: Supplier, dialect: ChannelDialect
) -> None:
    gateway.supplier.script(Refuse(500, "Oh"))
    other.script(Refuse(500, "One"), Refuse(500, "Two"), Refuse(429, "Three"))
    done = RoutedCall(gateway, other, dialect, "main")
    assert (done.told.status, done.second) == (429, ["backup", "deep", "last"])
    assert "Three" in done.told.error()["message"]
    entry = done.entry
    assert (entry.outcome, entry.tries, entry.cost) == ("failed", 4, 0)
    assert [one.model for one in entry.failed_tries] == ["", "backup", "deep", "last"]


@pytest.mark.parametrize(
    ("models", "second"),
    [
        (["main"], []),
        (["main", "deep"], []),
        (["main", "last"], ["last"]),
        (["main", "ba*"], ["backup"]),
    ],
)
def test_a_key_reaches_no_model_by_a_fallback_that_it_may_not_call(
    gateway: RunningGateway, other: Supplier, models: list[str], second: list[str]
) -> None:
    gateway.supplier.script(Refuse(500, "Oh"))
    other.script(make_answer())
    done = RoutedCall(gateway, other, "anthropic", "main", caller=gateway.add_caller(models=models))
    assert (done.second, done.told.status) == (second, 200 if second else 500)


def test_a_key_reaches_no_channel_by_a_fallback_that_it_may_not_use(
    gateway: RunningGateway, other: Supplier
) -> None:
    gateway.supplier.script(Refuse(500, "Oh"))
    done = RoutedCall(
        gateway, other, "anthropic", "main", caller=gateway.add_caller(channels=["first"])
    )
    assert (done.second, done.told.status) == ([], 500)
    assert "Oh" in done.told.error()["message"]


def test_a_fallback_that_a_key_cannot_pay_or_that_has_no_price_is_passed_over(
    gateway: RunningGateway, other: Supplier
) -> None:
    caller = gateway.add_caller(limits={"total": "0.02"})
    for _ in range(2):
        gateway.supplier.script(Refuse(500, "Oh"))
        other.script(make_answer())
        done = RoutedCall(gateway, other, "openai-chat", "each", caller=caller)
        assert (done.second, done.told.status) == (["last"], 200)
        assert done.entry.cost == Decimal("0.0045")
    gateway.supplier.script(Refuse(500, "Oh"))
    other.script(make_answer())
    assert RoutedCall(gateway, other, "openai-chat", "each").second == ["dear"]


def test_while_a_fallback_is_called_what_it_can_cost_is_reserved(
    gateway: RunningGateway, other: Supplier
) -> None:
    stall = Stall(0)
    gateway.supplier.script(Refuse(500, "Oh"), make_answer())
    other.script(Answer((Say("well"),), TOKENS, faults=(stall,)))
    caller = gateway.add_caller(limits={"total": "0.08"})
    with caller.begin_call("openai-chat", "main", stream=False):
        stall.reached.result(60)
        refused = caller.ask("openai-chat", "deep")
        assert refused.status == 429
        assert "reserved by requests under way" in refused.error()["message"]
        stall.release()
        gateway.wait_for_records_of(caller, 2)
    other.script(make_answer())
    assert caller.ask("openai-chat", "deep").status == 200


@pytest.mark.parametrize("name", ["tired", "off"])
def test_a_fallback_answers_while_every_channel_is_disabled_or_in_cooldown(
    gateway: RunningGateway, other: Supplier, name: str
) -> None:
    gateway.supplier.script(Refuse(429, "Slow down", headers={"Retry-After": "600"}))
    other.script(make_answer(), make_answer())
    RoutedCall(gateway, other, "openai-chat", name)
    done = RoutedCall(gateway, other, "openai-chat", name)
    assert (done.first, done.second, done.told.status) == ([], ["backup"], 200)
    assert (done.entry.tries, done.entry.fallback, done.entry.failed_tries) == (1, "backup", ())


def test_the_reason_of_the_requested_model_is_told_when_no_fallback_can_be_used(
    gateway: RunningGateway, other: Supplier
) -> None:
    done = RoutedCall(
        gateway, other, "openai-chat", "off", caller=gateway.add_caller(models=["off"])
    )
    assert (done.told.status, done.first, done.second) == (503, [], [])
    assert "disabled" in done.told.error()["message"]
    assert done.entry.outcome == "refused"


@every_dialect
@streamed_or_whole
@pytest.mark.parametrize("supplier", DIALECTS)
def test_a_fallback_of_another_dialect_is_translated_and_the_model_stays_what_was_asked_for(
    gateway: RunningGateway,
    other: Supplier,
    dialect: ChannelDialect,
    supplier: ChannelDialect,
    stream: bool,
) -> None:
    gateway.supplier.script(Refuse(500, "Oh"))
    other.script(make_answer(), make_answer())
    name = CHANNELS[supplier]
    fallen = RoutedCall(gateway, other, dialect, f"to-{name}", stream=stream).told
    direct = RoutedCall(gateway, other, dialect, f"at-{name}", stream=stream).told
    assert (fallen.status, fallen.text()) == (200, "well")
    if dialect != supplier:
        assert _find_models(direct) == {f"at-{name}"}
        assert _find_models(fallen) == {f"to-{name}"}
    else:
        assert _find_models(direct) == _find_models(fallen), (
            "a reply that is passed on names its own"
        )


def _find_models(told: CallResult) -> set[str]:
    """Return the names of models in a reply."""
    streamed = told.headers["Content-Type"].startswith("text/event-stream")
    found = set()
    for one in told.events if streamed else [json.loads(told.body)]:
        for part in (one, one.get("message"), one.get("response")):
            if isinstance(part, dict):
                found |= {part[key] for key in ("model", "modelVersion") if part.get(key)}
    return found


def test_a_fallback_is_tried_for_a_caller_of_a_channel_that_drains(
    gateway: RunningGateway, other: Supplier
) -> None:
    gateway.supplier.script(Refuse(500, "Oh"))
    other.script(make_answer())
    done = RoutedCall(gateway, other, "anthropic", "drained", stream=True)
    assert (done.told.text(), done.entry.fallback) == ("well", "backup")


def test_tokens_are_never_counted_by_a_fallback(gateway: RunningGateway, other: Supplier) -> None:
    before = len(other.others) + len(other.requests)
    caller = gateway.add_caller()
    _, body = build_call("anthropic", "closed")
    with caller.connect() as line:
        line.sendall(caller.build_request("/v1/messages/count_tokens", body, "Connection: close"))
        while line.recv(65536):
            pass
    (entry,) = gateway.wait_for_records_of(caller, 1)
    assert (entry.outcome, entry.error, entry.fallback) == ("failed", "unreachable", "")
    assert len(other.others) + len(other.requests) == before


UNUSED: dict[str, Step] = {"a reply": make_answer(), "a wrong request": WRONG}


@pytest.mark.parametrize("what", UNUSED)
def test_the_record_of_a_request_without_a_fallback_has_no_word_of_it(
    gateway: RunningGateway, other: Supplier, what: str
) -> None:
    gateway.supplier.script(UNUSED[what])
    done = RoutedCall(gateway, other, "openai-chat", "main")
    assert (done.entry.fallback, done.second) == ("", [])
    assert "x-agentd-fallback" not in done.told.headers

"""Priority, then weight; what failed rests; no allow-list is ever passed by."""

from collections import Counter
from random import Random
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from agentd.core.errors import AllChannelsCoolingDown, BadRequest, Forbidden, NotFound, Unavailable
from agentd.gateway.channels.failures import CHANNEL_FAILURES, FALLBACK_FAILURES
from agentd.gateway.channels.model import Channel
from agentd.gateway.channels.routing import (
    RECENT_CALLS,
    Router,
    find_model,
    find_preferred_dialects,
    list_callable,
)
from agentd.gateway.keys.model import AccessKey, SecretHash
from agentd.llm.conversation import ErrorKind
from agentd.llm.price import Prices
from agentd.models.gateway_model import GatewayModel, ModelRoute

SECRET = SecretHash("0" * 32, "0" * 64, "abcd")
KINDS = (*get_args(ErrorKind), "unreachable")


def build_key(**more) -> AccessKey:
    made = {"id": "a" * 12, "name": "k", "secret": SECRET, "created": "2026-01-01T00:00:00.000Z"}
    return AccessKey(**made | more)


def build_channel(name: str, *dialects: str, **more) -> Channel:
    return Channel(name=name, dialects=dialects or ("openai-chat",), url="https://a.b", **more)


def index_channels(*all_: Channel) -> dict[str, Channel]:
    return {one.name: one for one in all_}


def build_model(*routes: ModelRoute, **more) -> GatewayModel:
    return GatewayModel(**{"name": "m", "routes": routes} | more)


def build_route(name: str, **more) -> ModelRoute:
    return ModelRoute(channel=name, **more)


class RoutingSetup:
    """A router whose chance is seeded and whose time stands until it is moved."""

    def __init__(self, *known: Channel) -> None:
        self.now = 100.0
        self.router = Router(Random(1).random, lambda: self.now)  # noqa: S311
        self.channels = index_channels(*known)

    def list_candidates(self, asked: GatewayModel, **more) -> list[str]:
        given = {"key": build_key(), "dialect": "openai-chat"} | more
        candidates = self.router.find_candidates(asked, self.channels, **given)
        return [choice.channel.name for choice in candidates]


A, B, C = build_channel("a"), build_channel("b"), build_channel("c")
AB = build_model(build_route("a", priority=0), build_route("b", priority=1))


def test_the_smallest_priority_is_tried_first_whatever_the_weights():
    world = RoutingSetup(A, B, C)
    asked = build_model(
        build_route("c", priority=9, weight=1000),
        build_route("b", priority=5),
        build_route("a", priority=1),
    )
    assert {tuple(world.list_candidates(asked)) for _ in range(50)} == {("a", "b", "c")}


def test_among_equals_each_comes_first_as_often_as_its_weight_says():
    world = RoutingSetup(A, B, C)
    asked = build_model(
        build_route("a", weight=6), build_route("b", weight=3), build_route("c", weight=1)
    )
    first = Counter(world.list_candidates(asked)[0] for _ in range(20_000))
    for name, share in {"a": 0.6, "b": 0.3, "c": 0.1}.items():
        assert first[name] / 20_000 == pytest.approx(share, abs=0.015)


def test_of_the_rest_the_second_comes_as_often_as_its_weight_says():
    world = RoutingSetup(A, B, C)
    asked = build_model(
        build_route("a", weight=6), build_route("b", weight=3), build_route("c", weight=1)
    )
    tried = [world.list_candidates(asked) for _ in range(20_000)]
    second = Counter(names[1] for names in tried if names[0] == "a")
    assert second["b"] / second.total() == pytest.approx(0.75, abs=0.02)


def test_weight_nothing_comes_after_its_equals_and_before_the_next_priority():
    world = RoutingSetup(A, B, C)
    asked = build_model(
        build_route("a", weight=0), build_route("b", weight=1), build_route("c", priority=1)
    )
    assert {tuple(world.list_candidates(asked)) for _ in range(50)} == {("b", "a", "c")}


@given(
    routes=st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.integers(0, 3)),
        min_size=1,
        max_size=3,
        unique_by=lambda route: route[0],
    )
)
def test_the_preferred_dialects_are_those_of_a_channel_that_is_tried_first(routes):
    dialects = {"a": "openai-chat", "b": "anthropic", "c": "gemini"}
    world = RoutingSetup(*(build_channel(*pair) for pair in dialects.items()))
    model = build_model(
        *(build_route(name, priority=priority, weight=weight) for name, priority, weight in routes)
    )
    (preferred,) = find_preferred_dialects(model, world.channels)
    first = {dialects[world.list_candidates(model)[0]] for _ in range(60)}
    assert preferred in first


def test_of_equal_channels_the_one_of_the_greatest_weight_has_the_preferred_dialects():
    channels = index_channels(build_channel("a", "openai-chat"), build_channel("b", "anthropic"))
    model = build_model(build_route("a", weight=1), build_route("b", weight=2))
    assert find_preferred_dialects(model, channels) == ("anthropic",)


@given(
    routes=st.lists(
        st.builds(
            build_route,
            st.sampled_from("abcd"),
            model=st.sampled_from(["", "x"]),
            priority=st.integers(0, 3),
            weight=st.integers(0, 3),
        ),
        min_size=1,
        max_size=8,
    ),
    enabled=st.sets(st.sampled_from("abc")),
    allowed=st.none() | st.sets(st.sampled_from(["a", "b", "c", "[ab]", "?", "A", "a "])),
    models=st.none() | st.sets(st.sampled_from(["m", "M", "m ", "x", "m*"])),
    failing=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(KINDS)), max_size=6),
    result=st.sampled_from([None, 0, 1, 100]),
    seed=st.integers(),
)
def test_no_list_of_a_key_is_ever_passed_by_and_no_disabled_channel_used(
    routes, enabled, allowed, models, failing, result, seed
):
    asked = build_model(*routes)
    known = index_channels(*(build_channel(name, enabled=name in enabled) for name in "abc"))
    router = Router(Random(seed).random, lambda: 5.0)  # noqa: S311
    for name, kind in failing:
        router.record_failure(known[name], kind, result)
    caller = build_key(
        models=None if models is None else tuple(models),
        channels=None if allowed is None else tuple(allowed),
    )
    chosen = router.find_candidates(asked, known, caller, "anthropic")
    for choice in chosen:
        assert choice.channel.name in enabled
        assert choice.is_allowed_for(caller)
        assert caller.may_use(choice.channel.name)
        assert caller.may_call("m")
    resting = {name for name, kind in failing if kind in CHANNEL_FAILURES and result != 0}
    ready = [choice for choice in chosen if choice.channel.name not in resting]
    assert chosen[: len(ready)] == ready, "what rests is the last resort"
    assert len(chosen) - len(ready) <= 1
    place = {one.channel: one.priority for one in routes}
    if len(place) == len(routes):
        order = [place[choice.channel.name] for choice in ready]
        assert order == sorted(order)
    if not chosen:
        router.explain_no_candidates(asked, known, caller, "anthropic")


def test_a_way_to_a_channel_that_does_not_exist_is_left_out():
    assert RoutingSetup(B).list_candidates(AB) == ["b"]


def test_the_callers_dialect_is_spoken_where_it_is_understood():
    world = RoutingSetup(
        build_channel("a", "openai-chat", "anthropic"), build_channel("b", "openai-responses")
    )
    one, two = world.router.find_candidates(AB, world.channels, build_key(), "anthropic")
    assert (one.is_passthrough, one.dialect) == (True, "anthropic")
    assert (two.is_passthrough, two.dialect) == (False, "openai-responses")
    assert world.list_candidates(AB, dialect="anthropic", others=()) == ["a"]


def test_only_dialects_that_the_request_can_be_translated_into_are_spoken():
    world = RoutingSetup(
        build_channel("a", "anthropic"), build_channel("b", "openai-responses", "openai-chat")
    )
    others = ("openai-chat", "gemini")
    (only,) = world.router.find_candidates(AB, world.channels, build_key(), "gemini", others=others)
    assert (only.channel.name, only.is_passthrough, only.dialect) == ("b", False, "openai-chat")


def test_the_ways_own_name_and_prices_come_before_the_models():
    cheap, dear = (Prices(input=n, output=n) for n in (1, 9))
    asked = build_model(
        build_route("a", model="x", prices=cheap), build_route("b", priority=1), prices=dear
    )
    one, two = RoutingSetup(A, B).router.find_candidates(
        asked, index_channels(A, B), build_key(), "openai-chat"
    )
    assert (one.supplier_model, one.prices) == ("x", cheap)
    assert (two.supplier_model, two.prices) == ("m", dear)


@pytest.mark.parametrize("kind", KINDS)
def test_only_failures_of_the_channels_own_making_make_it_rest(kind):
    world = RoutingSetup(A, B)
    world.router.record_failure(A, kind)
    rests = kind not in (
        "permission",
        "not_found",
        "invalid_request",
        "context_too_long",
        "content_refused",
        "unusable_reply",
    )
    assert world.list_candidates(AB) == (["b", "a"] if rests else ["a", "b"])
    world.now += A.cool_down
    assert world.list_candidates(AB) == ["a", "b"]


def test_another_channel_is_worth_a_try_unless_the_request_is_wrong():
    about_the_request = {"invalid_request", "context_too_long", "content_refused"}
    assert set(KINDS) - FALLBACK_FAILURES == about_the_request


def test_a_supplier_that_asks_to_be_left_alone_is_left_alone_for_so_long():
    world = RoutingSetup(A)
    world.router.record_failure(A, "quota", 90)
    world.now += 89
    assert world.list_candidates(AB) == []
    why = world.router.explain_no_candidates(AB, world.channels, build_key(), "openai-chat")
    assert isinstance(why, AllChannelsCoolingDown)
    assert why.retry_after == 1
    world.now += 1
    assert world.list_candidates(AB) == ["a"]


@pytest.mark.parametrize("kind", ["quota", "server", "unreachable"])
@pytest.mark.parametrize("wait", [None, 0, 5])
def test_no_other_call_of_the_same_time_makes_the_time_shorter_that_a_supplier_asked_for(
    kind, wait
):
    world = RoutingSetup(A)
    world.router.record_failure(A, "quota", 90)
    world.now += 1
    world.router.record_failure(A, kind, wait)
    assert world.list_candidates(AB) == []
    assert world.router.get_health(world.channels)["a"].seconds == 89
    world.now += 88
    assert world.list_candidates(AB) == []
    world.now += 1
    assert world.list_candidates(AB) == ["a"]


def test_a_supplier_may_ask_for_more_time():
    world = RoutingSetup(A)
    world.router.record_failure(A, "quota", 10)
    world.router.record_failure(A, "quota", 20)
    world.now += 19
    assert world.list_candidates(AB) == []


def test_a_time_that_is_over_does_not_keep_a_channel_from_its_next_cooldown():
    world = RoutingSetup(A)
    world.router.record_failure(A, "quota", 10)
    world.now += 10
    world.router.record_failure(A, "server")
    assert world.router.get_health(world.channels)["a"].seconds == 30


def test_what_a_supplier_asked_for_holds_beside_a_longer_cooldown_of_the_channels_own():
    world = RoutingSetup(A)
    world.router.record_failure(A, "rate_limit", 10, "m")
    world.router.record_failure(A, "unreachable")  # for 30 s
    assert world.list_candidates(AB) == []
    why = world.router.explain_no_candidates(AB, world.channels, build_key(), "openai-chat")
    assert isinstance(why, AllChannelsCoolingDown)
    assert why.retry_after == 10
    world.now += 10
    assert world.list_candidates(AB) == ["a"]  # nothing else is left


def test_what_a_supplier_asked_of_a_channel_is_forgotten_when_it_was_edited():
    world = RoutingSetup(A)
    world.router.record_failure(A, "quota", 90)
    world.channels["a"] = edited = structs.replace(A, key="env:BETTER")
    world.router.record_failure(edited, "server")
    assert world.router.get_health(world.channels)["a"].seconds == 30
    assert world.list_candidates(AB) == ["a"]


def test_no_supplier_can_have_itself_left_alone_for_more_than_an_hour():
    world = RoutingSetup(A)
    world.router.record_failure(A, "quota", 1e12)
    world.now += 3600
    assert world.list_candidates(AB) == ["a"]


def test_of_channels_that_all_rest_the_soonest_ready_is_tried_rather_than_none():
    world = RoutingSetup(A, B)
    world.router.record_failure(A, "server")
    world.now += 1
    world.router.record_failure(B, "server")
    assert world.list_candidates(AB) == ["a"]


def test_a_rate_limit_may_concern_one_model_of_the_supplier_alone():
    world = RoutingSetup(A, B)
    world.router.record_failure(A, "rate_limit", None, "m")
    other = build_model(build_route("a", model="x"), build_route("b", priority=1), name="o")
    assert world.list_candidates(AB) == ["b", "a"]
    assert world.list_candidates(other) == ["a", "b"]
    standing = world.router.get_health(world.channels)["a"]
    assert (standing.state, standing.models) == ("ok", {"m": 30.0})
    world.router.record_failure(A, "authentication", None, "m")
    assert world.list_candidates(other) == ["b", "a"]


def test_a_channel_without_a_cool_down_never_rests():
    calm = build_channel("a", cool_down=0)
    world = RoutingSetup(calm, B)
    world.router.record_failure(calm, "server", 60)
    assert world.list_candidates(AB) == ["a", "b"]


def test_a_channel_that_was_edited_is_given_a_new_chance():
    world = RoutingSetup(A, B)
    world.router.record_failure(A, "authentication")
    world.channels["a"] = structs.replace(A, key="env:BETTER")
    assert world.list_candidates(AB) == ["a", "b"]


def test_a_call_that_began_before_the_failure_ends_no_rest():
    world = RoutingSetup(A, B)
    world.router.record_failure(A, "authentication")
    world.router.record_success(A)
    assert world.list_candidates(AB) == ["b", "a"]


def test_the_standing_shows_why_a_channel_failed_and_until_when_it_rests():
    world = RoutingSetup(A, B, build_channel("c", enabled=False))
    world.router.record_success(A)
    world.router.record_failure(A, "overloaded")
    world.now += 10
    result = world.router.get_health(world.channels)
    assert [result[name].state for name in "abc"] == ["cooldown", "ok", "disabled"]
    one = result["a"]
    assert (one.seconds, one.error, one.ago) == (20.0, "overloaded", 10.0)
    assert (one.succeeded, one.failed) == (1, 1)


def test_each_cooldown_has_its_own_reason():
    world = RoutingSetup(A, B)
    world.router.record_failure(A, "overloaded", None, "m")
    world.router.record_failure(A, "unreachable", detail="no route to it")
    one = world.router.get_health(world.channels)["a"]
    assert one.reasons == {"m": "overloaded", "": "unreachable"}
    assert (one.error, one.detail) == ("unreachable", "no route to it")
    world.router.record_failure(A, "server")
    assert world.router.get_health(world.channels)["a"].detail == ""


def test_recent_calls_are_the_last_ones_without_those_of_the_callers_fault():
    world = RoutingSetup(A)
    for _ in range(RECENT_CALLS):
        world.router.record_failure(A, "server")
    for _ in range(RECENT_CALLS - 25):
        world.router.record_success(A)
    for _ in range(RECENT_CALLS):
        world.router.record_failure(A, "invalid_request")
        world.router.record_failure(A, "permission")
    one = world.router.get_health(world.channels)["a"]
    assert (one.recent_calls, one.recent_failures) == (RECENT_CALLS, 25)


def test_a_channel_that_is_gone_is_forgotten():
    world = RoutingSetup(A)
    world.router.record_failure(A, "server")
    assert world.router.get_health({}) == {}
    assert world.router.get_health(world.channels)["a"].state == "ok"


def explain_no_route(world: RoutingSetup, asked: GatewayModel = AB, **more) -> Exception:
    given = {"key": build_key(), "dialect": "openai-chat"} | more
    assert world.router.find_candidates(asked, world.channels, **given) == []
    return world.router.explain_no_candidates(asked, world.channels, **given)


def test_what_keeps_a_request_from_every_channel_is_reported():
    off = build_channel("a", enabled=False)
    assert isinstance(explain_no_route(RoutingSetup(off)), Unavailable)
    assert isinstance(explain_no_route(RoutingSetup()), Unavailable)
    assert "disabled" in str(explain_no_route(RoutingSetup(off)))
    assert "exists" in str(explain_no_route(RoutingSetup()))
    assert isinstance(explain_no_route(RoutingSetup(A), key=build_key(channels=("b",))), Forbidden)
    assert isinstance(explain_no_route(RoutingSetup(A), key=build_key(models=())), NotFound)
    assert isinstance(
        explain_no_route(RoutingSetup(A), structs.replace(AB, enabled=False)), NotFound
    )
    assert isinstance(explain_no_route(RoutingSetup(A), dialect="anthropic", others=()), BadRequest)


MODELS = {name: build_model(build_route("a"), name=name) for name in ("gpt-5", "sonnet", "m/x")}


@pytest.mark.parametrize(
    "name", ["GPT-5", "gpt-5 ", " gpt-5", "gpt-5\n", "gpt-5\0", "gpt\u20115", "", "*", "m//x"]
)
def test_a_model_is_found_by_exactly_its_name(name):
    assert find_model(MODELS, "gpt-5", build_key()).name == "gpt-5"
    with pytest.raises(NotFound):
        find_model(MODELS, name, build_key())


def test_a_model_that_is_not_for_the_key_is_reported_as_one_that_does_not_exist():
    caller = build_key(models=("son*",))
    texts = set()
    for name, models in (("gpt-5", MODELS), ("gpt-5", {"sonnet": MODELS["sonnet"]})):
        with pytest.raises(NotFound) as caught:
            find_model(models, name, caller)
        texts.add(caught.value.message)
    assert len(texts) == 1
    assert list_callable(MODELS, caller) == ["sonnet"]


def test_a_model_that_is_switched_off_is_not_found():
    off = {"gpt-5": structs.replace(MODELS["gpt-5"], enabled=False)}
    with pytest.raises(NotFound):
        find_model(off, "gpt-5", build_key())


def test_a_thousand_names_are_no_hint():
    many = {f"model-{n}": build_model(build_route("a"), name=f"model-{n}") for n in range(1000)}
    with pytest.raises(NotFound) as caught:
        find_model(many, "zzz", build_key())
    assert len(caught.value.message) < 200

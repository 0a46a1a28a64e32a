"""Priority, then weight; what failed rests; no allow-list is ever passed by."""

from collections import Counter
from random import Random
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from agentd.errors import BadRequest, Forbidden, NotFound, Resting, Unavailable
from agentd.proxy.access_key import AccessKey, Secret
from agentd.proxy.channel import Channel, ProxyModel, Way
from agentd.proxy.dialects.conversation import ErrorKind
from agentd.proxy.price import Prices
from agentd.proxy.routing import OF_THE_CHANNEL, WORTH_ANOTHER, Router, callable_by, found

SECRET = Secret("0" * 32, "0" * 64, "abcd")
KINDS = (*get_args(ErrorKind), "unreachable")


def key(**more) -> AccessKey:
    made = {"id": "a" * 12, "name": "k", "secret": SECRET, "created": "2026-01-01T00:00:00.000Z"}
    return AccessKey(**made | more)


def channel(name: str, *dialects: str, **more) -> Channel:
    return Channel(name=name, dialects=dialects or ("openai-chat",), url="https://a.b", **more)


def channels(*all_: Channel) -> dict[str, Channel]:
    return {one.name: one for one in all_}


def model(*ways: Way, **more) -> ProxyModel:
    return ProxyModel(**{"name": "m", "ways": ways} | more)


def way(name: str, **more) -> Way:
    return Way(channel=name, **more)


class World:
    """A router whose chance is seeded and whose time stands until it is moved."""

    def __init__(self, *known: Channel) -> None:
        self.now = 100.0
        self.router = Router(Random(1).random, lambda: self.now)  # noqa: S311
        self.channels = channels(*known)

    def names(self, asked: ProxyModel, **more) -> list[str]:
        given = {"key": key(), "dialect": "openai-chat"} | more
        ways = self.router.ways(asked, self.channels, **given)
        return [choice.channel.name for choice in ways]


A, B, C = channel("a"), channel("b"), channel("c")
AB = model(way("a", priority=0), way("b", priority=1))


def test_the_smallest_priority_is_tried_first_whatever_the_weights():
    world = World(A, B, C)
    asked = model(way("c", priority=9, weight=1000), way("b", priority=5), way("a", priority=1))
    assert {tuple(world.names(asked)) for _ in range(50)} == {("a", "b", "c")}


def test_among_equals_each_comes_first_as_often_as_its_weight_says():
    world = World(A, B, C)
    asked = model(way("a", weight=6), way("b", weight=3), way("c", weight=1))
    first = Counter(world.names(asked)[0] for _ in range(20_000))
    for name, share in {"a": 0.6, "b": 0.3, "c": 0.1}.items():
        assert first[name] / 20_000 == pytest.approx(share, abs=0.015)


def test_of_the_rest_the_second_comes_as_often_as_its_weight_says():
    world = World(A, B, C)
    asked = model(way("a", weight=6), way("b", weight=3), way("c", weight=1))
    tried = [world.names(asked) for _ in range(20_000)]
    second = Counter(names[1] for names in tried if names[0] == "a")
    assert second["b"] / second.total() == pytest.approx(0.75, abs=0.02)


def test_weight_nothing_comes_after_its_equals_and_before_the_next_priority():
    world = World(A, B, C)
    asked = model(way("a", weight=0), way("b", weight=1), way("c", priority=1))
    assert {tuple(world.names(asked)) for _ in range(50)} == {("b", "a", "c")}


@given(
    ways=st.lists(
        st.builds(
            way,
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
    told=st.sampled_from([None, 0, 1, 100]),
    seed=st.integers(),
)
def test_no_list_of_a_key_is_ever_passed_by_and_no_disabled_channel_used(
    ways, enabled, allowed, models, failing, told, seed
):
    asked = model(*ways)
    known = channels(*(channel(name, enabled=name in enabled) for name in "abc"))
    router = Router(Random(seed).random, lambda: 5.0)  # noqa: S311
    for name, kind in failing:
        router.failed(known[name], kind, told)
    caller = key(
        models=None if models is None else tuple(models),
        channels=None if allowed is None else tuple(allowed),
    )
    chosen = router.ways(asked, known, caller, "anthropic")
    for choice in chosen:
        assert choice.channel.name in enabled
        assert choice.allowed_for(caller)
        assert caller.may_use(choice.channel.name)
        assert caller.may_call("m")
    resting = {name for name, kind in failing if kind in OF_THE_CHANNEL and told != 0}
    ready = [choice for choice in chosen if choice.channel.name not in resting]
    assert chosen[: len(ready)] == ready, "what rests is the last resort"
    assert len(chosen) - len(ready) <= 1
    place = {one.channel: one.priority for one in ways}
    if len(place) == len(ways):
        order = [place[choice.channel.name] for choice in ready]
        assert order == sorted(order)
    if not chosen:
        router.why_none(asked, known, caller, "anthropic")


def test_a_way_to_a_channel_that_is_not_there_is_left_out():
    assert World(B).names(AB) == ["b"]


def test_the_callers_dialect_is_spoken_where_it_is_understood():
    world = World(channel("a", "openai-chat", "anthropic"), channel("b", "openai-responses"))
    one, two = world.router.ways(AB, world.channels, key(), "anthropic")
    assert (one.passes, one.dialect) == (True, "anthropic")
    assert (two.passes, two.dialect) == (False, "openai-responses")
    assert world.names(AB, dialect="anthropic", translate=False) == ["a"]


def test_the_ways_own_name_and_prices_come_before_the_models():
    cheap, dear = (Prices(input=n, output=n) for n in (1, 9))
    asked = model(way("a", model="x", prices=cheap), way("b", priority=1), prices=dear)
    one, two = World(A, B).router.ways(asked, channels(A, B), key(), "openai-chat")
    assert (one.supplier_model, one.prices) == ("x", cheap)
    assert (two.supplier_model, two.prices) == ("m", dear)


@pytest.mark.parametrize("kind", KINDS)
def test_only_failures_of_the_channels_own_making_make_it_rest(kind):
    world = World(A, B)
    world.router.failed(A, kind)
    rests = kind not in ("permission", "not_found", "invalid_request", "context_too_long")
    assert world.names(AB) == (["b", "a"] if rests else ["a", "b"])
    world.now += A.cool_down
    assert world.names(AB) == ["a", "b"]


def test_another_channel_is_worth_a_try_unless_the_request_is_wrong():
    assert set(KINDS) - WORTH_ANOTHER == {"invalid_request", "context_too_long"}


def test_a_supplier_that_asks_to_be_left_alone_is_left_alone_for_so_long():
    world = World(A)
    world.router.failed(A, "quota", 90)
    world.now += 89
    assert world.names(AB) == []
    why = world.router.why_none(AB, world.channels, key(), "openai-chat")
    assert isinstance(why, Resting)
    assert why.retry_after == 1
    world.now += 1
    assert world.names(AB) == ["a"]


def test_no_supplier_can_have_itself_left_alone_for_more_than_an_hour():
    world = World(A)
    world.router.failed(A, "quota", 1e12)
    world.now += 3600
    assert world.names(AB) == ["a"]


def test_of_channels_that_all_rest_the_soonest_ready_is_tried_rather_than_none():
    world = World(A, B)
    world.router.failed(A, "server")
    world.now += 1
    world.router.failed(B, "server")
    assert world.names(AB) == ["a"]


def test_a_rate_limit_may_concern_one_model_of_the_supplier_alone():
    world = World(A, B)
    world.router.failed(A, "rate_limit", None, "m")
    other = model(way("a", model="x"), way("b", priority=1), name="o")
    assert world.names(AB) == ["b", "a"]
    assert world.names(other) == ["a", "b"]
    standing = world.router.standing(world.channels)["a"]
    assert (standing.state, standing.models) == ("ok", {"m": 30.0})
    world.router.failed(A, "authentication", None, "m")
    assert world.names(other) == ["b", "a"]


def test_a_channel_without_a_cool_down_never_rests():
    calm = channel("a", cool_down=0)
    world = World(calm, B)
    world.router.failed(calm, "server", 60)
    assert world.names(AB) == ["a", "b"]


def test_a_channel_that_was_edited_is_given_a_new_chance():
    world = World(A, B)
    world.router.failed(A, "authentication")
    world.channels["a"] = structs.replace(A, key="env:BETTER")
    assert world.names(AB) == ["a", "b"]


def test_a_call_that_began_before_the_failure_ends_no_rest():
    world = World(A, B)
    world.router.failed(A, "authentication")
    world.router.worked(A)
    assert world.names(AB) == ["b", "a"]


def test_the_standing_tells_why_a_channel_failed_and_until_when_it_rests():
    world = World(A, B, channel("c", enabled=False))
    world.router.worked(A)
    world.router.failed(A, "overloaded")
    world.now += 10
    told = world.router.standing(world.channels)
    assert [told[name].state for name in "abc"] == ["resting", "ok", "disabled"]
    one = told["a"]
    assert (one.seconds, one.error, one.ago) == (20.0, "overloaded", 10.0)
    assert (one.worked, one.failed) == (1, 1)


def test_a_channel_that_is_gone_is_forgotten():
    world = World(A)
    world.router.failed(A, "server")
    assert world.router.standing({}) == {}
    assert world.router.standing(world.channels)["a"].state == "ok"


def why(world: World, asked: ProxyModel = AB, **more) -> Exception:
    given = {"key": key(), "dialect": "openai-chat"} | more
    assert world.router.ways(asked, world.channels, **given) == []
    return world.router.why_none(asked, world.channels, **given)


def test_what_keeps_a_request_from_every_channel_is_told():
    off = channel("a", enabled=False)
    assert isinstance(why(World(off)), Unavailable)
    assert isinstance(why(World()), Unavailable)
    assert "switched off" in str(why(World(off)))
    assert "is there" in str(why(World()))
    assert isinstance(why(World(A), key=key(channels=("b",))), Forbidden)
    assert isinstance(why(World(A), key=key(models=())), NotFound)
    assert isinstance(why(World(A), structs.replace(AB, enabled=False)), NotFound)
    assert isinstance(why(World(A), dialect="anthropic", translate=False), BadRequest)


MODELS = {name: model(way("a"), name=name) for name in ("gpt-5", "sonnet", "m/x")}


@pytest.mark.parametrize(
    "name", ["GPT-5", "gpt-5 ", " gpt-5", "gpt-5\n", "gpt-5\0", "gpt\u20115", "", "*", "m//x"]
)
def test_a_model_is_found_by_exactly_its_name(name):
    assert found(MODELS, "gpt-5", key()).name == "gpt-5"
    with pytest.raises(NotFound):
        found(MODELS, name, key())


def test_a_model_that_is_not_for_the_key_is_told_as_one_that_is_not_there():
    caller = key(models=("son*",))
    texts = set()
    for name, models in (("gpt-5", MODELS), ("gpt-5", {"sonnet": MODELS["sonnet"]})):
        with pytest.raises(NotFound) as caught:
            found(models, name, caller)
        texts.add(caught.value.message)
    assert len(texts) == 1
    assert callable_by(MODELS, caller) == ["sonnet"]


def test_a_model_that_is_switched_off_is_not_found():
    off = {"gpt-5": structs.replace(MODELS["gpt-5"], enabled=False)}
    with pytest.raises(NotFound):
        found(off, "gpt-5", key())


def test_a_thousand_names_are_no_hint():
    many = {f"model-{n}": model(way("a"), name=f"model-{n}") for n in range(1000)}
    with pytest.raises(NotFound) as caught:
        found(many, "zzz", key())
    assert len(caught.value.message) < 200

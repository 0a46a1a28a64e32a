"""Several keys of a channel are used in turn, and each is left out by itself."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from agentd.core.errors import AllChannelsCoolingDown
from agentd.gateway.channels.failures import CHANNEL_FAILURES, KEY_FAILURES
from agentd.gateway.channels.model import Channel
from agentd.gateway.channels.routing import Router
from agentd.gateway.keys.model import AccessKey, SecretHash
from agentd.models.gateway_model import GatewayModel, ModelRoute

CALLER = AccessKey(
    id="a" * 12,
    name="k",
    secret=SecretHash("0" * 32, "0" * 64, "abcd"),
    created="2026-01-01T00:00:00.000Z",
)
SHARED = Channel(
    name="a",
    dialects=("openai-chat",),
    url="https://a.b",
    key="sk-0123456789abcdef",
    keys=("env:SECOND", "file:/third"),
)
MODEL = GatewayModel(
    name="m", routes=(ModelRoute(channel="a"), ModelRoute(channel="b", priority=1))
)
FIELDS = ("key", "keys[0]", "keys[1]")


class World:
    """A channel with several keys and one without; each look moves the clock by ``tick``."""

    def __init__(self, shared: Channel = SHARED) -> None:
        self.now = 100.0
        self.tick = 0.0
        self.notes: list[str] = []
        self.router = Router(Random(1).random, self.read_clock, self)  # noqa: S311
        self.channels = {
            "a": shared,
            "b": Channel(name="b", dialects=("openai-chat",), url="https://b.c"),
        }

    def read_clock(self) -> float:
        """Return the time, and let some pass."""
        self.now += self.tick
        return self.now

    def on_cooldown(self, channel: Channel, why: str, seconds: float) -> None:
        """Note it."""
        self.notes.append(channel.name)

    def on_key_cooldown(self, channel: Channel, key: str, why: str, seconds: float) -> None:
        """Note it."""
        self.notes.append(f"{channel.name} {key}")

    def on_success(self, channel: Channel) -> None:
        """Be content."""

    def list_attempts(self) -> list[tuple[str, str]]:
        """Return the channel and the key of each call that a request would make."""
        found = self.router.find_candidates(MODEL, self.channels, CALLER, "openai-chat")
        return [(one.channel.name, one.key) for one in self.router.iter_attempts(found)]

    def use_next_key(self) -> str:
        """Return the key of a call that succeeds at once."""
        found = self.router.find_candidates(MODEL, self.channels, CALLER, "openai-chat")
        return next(self.router.iter_attempts(found)).key

    def fail(self, key: str, kind="authentication", wait: float | None = None) -> None:
        """Have a call with a key of the first channel fail."""
        self.router.record_failure(self.channels["a"], kind, wait, "m", key=key)


def test_keys_are_used_in_turn_and_the_others_tried_before_the_next_channel():
    world = World()
    assert [world.use_next_key() for _ in range(4)] == [*FIELDS, "key"]
    assert world.list_attempts() == [("a", "keys[0]"), ("a", "keys[1]"), ("a", "key"), ("b", "key")]


def test_looking_at_the_health_leaves_the_turns_and_forgets_those_of_deleted_channels():
    world = World()
    assert world.use_next_key() == "key"
    assert world.router.get_health(world.channels)
    assert world.use_next_key() == "keys[0]"
    assert world.router.get_health({}) == {}
    assert world.use_next_key() == "key"


def test_a_key_that_is_left_out_does_not_give_its_turn_to_one_of_the_others():
    world = World()
    world.fail("keys[0]")
    assert [world.use_next_key() for _ in range(4)] == ["key", "keys[1]"] * 2


@pytest.mark.parametrize("kind", sorted(CHANNEL_FAILURES))
def test_only_what_is_about_the_account_sets_a_single_key_aside(kind):
    world = World()
    world.fail("keys[0]", kind)
    tried = world.list_attempts()
    if kind in KEY_FAILURES:
        assert ("a", "keys[0]") not in tried
        assert tried[0][0] == "a"
    else:
        assert tried[0] == ("b", "key")
    world.now += SHARED.cool_down
    assert {key for name, key in world.list_attempts() if name == "a"} == set(FIELDS)


def test_a_channel_of_which_every_key_is_left_out_is_the_last_resort_with_the_soonest_ready():
    world = World()
    for field in FIELDS:
        world.fail(field)
        world.now += 1
    assert world.list_attempts() == [("b", "key"), ("a", "key")]
    assert world.notes == ["a key", "a keys[0]", "a"]
    health = world.router.get_health(world.channels)["a"]
    assert (health.state, health.seconds, health.reasons) == (
        "cooldown",
        27.0,
        {"": "authentication"},
    )


def test_of_keys_left_out_one_whose_supplier_named_no_time_is_tried_before_one_that_ends_sooner():
    world = World()
    world.fail("key", "rate_limit", 5)
    world.fail("keys[0]")
    world.fail("keys[1]", "rate_limit", 2)
    assert world.list_attempts() == [("b", "key"), ("a", "keys[0]")]


def test_a_supplier_that_asks_all_keys_to_wait_is_left_alone():
    world = World()
    del world.channels["b"]
    for number, field in enumerate(FIELDS):
        world.fail(field, "rate_limit", 60 - number)
    assert world.list_attempts() == []
    why = world.router.explain_no_candidates(MODEL, world.channels, CALLER, "openai-chat")
    assert isinstance(why, AllChannelsCoolingDown)
    assert why.retry_after == 58
    assert world.router.get_health(world.channels)["a"].models == {"m": 58.0}


def test_each_key_shows_how_it_is_and_no_secret():
    world = World()
    world.fail("key", "quota")
    world.fail("keys[1]", "rate_limit")
    health = world.router.get_health(world.channels)["a"]
    assert (health.state, health.seconds, health.models) == ("ok", 0.0, {})
    first, second, third = health.keys
    assert (first.field, first.shown, first.seconds) == ("key", "****cdef", 30.0)
    assert first.reasons == {"": "quota"}
    assert (second.field, second.shown, second.seconds) == ("keys[0]", "env:SECOND", 0.0)
    assert (third.seconds, third.models, third.reasons) == (0.0, {"m": 30.0}, {"m": "rate_limit"})
    assert world.router.get_health(world.channels)["b"].keys == ()


@given(
    known=st.sampled_from(["a", "b", "ab"]),
    gaps=st.lists(st.floats(0, 3), min_size=3, max_size=3),
    since=st.floats(20, 45),
    tick=st.floats(0.01, 2),
)
def test_a_cooldown_that_ends_while_a_request_looks_at_it_leaves_that_a_channel(
    known, gaps, since, tick
):
    world = World()
    for field, gap in zip(FIELDS, gaps, strict=True):
        world.fail(field)
        world.now += gap
    world.router.record_failure(world.channels["b"], "server")
    world.channels = {name: world.channels[name] for name in known}
    world.now, world.tick = 100 + since, tick
    assert world.list_attempts()


def test_health_tells_of_a_channels_own_cooldowns_alone_while_they_last_and_it_is_not_edited():
    world = World()
    world.fail("key", "rate_limit")
    world.router.record_failure(world.channels["b"], "rate_limit", None, "m")

    def find_cooling() -> tuple[bool, bool, bool]:
        health = world.router.get_health(world.channels)
        a, b = health["a"], health["b"]
        return bool(a.models), bool(a.keys[0].models), bool(b.models)

    assert find_cooling() == (False, True, True)
    world.channels["b"] = structs.replace(world.channels["b"], url="https://b.d")
    assert find_cooling() == (False, True, False)
    world.now += SHARED.cool_down
    assert find_cooling() == (False, False, False)


@pytest.mark.parametrize("only", [{"key": "", "keys": ("env:ONE",)}, {"keys": ()}])
def test_a_channel_with_a_single_key_cools_down_as_a_whole(only):
    world = World(structs.replace(SHARED, **only))
    (field,) = world.channels["a"].key_fields
    assert world.list_attempts()[0] == ("a", field)
    world.fail(field)
    assert world.list_attempts() == [("b", "key"), ("a", field)]
    assert world.notes == ["a"]


@pytest.mark.parametrize("kind", sorted(KEY_FAILURES))
def test_of_two_keys_the_other_one_goes_on(kind):
    world = World(structs.replace(SHARED, keys=("env:SECOND",)))
    world.fail("key", kind)
    assert world.list_attempts() == [("a", "keys[0]"), ("b", "key")]


def test_a_channel_that_was_edited_gives_every_key_a_new_chance():
    world = World()
    world.fail("key")
    world.channels["a"] = structs.replace(SHARED, keys=("env:OTHER",))
    assert {key for name, key in world.list_attempts() if name == "a"} == {"key", "keys[0]"}


@given(
    failing=st.lists(
        st.tuples(st.sampled_from(FIELDS), st.sampled_from(sorted(CHANNEL_FAILURES))), max_size=6
    ),
    wait=st.sampled_from([None, 5.0]),
)
def test_a_request_tries_no_key_twice_and_none_that_is_left_out_while_another_is_ready(
    failing, wait
):
    world = World()
    for field, kind in failing:
        world.fail(field, kind, wait)
    tried = [key for name, key in world.list_attempts() if name == "a"]
    assert len(set(tried)) == len(tried)
    out = {field for field, kind in failing if kind in KEY_FAILURES}
    if set(FIELDS) - out and all(kind in KEY_FAILURES for _, kind in failing):
        assert set(tried) == set(FIELDS) - out

"""The JSON of a request: strict, and read in time that is linear in it."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentd.auth.session_api import MAX_SIGN_IN_BYTES
from agentd.core.errors import BadRequest
from agentd.http.json_body import decode_json
from agentd.http.routing import JSON_LIMIT
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.support.daemon import Client, Serving
from tests.support.processor import busy_for_less_than

SECONDS_A_MIB = 1.5
"""Far more than reading one takes, and far less than looking twice at each pair of names."""


def build_object(count: int, *more: str) -> bytes:
    """Build an object of ``count`` different names, and then of ``more``."""
    result = [f"{number:x}" for number in range(count)]
    return ("{" + ",".join(f'"{name}":1' for name in (*result, *more)) + "}").encode()


@pytest.fixture(scope="module")
def management(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client with the management key."""
    folder = tmp_path_factory.mktemp("managed")
    with Serving(folder, environ={"PROXY_APP_HASH": HASH}) as daemon:
        yield daemon.client(MANAGEMENT_KEY)


UNITS: dict[str, tuple[int, Callable[[int], bytes]]] = {
    "different names, the last twice": (10, lambda n: build_object(n, f"{n - 1:x}")),
    "different names, the first twice": (10, lambda n: build_object(n, "0")),
    "different names": (10, build_object),
    "one name": (6, lambda n: b"{" + b",".join([b'"a":1'] * n) + b"}"),
    "objects with names twice": (14, lambda n: b"[" + b'{"a":1,"a":1},' * n + b"1]"),
    "objects": (3, lambda n: b"[" + b"{}," * n + b"1]"),
    "lists": (3, lambda n: b'{"x":[' + b"[]," * n + b"1]}"),
    "deep lists": (1, lambda n: b"[" * n),
    "deep objects": (5, lambda n: b'{"a":' * n),
    "a long integer": (1, lambda n: b'{"x":' + b"9" * n + b"}"),
    "a long fraction": (1, lambda n: b'{"x":0.' + b"9" * n + b"}"),
    "a long exponent": (1, lambda n: b'{"x":1e' + b"9" * n + b"}"),
    "a long name": (1, lambda n: b'{"' + b"x" * n + b'":1}'),
    "a long text": (6, lambda n: b'{"x":"' + rb"\u0041" * n + b'"}'),
    "a text without end": (1, lambda n: b'{"x":"' + b"\\" * n),
    "blanks": (1, lambda n: b" " * n),
}


@pytest.mark.parametrize("shape", UNITS)
@settings(max_examples=2, deadline=None, derandomize=True)
@example(size=JSON_LIMIT)
@given(size=st.integers(0, JSON_LIMIT))
def test_a_body_is_read_in_linear_time(shape: str, size: int) -> None:
    """Of any shape and size: repeated names are found without comparing each with each."""
    length, made = UNITS[shape]
    body = made(size // length + 1)
    with busy_for_less_than(0.05 + SECONDS_A_MIB * len(body) / JSON_LIMIT):
        try:
            decode_json(body, dict[str, object])
        except BadRequest as error:
            assert len(str(error)) < 1000


@pytest.mark.parametrize("nested", ["%s", '{"x":%s}', "[1,%s]", '{"x":[{"y":%s}]}'])
def test_a_repeated_name_is_refused_however_deep(nested: str) -> None:
    with pytest.raises(BadRequest, match="not JSON") as caught:
        decode_json((nested % '{"b":1,"a":1,"c":2,"a":1}').encode(), object)
    assert "the key 'a' occurs twice" in caught.value.details


@pytest.mark.parametrize(
    "cut", [r"\ud83d", r"cut \ud83d", r"\ude00 cut", r"\ud83d\u0041", r"\ud83d cut"]
)
@pytest.mark.parametrize("body", ['{"prompt":"%s"}', '{"prompt":"%s","more":[1,2]}', '{"%s":1}'])
def test_half_of_a_character_is_told_as_such(cut: str, body: str) -> None:
    with pytest.raises(BadRequest, match="not JSON") as caught:
        decode_json((body % cut).encode(), dict[str, object])
    assert "half of a character" in caught.value.details


def test_prices_that_repeat_a_tier_are_refused_in_linear_time(management: Client) -> None:
    """What is compared while the body becomes a value is linear, too."""
    tier = '{"tokens":%d,"input":1,"output":1}'
    tiers = ",".join(tier % number for number in (*range(1, 25_000), 24_999))
    prices = f'{{"input":1,"output":1,"above":[{tiers}]}}'
    body = f'{{"name":"x","routes":[{{"channel":"y"}}],"prices":{prices}}}'
    with busy_for_less_than(1.5):
        reply = management.post("/api/agent/models", body.encode())
    assert reply.status == 400
    assert "two tiers begin above 24999 tokens" in reply["details"]


def test_a_sign_in_is_small_for_anybody_may_send_one(caller: Client) -> None:
    """What comes without a key or login must cost little."""
    result = {"user": "\u00e9" * 256, "password": "\u00e9" * 1024}
    assert caller.post("/api/session", result).status in (400, 401)
    large = {"user": "x", "password": "y", "more": "z" * MAX_SIGN_IN_BYTES}
    assert caller.post("/api/session", large).status == 413


@pytest.mark.parametrize("letter", ["x", "'", "`", "' - at `$.a`"])
def test_a_long_wrong_value_is_reported_shortly(management: Client, letter: str) -> None:
    wrong = letter * (500_000 // len(letter))
    for body in ({"unknown_price": wrong}, {wrong: 1}):
        with busy_for_less_than(2):
            reply = management.patch("/api/agent/settings", body)
        assert reply.status == 400
        assert len(reply.body) < 3000

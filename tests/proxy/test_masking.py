"""No more of a secret is shown than its end, and what is shown never becomes a secret."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from agentd.errors import BadRequest
from agentd.proxy.channel import Channel, Transport, malformed
from agentd.proxy.masking import by_value, carried, fresh, kept, masked, revised, shown

SECRETS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1).filter(
    lambda text: not text.startswith(("****", "env:", "file:"))
)
KEY = "sk-0123456789abcdefWXYZ"
PROXY = Transport("http", "http://user:password@10.0.0.1:3128")
CHANNEL = Channel(
    name="a",
    dialects=("anthropic",),
    url="https://api.example/v1",
    key=KEY,
    transport=PROXY,
    headers={"x-auth-token": "t-0123456789abcdef", "anthropic-beta": "x"},
)


@given(SECRETS)
def test_at_most_the_last_four_characters_of_a_secret_are_shown(secret):
    told = masked(secret)
    assert told.startswith("****")
    assert told[4:] == ("" if len(secret) < 16 else secret[-4:])


@given(SECRETS)
def test_what_is_shown_stands_for_what_is_there(secret):
    assert kept(masked(secret), secret) == secret


@given(SECRETS, SECRETS)
def test_a_new_secret_takes_the_place_of_the_old_one(new, old):
    assert kept(new, old) == new
    assert kept("", old) == ""


@pytest.mark.parametrize("old", ["", KEY, "short", "env:NAME"])
def test_the_mask_of_another_secret_is_never_kept(old):
    for mask in ("****", "****0000", "*****"):
        if mask != masked(old):
            with pytest.raises(BadRequest) as caught:
                kept(mask, old)
            assert mask not in caught.value.message + caught.value.details


def test_where_a_secret_is_may_be_shown():
    assert masked("env:NAME") == "env:NAME"
    assert masked("file:/run/key") == "file:/run/key"
    assert masked("") == ""


def test_a_shown_channel_has_no_secret_in_it_and_all_else():
    told = shown(CHANNEL)
    assert told.key == "****WXYZ"
    assert told.transport == Transport("http", "http://****@10.0.0.1:3128")
    assert told.headers == {"x-auth-token": "****cdef", "anthropic-beta": "x"}
    assert structs.replace(
        told, key=KEY, transport=PROXY, headers=CHANNEL.headers
    ) == CHANNEL  # fmt: skip


def test_a_channel_that_is_printed_has_no_secret_in_it():
    for printed in (repr(CHANNEL), str([CHANNEL]), repr(PROXY)):
        for secret in (KEY, "password", "t-0123"):
            assert secret not in printed


def test_a_shown_channel_that_is_written_back_changes_nothing():
    assert revised(shown(CHANNEL), CHANNEL) == CHANNEL


ELSEWHERE = pytest.mark.parametrize("url", ["https://evil.example/v1", "http://api.example/v1"])


@ELSEWHERE
def test_no_secret_goes_along_to_another_address(url):
    along = carried(CHANNEL, structs.replace(CHANNEL, url=url))
    assert along.key == ""
    assert along.headers == {"anthropic-beta": "x"}
    assert along.transport == PROXY


@ELSEWHERE
@pytest.mark.parametrize(
    ("field", "changes"), [("key", {}), ("headers.x-auth-token", {"key": "sk-new"})]
)
def test_what_is_shown_of_a_secret_is_refused_at_another_address(url, field, changes):
    sent = structs.replace(shown(CHANNEL), url=url, **changes)
    with pytest.raises(BadRequest, match=f"^{field}: .*does not go along") as caught:
        revised(sent, CHANNEL)
    assert "Write the secret itself" in caught.value.details


def test_a_secret_that_is_written_out_may_go_to_another_address_also_if_it_is_the_same():
    for key in ("sk-new", KEY, ""):
        there = structs.replace(CHANNEL, url="https://other.example", key=key)
        assert revised(there, CHANNEL).key == key


def test_where_a_secret_is_does_not_go_to_another_address_either():
    here = structs.replace(CHANNEL, key="env:NAME")
    there = structs.replace(here, url="https://evil.example")
    assert carried(here, there).key == ""
    with pytest.raises(BadRequest, match="does not go along"):
        revised(there, here)


def test_a_slash_at_the_end_is_no_other_address():
    there = structs.replace(CHANNEL, url="https://api.example/v1/")
    assert carried(CHANNEL, there) == CHANNEL
    assert revised(structs.replace(there, key=masked(KEY)), CHANNEL).key == KEY


def test_a_channel_that_is_new_has_no_masked_secret():
    assert fresh(CHANNEL) == CHANNEL
    with pytest.raises(BadRequest):
        fresh(shown(CHANNEL))
    for change in ({"key": "****"}, {"headers": {"x-token": "****"}}):
        with pytest.raises(BadRequest):
            fresh(structs.replace(CHANNEL, **change))


def test_another_kind_of_transport_does_not_get_the_secret_of_the_one_before():
    sent = structs.replace(shown(CHANNEL), transport=Transport("socks5", "****3128"))
    assert carried(CHANNEL, sent) == structs.replace(CHANNEL, transport=Transport("http"))
    with pytest.raises(BadRequest, match=r"^transport\.url: "):
        revised(sent, CHANNEL)


@pytest.mark.parametrize(
    "text", ["env:", "env:A-B", "file:", "file:x", "two words", "k\xe9y", "****abcd"]
)
def test_what_is_no_secret_is_told_without_repeating_it(text):
    assert malformed(text)
    assert text.partition(":")[2] == "" or text not in malformed(text)


@pytest.mark.parametrize("text", ["", KEY, "env:A_1", "file:/a b", "file:~/key"])
def test_a_secret_is_itself_or_where_it_is(text):
    assert not malformed(text)


@pytest.mark.parametrize("place", ["env:HOME", "file:/etc/passwd"])
def test_only_places_that_are_there_already_can_be_named_from_afar(place: str) -> None:
    hidden = structs.replace(CHANNEL, key=place)
    routed = structs.replace(CHANNEL, transport=Transport("http", place))
    for wish in (hidden, routed):
        with pytest.raises(BadRequest, match="by hand"):
            by_value(wish)
        with pytest.raises(BadRequest, match="by hand"):
            by_value(wish, CHANNEL)
        assert by_value(wish, wish) is wish
    assert by_value(CHANNEL) is CHANNEL


HEADERS = [
    ("X-Upstream", "Bearer t-0123"),
    ("X-Upstream", "basic YTpi"),
    ("X-Route", "0123456789abcdef"),
    ("X-Api-Key", "short"),
]


@pytest.mark.parametrize(("name", "value"), HEADERS)
def test_a_header_that_may_hold_a_secret_is_masked_whatever_it_is_called(name, value):
    """Specification 2: secrets can be written but never read back."""
    channel = structs.replace(CHANNEL, headers={name: value})
    told = shown(channel)
    assert told.headers[name].startswith("****")
    assert value not in told.headers[name]
    assert revised(told, channel) == channel
    moved = structs.replace(channel, url="https://evil.example/v1")
    assert carried(channel, moved).headers == {}
    with pytest.raises(BadRequest):
        revised(structs.replace(told, url="https://evil.example/v1"), channel)


def test_headers_that_are_known_for_something_else_are_shown():
    headers = {"anthropic-beta": "prompt-caching-2024-07-31", "OpenAI-Project": "proj_0123456789"}
    assert shown(structs.replace(CHANNEL, headers=headers)).headers == headers


@pytest.mark.parametrize(
    ("transport", "told"),
    [
        (Transport("http", "http://10.0.0.1:3128"), "http://10.0.0.1:3128"),
        (Transport("socks5", "socks5://ann:p@ss@[::1]:1080"), "socks5://****@[::1]:1080"),
        (Transport("http", "env:PROXY"), "env:PROXY"),
        (Transport("vpn", "vless://0123456789abcdef@a.example:443#x"), "****43#x"),
    ],
)
def test_which_proxy_is_used_is_shown_but_not_its_credentials(transport, told):
    channel = structs.replace(CHANNEL, transport=transport)
    assert shown(channel).transport.url == told
    assert revised(shown(channel), channel) == channel
    assert malformed(told) == "" or "****" in told


@pytest.mark.parametrize(
    "transport",
    [
        Transport("http", "http://evil.example:3128"),
        Transport("socks5", "socks5://evil.example:1080"),
        Transport(),
        Transport("vpn", PROXY.url),
    ],
)
def test_over_plain_http_the_key_goes_to_no_other_proxy(transport):
    """A proxy reads all that goes over plain http; over https it reads nothing."""
    plain = structs.replace(CHANNEL, url="http://supplier.example/v1", local=True)
    assert carried(plain, structs.replace(plain, transport=transport)).key == ""
    with pytest.raises(BadRequest):
        revised(structs.replace(shown(plain), transport=transport), plain)
    safe = structs.replace(CHANNEL, transport=transport)
    assert carried(CHANNEL, safe).key == KEY

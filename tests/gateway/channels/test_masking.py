"""No more of a secret is shown than its end, and what is shown never becomes a secret."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from agentd.core.errors import BadRequest
from agentd.core.secret_text import explain_malformed_secret
from agentd.gateway.channels.masking import (
    apply_edit,
    drop_bound_secrets,
    mask,
    mask_channel,
    require_no_mask,
    require_plain_secrets,
    unmask,
)
from agentd.gateway.channels.model import Channel
from agentd.llm.endpoint import ChannelTransport

SECRETS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1).filter(
    lambda text: not text.startswith(("****", "env:", "file:"))
)
KEY = "sk-0123456789abcdefWXYZ"
PROXY = ChannelTransport("http", "http://user:password@10.0.0.1:3128")
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
    result = mask(secret)
    assert result.startswith("****")
    assert result[4:] == ("" if len(secret) < 16 else secret[-4:])


@given(SECRETS)
def test_what_is_shown_stands_for_what_is_there(secret):
    assert unmask(mask(secret), secret) == secret


@given(SECRETS, SECRETS)
def test_a_new_secret_takes_the_place_of_the_old_one(new, old):
    assert unmask(new, old) == new
    assert unmask("", old) == ""


@pytest.mark.parametrize("old", ["", KEY, "short", "env:NAME"])
def test_the_mask_of_another_secret_is_never_kept(old):
    for other in ("****", "****0000", "*****"):
        if other != mask(old):
            with pytest.raises(BadRequest) as caught:
                unmask(other, old)
            assert other not in caught.value.message + caught.value.details


def test_where_a_secret_is_may_be_shown():
    assert mask("env:NAME") == "env:NAME"
    assert mask("file:/run/key") == "file:/run/key"
    assert mask("") == ""


def test_a_shown_channel_has_no_secret_in_it_and_all_else():
    result = mask_channel(CHANNEL)
    assert result.key == "****WXYZ"
    assert result.transport == ChannelTransport("http", "http://****@10.0.0.1:3128")
    assert result.headers == {"x-auth-token": "****cdef", "anthropic-beta": "x"}
    assert structs.replace(
        result, key=KEY, transport=PROXY, headers=CHANNEL.headers
    ) == CHANNEL  # fmt: skip


def test_a_channel_that_is_printed_has_no_secret_in_it():
    for printed in (repr(CHANNEL), str([CHANNEL]), repr(PROXY)):
        for secret in (KEY, "password", "t-0123"):
            assert secret not in printed


def test_a_shown_channel_that_is_written_back_changes_nothing():
    assert apply_edit(mask_channel(CHANNEL), CHANNEL) == CHANNEL


ELSEWHERE = pytest.mark.parametrize("url", ["https://evil.example/v1", "http://api.example/v1"])


@ELSEWHERE
def test_no_secret_goes_along_to_another_address(url):
    along = drop_bound_secrets(CHANNEL, structs.replace(CHANNEL, url=url))
    assert along.key == ""
    assert along.headers == {"anthropic-beta": "x"}
    assert along.transport == PROXY


@ELSEWHERE
@pytest.mark.parametrize(
    ("field", "changes"), [("key", {}), ("headers.x-auth-token", {"key": "sk-new"})]
)
def test_what_is_shown_of_a_secret_is_refused_at_another_address(url, field, changes):
    sent = structs.replace(mask_channel(CHANNEL), url=url, **changes)
    with pytest.raises(BadRequest, match=f"^{field}: .*not sent to another") as caught:
        apply_edit(sent, CHANNEL)
    assert "Send the secret itself" in caught.value.details


def test_a_secret_that_is_written_out_may_go_to_another_address_also_if_it_is_the_same():
    for key in ("sk-new", KEY, ""):
        there = structs.replace(CHANNEL, url="https://other.example", key=key)
        assert apply_edit(there, CHANNEL).key == key


def test_where_a_secret_is_does_not_go_to_another_address_either():
    here = structs.replace(CHANNEL, key="env:NAME")
    there = structs.replace(here, url="https://evil.example")
    assert drop_bound_secrets(here, there).key == ""
    with pytest.raises(BadRequest, match="not sent to another"):
        apply_edit(there, here)


def test_a_slash_at_the_end_is_no_other_address():
    there = structs.replace(CHANNEL, url="https://api.example/v1/")
    assert drop_bound_secrets(CHANNEL, there) == CHANNEL
    assert apply_edit(structs.replace(there, key=mask(KEY)), CHANNEL).key == KEY


def test_a_channel_that_is_new_has_no_masked_secret():
    assert require_no_mask(CHANNEL) == CHANNEL
    with pytest.raises(BadRequest):
        require_no_mask(mask_channel(CHANNEL))
    for change in ({"key": "****"}, {"headers": {"x-token": "****"}}):
        with pytest.raises(BadRequest):
            require_no_mask(structs.replace(CHANNEL, **change))


def test_another_kind_of_transport_does_not_get_the_secret_of_the_one_before():
    sent = structs.replace(mask_channel(CHANNEL), transport=ChannelTransport("socks5", "****3128"))
    assert drop_bound_secrets(CHANNEL, sent) == structs.replace(
        CHANNEL, transport=ChannelTransport("http")
    )
    with pytest.raises(BadRequest, match=r"^transport\.url: "):
        apply_edit(sent, CHANNEL)


@pytest.mark.parametrize(
    "text", ["env:", "env:A-B", "file:", "file:x", "two words", "k\xe9y", "****abcd"]
)
def test_what_is_no_secret_is_reported_without_repeating_it(text):
    assert explain_malformed_secret(text)
    assert text.partition(":")[2] == "" or text not in explain_malformed_secret(text)


@pytest.mark.parametrize("text", ["", KEY, "env:A_1", "file:/a b", "file:~/key"])
def test_a_secret_is_itself_or_where_it_is(text):
    assert not explain_malformed_secret(text)


@pytest.mark.parametrize("place", ["env:HOME", "file:/etc/passwd"])
def test_only_places_that_are_there_already_can_be_named_from_afar(place: str) -> None:
    hidden = structs.replace(CHANNEL, key=place)
    routed = structs.replace(CHANNEL, transport=ChannelTransport("http", place))
    for wish in (hidden, routed):
        with pytest.raises(BadRequest, match="by hand"):
            require_plain_secrets(wish)
        with pytest.raises(BadRequest, match="by hand"):
            require_plain_secrets(wish, CHANNEL)
        assert require_plain_secrets(wish, wish) is wish
    assert require_plain_secrets(CHANNEL) is CHANNEL


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
    result = mask_channel(channel)
    assert result.headers[name].startswith("****")
    assert value not in result.headers[name]
    assert apply_edit(result, channel) == channel
    moved = structs.replace(channel, url="https://evil.example/v1")
    assert drop_bound_secrets(channel, moved).headers == {}
    with pytest.raises(BadRequest):
        apply_edit(structs.replace(result, url="https://evil.example/v1"), channel)


def test_headers_that_are_known_for_something_else_are_shown():
    headers = {"anthropic-beta": "prompt-caching-2024-07-31", "OpenAI-Project": "proj_0123456789"}
    assert mask_channel(structs.replace(CHANNEL, headers=headers)).headers == headers


@pytest.mark.parametrize(
    ("transport", "result"),
    [
        (ChannelTransport("http", "http://10.0.0.1:3128"), "http://10.0.0.1:3128"),
        (ChannelTransport("socks5", "socks5://ann:p@ss@[::1]:1080"), "socks5://****@[::1]:1080"),
        (ChannelTransport("http", "env:PROXY"), "env:PROXY"),
        (ChannelTransport("vpn", "vless://0123456789abcdef@a.example:443#x"), "****43#x"),
    ],
)
def test_which_proxy_is_used_is_shown_but_not_its_credentials(transport, result):
    channel = structs.replace(CHANNEL, transport=transport)
    assert mask_channel(channel).transport.url == result
    assert apply_edit(mask_channel(channel), channel) == channel
    assert explain_malformed_secret(result) == "" or "****" in result


@pytest.mark.parametrize(
    "transport",
    [
        ChannelTransport("http", "http://evil.example:3128"),
        ChannelTransport("socks5", "socks5://evil.example:1080"),
        ChannelTransport(),
        ChannelTransport("vpn", PROXY.url),
    ],
)
def test_over_plain_http_the_key_goes_to_no_other_proxy(transport):
    """A proxy reads all that goes over plain http; over https it reads nothing."""
    plain = structs.replace(CHANNEL, url="http://supplier.example/v1", local=True)
    assert drop_bound_secrets(plain, structs.replace(plain, transport=transport)).key == ""
    with pytest.raises(BadRequest):
        apply_edit(structs.replace(mask_channel(plain), transport=transport), plain)
    safe = structs.replace(CHANNEL, transport=transport)
    assert drop_bound_secrets(CHANNEL, safe).key == KEY


def test_over_plain_http_the_key_goes_to_no_other_server_of_a_subscription():
    vpn = ChannelTransport("vpn", "https://subscription.example/x", server="Oslo")
    plain = structs.replace(CHANNEL, url="http://supplier.example/v1", local=True, transport=vpn)
    renamed = structs.replace(plain, name="b")
    assert drop_bound_secrets(plain, renamed) == plain
    other = structs.replace(plain, transport=structs.replace(vpn, server="Riga"))
    assert drop_bound_secrets(plain, other).key == ""


SHARED = structs.replace(CHANNEL, keys=("sk-one-0123456789abcd", "env:NAME", "a", "b"))
ELSE = "https://evil.example/v1"


def test_further_keys_are_masked_and_what_is_shown_of_them_may_be_written_back():
    shown = mask_channel(SHARED)
    assert shown.keys == ("****abcd", "env:NAME", "****", "****")
    assert apply_edit(shown, SHARED) == SHARED
    more = structs.replace(shown, keys=(*shown.keys, "sk-new"))
    assert apply_edit(more, SHARED).keys == (*SHARED.keys, "sk-new")


def test_further_keys_may_be_removed_and_moved_as_long_as_it_is_clear_which():
    for sent, kept in (
        (("env:NAME", "****abcd"), ("env:NAME", SHARED.keys[0])),
        (("****abcd",), SHARED.keys[:1]),
        ((), ()),
    ):
        assert apply_edit(structs.replace(SHARED, keys=sent), SHARED).keys == kept
    for sent in (("****",), ("****", "****abcd"), ("****0000",), (mask(KEY),)):
        with pytest.raises(BadRequest) as caught:
            apply_edit(structs.replace(SHARED, keys=sent), SHARED)
        assert caught.value.message.startswith("keys[0]: ") or "another secret" in str(caught.value)


def test_no_further_key_goes_to_another_address():
    assert drop_bound_secrets(SHARED, structs.replace(SHARED, url=ELSE)).keys == ()
    assert drop_bound_secrets(SHARED, structs.replace(SHARED, url=f"{SHARED.url}/")) == SHARED
    for keys in (mask_channel(SHARED).keys, ("****abcd",), ("env:NAME",)):
        sent = structs.replace(SHARED, url=ELSE, key="sk-new", headers={}, keys=keys)
        with pytest.raises(BadRequest, match=r"^keys\[0\]: .*not sent to another"):
            apply_edit(sent, SHARED)


@pytest.mark.parametrize("place", ["env:HOME", "file:/etc/passwd"])
def test_no_further_key_can_be_named_from_afar(place: str) -> None:
    hidden = structs.replace(CHANNEL, keys=(place,))
    for before in (None, CHANNEL, structs.replace(CHANNEL, key=place)):
        with pytest.raises(BadRequest, match="by hand"):
            require_plain_secrets(hidden, before)
    assert require_plain_secrets(hidden, hidden) is hidden


def test_a_new_channel_has_no_masked_further_key():
    with pytest.raises(BadRequest):
        require_no_mask(structs.replace(CHANNEL, keys=("****",)))

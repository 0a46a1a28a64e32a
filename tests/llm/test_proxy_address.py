"""The proxy of a channel is told by its address."""

import pytest

from agentd.core.errors import BadRequest
from agentd.llm.endpoint import ChannelTransport
from agentd.llm.proxy_address import ProxyServer, parse_proxy_address


@pytest.mark.parametrize(
    ("kind", "url", "found"),
    [
        ("http", "http://proxy.test:3128", ProxyServer("proxy.test", 3128)),
        ("http", "http://u%40x:p%3Aw@proxy.test/", ProxyServer("proxy.test", 80, "u@x", "p:w")),
        ("socks5", "socks5://127.0.0.1", ProxyServer("127.0.0.1", 1080)),
        ("socks5", "socks5h://a:b@[::1]:9050", ProxyServer("::1", 9050, "a", "b")),
    ],
)
def test_an_address_is_understood(kind, url, found):
    assert parse_proxy_address(ChannelTransport(kind, url)) == found


@pytest.mark.parametrize(
    ("kind", "url"),
    [
        ("http", "socks5://hunter2@host"),
        ("socks5", "http://a:hunter2@host"),
        ("http", "https://a:hunter2@host"),
        ("http", "hunter2"),
        ("http", ""),
        ("http", "http://a:hunter2@host:99999"),
        ("http", "http://a:hunter2@host:0"),
        ("http", "http://a:hunter2@"),
        ("http", "http://a:hunter2@[::1"),
        ("http", "http://a:hunter2@ho st"),
        ("http", "http://hunter2@host"),
        ("http", "http://a:hunter2@host/path"),
        ("http", "http://a:hunter2@host?x"),
        ("http", "http://a%3Ab:hunter2@host"),
        ("socks5", "socks5://a:" + "hunter2" * 40 + "@host"),
    ],
)
def test_an_address_that_is_none_is_refused_and_never_repeated(kind, url):
    with pytest.raises(BadRequest) as caught:
        parse_proxy_address(ChannelTransport(kind, url))
    assert "hunter2" not in caught.value.message


def test_a_proxy_is_shown_without_its_password():
    server = ProxyServer("::1", 1, "user", "hunter2")
    assert (str(server), repr(server)) == ("[::1]:1", "ProxyServer([::1]:1)")

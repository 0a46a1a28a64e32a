"""Behind a proxy: whose address is logged, slowed down and limited, and when a cookie is secure."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tornado.httputil import HTTPHeaders

from agentd.core.errors import ConfigError
from agentd.http.trusted_proxies import TrustedProxies
from agentd.settings.sources import load
from tests.support.daemon import WORD, Client, Serving
from tests.support.fixtures import Serve

PROXIES = ("127.0.0.1", "10.0.0.0/8", "2001:db8::/32")


def find_client(peer: str, forwarded: str | None, *trusted: str) -> str:
    headers = HTTPHeaders({"X-Forwarded-For": forwarded} if forwarded is not None else {})
    return TrustedProxies(trusted).find_client(peer, headers)


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("127.0.0.1", "192.0.2.7", "192.0.2.7"),
        ("127.0.0.1", "192.0.2.7, 10.1.2.3", "192.0.2.7"),
        ("127.0.0.1", "198.51.100.9, 192.0.2.7, 10.1.2.3", "192.0.2.7"),
        ("127.0.0.1", "192.0.2.7:4711", "192.0.2.7"),
        ("127.0.0.1", '"[2001:dead::1]:80"', "2001:dead::1"),
        ("::ffff:127.0.0.1", "192.0.2.7", "192.0.2.7"),
        ("2001:db8::5", "::ffff:192.0.2.7", "192.0.2.7"),
        ("127.0.0.1", "10.0.0.1, 10.0.0.2", "10.0.0.1"),
        ("127.0.0.1", "192.0.2.7, unknown", "127.0.0.1"),
        ("127.0.0.1", "192.0.2.7, unknown, 10.0.0.2", "10.0.0.2"),
        ("127.0.0.1", "", "127.0.0.1"),
        ("127.0.0.1", None, "127.0.0.1"),
        ("192.0.2.1", "198.51.100.9", "192.0.2.1"),
        ("192.0.2.1", "198.51.100.9, 127.0.0.1", "192.0.2.1"),
        ("", "198.51.100.9", ""),
    ],
)
def test_the_client_is_the_right_most_address_that_is_no_trusted_proxy(peer, forwarded, client):
    assert find_client(peer, forwarded, *PROXIES) == client
    assert find_client(peer, forwarded) == peer


@given(
    st.lists(st.ip_addresses().map(str) | st.text("0123456789.:[]a, ", max_size=12), max_size=5),
    st.ip_addresses(),
)
def test_nobody_puts_words_into_the_mouth_of_a_proxy(before, client):
    """Whatever a client sends himself stands left of what the proxy adds, and is not believed."""
    trusted = TrustedProxies(PROXIES)
    known = [ipaddress.ip_network(one) for one in PROXIES]
    plain = getattr(client, "ipv4_mapped", None) or client
    if any(plain in one for one in known):
        return
    headers = HTTPHeaders({"X-Forwarded-For": ", ".join([*before, str(client)])})
    assert trusted.find_client("127.0.0.1", headers) == str(plain)


@pytest.mark.parametrize(
    ("peer", "told", "secure"),
    [
        ("127.0.0.1", "https", True),
        ("127.0.0.1", "http, HTTPS", True),
        ("127.0.0.1", "https, http", False),
        ("192.0.2.1", "https", False),
    ],
)
def test_https_is_believed_of_trusted_proxies_alone(peer, told, secure):
    headers = HTTPHeaders({"X-Forwarded-Proto": told})
    assert TrustedProxies(PROXIES).is_https(peer, headers) is secure
    assert not TrustedProxies().is_https(peer, headers)


def send_code(daemon: Serving, client: str, code: str) -> int:
    sent = {"X-Forwarded-For": f"203.0.113.1, {client}"}
    return daemon.client(None).post("/api/session", {"code": code}, sent).status


def test_behind_a_proxy_each_client_is_logged_and_limited_by_itself(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon = serve(trusted_proxies=["127.0.0.0/8"])
    assert [send_code(daemon, "192.0.2.7", "AAAAAAAAAA") for _ in range(6)] == [*[401] * 5, 429]
    assert send_code(daemon, "192.0.2.8", "AAAAAAAAAA") == 401
    daemon.stop()
    daemon.join()
    logged = capsys.readouterr().err
    assert " 192.0.2.7 nobody POST /api/session 429" in logged
    assert " 192.0.2.8 nobody POST /api/session 401" in logged
    assert "127.0.0.1 nobody POST" not in logged


def test_without_that_setting_the_headers_say_nothing(daemon: Serving) -> None:
    statuses = [send_code(daemon, f"192.0.2.{number}", "AAAAAAAAAA") for number in range(6)]
    assert statuses == [*[401] * 5, 429]


def test_what_is_for_this_machine_alone_is_not_for_a_client_that_comes_through_its_proxy(
    serve: Serve,
) -> None:
    client = serve(trusted_proxies=["127.0.0.1"]).client(None)
    assert client.get("/metrics").status == 200
    assert client.get("/metrics", {"X-Forwarded-For": "192.0.2.7"}).status != 200


@pytest.mark.parametrize("name", ["X-Forwarded-For", "Forwarded"])
def test_what_is_for_this_machine_alone_is_not_for_clients_of_a_proxy_that_no_setting_names(
    daemon: Serving, name: str
) -> None:
    assert daemon.client(None).get("/metrics", {name: "192.0.2.7"}).status == 401
    assert daemon.client().get("/metrics", {name: "192.0.2.7"}).status == 200


def test_a_cookie_is_secure_where_the_proxy_says_https(serve: Serve) -> None:
    daemon = serve(trusted_proxies=["127.0.0.1"])
    daemon.administrator()
    signing = {"user": "ada", "password": WORD}
    for told, secure in (({"X-Forwarded-Proto": "https"}, True), ({}, False)):
        cookie = daemon.client(None).post("/api/session", signing, told).headers["Set-Cookie"]
        assert ("; Secure" in cookie) is secure
        assert cookie.startswith("__Host-") is secure


def test_the_proxies_are_taken_up_while_the_daemon_runs(serve: Serve) -> None:
    daemon = serve(trusted_proxies=[])
    admin: Client = daemon.administrator()

    def is_cookie_secure() -> bool:
        signing = {"user": "ada", "password": WORD}
        told = {"X-Forwarded-Proto": "https"}
        cookie = daemon.client(None).post("/api/session", signing, told).headers["Set-Cookie"]
        return "; Secure" in cookie

    assert not is_cookie_secure()
    wish = {"trusted_proxies": ["127.0.0.1"]}
    assert daemon.client().post("/api/settings/set", wish).status == 403
    assert admin.post("/api/settings/set", wish).status == 200
    assert is_cookie_secure()


@pytest.mark.parametrize("wrong", ["proxy.example", "10.0.0.0/33", "*", "10.0.0", "::g"])
def test_what_is_no_address_is_refused_as_a_proxy(tmp_path, wrong):
    (tmp_path / "agentd.yml").write_text(f"trusted_proxies: ['{wrong}']\n")
    with pytest.raises(ConfigError, match="expected an address or a network"):
        load({"config": str(tmp_path), "state": str(tmp_path / "s")}, {}, str(tmp_path))

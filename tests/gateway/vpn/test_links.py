"""A server is understood from a link, and nothing but ``BadRequest`` comes of any other text."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.errors import BadRequest
from agentd.gateway.vpn.links import parse_link
from agentd.gateway.vpn.server import Server, StreamTransport, Tls, WireGuardTunnel, list_secrets

UUID = "b831381d-6324-4d53-ad4f-8cda48b30811"


def encode_base64(text: str, *, url=False, pad=True) -> str:
    encode = base64.urlsafe_b64encode if url else base64.b64encode
    encoded = encode(text.encode()).decode()
    return encoded if pad else encoded.rstrip("=")


def to_vmess(**fields) -> str:
    return "vmess://" + encode_base64(json.dumps(fields))


SS = Server(name="n", type="ss", host="h.test", port=8388, method="aes-256-gcm", password="p:w/é?")

LINKS = {
    "ss": (
        f"ss://{encode_base64('aes-256-gcm:p:w/é?', url=True, pad=False)}@h.test:8388#n", SS,
    ),
    "ss of the other alphabet": (f"ss://{encode_base64('aes-256-gcm:p:w/é?')}@h.test:8388/#n", SS),
    "ss, old": (f"ss://{encode_base64('aes-256-gcm:p:w/é?@h.test:8388')}#n", SS),
    "ss 2022": (
        "ss://2022-blake3-aes-256-gcm:YctPZ6U7xPPcU%2Bgp3u%2B0tx%2FtRizJN9K8y%2BuKlW2qjlI%3D"
        "@192.168.100.1:8888#Example3",
        Server(name="Example3", type="ss", host="192.168.100.1", port=8888,
               method="2022-blake3-aes-256-gcm",
               password="YctPZ6U7xPPcU+gp3u+0tx/tRizJN9K8y+uKlW2qjlI="),
    ),
    "ss with a plugin": (
        "ss://cmM0LW1kNTpwYXNzd2Q@192.168.100.1:8888/?plugin=obfs-local%3Bobfs%3Dhttp#Example2",
        Server(name="Example2", type="ss", host="192.168.100.1", port=8888, method="rc4-md5",
               password="passwd", plugin="obfs-local", options="obfs=http"),
    ),
    "vmess": (
        to_vmess(v="2", ps="名", add="h.test", port="443", id=UUID, aid=0, net="ws", type="none",
              host="cdn.test", path="/ray", tls="tls", sni="s.test", alpn="h2,http/1.1",
              fp="chrome"),
        Server(name="名", type="vmess", host="h.test", port=443, user=UUID, method="auto",
               tls=Tls("s.test", alpn=("h2", "http/1.1"), fingerprint="chrome"),
               transport=StreamTransport("ws", "/ray", "cdn.test", header="none")),
    ),
    "vmess as an address": (
        f"vmess://{UUID}@h.test:80?type=grpc&serviceName=x&encryption=zero#n",
        Server(name="n", type="vmess", host="h.test", port=80, user=UUID, method="zero",
               transport=StreamTransport("grpc", service="x")),
    ),
    "vless": (
        f"vless://{UUID}@[2001:db8::1]?security=reality&type=tcp&flow=xtls-rprx-vision&sni=s.test"
        "&fp=firefox&pbk=a-b_c&sid=12ab&spx=%2F&encryption=none#a%20b",
        Server(name="a b", type="vless", host="2001:db8::1", port=443, user=UUID, method="none",
               flow="xtls-rprx-vision",
               tls=Tls("s.test", fingerprint="firefox", public_key="a-b_c", short_id="12ab",
                       spider="/")),
    ),
    "trojan": (
        "trojan://p%40w@h.test:8443?peer=s.test&allowInsecure=1&type=httpupgrade&path=%2Fx#n",
        Server(name="n", type="trojan", host="h.test", port=8443, password="p@w",
               tls=Tls("s.test", insecure=True), transport=StreamTransport("httpupgrade", "/x")),
    ),
    "hysteria2": (
        "hy2://user:pass@h.test:123,5000-6000/?obfs=salamander&obfs-password=o&insecure=1#n",
        Server(name="n", type="hysteria2", host="h.test", port=123, password="user:pass",
               ports="123,5000-6000", obfs="salamander", obfs_password="o", tls=Tls(insecure=True)),
    ),
    "tuic": (
        f"tuic://{UUID}:p@h.test:443?congestion_control=bbr&alpn=h3&udp_relay_mode=native"
        "&disable_sni=1#n",
        Server(name="n", type="tuic", host="h.test", port=443, user=UUID, password="p",
               congestion="bbr", relay="native", tls=Tls(nameless=True, alpn=("h3",))),
    ),
    "anytls": (
        "anytls://p@h.test:443?sni=s.test#n",
        Server(name="n", type="anytls", host="h.test", port=443, password="p", tls=Tls("s.test")),
    ),
    "wireguard": (
        "wireguard://cHJpdmF0ZQ%3D%3D@h.test:51820?publickey=cH+i/A==&address=10.0.0.2/32,fd::2/128"
        "&reserved=1,2,3,256,x," + "9" * 5000 + "&mtu=1280&presharedkey=k#n",
        Server(name="n", type="wireguard", host="h.test", port=51820, password="cHJpdmF0ZQ==",
               tunnel=WireGuardTunnel(
                   ("10.0.0.2/32", "fd::2/128"), "cH+i/A==", "k", (1, 2, 3), 1280)),
    ),
    "socks": (
        f"socks://{encode_base64('u:p')}@h.test#n",
        Server(name="n", type="socks5", host="h.test", port=1080, user="u", password="p"),
    ),
    "https": (
        "https://u:p@h.test#n",
        Server(name="n", type="http", host="h.test", port=443, user="u", password="p", tls=Tls()),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", LINKS)
def test_a_link_is_understood(kind):
    link, expected = LINKS[kind]
    assert parse_link(link) == expected
    assert parse_link(f"  {link}\r\n") == expected


@pytest.mark.parametrize("kind", LINKS)
def test_no_secret_is_ever_shown(kind):
    found = parse_link(LINKS[kind][0])
    shown = repr(found) + str(found)
    assert found.host in shown
    for secret in list_secrets(found):
        if len(secret) > 1:
            assert secret not in shown


def test_a_server_without_a_name_is_called_by_its_place():
    assert parse_link(f"vless://{UUID}@h.test").name == "h.test:443"


def test_a_name_has_no_control_characters_and_an_end():
    found = parse_link(f"vless://{UUID}@h.test#%1b%5b2J%e2%80%ae{'x' * 500}")
    assert "\x1b" not in found.name
    assert "\u202e" not in found.name
    assert len(found.name) == 200


@pytest.mark.parametrize(
    "link",
    [
        "", "ss", "ss://", "://", "gopher://h:1", "ss://s3cret@h:1", "ss://s3cret",
        "ss://YWVzLTI1Ni1nY206@h:1", f"vless://{UUID}@", f"vless://{UUID}@h:0",
        f"vless://{UUID}@h:65536", f"vless://{UUID}@h:99999999999999999999", f"vless://{UUID}@[::1",
        "vless://s3cret@h:1", f"vless://{UUID}@h?security=s3cret", f"vless://{UUID}@h?type=s3cret",
        f"vless://{UUID}@h?security=reality", f"vless://{UUID}@h h:1", f"vless://{UUID}@h\n:1",
        "vmess://bm8ganNvbg==", "vmess://" + encode_base64("[]"),
        "vmess://" + encode_base64("[" * 10_000),
        to_vmess(add="h", port={}, id=UUID), to_vmess(add=["s3cret"], port=1, id=UUID),
        to_vmess(add="h", port=1e400, id=UUID), to_vmess(add="h", port=True, id=UUID),
        "trojan://@h:1", "wireguard://@h:1", "tuic://s3cret:p@h:1", "ss://" + "A" * 20_000,
        "hy2://p@h:1-2-3", f"vless://{UUID}@h?" + "&".join(f"s3cret{n}=1" for n in range(200)),
        f"vless://{UUID}@" + "ä" * 300, f"vless://{UUID}@h:41 43", f"vless://{UUID}@h:4\xb2",
    ],
)  # fmt: skip
def test_anything_else_is_refused_without_repeating_it(link):
    with pytest.raises(BadRequest) as caught:
        parse_link(link)
    assert "s3cret" not in caught.value.message + caught.value.details


SCHEMES = ["ss", "vmess", "vless", "trojan", "hy2", "tuic", "anytls", "wireguard", "socks", "http"]


@given(st.sampled_from(SCHEMES), st.text(max_size=200))
def test_no_text_behind_a_scheme_does_more_than_be_refused(scheme, rest):
    try:
        found = parse_link(f"{scheme}://{rest}")
    except BadRequest:
        return
    assert 0 < found.port < 65536


@given(
    st.dictionaries(
        st.sampled_from(["add", "port", "id", "net", "tls", "aid", "ps", "alpn", "sni", "path"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
            lambda inner: st.lists(inner, max_size=3),
            max_leaves=5,
        ),
    )
)
def test_no_object_in_a_vmess_link_does_more_than_be_refused(fields):
    try:
        found = parse_link(to_vmess(**fields))
    except BadRequest:
        return
    assert isinstance(found, Server)


@given(st.sampled_from(sorted(LINKS)), st.data())
def test_no_damage_to_a_link_does_more_than_to_have_it_refused(kind, data):
    link = LINKS[kind][0]
    at = data.draw(st.integers(0, len(link)))
    cut = data.draw(st.integers(0, 3))
    damaged = link[:at] + data.draw(st.text(max_size=3)) + link[at + cut :]
    try:
        parse_link(damaged)
    except BadRequest:
        return

"""A subscription's body is understood in each of its forms, and a hostile one is refused."""

import base64
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.errors import BadRequest, NotFound
from agentd.gateway.vpn.server import list_secrets
from agentd.gateway.vpn.subscription import Traffic, parse_single, parse_subscription
from agentd.storage.yaml.untrusted import parse_untrusted_yaml as yaml
from tests.support.processor import assert_linear, busy_for_less_than

UUID = "b831381d-6324-4d53-ad4f-8cda48b30811"
TROJAN = "trojan://s3cret-{0}@h{0}.test:443#server%20{0}"
LINKS = "\n".join(TROJAN.format(number) for number in range(3))

CLASH = f"""
port: 7890
anchors: &common {{udp: true, cipher: auto}}
proxies:
  - {{name: "ss", type: ss, server: h.test, port: 1, cipher: aes-256-gcm, password: 12345}}
  - {{name: "obfs", type: ss, server: h.test, port: 2, cipher: aes-256-gcm, password: s3cret-p,
      plugin: obfs, plugin-opts: {{mode: tls, host: x.test}}}}
  - {{<<: *common, name: vmess, type: vmess, server: h.test, port: 3, uuid: {UUID}, alterId: 0,
      tls: true, servername: s.test, network: ws,
      ws-opts: {{path: /s3cret-path, headers: {{Host: c.test}}}}}}
  - {{name: vless, type: vless, server: h.test, port: 4, uuid: {UUID}, flow: xtls-rprx-vision,
      reality-opts: {{public-key: s3cret-key, short-id: "01"}}, client-fingerprint: chrome}}
  - {{name: trojan, type: trojan, server: h.test, port: 5, password: s3cret-p, network: grpc,
      grpc-opts: {{grpc-service-name: g}}, skip-cert-verify: true, alpn: [h2]}}
  - {{name: hy2, type: hysteria2, server: h.test, port: 6, ports: 6000-7000, password: s3cret-p,
      obfs: salamander, obfs-password: s3cret-o}}
  - {{name: tuic, type: tuic, server: h.test, port: 7, uuid: {UUID}, password: s3cret-p}}
  - {{name: wg, type: wireguard, server: h.test, port: 8, ip: 10.0.0.2, private-key: s3cret-k,
      public-key: s3cret-u, reserved: [1, 2, 3]}}
  - {{name: proxy, type: socks5, server: h.test, port: 9, username: u, password: s3cret-p}}
  - {{name: old, type: ssr, server: h.test, port: 10, password: s3cret-p}}
proxy-groups: []
"""

SINGBOX = {
    "outbounds": [
        {"type": "selector", "tag": "s", "outbounds": ["ss"]},
        {"type": "direct", "tag": "d"},
        {"type": "shadowsocks", "tag": "ss", "server": "h.test", "server_port": 1,
         "method": "aes-256-gcm", "password": "s3cret-p"},
        {"type": "vless", "tag": "vless", "server": "h.test", "server_port": 2, "uuid": UUID,
         "tls": {"enabled": True, "server_name": "s.test", "utls": {"fingerprint": "chrome"},
                 "reality": {"public_key": "s3cret-k", "short_id": "1"}},
         "transport": {"type": "ws", "path": "/x", "headers": {"Host": ["c.test"]}}},
        {"type": "hysteria2", "tag": "hy2", "server": "h.test", "server_port": 3,
         "server_ports": ["2080:3000"], "password": "s3cret-p", "tls": {"enabled": True}},
    ],
    "endpoints": [
        {"type": "wireguard", "tag": "wg", "address": ["10.0.0.2/32"], "private_key": "s3cret-k",
         "peers": [{"address": "h.test", "port": 4, "public_key": "s3cret-u", "reserved": [1, 2]}]}
    ],
}  # fmt: skip

XRAY = [
    {"remarks": "one", "outbounds": [
        {"protocol": "vless", "tag": "proxy",
         "settings": {"vnext": [{"address": "h.test", "port": 1, "users": [{"id": UUID}]}]},
         "streamSettings": {"network": "xhttp", "security": "reality",
                            "realitySettings": {"serverName": "s", "publicKey": "s3cret-k"},
                            "xhttpSettings": {"path": "/x", "mode": "auto"}}},
        {"protocol": "freedom", "tag": "direct"}]},
    {"remarks": "two", "outbounds": [
        {"protocol": "trojan", "settings": {"servers": [
            {"address": "h.test", "port": 2, "password": "s3cret-p"}]}}]},
]  # fmt: skip

SIP008 = {
    "version": 1,
    "servers": [{"id": "x", "remarks": "one", "server": "h.test", "server_port": 1,
                 "password": "s3cret-p", "method": "aes-256-gcm"}],
    "bytes_used": 1,
}  # fmt: skip

CONF = """
[Interface]
PrivateKey = s3cret-k
Address = 10.0.0.2/32
Address = fd00::2/128
DNS = 1.1.1.1
[Peer] # the only one
PublicKey = s3cret-u
Endpoint = [2001:db8::1]:51820
AllowedIPs = 0.0.0.0/0
"""


def encode_base64(text: str, alphabet="+/", *, pad=True) -> bytes:
    encoded = base64.b64encode(text.encode(), alphabet.encode())
    return encoded if pad else encoded.rstrip(b"=")


def list_names(body: bytes | str) -> list[str]:
    body = body if isinstance(body, bytes) else body.encode()
    return [server.name for server in parse_subscription(body, {}, yaml).servers]


def get_refusal(body: bytes) -> BadRequest:
    with pytest.raises(BadRequest) as caught, busy_for_less_than(10):
        parse_subscription(body, {}, yaml)
    assert "s3cret" not in caught.value.message + caught.value.details
    return caught.value


@pytest.mark.parametrize("alphabet", ["+/", "-_"])
@pytest.mark.parametrize("pad", [True, False])
def test_a_list_of_links_may_be_in_base64_of_any_alphabet_and_padding(alphabet, pad):
    for body in (LINKS, LINKS + "\n", LINKS + "\n#end?>\n"):
        encoded = encode_base64(body, alphabet, pad=pad)
        expected = ["server 0", "server 1", "server 2"]
        assert list_names(encoded) == expected
        broken = b"\r\n".join(encoded[at : at + 76] for at in range(0, len(encoded), 76))
        assert list_names(b"\xef\xbb\xbf" + broken + b"\n") == expected


def test_plain_links_are_understood_between_other_lines():
    assert list_names(f"# comment\n\nnonsense\n{LINKS}\nssr://old") == [
        "server 0", "server 1", "server 2"
    ]  # fmt: skip


def test_clash_is_understood_and_what_it_cannot_be_is_reported():
    found = parse_subscription(CLASH.encode(), {}, yaml)
    assert [(one.name, one.type, one.port) for one in found.servers] == [
        ("ss", "ss", 1), ("obfs", "ss", 2), ("vmess", "vmess", 3), ("vless", "vless", 4),
        ("trojan", "trojan", 5), ("hy2", "hysteria2", 6), ("tuic", "tuic", 7),
        ("wg", "wireguard", 8), ("proxy", "socks5", 9),
    ]  # fmt: skip
    assert found.skipped == {"The server's type is not supported": 1}
    by_name = {one.name: one for one in found.servers}
    assert by_name["ss"].password == "12345"
    assert by_name["obfs"].options == "obfs=tls;obfs-host=x.test"
    assert by_name["vmess"].transport.path == "/s3cret-path"
    assert by_name["vmess"].transport.host == "c.test"
    assert by_name["vless"].tls.public_key == "s3cret-key"
    assert by_name["trojan"].transport.service == "g"
    assert by_name["trojan"].tls.insecure
    assert by_name["hy2"].ports == "6000-7000"
    assert by_name["wg"].tunnel.reserved == (1, 2, 3)


def test_sing_box_is_understood():
    found = parse_subscription(json.dumps(SINGBOX).encode(), {}, yaml)
    assert [one.name for one in found.servers] == ["ss", "vless", "hy2", "wg"]
    vless, hy2, wireguard = found.servers[1:]
    assert (vless.tls.name, vless.tls.public_key) == ("s.test", "s3cret-k")
    assert (vless.transport.kind, vless.transport.host) == ("ws", "c.test")
    assert hy2.ports == "2080-3000"
    assert (wireguard.host, wireguard.port) == ("h.test", 4)
    assert not found.skipped


def test_xray_is_understood():
    found = parse_subscription(json.dumps(XRAY).encode(), {}, yaml)
    assert [one.name for one in found.servers] == ["one", "two"]
    assert found.servers[0].transport.kind == "xhttp"
    assert found.servers[0].tls.public_key == "s3cret-k"
    assert list_names(json.dumps(XRAY[0])) == ["one"]


def test_sip008_is_understood():
    assert list_names(json.dumps(SIP008)) == ["one"]
    assert list_names(encode_base64(json.dumps(SIP008))) == ["one"]


def test_wireguards_own_settings_are_understood():
    (one,) = parse_subscription(CONF.encode(), {}, yaml).servers
    assert (one.host, one.port, one.password) == ("2001:db8::1", 51820, "s3cret-k")
    assert one.tunnel.addresses == ("10.0.0.2/32", "fd00::2/128")
    assert parse_single(CONF).servers == (one,)


def test_adverts_and_doubles_are_left_out_and_names_are_reported_apart():
    body = "\n".join(
        [
            "trojan://p@h:1#剩余流量：5 GB",
            "trojan://p@h:1#套餐到期：2026-01-01",
            "trojan://p@h:1#Expire: never",
            "trojan://p@h:1#a",
            "trojan://p@h:1#the same again",
            "trojan://p@h:2#a",
            "trojan://other@h:1#a",
        ]
    )
    found = parse_subscription(body.encode(), {}, yaml)
    assert [one.name for one in found.servers] == ["a", "a (2)", "a (3)"]
    assert sorted(found.skipped.values()) == [1, 3]


@given(names=st.lists(st.sampled_from(["a", "a (2)", "a (3)", "a (2) (2)", "b"]), min_size=1))
def test_names_are_distinct_whatever_numbers_the_given_ones_have(names):
    body = "\n".join(f"trojan://p@h:{number}#{name}" for number, name in enumerate(names, 1))
    found = [one.name for one in parse_subscription(body.encode(), {}, yaml).servers]
    assert len(set(found)) == len(found) == len(names)
    assert all(
        new == name or new.startswith(f"{name} (") for new, name in zip(found, names, strict=True)
    )


def test_servers_of_the_same_name_take_time_in_proportion_to_their_number():
    def list_servers(count: int) -> bytes:
        return "\n".join(f"trojan://p@h{number}:1#a" for number in range(count)).encode()

    def parse(body: bytes) -> None:
        parse_subscription(body, {}, yaml)

    assert_linear(parse, list_servers(1250), list_servers(10_000), times=8)


@pytest.mark.parametrize("body", [CLASH, LINKS, json.dumps(SINGBOX), json.dumps(XRAY), CONF])
def test_a_subscription_is_printed_without_credentials(body):
    found = parse_subscription(body.encode(), {}, yaml)
    assert "s3cret" not in repr(found)
    assert UUID not in repr(found)
    assert all(map(list_secrets, found.servers))


INFO = "upload=1.0; Download=2; TOTAL = 10; expire=1671815872"


@pytest.mark.parametrize(
    ("info", "traffic"),
    [
        (INFO, Traffic(3, 10, 7, "2022-12-23T17:17:52.000Z")),
        ("upload=9;download=9;total=10", Traffic(18, 10, 0)),
        ("upload=0; download=0; total=0; expire=0", Traffic(0)),
        ("total=10; expire=", Traffic(None, 10, 10)),
        ("expire=999999999999999999", Traffic()),
        ("nonsense " * 1000, Traffic()),
        ("", Traffic()),
    ],
)
def test_traffic_and_expiry_are_shown_where_somebody_says(info, traffic):
    assert (
        parse_subscription(LINKS.encode(), {"subscription-userinfo": info}, yaml).traffic == traffic
    )


def test_traffic_may_be_reported_by_the_bodys_first_line():
    assert parse_subscription(f"#{INFO}\n{LINKS}".encode(), {}, yaml).traffic.left == 7


@pytest.mark.parametrize(
    ("headers", "title"),
    [
        ({"profile-title": "A\x1b VPN"}, "A\\x1b VPN"),
        ({"profile-title": "base64:" + encode_base64("我的").decode()}, "我的"),
        ({"profile-title": "base64:!"}, ""),
        ({"content-disposition": 'attachment; filename="x.yaml"'}, "x.yaml"),
        ({"content-disposition": "attachment; filename*=UTF-8''%E6%88%91"}, "我"),
        ({}, ""),
    ],
)
def test_a_title_is_reported(headers, title):
    assert parse_subscription(LINKS.encode(), headers, yaml).title == title


def test_a_server_is_chosen_by_its_name():
    found = parse_subscription(LINKS.encode(), {}, yaml)
    assert found.find_server("server 1").host == "h1.test"
    with pytest.raises(NotFound, match="'server 9'"):
        found.find_server("server 9")
    with pytest.raises(BadRequest, match="3 servers"):
        found.find_server("")
    assert parse_single(TROJAN.format(1)).find_server("").host == "h1.test"


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [{','.join(f'*{a}' for _ in range(9))}]\n"
    for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)

HOSTILE = {
    "empty": b"",
    "words": b"s3cret words",
    "bytes": bytes(range(256)) * 100,
    "too large": b"#" * (2 * 2**20 + 1),
    "no servers": b"<html>s3cret</html>",
    "base64 of nothing": encode_base64("s3cret words here"),
    "base64 twice": encode_base64(encode_base64(LINKS).decode()),
    "too many": "\n".join(TROJAN.format(n) for n in range(10_001)).encode(),
    "too many in JSON": json.dumps({"servers": [{}] * 10_001}).encode(),
    "only adverts": "trojan://s3cret@h:1#流量 traffic".encode(),
    "only broken ones": b"ss://s3cret\nvmess://s3cret",
    "cut JSON": json.dumps(SINGBOX).encode()[:-5],
    "deep JSON": b"[" * 1_000_000,
    "deep JSON, closed": b"[" * 5000 + b"]" * 5000,
    "other JSON": b'{"s3cret": 1}',
    "numbers": b"[1e999, 1, 2]",
    "a bomb": ("proxies: *i\n" + BOMB).encode(),
    "a bomb that is there": (BOMB + "proxies: *i\n").encode(),
    "a loop": b"proxies: &a [*a]",
    "a loop of keys": b"&a ? *a\n: 1\nproxies: []",
    "deep YAML": b"proxies: " + b"[" * 100_000,
    "deep YAML, closed": b"proxies: " + b"[" * 900 + b"]" * 900,
    "deep mappings": b"proxies:\n" + b"".join(b" " * n + b"a:\n" for n in range(1, 900)),
    "many aliases": b"a: &a x\nproxies: [" + b"*a," * 5000 + b"]",
    "tags": b"proxies: [!!python/object/apply:os.system ['s3cret']]",
    "a tag of a number": b"proxies: [!!int 's3cret']",
    "a giant number": b"proxies: [" + b"9" * 10_000 + b"]",
    "a moment that there is not": b"proxies: [2001-99-99]",
    "unhashable": b"proxies: [{[a]: b}]",
    "merging": b"proxies: [{<<: s3cret}]",
    "two documents": b"proxies: []\n---\nproxies: []",
    "control characters": b"proxies: [\x00\x01]",
    "tabs": b"proxies:\n\t- s3cret",
    "no list": b"proxies: s3cret",
    "nothing in it": b"proxies: [1, null, [], {}]",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_body_is_refused(kind):
    get_refusal(HOSTILE[kind])


def test_a_large_but_honest_body_is_read():
    links = "\n".join(TROJAN.format(number) for number in range(10_000))
    assert len(list_names(encode_base64(links))) == 10_000
    entry = "  - {{name: n{0}, type: trojan, server: h{0}.test, port: 443, password: p{0}}}\n"
    clash = "proxies:\n" + "".join(entry.format(number) for number in range(10_000))
    assert len(list_names(clash)) == 10_000


BODIES = [CLASH, LINKS, encode_base64(LINKS).decode(), json.dumps(SINGBOX), json.dumps(XRAY), CONF]


@given(st.sampled_from(BODIES), st.randoms(use_true_random=False), st.integers(1, 5))
def test_no_damage_to_a_body_does_more_than_to_have_it_refused(body, chance, times):
    damaged = bytearray(body.encode())
    for _ in range(times):
        at = chance.randrange(len(damaged))
        damaged[at : at + chance.randrange(8)] = _make_noise(chance)
    try:
        found = parse_subscription(bytes(damaged), {}, yaml)
    except BadRequest:
        return
    assert found.servers


def _make_noise(chance: random.Random) -> bytes:
    pieces = (
        b"",
        b"{",
        b"]",
        b"\0",
        b"&a",
        b"*a",
        b": ",
        b"\xff",
        b"9" * 30,
        b"\n",
        b"null",
        b"!!",
    )
    return chance.choice(pieces)


@given(st.binary(max_size=300))
def test_no_bytes_do_more_than_be_refused(body):
    with pytest.raises(BadRequest):
        parse_subscription(b"s3cret" + body, {}, yaml)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["address", "users", "type", "Host", "enabled"]), inner)
    ),
    max_leaves=8,
)
FIELDS = (
    *("type", "protocol", "server", "server_port", "port", "settings", "streamSettings", "tls"),
    *("transport", "peers", "uuid", "password", "method", "tag", "obfs", "reserved", "ws-opts"),
)


@given(
    st.sampled_from(["outbounds", "endpoints", "servers", "proxies"]),
    st.lists(st.dictionaries(st.sampled_from(FIELDS), VALUES), max_size=3),
    st.sampled_from(["shadowsocks", "vless", "wireguard", "trojan", "ss", "vmess", ""]),
)
def test_no_kind_of_value_does_more_than_be_refused(under, entries, kind):
    entries = [entry | {"type": kind, "protocol": kind} if kind else entry for entry in entries]
    body = (
        json.dumps({under: entries}, allow_nan=False, default=str) if _is_finite(entries) else "{}"
    )
    try:
        parse_subscription(body.encode(), {}, yaml)
    except BadRequest:
        return


def _is_finite(value) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True

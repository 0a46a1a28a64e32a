"""An engine's settings have one door and one way out; real engines take them where they are."""

import json
import shutil
import subprocess

import pytest

from agentd.core.errors import BadRequest, Unavailable
from agentd.gateway.vpn import shadowsocks, singbox, xray
from agentd.gateway.vpn.engines import PROGRAMS, choose_program
from agentd.gateway.vpn.links import parse_link
from agentd.gateway.vpn.local import LocalProxy
from agentd.gateway.vpn.server import pin_address
from tests.gateway.vpn.test_links import UUID, encode_base64, to_vmess

LOCAL = LocalProxy(21007, "c7", "RANDOM")
KEY = "WBzmvhEoAwn7vHAxRbMPGlHJcX2l4mLRCvJUvmwsH0Q="
SS = f"ss://{encode_base64('aes-256-gcm:p')}@h.test:8388#n"
LINKS = {
    "ss": SS,
    "ss with a plugin": f"{SS[:-2]}?plugin=obfs-local%3Bobfs%3Dtls#n",
    "ss with a program": f"{SS[:-2]}?plugin=%2Fbin%2Fsh%3Bx#n",
    "ss 2022": "ss://2022-blake3-aes-128-gcm:AAAAAAAAAAAAAAAAAAAAAA%3D%3D@h.test:8388#n",
    "vmess": to_vmess(ps="n", add="h.test", port=443, id=UUID, net="ws", path="/x", tls="tls"),
    "vless": f"vless://{UUID}@h.test?security=tls&type=grpc&serviceName=g&fp=firefox#n",
    "reality": f"vless://{UUID}@h.test?security=reality&sni=s.test&pbk=k&sid=01"
    "&flow=xtls-rprx-vision#n",
    "xhttp": f"vless://{UUID}@h.test?security=tls&type=xhttp&path=%2Fx#n",
    "kcp": f"vless://{UUID}@h.test?type=kcp&seed=s#n",
    "h2": f"vless://{UUID}@h.test?security=tls&type=h2&host=a.test,b.test#n",
    "dressed": f"vless://{UUID}@h.test?type=tcp&headerType=http&host=a.test#n",
    "encrypted": f"vless://{UUID}@h.test?encryption=mlkem768x25519plus.x#n",
    "trojan": "trojan://p@h.test:443?alpn=h2#n",
    "hysteria2": "hy2://p@h.test:443,5000-6000?obfs=salamander&obfs-password=o&insecure=1#n",
    "tuic": f"tuic://{UUID}:p@h.test:443?congestion_control=bbr&udp_relay_mode=native#n",
    "anytls": "anytls://p@h.test:443#n",
    "wireguard": f"wireguard://{KEY}@h.test:51820?publickey={KEY}&address=10.0.0.2,fd::2/128"
    "&reserved=1,2,3#n",
    "socks": "socks5://u:p@h.test:1080#n",
    "https": "https://u:p@h.test#n",
}
SINGBOX = set(LINKS) - {"ss with a program", "xhttp", "kcp", "dressed", "encrypted"}
XRAY = set(LINKS) - {
    *("ss with a plugin", "ss with a program", "h2", "hysteria2", "tuic", "anytls"),
}


def parse_sample(kind: str):
    return parse_link(LINKS[kind])


def list_accepted(settings) -> set[str]:
    found = set()
    for kind in LINKS:
        try:
            settings(parse_sample(kind), LOCAL)
        except BadRequest:
            continue
        found.add(kind)
    return found


def test_each_engine_reaches_what_it_can():
    assert list_accepted(singbox.build_settings) == SINGBOX
    assert list_accepted(xray.build_settings) == XRAY
    assert list_accepted(shadowsocks.build_settings) == {"ss"}


@pytest.mark.parametrize("kind", sorted(SINGBOX))
def test_sing_box_has_one_door_and_no_way_past_the_server(kind):
    settings = singbox.build_settings(parse_sample(kind), LOCAL)
    (door,) = settings["inbounds"]
    assert (door["listen"], door["listen_port"]) == ("127.0.0.1", 21007)
    assert door["users"] == [{"username": "c7", "password": "RANDOM"}]
    (out,) = settings.get("outbounds", []) + settings.get("endpoints", [])
    assert out["type"] not in ("direct", "selector", "urltest")
    to_server, rest = settings["route"]["rules"]
    assert (to_server["inbound"], to_server["outbound"]) == (["in"], out["tag"])
    assert rest["action"] == "reject"


@pytest.mark.parametrize("kind", sorted(XRAY))
def test_xray_has_one_door_and_no_way_past_the_server(kind):
    settings = xray.build_settings(parse_sample(kind), LOCAL)
    (door,) = settings["inbounds"]
    assert (door["listen"], door["port"]) == ("127.0.0.1", 21007)
    assert door["settings"]["auth"] == "password"
    assert door["settings"]["accounts"] == [{"user": "c7", "pass": "RANDOM"}]
    (out,) = settings["outbounds"]
    assert out["protocol"] != "freedom"


def test_sing_boxs_outbounds_are_as_it_documents_them():
    def build_outbound(kind):
        (found,) = singbox.build_settings(parse_sample(kind), LOCAL)["outbounds"]
        return {name: value for name, value in found.items() if name != "tag"}

    assert build_outbound("reality") == {
        "type": "vless",
        "server": "h.test",
        "server_port": 443,
        "uuid": UUID,
        "flow": "xtls-rprx-vision",
        "tls": {
            "enabled": True,
            "server_name": "s.test",
            "utls": {"enabled": True, "fingerprint": "chrome"},
            "reality": {"enabled": True, "public_key": "k", "short_id": "01"},
        },
    }
    assert build_outbound("hysteria2") == {
        "type": "hysteria2",
        "server": "h.test",
        "server_port": 443,
        "server_ports": ["443:443", "5000:6000"],
        "password": "p",
        "obfs": {"type": "salamander", "password": "o"},
        "tls": {"enabled": True, "server_name": "h.test", "insecure": True},
    }
    assert build_outbound("ss with a plugin")["plugin_opts"] == "obfs=tls"
    (endpoint,) = singbox.build_settings(parse_sample("wireguard"), LOCAL)["endpoints"]
    assert endpoint["address"] == ["10.0.0.2/32", "fd::2/128"]
    assert endpoint["peers"][0]["reserved"] == [1, 2, 3]


def test_a_server_at_an_address_is_still_called_by_its_name():
    found = pin_address(parse_sample("vmess"), "192.0.2.1")
    assert (found.host, found.tls.name, found.transport.host) == ("192.0.2.1", "h.test", "h.test")
    found = pin_address(parse_sample("reality"), "192.0.2.1")
    assert (found.host, found.tls.name, found.transport.host) == ("192.0.2.1", "s.test", "")
    assert pin_address(parse_sample("ss"), "::1").tls is None


def test_the_best_engine_that_is_there_is_chosen():
    every = [one.program for one in PROGRAMS]
    assert choose_program(parse_sample("ss"), every).program == "sing-box"
    assert choose_program(parse_sample("ss"), ["ss-local", "xray"]).program == "xray"
    assert choose_program(parse_sample("ss"), ["ss-local"]).program == "ss-local"
    assert choose_program(parse_sample("xhttp"), every).program == "xray"
    with pytest.raises(Unavailable, match="install sing-box \\(looked for in PATH\\)"):
        choose_program(parse_sample("tuic"), ["xray", "ss-local"])
    with pytest.raises(Unavailable, match="No supported program"):
        choose_program(parse_sample("ss with a program"), every)


def test_the_door_is_shown_without_its_password():
    assert repr(LOCAL) == "LocalProxy(21007)"


def _check_with_program(command: list[str], settings: dict, tmp_path) -> None:
    if not shutil.which(command[0]):
        pytest.skip(f"no {command[0]} on this machine")
    file = tmp_path / "settings.json"
    file.write_text(json.dumps(settings))
    words = [*command, str(file)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", sorted(SINGBOX - {"reality"}))
def test_sing_box_itself_takes_its_settings(kind, tmp_path):
    _check_with_program(
        ["sing-box", "check", "-c"], singbox.build_settings(parse_sample(kind), LOCAL), tmp_path
    )


@pytest.mark.parametrize("kind", sorted(XRAY - {"reality", "encrypted"}))
def test_xray_itself_takes_its_settings(kind, tmp_path):
    _check_with_program(
        ["xray", "run", "-test", "-c"], xray.build_settings(parse_sample(kind), LOCAL), tmp_path
    )


@pytest.mark.parametrize("kind", ["ss", "vmess", "kcp", "dressed", "trojan", "socks", "https"])
def test_v2ray_takes_what_it_has_in_common_with_xray(kind, tmp_path):
    _check_with_program(
        ["v2ray", "-test", "-config"], xray.build_settings(parse_sample(kind), LOCAL), tmp_path
    )

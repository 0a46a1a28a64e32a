"""A WireGuard server in a ``.conf`` file."""

from agentd.core.errors import BadRequest
from agentd.gateway.vpn.fields import get_number, get_text, get_texts
from agentd.gateway.vpn.server import Server, WireGuardTunnel, validate_server


def is_conf(body: str) -> bool:
    """Return whether this text is a ``.conf``, by its first section."""
    return any(line.strip().lower() == "[interface]" for line in body.splitlines()[:100])


def parse_conf(body: str) -> Server:
    """Return the peer with an endpoint, and our side of the tunnel to it.

    Raises ``BadRequest``. ``AllowedIPs`` does not matter: only our own calls go through it.
    """
    sections = _split_sections(body)
    ours = next((fields for name, fields in sections if name == "interface"), {})
    peers = [fields for name, fields in sections if name == "peer" and "endpoint" in fields]
    if not peers:
        raise BadRequest("The WireGuard configuration has no peer with an endpoint")
    peer = peers[0]
    host, _, port = peer["endpoint"].rpartition(":")
    return validate_server(
        Server(
            name="",
            type="wireguard",
            host=host,
            port=get_number({"port": port}, "port"),
            password=get_text(ours, "privatekey"),
            tunnel=WireGuardTunnel(
                addresses=get_texts(ours, "address"),
                public_key=get_text(peer, "publickey"),
                shared_key=get_text(peer, "presharedkey"),
                mtu=get_number(ours, "mtu"),
                keepalive=get_number(peer, "persistentkeepalive"),
                dns=get_texts(ours, "dns"),
            ),
        )
    )


def _split_sections(body: str) -> list[tuple[str, dict[str, str]]]:
    sections: list[tuple[str, dict[str, str]]] = []
    for whole in body.splitlines():
        line = whole.partition("#")[0].strip()
        if line.startswith("[") and line.endswith("]"):
            sections.append((line[1:-1].strip().lower(), {}))
        elif sections and "=" in line:
            name, _, value = line.partition("=")
            fields, key = sections[-1][1], name.strip().lower()
            before = fields.get(key, "")
            fields[key] = f"{before},{value.strip()}" if before else value.strip()
    return sections

"""A WireGuard server as its ``.conf`` tells of it."""

from agentd.errors import BadRequest
from agentd.proxy.vpn.fields import number, text, texts
from agentd.proxy.vpn.server import Server, Tunnelled, checked


def is_conf(body: str) -> bool:
    """Whether this text is a ``.conf``, by its first section."""
    return any(line.strip().lower() == "[interface]" for line in body.splitlines()[:100])


def server(body: str) -> Server:
    """The peer with an endpoint, and our side of the tunnel to it.

    Raises ``BadRequest``. ``AllowedIPs`` does not matter: only our own calls go through it.
    """
    sections = _sections(body)
    ours = next((fields for name, fields in sections if name == "interface"), {})
    peers = [fields for name, fields in sections if name == "peer" and "endpoint" in fields]
    if not peers:
        raise BadRequest("The WireGuard settings have no peer with an endpoint")
    peer = peers[0]
    host, _, port = peer["endpoint"].rpartition(":")
    return checked(
        Server(
            name="",
            type="wireguard",
            host=host,
            port=number({"port": port}, "port"),
            password=text(ours, "privatekey"),
            tunnelled=Tunnelled(
                addresses=texts(ours, "address"),
                public_key=text(peer, "publickey"),
                shared_key=text(peer, "presharedkey"),
                mtu=number(ours, "mtu"),
                keepalive=number(peer, "persistentkeepalive"),
                dns=texts(ours, "dns"),
            ),
        )
    )


def _sections(body: str) -> list[tuple[str, dict[str, str]]]:
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

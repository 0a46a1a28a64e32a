"""VPN subscriptions: the servers that one lists, and the traffic that is left."""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from agentd.core.clock import Timestamp, format_iso
from agentd.core.errors import BadRequest, NotFound
from agentd.core.redaction import escape_unprintable
from agentd.gateway.vpn import clash, documents, links, wireguard
from agentd.gateway.vpn.fields import decode_base64
from agentd.gateway.vpn.server import Server

BODY_LIMIT = 2 * 2**20
"""Maximum size of a subscription in bytes."""
MAX_SERVERS = 10_000
"""Maximum number of entries, skipped ones included."""

Yaml = Callable[[str], object]
"""Parses untrusted YAML (``storage.yaml.untrusted``); raises ``BadRequest``."""
ServerReader = Callable[[], Server]

_ADVERT = re.compile(
    r"剩余流量|过期时间|到期|官网|官方|套餐|重置|更新订阅|traffic|expir|https?://|\bgb left\b",
    re.IGNORECASE,
)
_DEPTH = 64
_TITLE = 200
_USERINFO = "subscription-userinfo"


class Traffic(Struct, frozen=True, omit_defaults=True):
    """Traffic of a subscription in bytes; None: unknown."""

    used: int | None = None
    total: int | None = None
    left: int | None = None
    expires_at: Timestamp | None = None


class VpnSubscription(Struct, frozen=True):
    """Servers in order; no two have the same address and credentials."""

    servers: tuple[Server, ...]
    traffic: Traffic = Traffic()
    title: str = ""
    skipped: dict[str, int] = {}
    """Number of skipped entries by reason."""

    def find_server(self, name: str) -> Server:
        """Return the server of this name; without a name the only one.

        Raises ``NotFound``, or ``BadRequest`` if there are several and no name is given.
        """
        if not name:
            if len(self.servers) > 1:
                raise BadRequest(f"The VPN has {len(self.servers)} servers; name one as server")
            return self.servers[0]
        for server in self.servers:
            if server.name == name:
                return server
        raise NotFound(f"The VPN has no server named {escape_unprintable(name)!r} now")


def parse_subscription(body: bytes, headers: Mapping[str, str], yaml: Yaml) -> VpnSubscription:
    """Parse a body with its response headers (names in lower case).

    Known formats are links, plain or in base64; Clash YAML; JSON of sing-box, Xray or SIP008; and
    a WireGuard ``.conf``. Raises ``BadRequest`` if there is no server, or too much of anything.
    """
    if len(body) > BODY_LIMIT:
        raise BadRequest(f"The subscription is larger than {BODY_LIMIT} bytes")
    text = body.decode("utf-8", "replace").removeprefix("\ufeff").strip()
    readers = _find_readers(text, yaml)
    if readers is None:
        inside = decode_base64(text)  # only once: nested base64 is not supported
        text = (inside or "").strip()
        readers = _find_readers(text, yaml) if text else None
    if not readers:
        raise BadRequest("The subscription contains no server in a supported format")
    if len(readers) > MAX_SERVERS:
        raise BadRequest(f"The subscription has more than {MAX_SERVERS} servers")
    servers, skipped = _read_servers(readers)
    if not servers:
        why = "; ".join(f"{what} ({count})" for what, count in skipped.items())
        raise BadRequest("The subscription contains no supported server", why)
    info = headers.get(_USERINFO) or _find_traffic_comment(text)
    return VpnSubscription(servers, _parse_traffic(info), _find_title(headers), skipped)


def parse_single(link: str) -> VpnSubscription:
    """Parse a link or a WireGuard ``.conf``, which is one server. Raises ``BadRequest``."""
    one = wireguard.parse_conf(link) if wireguard.is_conf(link) else links.parse_link(link)
    return VpnSubscription((one,))


def _find_readers(text: str, yaml: Yaml) -> list[ServerReader] | None:
    """Return a reader for each entry; None if the format is unknown."""
    if text[:1] in ("{", "["):
        if wireguard.is_conf(text):
            return [partial(wireguard.parse_conf, text)]
        return documents.find_readers(_decode_json(text))
    if wireguard.is_conf(text):
        return [partial(wireguard.parse_conf, text)]
    if re.search(r"^proxies\s*:", text, re.MULTILINE):
        found = clash.list_entries(yaml(text))
        return None if found is None else [partial(clash.parse_entry, fields) for fields in found]
    lines = [line.strip() for line in text.splitlines()]
    return [partial(links.parse_link, line) for line in lines if links.is_link(line)] or None


def _decode_json(text: str) -> object:
    if _is_too_deep(text):
        raise BadRequest("The subscription's JSON is nested too deeply")
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadRequest(
            "The subscription is not valid JSON, although it begins like JSON"
        ) from error


def _is_too_deep(text: str) -> bool:
    """Count brackets, those in strings too: no real document comes near the limit."""
    depth = 0
    for bracket in re.findall(r"[\[\]{}]", text):
        depth += 1 if bracket in "[{" else -1
        if depth > _DEPTH:
            return True
    return False


def _read_servers(readers: list[ServerReader]) -> tuple[tuple[Server, ...], dict[str, int]]:
    """Return the distinct servers that can be parsed, and how many were skipped, by reason."""
    servers: dict[tuple[object, ...], Server] = {}
    names: dict[str, int] = {}
    skipped: dict[str, int] = {}
    """Number of skipped entries by reason."""

    def skip(why: str) -> None:
        skipped[why] = skipped.get(why, 0) + 1

    for read in readers:
        try:
            server = read()
        except BadRequest as error:
            skip(error.message)
            continue
        key = (server.type, server.host, server.port, server.user, server.password)
        if _ADVERT.search(server.name):
            skip("The name is an advertisement or a notice")
        elif key in servers:
            skip("The server is listed twice")
        else:
            name = _take_free_name(server.name, names)
            servers[key] = msgspec.structs.replace(server, name=name)
    return tuple(servers.values()), skipped


def _take_free_name(name: str, taken: dict[str, int]) -> str:
    """Return a name that is not taken, and take it: channels select servers by name.

    ``taken`` has the number with which the search for another of the same name goes on.
    """
    number = taken.get(name, 1)
    free = name
    while free in taken:
        number += 1
        free = f"{name} ({number})"
    taken[name] = number
    taken.setdefault(free, 1)
    return free


def _find_traffic_comment(text: str) -> str:
    """Return a first line ``#…`` with the traffic: some suppliers send no header for it."""
    first = text.partition("\n")[0]
    return first if first.startswith("#") and "=" in first else ""


def _parse_traffic(info: str) -> Traffic:
    numbers = dict(_iter_numbers(info[:1000]))
    upload, download = numbers.get("upload"), numbers.get("download")
    used = None if upload is None and download is None else (upload or 0) + (download or 0)
    total = numbers.get("total") or None
    left = max(total - (used or 0), 0) if total else None
    return Traffic(used, total, left, _to_timestamp(numbers.get("expire") or 0))


def _iter_numbers(info: str) -> Iterator[tuple[str, int]]:
    for name, value in re.findall(r"(\w+)\s*=\s*([0-9]{1,18})(?:\.[0-9]*)?", info):
        yield name.lower(), int(value)


def _to_timestamp(seconds: int) -> Timestamp | None:
    try:
        return format_iso(datetime.fromtimestamp(seconds, UTC)) if seconds else None
    except (ValueError, OverflowError, OSError):
        return None


def _find_title(headers: Mapping[str, str]) -> str:
    title = headers.get("profile-title", "")
    if title.startswith("base64:"):
        title = decode_base64(title.removeprefix("base64:")) or ""
    if not title:
        found = re.search(
            r"filename\*?=(?:UTF-8'')?\"?([^\";]+)", headers.get("content-disposition", "")
        )
        title = unquote(found[1]) if found else ""
    return escape_unprintable(title.strip())[:_TITLE]

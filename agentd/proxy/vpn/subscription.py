"""A subscription: the servers that a body tells of, and what is left of its traffic."""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from agentd.clock import Timestamp, iso
from agentd.errors import BadRequest, NotFound
from agentd.proxy.vpn import clash, documents, links, wireguard
from agentd.proxy.vpn.fields import plain
from agentd.proxy.vpn.server import Seen, Server, seen
from agentd.redaction import visible

BODY_LIMIT = 2 * 2**20
"""Bytes of a body."""
MOST_SERVERS = 10_000
"""Entries of a body, those included that are not understood."""

Yaml = Callable[[str], object]
"""Reads YAML that nobody vouches for (``disk.clash``); raises ``BadRequest``."""
Reading = Callable[[], Server]

_ADVERT = re.compile(
    r"剩余流量|过期时间|到期|官网|官方|套餐|重置|更新订阅|traffic|expir|https?://|\bgb left\b",
    re.IGNORECASE,
)
_DEPTH = 64
_TITLE = 200
_USERINFO = "subscription-userinfo"


class Traffic(Struct, frozen=True, omit_defaults=True):
    """Bytes that a subscription allows, and that are used; None where nobody tells."""

    used: int | None = None
    total: int | None = None
    left: int | None = None
    expires_at: Timestamp | None = None


class Preview(Struct, frozen=True):
    """What may be told of a subscription; never how one signs in."""

    title: str
    servers: tuple[Seen, ...]
    traffic: Traffic
    skipped: dict[str, int]
    """Why entries were left out, and how many."""


class Subscription(Struct, frozen=True):
    """Servers, in their order; no two have the same place and credentials."""

    servers: tuple[Server, ...]
    traffic: Traffic = Traffic()
    title: str = ""
    skipped: dict[str, int] = {}

    def preview(self) -> Preview:
        """What may be told of it."""
        return Preview(self.title, tuple(map(seen, self.servers)), self.traffic, self.skipped)

    def server(self, name: str) -> Server:
        """The one of this name; without a name the only one.

        Raises ``NotFound``, or ``BadRequest`` when there are several and no name was said.
        """
        if not name:
            if len(self.servers) > 1:
                raise BadRequest(f"There are {len(self.servers)} servers; say by server: which one")
            return self.servers[0]
        for server in self.servers:
            if server.name == name:
                return server
        raise NotFound(f"The VPN has no server of the name {visible(name)!r} now")


def subscription(body: bytes, headers: Mapping[str, str], yaml: Yaml) -> Subscription:
    """Read a body with its headers (names in lower case).

    It is base64 of links, or plain links; Clash's YAML; JSON of sing-box, Xray or SIP008; or a
    WireGuard ``.conf``. Raises ``BadRequest`` when it holds no server, or too much of anything.
    """
    if len(body) > BODY_LIMIT:
        raise BadRequest(f"The subscription is larger than {BODY_LIMIT} bytes")
    text = body.decode("utf-8", "replace").removeprefix("\ufeff").strip()
    readings = _readings(text, yaml)
    if readings is None:
        inside = plain(text)  # looked at once: base64 in base64 is a game
        text = (inside or "").strip()
        readings = _readings(text, yaml) if text else None
    if not readings:
        raise BadRequest("The subscription holds no server in any form that is known here")
    if len(readings) > MOST_SERVERS:
        raise BadRequest(f"The subscription has more than {MOST_SERVERS} servers")
    servers, skipped = _servers(readings)
    if not servers:
        why = "; ".join(f"{what} ({count})" for what, count in skipped.items())
        raise BadRequest("The subscription holds no server that is understood here", why)
    info = headers.get(_USERINFO) or _comment(text)
    return Subscription(servers, _traffic(info), _title(headers), skipped)


def single(link: str) -> Subscription:
    """One server, told by a link or a WireGuard ``.conf``. Raises ``BadRequest``."""
    one = wireguard.server(link) if wireguard.is_conf(link) else links.server(link)
    return Subscription((one,))


def _readings(text: str, yaml: Yaml) -> list[Reading] | None:
    """One for each entry; None when the text is in no form that is known."""
    if text[:1] in ("{", "["):
        if wireguard.is_conf(text):
            return [lambda: wireguard.server(text)]
        return documents.readings(_json(text))
    if wireguard.is_conf(text):
        return [lambda: wireguard.server(text)]
    if re.search(r"^proxies\s*:", text, re.MULTILINE):
        found = clash.entries(yaml(text))
        return None if found is None else [_clash(fields) for fields in found]
    lines = [line.strip() for line in text.splitlines()]
    return [_link(line) for line in lines if links.is_link(line)] or None


def _clash(fields: Mapping[object, object]) -> Reading:
    return lambda: clash.server(fields)


def _link(line: str) -> Reading:
    return lambda: links.server(line)


def _json(text: str) -> object:
    if _deep(text):
        raise BadRequest("The subscription's JSON is absurdly deep")
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadRequest("The subscription begins as JSON does, but is none") from error


def _deep(text: str) -> bool:
    """Brackets within texts are counted, too: no honest document comes near the limit."""
    depth = 0
    for bracket in re.findall(r"[\[\]{}]", text):
        depth += 1 if bracket in "[{" else -1
        if depth > _DEPTH:
            return True
    return False


def _servers(readings: list[Reading]) -> tuple[tuple[Server, ...], dict[str, int]]:
    """Those that are understood, each once, and why the others are not here."""
    servers: dict[tuple[object, ...], Server] = {}
    names: set[str] = set()
    skipped: dict[str, int] = {}

    def skip(why: str) -> None:
        skipped[why] = skipped.get(why, 0) + 1

    for read in readings:
        try:
            server = read()
        except BadRequest as error:
            skip(error.message)
            continue
        key = (server.type, server.host, server.port, server.user, server.password)
        if _ADVERT.search(server.name):
            skip("Its name is an advert or a notice")
        elif key in servers:
            skip("It is there twice")
        else:
            named = msgspec.structs.replace(server, name=_free(server.name, names))
            names.add(named.name)
            servers[key] = named
    return tuple(servers.values()), skipped


def _free(name: str, taken: set[str]) -> str:
    """A server is chosen by its name, so no two have the same."""
    number = 1
    free = name
    while free in taken:
        number += 1
        free = f"{name} ({number})"
    return free


def _comment(text: str) -> str:
    """Some servers tell the traffic in the body, by ``#`` and the header's words."""
    first = text.partition("\n")[0]
    return first if first.startswith("#") and "=" in first else ""


def _traffic(info: str) -> Traffic:
    told = dict(_numbers(info[:1000]))
    upload, download = told.get("upload"), told.get("download")
    used = None if upload is None and download is None else (upload or 0) + (download or 0)
    total = told.get("total") or None
    left = max(total - (used or 0), 0) if total else None
    return Traffic(used, total, left, _moment(told.get("expire") or 0))


def _numbers(info: str) -> Iterator[tuple[str, int]]:
    for name, value in re.findall(r"(\w+)\s*=\s*([0-9]{1,18})(?:\.[0-9]*)?", info):
        yield name.lower(), int(value)


def _moment(seconds: int) -> Timestamp | None:
    try:
        return iso(datetime.fromtimestamp(seconds, UTC)) if seconds else None
    except (ValueError, OverflowError, OSError):
        return None


def _title(headers: Mapping[str, str]) -> str:
    title = headers.get("profile-title", "")
    if title.startswith("base64:"):
        title = plain(title.removeprefix("base64:")) or ""
    if not title:
        found = re.search(
            r"filename\*?=(?:UTF-8'')?\"?([^\";]+)", headers.get("content-disposition", "")
        )
        title = unquote(found[1]) if found else ""
    return visible(title.strip())[:_TITLE]

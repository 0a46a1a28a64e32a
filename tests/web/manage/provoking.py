"""How each error of each address of the management is brought about."""

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agentd.disk import document
from agentd.web.call import Call
from agentd.web.table import Found, Route
from tests.web.manage.conftest import MANAGEMENT_KEY
from tests.web.manage.place import Address, Place
from tests.web.support import Reply, raw, request, until

Provoke = Callable[[Place, Address], Iterator[Reply]]
"""Attempts, of which one is to be answered with the error."""

_WRONG = (
    "limit=0",
    "dry_run=maybe",
    "enabled=maybe",
    "from=once",
    "paid=maybe",
    "cursor=%00x",
    "day=once",
)


def send(place: Place, address: Address, *lines: str, path: str = "", **more: Any) -> Reply:
    """The good request, with other headers, another path, body or key."""
    body = more.pop("body", place.body(address))
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    head = ["Connection: close", *lines]
    if data and not any(line.startswith("Content-Type") for line in lines):
        head.append("Content-Type: application/json")
    key = more.pop("key", MANAGEMENT_KEY)
    sent = request(address["method"], path or place.path(address), *head, body=data, key=key)
    (reply, *_) = raw(place.daemon.port, sent)
    return reply


def by_key(place: Place, address: Address) -> Iterator[Reply]:
    """A wrong one."""
    yield send(place, address, key="wrong")


def by_host(place: Place, address: Address) -> Iterator[Reply]:
    """A name that is not ours."""
    path = place.path(address)
    head = f"{address['method']} {path} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    yield from raw(place.daemon.port, head.encode())


def by_size(place: Place, address: Address) -> Iterator[Reply]:
    """More bytes than any address takes, told before they come."""
    yield send(
        place, address, "Content-Length: 999999999", "Content-Type: application/json", body=b""
    )


def by_type(place: Place, address: Address) -> Iterator[Reply]:
    """JSON that says that it is none."""
    yield send(place, address, "Content-Type: text/plain")


def by_words(place: Place, address: Address) -> Iterator[Reply]:
    """A body, a parameter or a header that is wrong."""
    if address["body"]:
        yield send(place, address, body=b"{")
        return
    if address["method"] != "GET":
        yield send(place, address, body=b'{"dry_run": true}')
    names = {one["name"] for one in address["parameters"]}
    for query in _WRONG:
        if query.partition("=")[0] in names:
            yield send(place, address, path=f"{place.path(address)}?{query}")
    if "If-Match" in names:
        yield send(place, address, "If-Match: any")


def by_name(place: Place, address: Address) -> Iterator[Reply]:
    """Of something that is not there."""
    if "{" in address["path"]:
        yield send(place, address, path=place.path(address, "999999"))
    else:
        yield send(place, address, path=f"{place.path(address)}?key=nobody-at-all")


def by_tag(place: Place, address: Address) -> Iterator[Reply]:
    """Of another version."""
    yield send(place, address, 'If-Match: "00000000"')


def by_fault(place: Place, address: Address) -> Iterator[Reply]:
    """A bug in what answers."""

    def broken(call: Call) -> Any:
        raise RuntimeError("a bug")

    def route(found: Found, method: str) -> Route | None:
        known = whole(found, method)
        return known and replace(known, endpoint=broken)

    whole = Found.route
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Found, "route", route)
        yield send(place, address)


def by_race(place: Place, address: Address) -> Iterator[Reply]:
    """A name that is taken, or a person who saves the file in the same moment."""
    if address["status"] == 201:
        yield send(place, address)
        return
    with _changing(place, address), pytest.MonkeyPatch.context() as patch:
        written = document._written

        def saved(folder: int, name: str, data: bytes, mode: int) -> str:
            temporary = written(folder, name, data, mode)
            if name.endswith(".yml"):
                file = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, dir_fd=folder)
                os.write(file, b"# by hand\n")
                os.close(file)
            return temporary

        patch.setattr(document, "_written", saved)
        yield send(place, address)


def by_disk(place: Place, address: Address) -> Iterator[Reply]:
    """A disk that takes no more."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = place.path(address)
    if any(one["name"] == "paid" for one in address["parameters"]):
        path += "?paid=true"
    with _changing(place, address), pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", full)
        patch.setattr("os.fdatasync", full)
        yield send(place, address, path=path, body=_another(place.body(address)))


def by_supplier(place: Place, address: Address) -> Iterator[Reply]:
    """Nobody is where the subscription is to be."""
    yield send(place, address, body={"url": f"{NOWHERE}/subscription", "local": True})


def just(place: Place, address: Address) -> Iterator[Reply]:
    """The good request: the place itself is at fault."""
    yield send(place, address)


def emptied(place: Place) -> Place:
    """No channel is there any more, nor an export."""
    layout = place.house.layout
    Path(layout.channels).write_text("channels: []")
    Path(layout.gateway_settings).write_text("{}")
    until(lambda: not place.manager.get("/api/agent/channels")["items"])
    until(lambda: place.manager.get("/api/agent/export")["phase"] == "off")
    return place


@contextmanager
def unreadable(place: Place) -> Iterator[Place]:
    """What it has noted cannot be read while the block lasts: other things stand in its places."""
    layout = place.house.layout
    names = (layout.ledger, layout.ledger_reports, layout.changes, layout.service_log)
    places = [Path(name) for name in names]
    there = [path for path in places if path.exists()]
    for path in there:
        path.rename(f"{path}.away")
    for path in places:
        if path.suffix:
            path.symlink_to(f"{path}.away")
        else:
            path.write_text("no folder")
    yield place
    for path in places:
        path.unlink()
    for path in there:
        Path(f"{path}.away").rename(path)


@contextmanager
def _changing(place: Place, address: Address) -> Iterator[None]:
    """Switched the other way before, so that there is something to do."""
    other = {"enable": "disable", "disable": "enable"}
    path, _, verb = place.path(address).rpartition("/")
    if verb in other:
        assert place.manager.post(f"{path}/{other[verb]}", None).status == 200
    yield


def _another(body: Any) -> Any:
    """One of another name."""
    if not isinstance(body, dict):
        return body
    return {name: f"{value}-9" if name in ("name", "id") else value for name, value in body.items()}


NOWHERE = "http://127.0.0.1:9"

GENERAL: dict[str, Provoke] = {
    "BadRequest": by_words,
    "Conflict": by_race,
    "InternalServerError": by_fault,
    "Misdirected": by_host,
    "NotFound": by_name,
    "PreconditionFailed": by_tag,
    "TooLarge": by_size,
    "Unauthorized": by_key,
    "Unavailable": by_disk,
    "UnsupportedMediaType": by_type,
}
"""By the name of the error, in a place that is in order."""

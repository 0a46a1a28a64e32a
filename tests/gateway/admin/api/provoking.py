"""Requests that provoke each error of each address of the management."""

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agentd.core.errors import LimitReached
from agentd.http.connections import ConnectionRegistry
from agentd.http.request import Request
from agentd.http.routing import Route, RouteMatch
from agentd.storage import document
from tests.gateway.admin.api.example_gateway import Address, ExampleGateway
from tests.gateway.admin.conftest import MANAGEMENT_KEY
from tests.support.daemon import Reply, build_request, send_raw, until

Provoke = Callable[[ExampleGateway, Address], Iterator[Reply]]
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


def send_variant(
    gateway: ExampleGateway, address: Address, *lines: str, path: str = "", **more: Any
) -> Reply:
    """Send the good request with other headers, another path, body or key."""
    body = more.pop("body", gateway.build_body(address))
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    head = ["Connection: close", *lines]
    if data and not any(line.startswith("Content-Type") for line in lines):
        head.append("Content-Type: application/json")
    key = more.pop("key", MANAGEMENT_KEY)
    sent = build_request(
        address["method"], path or gateway.build_path(address), *head, body=data, key=key
    )
    (reply, *_) = send_raw(gateway.daemon.port, sent)
    return reply


def provoke_unauthorized(gateway: ExampleGateway, address: Address) -> Iterator[Reply]:
    """Send a wrong key."""
    yield send_variant(gateway, address, key="wrong")


def _add_query(gateway: ExampleGateway, address: Address, query: str) -> str:
    path = gateway.build_path(address)
    return f"{path}{'&' if '?' in path else '?'}{query}"


def provoke_forbidden(gateway: ExampleGateway, address: Address) -> Iterator[Reply]:
    """Send the login of somebody who is no administrator."""
    bearer = f"Authorization: Bearer {gateway.viewer_token}"
    yield send_variant(gateway, address, bearer, key=None)


def provoke_misdirected(gateway: ExampleGateway, address: Address) -> Iterator[Reply]:
    """Send another host's name."""
    path = gateway.build_path(address)
    head = f"{address['method']} {path} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    yield from send_raw(gateway.daemon.port, head.encode())


def provoke_too_large(gateway: ExampleGateway, address: Address) -> Iterator[Reply]:
    """Announce more bytes than any address accepts."""
    yield send_variant(
        gateway, address, "Content-Length: 999999999", "Content-Type: application/json", body=b""
    )


def provoke_unsupported_type(gateway: ExampleGateway, address: Address) -> Iterator[Reply]:
    """Send JSON as another media type."""
    yield send_variant(gateway, address, "Content-Type: text/plain")


def provoke_bad_request(gateway: ExampleGateway, address: Address) -> Iterator[Reply]:
    """Send a wrong body, parameter or header."""
    if address["body"]:
        yield send_variant(gateway, address, body=b"{")
        return
    if address["method"] != "GET":
        yield send_variant(gateway, address, body=b'{"dry_run": true}')
    names = {one["name"] for one in address["parameters"]}
    for query in _WRONG:
        if query.partition("=")[0] in names:
            yield send_variant(gateway, address, path=_add_query(gateway, address, query))
    if "If-Match" in names:
        yield send_variant(gateway, address, "If-Match: any")


def provoke_not_found(gateway: ExampleGateway, address: Address) -> Iterator[Reply]:
    """Name a resource that does not exist."""
    if address["path"].endswith("/batch"):
        body = {**gateway.build_body(address), "names": ["nobody-at-all"]}
        yield send_variant(gateway, address, body=body)
    elif "{" in address["path"]:
        yield send_variant(gateway, address, path=gateway.build_path(address, "999999"))
    else:
        yield send_variant(gateway, address, path=_add_query(gateway, address, "key=nobody-at-all"))


def provoke_precondition_failed(gateway: ExampleGateway, address: Address) -> Iterator[Reply]:
    """Send the tag of another version."""
    yield send_variant(gateway, address, 'If-Match: "00000000"')


def provoke_server_error(gateway: ExampleGateway, address: Address) -> Iterator[Reply]:
    """Let the endpoint raise an unexpected exception."""

    def raise_bug(call: Request) -> Any:
        raise RuntimeError("a bug")

    def find_broken_route(found: RouteMatch, method: str) -> Route | None:
        known = whole(found, method)
        return known and replace(known, endpoint=raise_bug)

    whole = RouteMatch.find_route
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RouteMatch, "find_route", find_broken_route)
        yield send_variant(gateway, address)


def provoke_conflict(gateway: ExampleGateway, address: Address) -> Iterator[Reply]:
    """Use a taken name, or save the file by hand at the same moment."""
    if address["status"] == 201:
        reply = send_variant(gateway, address)
        yield reply
        if reply.status == 201:  # until now the name was free
            yield send_variant(gateway, address)
        return
    with _with_other_state(gateway, address), _edited_while_writing():
        yield send_variant(gateway, address)


def provoke_unavailable(gateway: ExampleGateway, address: Address) -> Iterator[Reply]:
    """Let the disk be full."""
    path = gateway.build_path(address)
    if any(one["name"] == "paid" for one in address["parameters"]):
        path += "?paid=true"
    with _with_other_state(gateway, address), _full_disk():
        yield send_variant(
            gateway, address, path=path, body=_rename_body(gateway.build_body(address))
        )


def provoke_by_another_file(gateway: ExampleGateway, address: Address) -> Iterator[Reply]:
    """Import a file with another model: what exists already would not be written."""
    body = gateway.build_body(address)
    body = {**body, "text": body["text"].replace("moved-small", "moved-by-another-file")}
    for failing in (_edited_while_writing, _full_disk):
        with failing():
            yield send_variant(gateway, address, body=body)


def provoke_bad_gateway(gateway: ExampleGateway, address: Address) -> Iterator[Reply]:
    """Give a subscription's address where nothing listens."""
    yield send_variant(gateway, address, body={"url": f"{NOWHERE}/subscription", "local": True})


def provoke_unreachable(gateway: ExampleGateway, address: Address) -> Iterator[Reply]:
    """Ask a channel at whose address nothing listens."""
    channel = {"name": "nowhere", "dialects": ["openai-chat"], "url": NOWHERE, "local": True}
    assert gateway.manager.post("/api/agent/channels", channel).status == 201
    yield send_variant(gateway, address, path=gateway.build_path(address, "nowhere"))
    assert gateway.manager.delete("/api/agent/channels/nowhere").status == 204


def provoke_unreadable(gateway: ExampleGateway, address: Address) -> Iterator[Reply]:
    """Ask for one that is not known while the file that may have it cannot be read."""
    layout = gateway.setup.layout
    files = {
        "alert-targets": layout.alert_targets,
        "budgets": layout.budgets,
        "channels": layout.channels,
        "keys": layout.access_keys,
        "management-keys": layout.management_keys,
        "models": layout.models,
        "secret-rules": layout.secret_rules,
    }
    path = Path(files[address["path"].split("/")[3]])
    kept = path.rename(path.with_name("kept"))
    path.mkdir()
    one = gateway.build_path(address, "unheard-of")
    until(lambda: gateway.manager.get(one).status != 404)
    yield send_variant(gateway, address, path=one)
    path.rmdir()
    kept.rename(path)
    until(lambda: gateway.manager.get(one).status == 404)


def provoke_limit_reached(gateway: ExampleGateway, address: Address) -> Iterator[Reply]:
    """Let there be as many live connections as there may be."""

    def refuse(*_: object) -> None:
        raise LimitReached("Too many live connections", 30)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConnectionRegistry, "check", refuse)
        yield send_variant(gateway, address)


def provoke_untold_balance(gateway: ExampleGateway, address: Address) -> Iterator[Reply]:
    """Ask a channel whose supplier is not known to report its balance."""
    channel = {"name": "silent", "dialects": ["openai-chat"], "url": NOWHERE, "local": True}
    assert gateway.manager.post("/api/agent/channels", channel).status == 201
    yield send_variant(gateway, address, path=gateway.build_path(address, "silent"))
    assert gateway.manager.delete("/api/agent/channels/silent").status == 204


def send_unchanged(gateway: ExampleGateway, address: Address) -> Iterator[Reply]:
    """Send the good request: the gateway itself is at fault."""
    yield send_variant(gateway, address)


def remove_channels(gateway: ExampleGateway) -> ExampleGateway:
    """Remove all channels and the export."""
    layout = gateway.setup.layout
    Path(layout.channels).write_text("channels: []")
    Path(layout.gateway_settings).write_text("{}")
    until(lambda: not gateway.manager.get("/api/agent/channels")["items"])
    until(lambda: gateway.manager.get("/api/agent/export")["phase"] == "off")
    return gateway


@contextmanager
def unreadable_records(gateway: ExampleGateway) -> Iterator[ExampleGateway]:
    """Make ledger, changes and log unreadable for the duration of the block."""
    layout = gateway.setup.layout
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
    yield gateway
    for path in places:
        path.unlink()
    for path in there:
        Path(f"{path}.away").rename(path)


@contextmanager
def _edited_while_writing() -> Iterator[None]:
    """Somebody edits each YAML file by hand while it is written."""
    written = document._write_temporary

    def write_after_edit(folder: int, name: str, data: bytes, mode: int) -> str:
        temporary = written(folder, name, data, mode)
        if name.endswith(".yml"):
            file = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, dir_fd=folder)
            os.write(file, b"# by hand\n")
            os.close(file)
        return temporary

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document, "_write_temporary", write_after_edit)
        yield


@contextmanager
def _full_disk() -> Iterator[None]:
    def raise_disk_full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", raise_disk_full)
        patch.setattr("os.fdatasync", raise_disk_full)
        yield


@contextmanager
def _with_other_state(gateway: ExampleGateway, address: Address) -> Iterator[None]:
    """Switch the resource the other way before, so that there is something to do."""
    other = {"enable": "disable", "disable": "enable"}
    path, _, verb = gateway.build_path(address).rpartition("/")
    if verb in other:
        assert gateway.manager.post(f"{path}/{other[verb]}", None).status == 200
    if (address["method"], verb) == ("DELETE", "raise"):
        raised = {"limits": {"day": 1000}, "until": "2099-01-01T00:00:00Z"}
        assert gateway.manager.post(f"{path}/raise", raised).status == 200
    yield


def _rename_body(body: Any) -> Any:
    """Return the body with another name, also of what it lists."""
    if isinstance(body, list):
        return [_rename_body(one) for one in body]
    if not isinstance(body, dict):
        return body
    return {
        name: f"{value}-9" if name in ("name", "id", "tag") else _rename_body(value)
        for name, value in body.items()
    }


NOWHERE = "http://127.0.0.1:9"

GENERAL: dict[str, Provoke] = {
    "BadRequest": provoke_bad_request,
    "Conflict": provoke_conflict,
    "Forbidden": provoke_forbidden,
    "InternalServerError": provoke_server_error,
    "LimitReached": provoke_limit_reached,
    "Misdirected": provoke_misdirected,
    "NotFound": provoke_not_found,
    "PreconditionFailed": provoke_precondition_failed,
    "TooLarge": provoke_too_large,
    "Unauthorized": provoke_unauthorized,
    "Unavailable": provoke_unavailable,
    "UnsupportedMediaType": provoke_unsupported_type,
}
"""By the name of the error, in a gateway that is in order."""

"""The first page of every list of the gateway's management, with a long ledger and a short one.

The two daemons have the same models, channels and access keys; only the number of requests differs.
The lists are those of the OpenAPI document, so a new one is measured by itself.
"""

import hashlib
import http.client
import json
import os
from collections.abc import Iterator
from signal import SIGTERM
from statistics import median
from typing import Any

from tests.benchmarks.books import Books
from tests.benchmarks.large_gateway import LargeGateway
from tests.benchmarks.load import Shot
from tests.benchmarks.managing import (
    KEY,
    LEAST,
    SHORT,
    ManagedDaemon,
    measure_ratio,
    wait_for_rollups,
)
from tests.benchmarks.measures import Row, Size, create_scratch_folder
from tests.benchmarks.relaying import build_chat_body, start_supplier
from tests.benchmarks.servers import Gun, encode_request, running_server, start_daemon
from tests.benchmarks.states import Maker

PART = 100
"""The short ledger has this part of the long one's requests."""
MODELS, CHANNELS, KEYS = 200, 40, 1000
OF_NOW = ("reports/limits", "reports/soft-limits")
"""Reports that are of no days."""
PAGE = 10
"""Lines of a page."""
PREFIX = "/api/agent/"
TARGET = 1.5
FIGURES_TARGET = 5.0


def measure_first_pages(size: Size, gun: Gun) -> Iterator[Row]:
    """Measure first pages, and the overview's figures beside a chat's status."""
    os.environ["PROXY_APP_HASH"] = hashlib.sha256(KEY.encode()).hexdigest()
    rows = size.booked // 10
    try:
        with create_scratch_folder() as large, create_scratch_folder() as small:
            full, part = _create_books(large, rows), _create_books(small, rows // PART)
            with (
                running_server(start_daemon(full[0].layout), SIGTERM) as one,
                running_server(start_daemon(part[0].layout), SIGTERM) as other,
            ):
                places = (
                    ManagedDaemon(part[0], other, _build_status(part[1])),
                    ManagedDaemon(full[0], one, _build_status(full[1])),
                )
                for place in places:
                    wait_for_rollups(place)
                paths = list_paths(one.port, full[1])
                yield from _compare(size, gun, rows, paths, *places)
    finally:
        del os.environ["PROXY_APP_HASH"]


def _compare(
    size: Size,
    gun: Gun,
    rows: int,
    paths: list[str],
    small: ManagedDaemon,
    large: ManagedDaemon,
) -> Iterator[Row]:
    of = f"time with {rows:,}, of {rows // PART:,}"
    for path in paths:
        for query in _build_queries(path, large.books):
            one, other = (place.build_list_call(f"{path}{query}", size) for place in (small, large))
            ratio = measure_ratio(gun, one, other, size.rounds)
            yield Row(f"first page of {path}{query[:6]}: {of}", ratio, TARGET)
    status = large.build_call(large.status, size)
    ratio = measure_ratio(gun, status, large.build_list_call("summary", size), size.rounds)
    yield Row(f"the summary with {rows:,}: time, of a status", ratio, FIGURES_TARGET)
    ratio = measure_ratio(gun, status, large.build_list_call("overview", size), size.rounds)
    yield Row(f"the overview's figures with {rows:,}: time, of a status", ratio, FIGURES_TARGET)
    ratio = _measure_busy_overview(size, gun, large)
    what = f"the overview's figures with {rows:,}, after each model call: time, of a status"
    yield Row(what, ratio, FIGURES_TARGET)


def _measure_busy_overview(size: Size, gun: Gun, place: ManagedDaemon) -> float:
    """Return the processor time of an overview after a model call was recorded, of a status.

    The time of the calls is measured, too, and taken off.
    """
    overview = encode_request("GET", f"{PREFIX}overview", KEY)
    ratios = []
    with (
        create_scratch_folder() as folder,
        running_server(start_supplier(folder), SIGTERM) as supplier,
    ):
        key = _add_model(place.server.port, supplier.port)
        body = json.dumps(build_chat_body(stream=False)).encode()
        called = encode_request("POST", "/v1/chat/completions", key, body)
        series = {"status": [place.status], "call": [called], "both": [called, overview]}
        for number in range(size.rounds):
            took = {}
            for name, requests in list(series.items())[:: 1 if number % 2 else -1]:
                before = place.server.get_processor_seconds()
                shot = Shot(place.server.port, requests, 1, size.seconds * SHORT)
                answers = gun.fire(shot).answers / len(requests)
                took[name] = max(place.server.get_processor_seconds() - before, LEAST) / answers
            ratios.append((took["both"] - took["call"]) / took["status"])
    return median(ratios)


def _add_model(port: int, supplier: int) -> str:
    """Add a model of this supplier, and an access key; return the key."""
    channel = {
        "name": "fast",
        "dialects": ["openai-chat"],
        "local": True,
        "key": "sk-0123456789",
        "url": f"http://127.0.0.1:{supplier}",
    }
    model = {"name": "fast", "routes": [{"channel": "fast"}], "prices": {"input": 1, "output": 2}}
    _create(port, "channels", channel)
    _create(port, "models", model)
    return str(_create(port, "keys", {"name": "busy"})["key"])


def _create(port: int, path: str, resource: dict[str, Any]) -> dict[str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"X-API-Key": KEY, "Content-Type": "application/json"}
    try:
        connection.request("POST", f"{PREFIX}{path}", json.dumps(resource), headers)
        reply = connection.getresponse()
        content = reply.read()
    finally:
        connection.close()
    if reply.status != 201:
        raise SystemExit(f"{path}: {reply.status} {content!r}")
    found: dict[str, Any] = json.loads(content)
    return found


def list_paths(port: int, key: str) -> list[str]:
    """Return the lists of the management, by the daemon's OpenAPI document: those with items."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/api/openapi.json", headers={"X-API-Key": key})
        document = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return [
        f"{path.removeprefix(PREFIX)}{_choose_limit(methods['get'])}"
        for path, methods in document["paths"].items()
        if path.startswith(PREFIX) and "{" not in path and _is_list(document, methods.get("get"))
    ]


def _choose_limit(operation: dict[str, Any]) -> str:
    """Return the query for a page that both histories can fill."""
    has_limit = any(one.get("name") == "limit" for one in operation.get("parameters", ()))
    return f"?limit={PAGE}" if has_limit else ""


def _is_list(document: dict[str, Any], operation: dict[str, Any] | None) -> bool:
    content = (operation or {}).get("responses", {}).get("200", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return "items" in schema.get("properties", {})


def _build_queries(path: str, books: Books) -> list[str]:
    """Return what is added to a path: nothing, and for reports also all closed days."""
    if not path.startswith("reports/") or path.startswith(OF_NOW):
        return [""]
    return ["", f"{'&' if '?' in path else '?'}from={books.first}&to={books.last}"]


def _build_status(key: str) -> bytes:
    return encode_request("GET", "/api/remote/chats/1/status", key)


def _create_books(folder: str, lines: int) -> tuple[Books, str]:
    """Create a folder with so many requests and one chat; return the chat's API key, too."""
    maker = Maker(folder)
    assert maker.add_chat(3).id == 1
    books = Books(LargeGateway(maker.layout, MODELS, CHANNELS, KEYS), lines)
    books.fill()
    return books, maker.finish()

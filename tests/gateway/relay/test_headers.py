"""The headers that a supplier is sent, and the form of the list of models."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from agentd.llm.upstream.protocol import merge_headers
from tests.gateway.conftest import PRICES, GatewaySetup
from tests.gateway.relay.callers import RunningGateway, build_call, read_answer, running_gateway
from tests.gateway.relay.raw_supplier import RawSupplier, running_raw_supplier
from tests.support.daemon import Client, Reply

CHANNEL = {"anthropic-BETA": "of-the-channel", "X-Team": "seven"}


@pytest.fixture(scope="module")
def raw_supplier() -> Iterator[RawSupplier]:
    with running_raw_supplier() as made:
        yield made


@pytest.fixture(scope="module")
def gateway(
    tmp_path_factory: pytest.TempPathFactory, raw_supplier: RawSupplier
) -> Iterator[RunningGateway]:
    def prepare(setup: GatewaySetup) -> None:
        for name, more in (("plain", {}), ("own", {"headers": CHANNEL})):
            channel = setup.build_channel(name, "anthropic", **more)
            setup.channels.append(channel | {"url": raw_supplier.url})
            way = {"channel": name, "model": "scripted-large"}
            setup.models.append({"name": name, "routes": [way], "prices": PRICES})

    with running_gateway(tmp_path_factory.mktemp("gateway"), prepare) as made:
        yield made


def send_and_read_headers(
    gateway: RunningGateway, raw_supplier: RawSupplier, model: str, *lines: str
) -> list[tuple[str, str]]:
    """Return the headers that a supplier received, by their names in lower case."""
    caller = gateway.add_caller()
    path, body = build_call("anthropic", model)
    with caller.connect() as line:
        line.sendall(caller.build_request(path, body, *lines))
        read_answer(line, "anthropic")
    head = raw_supplier.heard[-1].partition(b"\r\n\r\n")[0].decode()
    pairs = [one.partition(": ") for one in head.split("\r\n")[1:]]
    return [(name.lower(), value) for name, _, value in pairs]


@pytest.mark.parametrize("name", ["anthropic-version", "Anthropic-Version", "ANTHROPIC-VERSION"])
def test_the_callers_version_is_the_only_one_that_goes_out(
    gateway: RunningGateway, raw_supplier: RawSupplier, name: str
) -> None:
    headers = send_and_read_headers(
        gateway, raw_supplier, "plain", f"{name}: 2099-01-01", "anthropic-beta: a,b"
    )
    assert [value for key, value in headers if key == "anthropic-version"] == ["2099-01-01"]
    assert [value for key, value in headers if key == "anthropic-beta"] == ["a,b"]


def test_a_channels_own_headers_come_last_however_they_are_spelt(
    gateway: RunningGateway, raw_supplier: RawSupplier
) -> None:
    headers = send_and_read_headers(gateway, raw_supplier, "own", "Anthropic-Beta: a,b")
    assert [value for key, value in headers if key == "anthropic-beta"] == ["of-the-channel"]
    assert ("x-team", "seven") in headers
    assert len(headers) == len(dict(headers))


def test_headers_are_merged_by_their_names_whatever_the_case() -> None:
    merged = merge_headers({"a": "1", "B": "2"}, {"A": "3"}, {"b": "4", "c": "5"})
    assert merged == {"a": "3", "b": "4", "c": "5"}


def list_models(gateway: RunningGateway, path: str, headers: dict[str, str]) -> Reply:
    client = Client(gateway.daemon.url, key=None)
    try:
        return client.get(path, headers)
    finally:
        client.close()


@pytest.mark.parametrize("where", ["header", "query"])
def test_googles_clients_are_informed_of_models_in_their_own_shape(
    gateway: RunningGateway, where: str
) -> None:
    key = gateway.add_caller().key
    query = f"?key={key}" if where == "query" else ""
    headers = {"x-goog-api-key": key} if where == "header" else {}
    found: dict[str, Any] = list_models(gateway, f"/v1/models{query}", headers).json()
    assert "models/plain" in [model["name"] for model in found["models"]]
    one = list_models(gateway, f"/v1/models/plain{query}", headers).json()
    assert one["name"] == "models/plain"
    assert one["supportedGenerationMethods"]


def test_others_are_reported_as_before(gateway: RunningGateway) -> None:
    key = gateway.add_caller().key
    plain = list_models(gateway, "/v1/models", {"Authorization": f"Bearer {key}"}).json()
    assert plain["object"] == "list"
    version = {"x-api-key": key, "anthropic-version": "2023-06-01"}
    assert "has_more" in list_models(gateway, "/v1/models", version).json()


FORMS: dict[str, tuple[dict[str, str], set[str], set[str]]] = {
    "anthropic": ({"anthropic-version": "2023-06-01"}, {"type", "error", "request_id"}, {"type"}),
    "gemini": ({"x-goog-api-key": ""}, {"error"}, {"code", "status"}),
    "openai": ({}, {"error"}, {"type", "param", "code"}),
}
"""What clients of each vendor send, and the fields of its errors."""


@pytest.mark.parametrize("vendor", FORMS)
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/models", 401),
        ("GET", "/v1/models/none", 404),
        ("DELETE", "/v1/models/plain", 405),
        ("GET", "/v1/batches", 404),
    ],
)
def test_errors_of_paths_that_vendors_share_are_in_the_dialect_of_the_caller(
    gateway: RunningGateway, vendor: str, method: str, path: str, status: int
) -> None:
    headers, outer, inner = FORMS[vendor]
    key = "wrong" if status == 401 else gateway.add_caller().key
    name = "x-goog-api-key" if vendor == "gemini" else "x-api-key"
    url = f"{gateway.daemon.url}{path}"
    reply = httpx.request(method, url, headers={**headers, name: key})
    assert reply.status_code == status
    body: dict[str, Any] = reply.json()
    assert set(body) == outer
    assert set(body["error"]) == inner | {"message"}


def test_a_key_in_the_query_tells_of_googles_clients_in_errors_too(gateway: RunningGateway) -> None:
    reply = httpx.get(f"{gateway.daemon.url}/v1/models?a=1&key=no")
    assert reply.json()["error"]["code"] == 401

"""The headers that a supplier is sent, and the form of the list of models."""

from collections.abc import Iterator
from typing import Any

import pytest

from agentd.llm.upstream.protocol import merge_headers
from tests.gateway.conftest import PRICES, House
from tests.gateway.relay.bare import Bare, running_bare_supplier
from tests.gateway.relay.callers import Standing, build_call, read_answer, running_gateway
from tests.support.daemon import Client, Reply

CHANNEL = {"anthropic-BETA": "of-the-channel", "X-Team": "seven"}


@pytest.fixture(scope="module")
def odd() -> Iterator[Bare]:
    with running_bare_supplier() as made:
        yield made


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, odd: Bare) -> Iterator[Standing]:
    def prepare(house: House) -> None:
        for name, more in (("plain", {}), ("own", {"headers": CHANNEL})):
            channel = house.build_channel(name, "anthropic", **more)
            house.channels.append(channel | {"url": odd.url})
            way = {"channel": name, "model": "scripted-large"}
            house.models.append({"name": name, "routes": [way], "prices": PRICES})

    with running_gateway(tmp_path_factory.mktemp("house"), prepare) as made:
        yield made


def send_and_read_headers(
    place: Standing, odd: Bare, model: str, *lines: str
) -> list[tuple[str, str]]:
    """Return the headers that a supplier received, by their names in lower case."""
    caller = place.add_caller()
    path, body = build_call("anthropic", model)
    with caller.connect() as line:
        line.sendall(caller.build_request(path, body, *lines))
        read_answer(line, "anthropic")
    head = odd.heard[-1].partition(b"\r\n\r\n")[0].decode()
    pairs = [one.partition(": ") for one in head.split("\r\n")[1:]]
    return [(name.lower(), value) for name, _, value in pairs]


@pytest.mark.parametrize("name", ["anthropic-version", "Anthropic-Version", "ANTHROPIC-VERSION"])
def test_the_callers_version_is_the_only_one_that_goes_out(
    place: Standing, odd: Bare, name: str
) -> None:
    headers = send_and_read_headers(
        place, odd, "plain", f"{name}: 2099-01-01", "anthropic-beta: a,b"
    )
    assert [value for key, value in headers if key == "anthropic-version"] == ["2099-01-01"]
    assert [value for key, value in headers if key == "anthropic-beta"] == ["a,b"]


def test_a_channels_own_headers_come_last_however_they_are_spelt(
    place: Standing, odd: Bare
) -> None:
    headers = send_and_read_headers(place, odd, "own", "Anthropic-Beta: a,b")
    assert [value for key, value in headers if key == "anthropic-beta"] == ["of-the-channel"]
    assert ("x-team", "seven") in headers
    assert len(headers) == len(dict(headers))


def test_headers_are_merged_by_their_names_whatever_the_case() -> None:
    merged = merge_headers({"a": "1", "B": "2"}, {"A": "3"}, {"b": "4", "c": "5"})
    assert merged == {"a": "3", "b": "4", "c": "5"}


def list_models(place: Standing, path: str, headers: dict[str, str]) -> Reply:
    client = Client(place.daemon.url, key=None)
    try:
        return client.get(path, headers)
    finally:
        client.close()


@pytest.mark.parametrize("where", ["header", "query"])
def test_googles_clients_are_informed_of_models_in_their_own_shape(
    place: Standing, where: str
) -> None:
    key = place.add_caller().key
    query = f"?key={key}" if where == "query" else ""
    headers = {"x-goog-api-key": key} if where == "header" else {}
    found: dict[str, Any] = list_models(place, f"/v1/models{query}", headers).json()
    assert "models/plain" in [model["name"] for model in found["models"]]
    one = list_models(place, f"/v1/models/plain{query}", headers).json()
    assert one["name"] == "models/plain"
    assert one["supportedGenerationMethods"]


def test_others_are_reported_as_before(place: Standing) -> None:
    key = place.add_caller().key
    plain = list_models(place, "/v1/models", {"Authorization": f"Bearer {key}"}).json()
    assert plain["object"] == "list"
    version = {"x-api-key": key, "anthropic-version": "2023-06-01"}
    assert "has_more" in list_models(place, "/v1/models", version).json()

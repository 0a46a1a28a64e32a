"""Which headers a supplier is sent, and in whose shape the list of models is told."""

from collections.abc import Iterator
from typing import Any

import pytest

from agentd.proxy.upstream import merged_headers
from tests.web.gateway.bare import Bare, bare
from tests.web.gateway.callers import Standing, asked, read, standing
from tests.web.gateway.conftest import PRICES, House
from tests.web.support import Client, Reply

CHANNEL = {"anthropic-BETA": "of-the-channel", "X-Team": "seven"}


@pytest.fixture(scope="module")
def odd() -> Iterator[Bare]:
    with bare() as made:
        yield made


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, odd: Bare) -> Iterator[Standing]:
    def prepare(house: House) -> None:
        for name, more in (("plain", {}), ("own", {"headers": CHANNEL})):
            channel = house.channel(name, "anthropic", **more)
            house.channels.append(channel | {"url": odd.url})
            way = {"channel": name, "model": "scripted-large"}
            house.models.append({"name": name, "ways": [way], "prices": PRICES})

    with standing(tmp_path_factory.mktemp("house"), prepare) as made:
        yield made


def sent(place: Standing, odd: Bare, model: str, *lines: str) -> list[tuple[str, str]]:
    """The headers that a supplier heard of this request, by their names in lower case."""
    caller = place.caller()
    path, body = asked("anthropic", model)
    with caller.connected() as line:
        line.sendall(caller.request(path, body, *lines))
        read(line, "anthropic")
    head = odd.heard[-1].partition(b"\r\n\r\n")[0].decode()
    pairs = [one.partition(": ") for one in head.split("\r\n")[1:]]
    return [(name.lower(), value) for name, _, value in pairs]


@pytest.mark.parametrize("name", ["anthropic-version", "Anthropic-Version", "ANTHROPIC-VERSION"])
def test_the_callers_version_is_the_only_one_that_goes_out(
    place: Standing, odd: Bare, name: str
) -> None:
    headers = sent(place, odd, "plain", f"{name}: 2099-01-01", "anthropic-beta: a,b")
    assert [value for key, value in headers if key == "anthropic-version"] == ["2099-01-01"]
    assert [value for key, value in headers if key == "anthropic-beta"] == ["a,b"]


def test_a_channels_own_headers_come_last_however_they_are_spelt(
    place: Standing, odd: Bare
) -> None:
    headers = sent(place, odd, "own", "Anthropic-Beta: a,b")
    assert [value for key, value in headers if key == "anthropic-beta"] == ["of-the-channel"]
    assert ("x-team", "seven") in headers
    assert len(headers) == len(dict(headers))


def test_headers_are_merged_by_their_names_whatever_the_case() -> None:
    merged = merged_headers({"a": "1", "B": "2"}, {"A": "3"}, {"b": "4", "c": "5"})
    assert merged == {"a": "3", "b": "4", "c": "5"}


def listed(place: Standing, path: str, headers: dict[str, str]) -> Reply:
    client = Client(place.daemon.url, key=None)
    try:
        return client.get(path, headers)
    finally:
        client.close()


@pytest.mark.parametrize("where", ["header", "query"])
def test_googles_clients_are_told_of_models_in_their_own_shape(place: Standing, where: str) -> None:
    key = place.caller().key
    query = f"?key={key}" if where == "query" else ""
    headers = {"x-goog-api-key": key} if where == "header" else {}
    found: dict[str, Any] = listed(place, f"/v1/models{query}", headers).json()
    assert "models/plain" in [model["name"] for model in found["models"]]
    one = listed(place, f"/v1/models/plain{query}", headers).json()
    assert one["name"] == "models/plain"
    assert one["supportedGenerationMethods"]


def test_others_are_told_as_before(place: Standing) -> None:
    key = place.caller().key
    plain = listed(place, "/v1/models", {"Authorization": f"Bearer {key}"}).json()
    assert plain["object"] == "list"
    version = {"x-api-key": key, "anthropic-version": "2023-06-01"}
    assert "has_more" in listed(place, "/v1/models", version).json()

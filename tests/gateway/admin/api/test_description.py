"""``GET /api/agent`` says what is so, and all of it (the proxy specification, section 4)."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.gateway.admin.api.described import Manager
from tests.gateway.admin.api.example_gateway import ExampleGateway, open_example_gateway
from tests.gateway.admin.api.following import Follower
from tests.gateway.admin.api.provoking import (
    GENERAL,
    provoke_bad_gateway,
    provoke_by_another_file,
    provoke_unreachable,
    provoke_unreadable,
    provoke_untold_balance,
    remove_channels,
    send_unchanged,
    unreadable_records,
)
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.gateway.conftest import SECRET, GatewaySetup
from tests.supplier.steps import Answer, Say, Tokens
from tests.support.daemon import Client, Serving


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExampleGateway]:
    """A gateway for all tests that change nothing in it."""
    with open_example_gateway(tmp_path_factory.mktemp("gateway")) as found:
        yield found


def get_description(client: Client) -> dict[str, Any]:
    """Get the description."""
    found: dict[str, Any] = client.get("/api/agent").json()
    return found


def test_the_recipe_runs_as_it_stands_and_again_and_leaves_nothing(
    setup: GatewaySetup, start_gateway: Callable[..., Serving]
) -> None:
    """Section 4: a script that knows only the address, the key and its supplier does it all.

    Also on a gateway that is in use: another key has spent more than the recipe's ever will.
    """
    setup.supplier.script(
        Answer((Say("Dear."),), Tokens(input=100_000, output=100_000)),
        *(Answer((Say("Hello."),), Tokens(input=1000, output=100)) for _ in range(2)),
    )
    daemon = start_gateway(environ={"PROXY_APP_HASH": HASH})
    key = setup.add_key()
    with openai.OpenAI(base_url=f"{daemon.url}/v1", api_key=key, max_retries=0) as client:
        client.chat.completions.create(
            model="by-chat", messages=[{"role": "user", "content": "A dear one."}]
        )
    with closing(Manager(daemon.url, MANAGEMENT_KEY)) as manager:
        before = list_names(manager)
        for number in (2, 3):
            follower = Follower(
                daemon.url,
                supplier_url=setup.supplier.url,
                supplier_key=SECRET,
                supplier_model="scripted-large",
                supplier_is_local=True,
            )
            steps = follower.follow()
            request = setup.supplier.requests[number - 1]
            assert request.headers["authorization"] == f"Bearer {SECRET}"
            assert request.body["model"] == "scripted-large"
            entry = setup.wait_for_records(number)[-1]
            assert (entry.model, str(entry.cost)) == (
                follower.values["model"],
                str(follower.values["cost"]),
            )
            assert list_names(manager) == before
    asked = {(step["method"], step["path"].partition("?")[0]) for step in steps}
    assert asked >= {
        ("POST", "/api/agent/keys"),
        ("POST", "/v1/chat/completions"),
        ("GET", "/v1/quota"),
        ("GET", "/api/agent/requests"),
        ("POST", "/api/agent/session"),
    }
    sessions = json.loads(Path(setup.layout.sessions).read_text())["sessions"]
    assert sessions == []


def list_names(manager: Client) -> list[Any]:
    """List the names of all resources that a recipe could leave behind."""
    lists = ("channels", "models", "keys")
    return [[one["name"] for one in manager.get(f"/api/agent/{name}")["items"]] for name in lists]


def test_every_address_of_the_surface_is_reported_and_no_other(gateway: ExampleGateway) -> None:
    """The proxy specification, section 4: the full list of addresses."""
    everything = gateway.daemon.client().get("/api/openapi.json").json()["paths"]
    there = {
        (method.upper(), path)
        for path, methods in everything.items()
        for method in methods
        if path.startswith("/api/agent")
    }
    description = get_description(gateway.manager)
    addresses = {(one["method"], one["path"]) for one in description["endpoints"]}
    recipe = description["recipe"]["steps"]
    beside = {(step["method"], step["path"].partition("?")[0]) for step in recipe}
    assert {one for one in addresses if one[1].startswith("/api/agent")} == there
    assert addresses - there <= beside
    ours = gateway.manager.get("/api/agent/openapi.json").json()["paths"]
    assert {(method.upper(), path) for path in ours for method in ours[path]} == addresses


def test_every_example_is_a_body_that_is_taken(gateway: ExampleGateway) -> None:
    for address in gateway.description.addresses.values():
        for body in address["body"]:
            assert "example" in body, (address["method"], address["path"])
            wrong = gateway.description.find_body_errors(address, body["example"])
            assert not wrong, (address["method"], address["path"], wrong)


def test_nothing_says_that_the_place_of_a_secret_can_be_written_from_here(
    gateway: ExampleGateway,
) -> None:
    description = gateway.description.told
    texts = [one["meaning"] for one in description["recipe"]["variables"]]
    texts += description["secrets"]
    for schema in description["schemas"].values():
        texts += [told.get("description", "") for told in schema.get("properties", {}).values()]
    assert all("in the file" in text.lower() for text in texts if "env:NAME" in text)


def test_every_field_says_what_it_means(gateway: ExampleGateway) -> None:
    silent = [
        f"{name}.{field}"
        for name, schema in gateway.description.told["schemas"].items()
        for field, told in schema.get("properties", {}).items()
        if not told.get("description") or "\n" in told["description"]
    ]
    silent += [
        f"{method} {path}: {parameter['name']}"
        for (method, path), address in gateway.description.addresses.items()
        for parameter in address["parameters"]
        if path.startswith("/api/agent") and parameter["in"] != "path"
        if not parameter["description"]
    ]
    assert not silent


def test_every_address_answers_as_it_is_reported(tmp_path: Any) -> None:
    """Section 4: status, fields and types, by the examples."""
    with open_example_gateway(tmp_path) as gateway:
        left = [
            one for key, one in gateway.description.addresses.items() if key not in gateway.walked
        ]
        gone = [one for one in left if one["method"] == "DELETE"]
        for address in (*(one for one in left if one not in gone), *gone[::-1]):
            gateway.send_good(address)
        assert gateway.walked >= set(gateway.description.addresses)


@pytest.fixture(scope="module")
def out_of_order(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[ExampleGateway, ExampleGateway]]:
    """Two places that are broken themselves."""
    with ExitStack() as stack:
        folders = (tmp_path_factory.mktemp("gateway") for _ in range(2))
        first, second = (stack.enter_context(open_example_gateway(folder)) for folder in folders)
        yield remove_channels(first), stack.enter_context(unreadable_records(second))


ONE_OF_A_FILE = {
    "/api/agent/alert-targets/{name}",
    "/api/agent/budgets/{name}",
    "/api/agent/channels/{name}",
    "/api/agent/keys/{id}",
    "/api/agent/management-keys/{name}",
    "/api/agent/models/{name}",
    "/api/agent/secret-rules/{id}",
}
LISTS_OF_FILES = {path.rpartition("/")[0] for path in ONE_OF_A_FILE}


def test_every_error_that_is_reported_can_be_provoked(
    gateway: ExampleGateway, out_of_order: tuple[ExampleGateway, ExampleGateway]
) -> None:
    """Sections 4 and 7; ``Disabled`` is provoked for each in ``test_kinds_of_keys``.

    Lists whose files are invalid are in ``test_unreadable_files``.
    """
    missed = []
    for (method, path), address in gateway.description.addresses.items():
        if not path.startswith("/api/agent"):
            continue
        told = {(one["status"], one["error"]) for one in address["errors"]}
        for status, error in told - {(503, "Disabled")}:
            if (method, error) == ("GET", "Unavailable") and path in LISTS_OF_FILES:
                continue
            attempts = [(gateway, GENERAL[error])]
            if error in ("Conflict", "Unavailable"):
                attempts += [(one, send_unchanged) for one in out_of_order]
            if (method, path) == ("GET", "/api/agent/channels/{name}/models"):
                attempts.append((gateway, provoke_unreachable))
            if (method, error) == ("GET", "Unavailable") and path in ONE_OF_A_FILE:
                attempts.append((gateway, provoke_unreadable))
            if path == "/api/agent/channels/{name}/balance":
                attempts.append((gateway, provoke_untold_balance))
            if path == "/api/agent/import/file":
                attempts.append((gateway, provoke_by_another_file))
            if path.endswith("/preview"):
                attempts.append((gateway, provoke_bad_gateway))
            replies = [reply for where, provoke in attempts for reply in provoke(where, address)]
            found = {(one.status, one["error"]) for one in replies if one.status >= 400}
            assert found <= told, (method, path, found)
            if (status, error) not in found:
                missed.append((method, path, error, found))
    assert not missed, "\n".join(map(str, missed))


def test_the_text_names_each_field_of_each_body(gateway: ExampleGateway) -> None:
    """The proxy specification, section 4: the full list of addresses with fields."""
    text = gateway.manager.get("/api/agent", {"Accept": "text/markdown"}).body.decode()
    schemas = gateway.description.told["schemas"]
    for address in gateway.description.told["endpoints"]:
        part = text.partition(f"### `{address['method']} {address['path']}`")[2].partition("###")[0]
        for body in address["body"]:
            named = body["schema"].get("$ref", "").rpartition("/")[2]
            for name in schemas.get(named, body["schema"]).get("properties", ()):
                assert f"  - `{name}` (" in part, (address["path"], name)


def test_it_is_reported_as_text_to_a_client_that_asks_for_text(gateway: ExampleGateway) -> None:
    for accept, kind in (
        ("text/markdown", "text/markdown"),
        ("text/plain, text/markdown;q=0.5", "text/plain"),
        ("application/json, text/markdown", "application/json"),
        ("*/*", "application/json"),
    ):
        reply = gateway.manager.get("/api/agent", {"Accept": accept})
        assert reply.headers["Content-Type"] == f"{kind}; charset=utf-8"
        text = reply.body.decode()
        for method, path in gateway.description.addresses:
            assert (f"`{method} {path}`" in text) is (kind != "application/json")
    for step in gateway.description.told["recipe"]["steps"]:
        assert (
            step["title"]
            in gateway.manager.get("/api/agent", {"Accept": "text/plain"}).body.decode()
        )

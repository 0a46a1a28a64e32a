"""The OpenAPI document is valid, complete, and what the running daemon does."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.auth.test_gate_matrix import EVERY
from tests.support.daemon import KEY, Client, Engine, Serving, until
from tests.support.schemathesis_run import EXAMPLES, run_schemathesis

ACCESS = ["access", "accessHeader", "accessGoogle", "accessAzure", "accessQuery"]
"""Headers in which clients of models send their key."""

MANAGEMENT = [{"management": []}, {"session": []}, {"bearer": []}]
"""The management key, or an administrator's login in a browser or of a program."""


OPERATIONS = Path(__file__).with_name("operations.txt")
"""The name, method and path of each operation."""


@pytest.fixture(scope="module")
def document(shared: Serving) -> Any:
    """The document as the daemon gives it."""
    return shared.client().get("/api/openapi.json").json()


def test_the_document_is_valid(document: Any) -> None:
    OpenAPIV31SpecValidator(document).validate()


def test_the_document_has_every_route_and_no_other(document: Any) -> None:
    described = {
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    }
    assert described == {(route.method, route.path) for route in EVERY}


def test_every_address_shows_its_door_and_its_errors(document: Any) -> None:
    """Specification 5.8 and 7."""
    for path, methods in document["paths"].items():
        for operation in methods.values():
            answers = set(operation["responses"])
            assert {"421", "500"} <= answers
            if path.startswith("/api/remote"):
                assert operation["security"] == [{"key": []}]
                assert {"401", "503"} <= answers
            if path.startswith("/api/agent"):
                assert operation["security"] == MANAGEMENT
                assert {"401", "503"} <= answers
            if path.startswith("/v1"):
                assert [name for way in operation["security"] for name in way] == ACCESS
                assert "401" in answers
            if "requestBody" in operation:
                assert {"400", "413"} <= answers
                assert "415" in answers or path.startswith("/v1")
            if "{" in path and not path.startswith("/api/deploy/st") and "restart" not in path:
                assert "404" in answers


def test_models_are_asked_in_json_and_answer_in_json_or_events(document: Any) -> None:
    replies = ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"]
    replies += ["/v1beta/models/{name}", "/v1/models/{name}"]
    for path, methods in document["paths"].items():
        if path.startswith("/v1") and "post" in methods:
            operation = methods["post"]
            assert list(operation["requestBody"]["content"]) == ["application/json"]
            kinds = ["application/json", "text/event-stream"][: 2 if path in replies else 1]
            assert list(operation["responses"]["200"]["content"]) == kinds
            overloaded = "529" if path.startswith("/v1/messages") else "503"
            unlicensed = "403" if "{name}" in path else "402"
            assert {overloaded, unlicensed, "429"} <= set(operation["responses"])


def iter_operations(document: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield the method, path and description of each operation."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def test_operations_are_called_by_a_verb_and_a_noun_of_their_own(document: Any) -> None:
    names = [operation["operationId"] for _, _, operation in iter_operations(document)]
    assert len(set(names)) == len(names)
    unclear = [
        name
        for name in names
        if not re.fullmatch("(manage_|remote_|gateway_)?[a-z]+(_[a-z0-9]+)+", name)
    ]
    assert not unclear


def test_operations_keep_their_names(document: Any) -> None:
    """Generated clients have functions of these names: an endpoint's may change, these may not."""
    names = {
        f"{one['operationId']} {method} {path}" for method, path, one in iter_operations(document)
    }
    assert sorted(names) == OPERATIONS.read_text().splitlines()


def iter_texts(value: Any) -> Iterator[str]:
    """Yield every summary and description within a part of the document."""
    if isinstance(value, list):
        for item in value:
            yield from iter_texts(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name in ("summary", "description") and isinstance(item, str):
                yield item
            else:
                yield from iter_texts(item)


def test_descriptions_are_complete_without_our_specifications(document: Any) -> None:
    """A reader of the document has neither our specifications nor our code at hand."""
    texts = list(iter_texts(document))
    assert len(texts) > 1000
    pattern = r"specification|\b[Ss]ection \d|\brule \d|\.py\b"
    assert [text for text in texts if re.search(pattern, text)] == []


def test_operations_are_grouped_by_subjects_that_are_described(document: Any) -> None:
    described = {tag["name"] for tag in document["tags"] if tag["description"]}
    used = [tag for _, _, operation in iter_operations(document) for tag in operation["tags"]]
    assert set(used) == described
    assert len(used) == len(list(iter_operations(document)))


def test_answers_show_their_media_type(document: Any) -> None:
    for method, path, operation in iter_operations(document):
        for status, answer in operation["responses"].items():
            assert all("*" not in kind for kind in answer.get("content", {}))
            if status != "204":
                assert answer["content"], (method, path, status)


def test_schemas_have_titles_of_their_own(document: Any) -> None:
    for name, schema in document["components"]["schemas"].items():
        assert schema["title"] == name
        assert re.fullmatch("[A-Z][A-Za-z]+", name), name


def test_no_field_has_a_default_that_generators_take_for_required(document: Any) -> None:
    """openapi-typescript makes a field with a default required, whatever ``required`` says."""
    for name, schema in document["components"]["schemas"].items():
        for field, result in schema.get("properties", {}).items():
            assert "default" not in result, (name, field)
    wish = document["components"]["schemas"]["CreateChat"]
    assert "required" not in wish or wish["required"] == []
    answer = document["components"]["schemas"]["StatusView"]
    assert set(answer["required"]) == set(answer["properties"])


def test_moments_are_date_times(document: Any) -> None:
    for name, schema in document["components"]["schemas"].items():
        for field, result in schema.get("properties", {}).items():
            if re.search("(At|Until|deadline)$", field) and '"string"' in json.dumps(result):
                assert "date-time" in json.dumps(result), (name, field)


def test_who_can_name_a_version_is_told_which_response_has_it(document: Any) -> None:
    """``If-Match`` takes an ``ETag``: of the same operation, or of a ``GET`` of it or above it."""
    tagged = {
        (method, path)
        for method, path, one in iter_operations(document)
        for answer in one["responses"].values()
        if "ETag" in answer.get("headers", {})
    }
    for method, path, operation in iter_operations(document):
        if "If-Match" in [one["name"] for one in operation.get("parameters", ())]:
            parts = path.split("/")
            above = {("GET", "/".join(parts[:end])) for end in range(2, len(parts) + 1)}
            assert tagged & {(method, path), *above}, (method, path)


@pytest.mark.parametrize("path", ["/api/remote/chats/{chatId}/queue", "/api/MessageQueue/{chatId}"])
def test_the_version_of_a_queue_is_where_the_document_says(
    document: Any, caller: Client, path: str
) -> None:
    reply = caller.get(path.format(chatId=caller.create_chat()))
    assert "ETag" in reply.headers
    assert "ETag" in document["paths"][path]["get"]["responses"]["200"]["headers"]


def test_the_document_holds_no_secret_and_no_place(document: Any, shared: Serving) -> None:
    text = str(document)
    for secret in (KEY, shared.settings.agent_api_key, shared.layout.state):
        assert secret not in text


def test_the_daemon_does_what_the_document_says(
    daemon: Serving, engine: Engine, tmp_path: Path
) -> None:
    ours = "^/(api/(?!agent)|healthz|metrics)"
    run_schemathesis(daemon, tmp_path, f"X-API-Key: {KEY}", ours, "/api/openapi.json")
    until(lambda: len(engine.given) > EXAMPLES)

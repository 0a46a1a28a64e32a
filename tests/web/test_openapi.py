"""The OpenAPI document is valid, complete, and what the running daemon does."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.supplier.conftest import supplier
from tests.supplier.steps import Say
from tests.web.gateway.conftest import House, house, up
from tests.web.manage.conftest import HASH, MANAGEMENT_KEY
from tests.web.support import KEY, Engine, Serving
from tests.web.test_gate_matrix import EVERY

__all__ = ["house", "supplier", "up"]

EXAMPLES = 12
"""Requests by chance per address, beside those that the document's limits suggest."""

ACCESS = ["access", "accessHeader", "accessGoogle", "accessAzure", "accessQuery"]
"""Where clients of models put their key."""

CONFIG = """
[generation]
# Keys by chance beside the good one: of two that differ none is good.
with-security-parameters = false
[checks]
# A prompt may be sent between being added and being looked for.
ensure_resource_availability.enabled = false
# 413 is how a text longer than maxLength is refused.
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 409, 412, 413, 415]
[[operations]]
# These answer without end, or to those who negotiated.
include-path-regex = "^/(liveChatHub|api/events)"
enabled = false
[[operations]]
# It would change the daemon that is being tried.
include-path = "/api/settings/set"
enabled = false
[[operations]]
# Models, skills and chats that are not there.
include-path-regex = "^/api/(models|skills)"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 404]
[[operations]]
# A skill that nobody has; an Idempotency-Key that was used.
include-path = "/api/remote/chats"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 409]
[[operations]]
# Another version, and ids of prompts that are not in the queue or come twice.
include-operation-id = "replace"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 404, 412]
[[operations]]
# A label that nobody has.
include-operation-id = "label_chat"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 404]
[[operations]]
# What contradicts itself, though each part is as described; whole numbers written as 1.0.
include-path-regex = "^/api/(analytics|chat/.*/messages|MessageQueue|chat-labels)"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 404, 409]
[[operations]]
# A name without a password, a code beside it, no login to end.
include-path = "/api/session"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 401, 404]
[[operations]]
# Bytes that are no sound.
include-path-regex = "^/api/speechrecognition"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 404, 415]
[[operations]]
# Paths and commits that are none, wishes that contradict themselves, forms without a file.
include-path-regex = "^/api/(git|files)"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 403, 404, 409, 413, 415]
[[operations]]
# Names that nobody has or somebody has, ETags of other versions, what contradicts itself.
include-path-regex = "^/api/agent"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 404, 409, 412]
[[operations]]
# Streams without alt=sse, and what only the vendors' references forbid.
include-path-regex = "^/v1"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 404]
# What a supplier of the same dialect is to judge is passed on as it came.
checks.negative_data_rejection.expected-statuses = ["2xx", 400, 401, 404, 405, 413]
"""


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


def test_every_address_tells_its_door_and_its_errors(document: Any) -> None:
    """Specification 5.8 and 7."""
    for path, methods in document["paths"].items():
        for operation in methods.values():
            answers = set(operation["responses"])
            assert {"421", "500"} <= answers
            if path.startswith("/api/remote"):
                assert operation["security"] == [{"key": []}]
                assert {"401", "503"} <= answers
            if path.startswith("/api/agent"):
                assert operation["security"] == [{"management": []}]
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
    replies = ["/v1/chat/completions", "/v1/responses", "/v1/messages"]
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


def test_operations_have_names_of_their_own(document: Any) -> None:
    names = [one["operationId"] for path in document["paths"].values() for one in path.values()]
    assert len(set(names)) == len(names)


def test_the_document_holds_no_secret_and_no_place(document: Any, shared: Serving) -> None:
    text = str(document)
    for secret in (KEY, shared.settings.agent_api_key, shared.layout.state):
        assert secret not in text


def tried(daemon: Serving, folder: Path, header: str, place: str, document: str) -> str:
    """Schemathesis tries each address of a place with good and bad input, and finds nothing."""
    config = folder / "schemathesis.toml"
    config.write_text(CONFIG)
    program = [sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()"]
    options = ["--header", header, "--max-examples", str(EXAMPLES), "--include-path-regex", place]
    options += ["--generation-deterministic", "--no-color"]
    options += ["--suppress-health-check", "filter_too_much"]
    done = subprocess.run(
        [*program, "--config-file", str(config), "run", f"{daemon.url}{document}", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2000:]
    left_out = ("/liveChatHub", "/api/events", "/api/settings/set")
    paths = [route.path for route in EVERY if not route.path.startswith(left_out)]
    here = sum(bool(re.search(place, path)) for path in paths)
    assert f" {here} selected" in done.stdout, done.stdout[-3000:]
    numbers = daemon.client().get("/metrics").body.decode()
    assert 'status="500"' not in numbers
    return numbers


def test_the_daemon_does_what_the_document_says(
    daemon: Serving, engine: Engine, tmp_path: Path
) -> None:
    ours = "^/(api/(?!agent)|healthz|metrics)"
    tried(daemon, tmp_path, f"X-API-Key: {KEY}", ours, "/api/openapi.json")
    assert len(engine.given) > 10


def test_the_gateway_does_what_the_document_says(
    house: House, up: Callable[..., Serving], tmp_path: Path
) -> None:
    key = house.key()
    house.models[0]["name"] = "small"  # as the examples have it
    house.supplier.always(Say("hello"))
    tried(up(), tmp_path, f"Authorization: Bearer {key}", "^/v1", "/api/openapi.json")
    assert {entry.endpoint for entry in house.booked() if entry.status == 200} >= {
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1/messages/count_tokens",
    }


def test_the_management_does_what_its_document_says(
    house: House, up: Callable[..., Serving], tmp_path: Path
) -> None:
    daemon, header = up(environ={"PROXY_APP_HASH": HASH}), f"X-API-Key: {MANAGEMENT_KEY}"
    numbers = tried(daemon, tmp_path, header, "^/api/agent", "/api/agent/openapi.json")
    assert 'status="201"' in numbers

"""The OpenAPI document is valid, complete, and what the running daemon does."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.web.support import KEY, Client, Engine, Serving
from tests.web.test_gate_matrix import EVERY

EXAMPLES = 12
"""Requests by chance per address, beside those that the document's limits suggest."""

CONFIG = """
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
# Bytes that are no sound.
include-path-regex = "^/api/speechrecognition"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 404, 415]
[[operations]]
# Paths and commits that are none, wishes that contradict themselves, forms without a file.
include-path-regex = "^/api/(git|files)"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 403, 404, 409, 413, 415]
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
            if "requestBody" in operation:
                assert {"400", "413", "415"} <= answers
            if "{" in path and not path.startswith("/api/deploy/st") and "restart" not in path:
                assert "404" in answers


def test_operations_have_names_of_their_own(document: Any) -> None:
    names = [one["operationId"] for path in document["paths"].values() for one in path.values()]
    assert len(set(names)) == len(names)


def test_the_document_holds_no_secret_and_no_place(document: Any, shared: Serving) -> None:
    text = str(document)
    for secret in (KEY, shared.settings.agent_api_key, shared.layout.state):
        assert secret not in text


def test_the_daemon_does_what_the_document_says(
    client: Client, daemon: Serving, engine: Engine, tmp_path: Path
) -> None:
    """Schemathesis tries each address with good and bad input: no check fails, nothing is 500."""
    config = tmp_path / "schemathesis.toml"
    config.write_text(CONFIG)
    program = [sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()"]
    options = ["--header", f"X-API-Key: {KEY}", "--max-examples", str(EXAMPLES)]
    options += ["--generation-deterministic", "--no-color"]
    done = subprocess.run(
        [*program, "--config-file", str(config), "run", f"{daemon.url}/api/openapi.json", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2000:]
    left_out = ("/liveChatHub", "/api/events", "/api/settings/set", "/api/openapi.json")
    tried = sum(not route.path.startswith(left_out) for route in EVERY)
    assert f" {tried} selected" in done.stdout, done.stdout[-3000:]
    assert len(engine.given) > 10
    assert 'status="500"' not in client.get("/metrics").body.decode()

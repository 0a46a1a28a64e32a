"""The model gateway does what the OpenAPI document says."""

from collections.abc import Callable
from pathlib import Path

from tests.gateway.conftest import GatewaySetup
from tests.gateway.relay.callers import Caller
from tests.supplier.steps import Refuse, Say
from tests.support.daemon import Serving
from tests.support.schemathesis_run import run_schemathesis


def test_the_gateway_does_what_the_document_says(
    setup: GatewaySetup, start_gateway: Callable[..., Serving], tmp_path: Path
) -> None:
    key = setup.add_key()
    setup.models[0]["name"] = "small"  # as the examples have it
    setup.supplier.answer_always(Say("hello"))
    run_schemathesis(
        start_gateway(), tmp_path, f"Authorization: Bearer {key}", "^/v1", "/api/openapi.json"
    )
    assert {entry.endpoint for entry in setup.read_records() if entry.status == 200} >= {
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1/messages/count_tokens",
    }


def test_the_headers_of_an_answer_are_described(
    setup: GatewaySetup, start_gateway: Callable[..., Serving]
) -> None:
    key = setup.add_key()
    setup.models.append({**setup.models[0], "name": "falls", "fallbacks": ["by-chat"]})
    setup.supplier.script(Refuse(404, "No such model"), Say("hello"))
    daemon = start_gateway()
    caller = Caller(daemon.port, key)
    body = {"model": "falls", "input": "hello", "tools": [{"type": "web_search"}]}
    result = caller.ask("openai-responses", "falls", body=body)
    assert result.status == 200
    document = daemon.client().get("/api/openapi.json").json()
    described = document["paths"]["/v1/responses"]["post"]["responses"]["200"]["headers"]
    sent = {name.lower() for name in result.headers if name.lower().startswith("x-agentd-")}
    assert sent == set(described)
    assert result.headers["x-agentd-dropped"] == "web_search"

"""The model gateway does what the OpenAPI document says."""

from collections.abc import Callable
from pathlib import Path

from tests.supplier.steps import Say
from tests.web.gateway.callers import Caller
from tests.web.gateway.conftest import House
from tests.web.support import Serving
from tests.web.trying import tried


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


def test_the_headers_of_an_answer_are_described(house: House, up: Callable[..., Serving]) -> None:
    key = house.key()
    house.supplier.always(Say("hello"))
    daemon = up()
    caller = Caller(daemon.port, key)
    body = {"model": "by-chat", "input": "hello", "tools": [{"type": "web_search"}]}
    told = caller.ask("openai-responses", "by-chat", body=body)
    document = daemon.client().get("/api/openapi.json").json()
    described = document["paths"]["/v1/responses"]["post"]["responses"]["200"]["headers"]
    sent = {name.lower() for name in told.headers if name.lower().startswith("x-agentd-")}
    assert sent == set(described)
    assert told.headers["x-agentd-dropped"] == "web_search"

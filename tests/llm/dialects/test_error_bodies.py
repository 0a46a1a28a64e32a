"""Each kind of error in the words of each dialect."""

import json
from typing import get_args

import pytest

from agentd.core import sse
from agentd.llm.conversation import ErrorKind
from agentd.llm.dialects.caller import GatewayErrorKind
from agentd.llm.dialects.error_bodies import render_error, render_error_event
from agentd.llm.dialects.supplier_errors import parse_error, parse_error_response
from agentd.llm.endpoint import ChannelDialect

KINDS = [kind for part in get_args(GatewayErrorKind) for kind in get_args(part) or [part]]
DIALECTS = get_args(ChannelDialect)
ANTHROPIC_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
AT_THE_DOOR = {"method": 405, "misdirected": 421}
"""What never reached an endpoint of Anthropic's; HTTP has statuses for it."""

OPENAI_TYPES = {
    "invalid_request_error",
    "authentication_error",
    "permission_error",
    "not_found_error",
    "rate_limit_error",
    "insufficient_quota",
    "server_error",
}


def render(dialect, kind, message="Because"):
    status, body = render_error(dialect, kind, message, "req-1")
    return status, json.loads(body)


@pytest.mark.parametrize("kind", KINDS)
def test_openai_has_the_words_that_its_clients_know(kind):
    for dialect in ("openai-chat", "openai-responses"):
        status, body = render(dialect, kind)
        assert list(body) == ["error"]
        assert set(body["error"]) == {"message", "type", "param", "code"}
        assert body["error"]["type"] in OPENAI_TYPES
        assert 400 <= status < 600


def test_a_spent_limit_that_resets_is_one_that_codex_knows_and_stays_the_same_for_others():
    """Codex tells when it resets by the type and the time; other clients act upon the code."""
    for dialect in DIALECTS:
        status, body = render_error(dialect, "limit", "Because", "req-1", resets_at=1_900_000_000)
        usual = render(dialect, "limit")
        changed = {"type": "usage_limit_reached", "resets_at": 1_900_000_000}
        if dialect == "openai-responses":
            usual[1]["error"] |= changed
        assert (status, json.loads(body)) == usual
        assert parse_error_response(status, {}, body).kind in ("quota", "rate_limit")
    other = render_error("openai-responses", "rate_limit", "Because", "req-1", resets_at=1)
    assert other == render_error("openai-responses", "rate_limit", "Because", "req-1")


@pytest.mark.parametrize("kind", KINDS)
def test_anthropic_has_a_status_for_each_type(kind):
    status, body = render("anthropic", kind)
    assert body["type"] == "error"
    assert body["request_id"] == "req-1"
    assert "Because" in body["error"]["message"]
    assert status == AT_THE_DOOR.get(kind, ANTHROPIC_STATUSES[body["error"]["type"]])


@pytest.mark.parametrize("kind", KINDS)
def test_gemini_shows_the_status_in_the_body_too(kind):
    status, body = render("gemini", kind)
    assert body["error"]["code"] == status
    assert body["error"]["message"] == "Because"
    assert body["error"]["status"].isupper()


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("kind", "statuses"),
    [
        ("limit", {429}),
        ("no_licence", {402, 403}),
        ("too_large", {413}),
        ("timeout", {504}),
        ("unavailable", {503, 529}),
    ],
)
def test_what_only_a_gateway_says_has_its_status(dialect, kind, statuses):
    assert render(dialect, kind)[0] in statuses


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", get_args(ErrorKind))
def test_another_agentd_reads_the_kind_that_was_meant(dialect, kind):
    status, body = render_error(dialect, kind, "Because", "req-1")
    understood = parse_error_response(status, {}, body).kind
    same = dict.fromkeys(("garbled", "unusable_reply", "broken"), "server")
    if dialect == "gemini":
        same |= {"quota": "rate_limit", "context_too_long": "invalid_request"}
    if dialect in ("gemini", "anthropic"):  # which have only the message to tell it by
        same["content_refused"] = "invalid_request"
    assert understood == same.get(kind, kind)


def test_claude_code_is_reported_in_its_words_that_the_conversation_is_too_long():
    body = render("anthropic", "context_too_long", "maximum context length is 8192 tokens")[1]
    assert body["error"]["message"].startswith("prompt is too long: maximum context")
    body = render("anthropic", "context_too_long", "prompt is too long: 9 > 8")[1]
    assert body["error"]["message"] == "prompt is too long: 9 > 8"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("message", ["Because", "a\r\nb\n\ndata: [DONE]\n\n", "\u2028Ω"])
def test_a_broken_stream_ends_with_one_error_event_and_no_terminator(dialect, message):
    stream = render_error_event(dialect, "overloaded", message, "req-1", 7)
    (received,) = sse.SseReader().feed(stream)
    body = json.loads(received.data)
    assert parse_error(body).kind == "overloaded"
    assert message == body.get("error", body)["message"]
    match dialect:
        case "anthropic":
            assert (received.name, body["type"]) == ("error", "error")
        case "openai-responses":
            assert (received.name, body["type"]) == ("error", "error")
            assert (body["sequence_number"], body["param"]) == (7, None)
        case _:
            assert received.name == "message"

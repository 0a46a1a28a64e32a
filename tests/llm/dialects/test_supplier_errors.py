"""Each error has one name, whatever a supplier calls it."""

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.llm.dialects.supplier_errors import parse_error, parse_error_response


def make_openai(message="It failed", **more):
    return {"error": {"message": message, "param": None, **more}}


def make_anthropic(kind, message="It failed"):
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "r"}


def make_google(code, status, message, *details):
    kinds = {"retryDelay": "RetryInfo", "reason": "ErrorInfo", "violations": "QuotaFailure"}
    described = [
        {"@type": f"type.googleapis.com/google.rpc.{kinds[next(iter(one))]}", **one}
        for one in details
    ]
    return {"error": {"code": code, "message": message, "status": status, "details": described}}


LIMITED = (
    "You exceeded your current quota, please check your plan and billing details. For more"
    " information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits. \n"
    "* Quota exceeded for metric: generativelanguage.googleapis.com/"
    "generate_content_free_tier_requests, limit: 20, model: gemini-flash\n"
    "Please retry in 36.429760048s."
)
"""What Google says of any limit, also of that for a minute."""
VIOLATION = {"violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]}
LIMIT = make_google(429, "RESOURCE_EXHAUSTED", LIMITED, VIOLATION, {"retryDelay": "36s"})
NO_KEY = make_google(
    400,
    "INVALID_ARGUMENT",
    "API key not valid. Please pass a valid API key.",
    {"reason": "API_KEY_INVALID", "domain": "googleapis.com"},
)


def make_openrouter(raw, code=400):
    metadata = {"raw": raw, "provider_name": "Anthropic"}
    return {"error": {"message": "Provider returned error", "code": code, "metadata": metadata}}


TOO_LONG = make_anthropic("invalid_request_error", "prompt is too long: 209353 tokens > 200000")


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, make_openai(type="invalid_request_error", code="invalid_api_key"), "authentication"),
        (403, make_openai(type="permission_error"), "permission"),
        (404, make_openai(type="invalid_request_error", code="model_not_found"), "not_found"),
        (400, make_openai(type="invalid_request_error", code=None), "invalid_request"),
        (401, make_openai(type="invalid_request_error", code=None), "authentication"),
        (400, make_openai(code="context_length_exceeded"), "context_too_long"),
        (400, make_openai("This model's maximum context length is 8192 tokens"),
            "context_too_long"),
        (400, {"code": "Client specified an invalid argument", "error": "This model's maximum"
            " prompt length is 131072 but the request contains 136973 tokens."},
            "context_too_long"),  # xAI
        (400, make_openai("Invalid request: Your request exceeded model token limit: 262144",
            type="invalid_request_error"), "context_too_long"),  # Kimi
        (400, make_openai("Range of input length should be [1, 98304]",
            code="invalid_parameter_error"), "context_too_long"),  # Qwen
        (400, make_openai("Input length 877338 exceeds the maximum allowed input length of 639968"
            " tokens", code="400"), "context_too_long"),  # GLM, Poolside
        (400, make_openai("prompt token count of 131394 exceeds the limit of 128000",
            code="model_max_prompt_tokens_exceeded"), "context_too_long"),  # GitHub
        (400, make_openai("Prompt exceeds max length", code="1261"), "context_too_long"),  # z.ai
        (400, make_openrouter(TOO_LONG), "context_too_long"),
        (400, make_openrouter(json.dumps(TOO_LONG)), "context_too_long"),
        (200, make_openrouter(json.dumps(TOO_LONG)), "context_too_long"),
        (400, make_openrouter("Input is too long for requested model."), "context_too_long"),
        (400, make_openrouter("temperature: no"), "invalid_request"),
        (429, make_openrouter(json.dumps(make_anthropic("authentication_error")), 429),
            "rate_limit"),
        (400, make_openai("Failed to call a function. Please adjust your prompt.",
            type="invalid_request_error", code="tool_use_failed"), "unusable_reply"),  # Groq
        (400, make_google(400, "FAILED_PRECONDITION",
            "User location is not supported for the API use."), "permission"),
        (400, make_google(400, "FAILED_PRECONDITION", "The File files/1 is not in an ACTIVE state"),
            "invalid_request"),
        (400, make_openai("Please reduce the length of the messages or completion.",
            type="invalid_request_error"), "context_too_long"),  # Groq
        (429, make_openai("Request too large for gpt-5 in organization org-1 on tokens per min"
            " (TPM): Limit 30000, Requested 36055. The input or output tokens must be reduced in"
            " order to run successfully.", type="tokens", code="rate_limit_exceeded"),
            "context_too_long"),
        (413, make_openai("Request too large for model `llama` in organization `org_1` service"
            " tier `on_demand` on tokens per minute (TPM): Limit 12000, Requested 15743, please"
            " reduce your message size and try again.", type="tokens", code="rate_limit_exceeded"),
            "context_too_long"),
        (429, make_openai("Rate limit reached for gpt-5 in organization org-1 on tokens per min"
            " (TPM): Limit 30000, Used 28554, Requested 3082. Please try again in 3.2s.",
            type="tokens", code="rate_limit_exceeded"), "rate_limit"),
        (429, {"message": "Too many tokens, please wait before trying again."}, "rate_limit"),
        (400, make_openai("Not this", type=None, code="content_filter"), "content_refused"),
        (400, make_openai("Not this", code="content_policy_violation"), "content_refused"),
        (400, make_openai("Not this", type="content_filter"), "content_refused"),
        (400, make_openai("Your prompt was flagged as potentially violating our usage policy.",
            type="invalid_request_error", code="invalid_prompt"), "content_refused"),
        (400, make_openai("Content Exists Risk", type="invalid_request_error"), "content_refused"),
        (400, make_openai(type="invalid_request_error", code="data_inspection_failed"),
            "content_refused"),
        (400, make_anthropic("invalid_request_error", "Output blocked by content filtering policy"),
            "content_refused"),
        (500, make_openai("It cannot be known whether the content filtering policy applies"),
            "server"),
        (429, make_openai(type="tokens", code="rate_limit_exceeded"), "rate_limit"),
        (429, make_openai(type="insufficient_quota", code="insufficient_quota"), "quota"),
        (500, make_openai(type="server_error"), "server"),
        (503, make_openai(type="server_error", code="slow_down"), "overloaded"),
        (200, make_openai(code=502), "server"),
        (200, make_openai(code="429"), "rate_limit"),
        (400, make_anthropic("invalid_request_error"), "invalid_request"),
        (400, make_anthropic("invalid_request_error", "prompt is too long: 9 > 8"),
            "context_too_long"),
        (400, make_anthropic("invalid_request_error", "Your credit balance is too low"), "quota"),
        (401, make_anthropic("authentication_error"), "authentication"),
        (402, make_anthropic("billing_error"), "quota"),
        (403, make_anthropic("permission_error"), "permission"),
        (404, make_anthropic("not_found_error"), "not_found"),
        (413, make_anthropic("request_too_large"), "context_too_long"),
        (429, make_anthropic("rate_limit_error"), "rate_limit"),
        (500, make_anthropic("api_error"), "server"),
        (504, make_anthropic("timeout_error"), "server"),
        (529, make_anthropic("overloaded_error"), "overloaded"),
        (429, {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}, "rate_limit"),
        (429, LIMIT, "rate_limit"),
        (429, [LIMIT], "rate_limit"),
        (200, LIMIT, "rate_limit"),
        (429, make_google(429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted."),
            "quota"),
        (429, make_openai("You exceeded your current quota, please check your plan"), "quota"),
        (400, make_anthropic("invalid_request_error", "You have reached your specified API usage"
            " limits. You will regain access on 2026-04-01 at 00:00 UTC."), "quota"),
        (403, make_openai("Your account org-1 <ak-1> is not active, organization <org-1> exceeded"
            " current quota, please check your plan", type="exceeded_current_quota_error"),
            "quota"),  # Kimi
        (400, NO_KEY, "authentication"),
        (400, [NO_KEY], "authentication"),
        (400, {"code": "Client specified an invalid argument",
            "error": "Incorrect API key provided: na***ys. You can obtain one from https://x.ai."},
            "authentication"),
        (400, make_openai("Invalid value: 'incorrect API key provided'. Supported values are: 'a'",
            type="invalid_request_error"), "invalid_request"),
        (400, [{"error": {"code": 400, "status": "INVALID_ARGUMENT"}}], "invalid_request"),
        (404, {"error": "model 'x' not found, try pulling it first"}, "not_found"),
        (422, {"detail": [{"msg": "extra"}]}, "invalid_request"),
        (402, {"error": {"message": "Insufficient Balance", "type": "unknown_error"}}, "quota"),
        (401, {"message": "Unauthorized"}, "authentication"),
        (302, {}, "server"),
        (408, {}, "server"),
        (599, {}, "server"),
    ],
)  # fmt: skip
def test_every_error_has_its_kind(status, body, kind):
    found = parse_error_response(status, {}, json.dumps(body).encode())
    assert found.kind == kind
    assert found.message


@pytest.mark.parametrize(
    "echoed",
    [
        "Your credit balance is too low: Extra inputs are not permitted",
        "You have reached your specified API usage limits. 1: Extra inputs are not permitted",
        "Incorrect API key provided: no.: Extra inputs are not permitted",
        "response_format.type: Input should be 'text', not 'insufficient balance'",
        "Invalid value: 'credit balance'. Supported values are: 'auto' and 'none'.",
        "Invalid value: 'You exceeded your current quota'.",
    ],
)
def test_no_caller_can_have_a_supplier_say_that_our_account_is_not_taken(echoed):
    """The channel would be given up for everybody: a refusal has words of the request in it."""
    for body in (
        make_openai(echoed, type="invalid_request_error"),
        make_anthropic("invalid_request_error", echoed),
        {"detail": [{"loc": [echoed.partition(": ")[0]], "msg": "Extra inputs are not permitted"}]},
        make_openrouter(json.dumps(make_anthropic("invalid_request_error", echoed))),
        make_openrouter("Your credit balance is too low"),
    ):
        assert parse_error_response(400, {}, json.dumps(body).encode()).kind == "invalid_request"


def test_an_account_behind_openrouter_is_not_ours():
    body = make_openrouter(json.dumps(make_openai("Insufficient balance")), 429)
    assert parse_error_response(429, {}, json.dumps(body).encode()).kind == "rate_limit"


def test_a_field_whose_place_is_nested_as_deep_as_can_be_read_breaks_nothing():
    limit = sys.getrecursionlimit()
    for depth in range(1, limit):
        nested = "[" * depth + "]" * depth
        body = f'{{"detail": [{{"loc": ["body", {nested}], "msg": "No"}}]}}'.encode()
        assert parse_error_response(400, {}, body).kind == "invalid_request"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"message": " It\\n failed "}}', "It failed"),
        (b'{"error": "Not here"}', "Not here"),
        (
            b'{"object": "error", "message": {"detail": [{"type": "extra_forbidden", "loc":'
            b' ["body", "seed"], "msg": "Extra inputs are not permitted"}, {"msg": "No"}]}}',
            "body.seed: Extra inputs are not permitted; No",
        ),
        (
            b'{"detail": [{"loc": ["body", "messages", 0], "msg": "Field required"}, 7, {}]}',
            "body.messages.0: Field required",
        ),
        (b'{"detail": "Not allowed"}', "Not allowed"),
        (
            b'{"error": {"message": "Provider returned error", "metadata": {"raw":'
            b' "{\\"error\\": {\\"message\\": \\"Not here\\"}}"}}}',
            "Provider returned error Not here",
        ),
        (
            b'{"error": {"message": "Provider returned error", "metadata": {"raw": " Not\\nso "}}}',
            "Provider returned error Not so",
        ),
        (b'{"error": {"message": "No", "metadata": {"raw": 7}}}', "No"),
        (b'{"error": {"message": "No", "metadata": {"provider_name": null}}}', "No"),
        (b"upstream connect error", "upstream connect error"),
        (b"<html><h1>502</h1></html>", "The supplier gave no reason (HTTP 502)"),
        (b"", "The supplier gave no reason (HTTP 502)"),
        (b'{"error": {"type": "api_error"}}', "The supplier gave no reason (api_error)"),
    ],
)
def test_the_message_is_the_suppliers_own(body, message):
    assert parse_error_response(502, {}, body).message == message


def test_a_long_message_is_cut():
    assert len(parse_error_response(500, {}, b"x " * 10_000).message) == 600


@pytest.mark.parametrize(
    ("headers", "message", "seconds"),
    [
        ({"retry-after": "7"}, "", 7),
        ({"retry-after": "0.5"}, "", 0.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, "", 0.25),
        (
            {
                "retry-after": "Sat, 21 Nov 2026 10:01:00 GMT",
                "date": "Sat, 21 Nov 2026 10:00:00 GMT",
            },
            "",
            60,
        ),
        (
            {
                "retry-after": "Sat, 21 Nov 2026 09:00:00 GMT",
                "date": "Sat, 21 Nov 2026 10:00:00 GMT",
            },
            "",
            0,
        ),
        ({}, "Rate limit reached. Please try again in 1.5s. Visit", 1.5),
        ({}, "Please try again in 6m0s.", 360),
        ({}, "Please try again in 1h2m3s", 3723),
        ({}, "Please try again in 20ms", 0.02),
        ({}, "Please try again in 3 minutes", 180),
        ({}, "or try again in 5 days 22 hours 11 minutes.", 5 * 86400 + 22 * 3600 + 660),
        ({}, "Your limit resets in 2 hours 5 minutes", 7500),
        ({}, "Try again in 1D 2H", 26 * 3600),
        ({}, "Please try again in 40 days", 31 * 86400),
        ({}, "Please try again in 3 months", None),
        ({"retry-after": "soon"}, "", None),
        ({"retry-after": "-1"}, "", None),
        ({"retry-after": "nan"}, "", None),
        ({"retry-after": "inf"}, "", None),
        ({"retry-after": "1e300"}, "", 31 * 86400),
        ({"retry-after": "Sat, 21 Nov 2026 10:01:00 GMT"}, "", None),
        ({}, "", None),
    ],
)
def test_the_time_to_wait_is_read_wherever_it_stands(headers, message, seconds):
    body = json.dumps(make_openai(message, type="rate_limit_error")).encode()
    assert parse_error_response(429, headers, body).retry_after == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        (LIMIT, 36),
        ([LIMIT], 36),
        (make_google(429, "RESOURCE_EXHAUSTED", LIMITED), 36.429760048),
        (make_google(429, "RESOURCE_EXHAUSTED", "Limited", {"retryDelay": "0.5s"}), 0.5),
        (make_google(429, "RESOURCE_EXHAUSTED", LIMITED, {"retryDelay": "soon"}), 36.429760048),
        (make_google(429, "RESOURCE_EXHAUSTED", "Limited", {"retryDelay": "-1s"}), None),
    ],
)
def test_the_time_that_google_tells_is_waited(body, seconds):
    found = parse_error_response(429, {}, json.dumps(body).encode())
    assert found.retry_after == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    "details", [7, "no", {}, [7, [], {}], [{"reason": 7, "retryDelay": []}], [{"reason": ""}]]
)
def test_details_in_no_known_form_are_passed_over(details):
    body = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": details}}
    found = parse_error_response(429, {}, json.dumps(body).encode())
    assert (found.kind, found.retry_after) == ("rate_limit", None)


@pytest.mark.parametrize(
    ("status", "code", "waits"),
    [
        (400, "", False),
        (401, "", False),
        (403, "", False),
        (404, "", False),
        (413, "", False),
        (400, "content_filter", False),
        (402, "", True),
        (429, "", True),
        (429, "insufficient_quota", True),
        (500, "", True),
        (503, "", True),
        (529, "", True),
    ],
)
def test_nobody_waits_for_what_will_not_get_better(status, code, waits):
    body = json.dumps(make_openai(code=code)).encode()
    found = parse_error_response(status, {"retry-after": "7"}, body)
    assert found.retry_after == (7 if waits else None)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("invalid_authentication", "authentication"),
        ("UNAUTHENTICATED", "authentication"),
        ("API_KEY_INVALID", "authentication"),
        ("permission_denied", "permission"),
        ("PERMISSION_DENIED", "permission"),
        ("NOT_FOUND", "not_found"),
        ("request_too_large", "context_too_long"),
        ("string_above_max_length", "context_too_long"),
        ("moderation_blocked", "content_refused"),
        ("billing_error", "quota"),
        ("billing_hard_limit_reached", "quota"),
        ("usage_limit_reached", "quota"),
        ("exceeded_current_quota_error", "quota"),
        ("rate_limit_exceeded", "rate_limit"),
        ("rate_limit_error", "rate_limit"),
        ("slow_down", "overloaded"),
        ("server_is_overloaded", "overloaded"),
        ("engine_overloaded", "overloaded"),
        ("UNAVAILABLE", "overloaded"),
        ("INTERNAL", "server"),
        ("timeout_error", "server"),
        ("INVALID_ARGUMENT", "invalid_request"),
        ("invalid_prompt", "invalid_request"),
        ("unheard_of", "server"),
    ],
)
def test_within_a_stream_the_code_alone_tells_what_an_error_is(code, kind):
    assert parse_error({"error": {"code": code, "message": "No"}}).kind == kind


@given(st.integers(100, 999), st.binary(max_size=40), st.text(max_size=30))
def test_nothing_that_a_supplier_says_breaks_it(status, body, wait):
    parse_error_response(status, {"retry-after": wait, "date": wait}, body)
    parse_error_response(
        status, {"retry-after-ms": wait}, json.dumps({"error": {"code": wait}}).encode()
    )

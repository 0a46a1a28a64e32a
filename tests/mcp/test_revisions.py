"""Revisions: which of them a message has, what must be in it, and what an answer looks like."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.mcp.messages import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    UNSUPPORTED_REVISION,
    McpError,
    McpNotification,
    McpRequest,
)
from agentd.mcp.revisions import (
    META_CAPABILITIES,
    META_REVISION,
    META_SERVER,
    REVISIONS,
    SESSIONLESS,
    WITH_SESSIONS,
    ClientProfile,
    RoutingHeaders,
    belongs_to_session,
    can_ask,
    check_session_revision,
    check_sessionless_request,
    complete_result,
    decode_header,
    negotiate_revision,
)

META: dict[str, Any] = {META_REVISION: SESSIONLESS, META_CAPABILITIES: {}}


def make_request(method: str = "tools/list", meta: Any = META, **params: Any) -> McpRequest:
    return McpRequest(1, method, {"_meta": meta, **params})


def make_headers(method: str = "tools/list", name: str | None = None) -> RoutingHeaders:
    return RoutingHeaders(SESSIONLESS, method, name)


def get_code(request: McpRequest, headers: RoutingHeaders) -> int:
    with pytest.raises(McpError) as refused:
        check_sessionless_request(request, headers)
    assert refused.value.status == 400
    return refused.value.code


@given(st.one_of(st.text(), st.none(), st.integers(), st.sampled_from(REVISIONS)))
def test_a_session_gets_the_revision_that_it_asks_for_or_the_newest(wanted: Any) -> None:
    expected = wanted if wanted in WITH_SESSIONS else WITH_SESSIONS[0]
    assert negotiate_revision(wanted) == expected


def test_a_request_with_its_revision_belongs_to_no_session() -> None:
    assert not belongs_to_session(make_request(), RoutingHeaders())
    assert not belongs_to_session(McpRequest(1, "ping", {}), RoutingHeaders(SESSIONLESS))
    assert not belongs_to_session(McpNotification("x", {}), RoutingHeaders("2031-01-01"))
    assert belongs_to_session(McpRequest(1, "ping", {}), RoutingHeaders())
    assert belongs_to_session(McpRequest(1, "ping", {}), RoutingHeaders(WITH_SESSIONS[1]))
    assert belongs_to_session(make_request("initialize"), RoutingHeaders(SESSIONLESS))


def test_a_complete_sessionless_request_is_accepted() -> None:
    meta = {**META, META_CAPABILITIES: {"elicitation": {}}}
    profile = check_sessionless_request(make_request(meta=meta), make_headers())
    assert profile == ClientProfile(SESSIONLESS, True)


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        (RoutingHeaders(None, "tools/list"), HEADER_MISMATCH),
        (RoutingHeaders("2025-11-25", "tools/list"), HEADER_MISMATCH),
        (RoutingHeaders(SESSIONLESS, None), HEADER_MISMATCH),
        (RoutingHeaders(SESSIONLESS, "tools/call"), HEADER_MISMATCH),
    ],
)
def test_headers_must_say_what_the_body_says(headers: RoutingHeaders, code: int) -> None:
    assert get_code(make_request(), headers) == code


def test_the_name_of_a_tool_must_be_in_its_header() -> None:
    request = make_request("tools/call", name="get_chat")
    assert get_code(request, make_headers("tools/call")) == HEADER_MISMATCH
    assert get_code(request, make_headers("tools/call", "stop_chat")) == HEADER_MISMATCH
    check_sessionless_request(request, make_headers("tools/call", "get_chat"))


def test_an_unknown_revision_is_refused_with_those_that_are_known() -> None:
    meta = {**META, META_REVISION: "1900-01-01"}
    with pytest.raises(McpError) as refused:
        check_sessionless_request(make_request(meta=meta), RoutingHeaders("1900-01-01"))
    assert refused.value.code == UNSUPPORTED_REVISION
    assert refused.value.data == {"supported": list(REVISIONS), "requested": "1900-01-01"}


@pytest.mark.parametrize("meta", [{}, {META_REVISION: SESSIONLESS}, None, "x", [1]])
def test_missing_metadata_are_invalid_parameters(meta: Any) -> None:
    assert get_code(make_request(meta=meta), make_headers()) == INVALID_PARAMS


@given(st.text())
def test_names_that_no_header_can_have_are_compared_decoded(name: str) -> None:
    coded = f"=?base64?{base64.b64encode(name.encode('utf-8', 'replace')).decode()}?="
    assert decode_header(coded) == name.encode("utf-8", "replace").decode()


@pytest.mark.parametrize("broken", ["=?base64?%%%?=", "=?base64?/w==?=", "=?base64?a?="])
def test_a_broken_header_is_equal_to_no_name(broken: str) -> None:
    assert decode_header(broken) is None


def test_a_message_of_a_session_must_not_change_the_revision() -> None:
    for agreed in WITH_SESSIONS:
        check_session_revision(None, agreed)
        check_session_revision(agreed, agreed)
        with pytest.raises(McpError, match=agreed):
            check_session_revision(next(one for one in REVISIONS if one != agreed), agreed)


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({}, False),
        ({"elicitation": {}}, True),
        ({"elicitation": {"form": {}}}, True),
        ({"elicitation": {"form": {}, "url": {}}}, True),
        ({"elicitation": {"url": {}}}, False),
        ({"elicitation": True}, False),
        ({"sampling": {}}, False),
    ],
)
def test_a_client_is_asked_only_if_it_can_show_a_form(
    capabilities: dict[str, Any], expected: bool
) -> None:
    assert can_ask(capabilities) is expected


def test_results_have_what_their_revision_wants() -> None:
    for revision in WITH_SESSIONS:
        assert complete_result(ClientProfile(revision, False), {"a": 1}, 5) == {"a": 1}
    alone = ClientProfile(SESSIONLESS, False)
    complete = complete_result(alone, {"a": 1, "_meta": {"b": 2}}, 5)
    assert (complete["resultType"], complete["ttlMs"], complete["cacheScope"]) == (
        "complete",
        5000,
        "private",
    )
    meta: Any = complete["_meta"]
    assert (set(meta), meta["b"]) == ({"b", META_SERVER}, 2)
    assert "ttlMs" not in complete_result(alone, {})
    asking = complete_result(alone, {"resultType": "input_required"})
    assert asking["resultType"] == "input_required"

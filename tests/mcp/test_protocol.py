"""What requests ask for, by method and revision."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.mcp.messages import INVALID_PARAMS, METHOD_NOT_FOUND, McpError, McpRequest
from agentd.mcp.protocol import (
    MAX_SUBSCRIPTIONS,
    CallTool,
    Immediate,
    Listen,
    ListenFilter,
    ListResources,
    ListTools,
    ReadResource,
    SubscribeResource,
    plan_action,
)
from agentd.mcp.revisions import REVISIONS, SESSIONLESS, WITH_SESSIONS, ClientProfile
from tests.mcp.test_messages import JSON, OBJECTS

PROFILES = [ClientProfile(revision, False) for revision in REVISIONS]
ALONE, *IN_SESSION = PROFILES
METHODS = (
    "ping",
    "server/discover",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "subscriptions/listen",
)


def plan(method: str, profile: ClientProfile, **params: Any) -> object:
    return plan_action(McpRequest(1, method, params), profile)


def get_error(method: str, profile: ClientProfile, **params: Any) -> McpError:
    with pytest.raises(McpError) as refused:
        plan(method, profile, **params)
    return refused.value


@pytest.mark.parametrize("profile", PROFILES, ids=REVISIONS)
def test_tools_and_resources_are_in_all_revisions(profile: ClientProfile) -> None:
    assert plan("tools/list", profile) == ListTools()
    assert plan("tools/call", profile, name="x", arguments={"a": 1}) == CallTool("x", {"a": 1})
    assert plan("resources/read", profile, uri="u") == ReadResource("u")
    assert plan("resources/list", profile, cursor="7") == ListResources("7")


def test_sessions_ping_and_subscribe_and_others_discover_and_listen() -> None:
    for profile in IN_SESSION:
        assert plan("ping", profile) == Immediate({})
        assert plan("resources/subscribe", profile, uri="u") == SubscribeResource("u")
        assert get_error("server/discover", profile).code == METHOD_NOT_FOUND
        assert get_error("subscriptions/listen", profile).code == METHOD_NOT_FOUND
    found = plan("server/discover", ALONE)
    assert isinstance(found, Immediate)
    assert found.result["supportedVersions"] == [SESSIONLESS, *WITH_SESSIONS]
    wanted = {
        "resourcesListChanged": True,
        "toolsListChanged": True,
        "resourceSubscriptions": ["u"],
    }
    assert plan("subscriptions/listen", ALONE, notifications=wanted) == Listen(
        ListenFilter(True, ("u",))
    )
    assert get_error("ping", ALONE).code == METHOD_NOT_FOUND


@given(st.text(), st.sampled_from(PROFILES))
def test_an_unknown_method_is_not_found(method: str, profile: ClientProfile) -> None:
    if method not in METHODS:
        error = get_error(method, profile)
        assert (error.code, error.status) == (METHOD_NOT_FOUND, 404)


@given(st.sampled_from(METHODS), OBJECTS, st.sampled_from(PROFILES))
def test_any_parameters_are_valid_or_refused(
    method: str, params: dict[str, Any], profile: ClientProfile
) -> None:
    try:
        plan_action(McpRequest(1, method, params), profile)
    except McpError as error:
        assert error.code in (INVALID_PARAMS, METHOD_NOT_FOUND)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {}),
        ("tools/call", {"name": 7}),
        ("tools/call", {"name": "x", "arguments": []}),
        ("resources/read", {}),
        ("resources/list", {"cursor": "x"}),
        ("resources/list", {"cursor": "0"}),
        ("subscriptions/listen", {}),
        (
            "subscriptions/listen",
            {"notifications": {"resourceSubscriptions": ["u"] * (MAX_SUBSCRIPTIONS + 1)}},
        ),
    ],
)
def test_wrong_parameters_are_named(method: str, params: dict[str, Any]) -> None:
    assert get_error(method, ALONE, **params).code == INVALID_PARAMS


@given(JSON)
def test_progress_is_told_by_the_token_that_the_client_chose(token: Any) -> None:
    request = McpRequest(1, "tools/call", {"name": "x", "_meta": {"progressToken": token}})
    action = plan_action(request, ALONE)
    assert isinstance(action, CallTool)
    is_token = isinstance(token, str | int) and not isinstance(token, bool)
    assert action.progress_token == (token if is_token else None)

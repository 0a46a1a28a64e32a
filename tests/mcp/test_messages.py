"""Messages: what is one and what is not, by properties."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.mcp.messages import (
    INVALID_REQUEST,
    MAX_ID_LENGTH,
    McpError,
    McpNotification,
    McpReply,
    McpRequest,
    find_id,
    make_error,
    make_result,
    read_message,
)

IDS = st.one_of(st.integers(), st.text(max_size=MAX_ID_LENGTH))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
OBJECTS = st.dictionaries(st.text(), JSON, max_size=5)
HEAD = {"jsonrpc": "2.0"}


@given(IDS, st.text(), OBJECTS)
def test_a_message_with_method_and_id_is_a_request(
    request_id: Any, method: str, params: dict[str, Any]
) -> None:
    value = {**HEAD, "id": request_id, "method": method, "params": params}
    assert read_message(value) == McpRequest(request_id, method, params)
    assert find_id(value) == request_id


@given(st.text(), OBJECTS)
def test_a_message_with_a_method_and_without_id_is_a_notification(
    method: str, params: dict[str, Any]
) -> None:
    value = {**HEAD, "method": method, "params": params}
    assert read_message(value) == McpNotification(method, params)


@given(IDS, OBJECTS)
def test_a_message_with_a_result_or_an_error_is_a_reply(
    request_id: Any, content: dict[str, Any]
) -> None:
    answer = {**HEAD, "id": request_id}
    assert read_message({**answer, "result": content}) == McpReply(request_id, content)
    assert read_message({**answer, "error": content}) == McpReply(request_id, None)


@given(JSON)
def test_any_json_is_a_message_or_refused_as_invalid(value: Any) -> None:
    with pytest.raises(McpError) as refused:
        read_message(value)
    assert (refused.value.code, refused.value.status) == (INVALID_REQUEST, 400)


@pytest.mark.parametrize(
    "value",
    [
        {**HEAD, "id": None, "method": "ping"},
        {**HEAD, "id": True, "method": "ping"},
        {**HEAD, "id": 1.5, "method": "ping"},
        {**HEAD, "id": "x" * (MAX_ID_LENGTH + 1), "method": "ping"},
        {**HEAD, "id": 1, "method": 7},
        {**HEAD, "id": 1, "method": "ping", "params": [1]},
        {**HEAD, "id": 1},
        {**HEAD, "id": 1, "result": {}, "error": {}},
        {**HEAD, "result": {}},
        {"id": 1, "method": "ping"},
        {"jsonrpc": "1.0", "id": 1, "method": "ping"},
        "ping",
        None,
    ],
)
def test_what_the_protocol_excludes_is_refused(value: Any) -> None:
    with pytest.raises(McpError):
        read_message(value)


@given(st.lists(OBJECTS))
def test_batches_are_refused_with_the_revision_that_removed_them(batch: list[Any]) -> None:
    with pytest.raises(McpError, match="2025-06-18"):
        read_message(batch)


@given(IDS, OBJECTS)
def test_an_answer_has_the_id_of_its_request(request_id: Any, result: dict[str, Any]) -> None:
    answer = make_result(request_id, result)
    assert read_message(answer) == McpReply(request_id, result)
    error = make_error(request_id, McpError(INVALID_REQUEST, "no"))
    assert read_message(error) == McpReply(request_id, None)


def test_an_error_without_a_readable_id_has_none() -> None:
    assert "id" not in make_error(None, McpError(INVALID_REQUEST, "no"))
    assert find_id([1]) is None
    assert find_id({"id": 1.5}) is None

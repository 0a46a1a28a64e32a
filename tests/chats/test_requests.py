"""Requests about chats name them by ids, and their queues by versions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tornado.httputil import HTTPHeaders

from agentd.chats.requests import get_chat_id, get_prompt_id, get_queue_version
from agentd.core.errors import NotFound, PreconditionFailed
from agentd.core.ids import MAX_ID
from agentd.http.access import Caller
from agentd.http.request import Request


def make_request(if_match: str | None = None, **path_params: str) -> Request:
    headers = HTTPHeaders({} if if_match is None else {"If-Match": if_match})
    return Request(
        "PUT", "/", "", path_params, headers, Caller("key", "test", "manager"), "127.0.0.1"
    )


@given(st.integers(1, MAX_ID), st.integers(1, MAX_ID))
def test_ids_are_read_from_the_path(chat: int, prompt: int) -> None:
    request = make_request(chatId=str(chat), promptId=str(prompt))
    assert (get_chat_id(request), get_prompt_id(request)) == (chat, prompt)


@pytest.mark.parametrize("text", ["0", "-1", "01", "1.0", "x", "", str(MAX_ID + 1), "9" * 400])
def test_what_cannot_be_an_id_is_not_found_by_its_name(text: str) -> None:
    request = make_request(chatId=text, promptId=text)
    with pytest.raises(NotFound, match=r"^Chat "):
        get_chat_id(request)
    with pytest.raises(NotFound, match=r"^Prompt "):
        get_prompt_id(request)


@given(st.integers(0, 10**16 - 1))
def test_the_version_of_an_etag_is_expected(version: int) -> None:
    assert get_queue_version(make_request(f'"{version}"')) == version


@pytest.mark.parametrize("if_match", [None, "*", " * "])
def test_without_a_version_any_will_do(if_match: str | None) -> None:
    assert get_queue_version(make_request(if_match)) is None


@given(
    st.text(st.characters(min_codepoint=32, max_codepoint=126)).filter(
        lambda text: text.strip() != "*" and not (text.strip('" ').isdigit() and '"' in text)
    )
)
def test_any_other_if_match_fails_the_precondition(if_match: str) -> None:
    with pytest.raises(PreconditionFailed):
        get_queue_version(make_request(if_match))

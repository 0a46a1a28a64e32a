"""A channel's own secrets in the bytes of its supplier's errors."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.gateway.relay.error_masking import is_json, mask_in_body, mask_in_events

SECRET = 'sk-"0/1+2é'
WRITINGS: tuple[Callable[[str], str], ...] = (
    json.dumps,
    lambda text: json.dumps(text, ensure_ascii=False),
    lambda text: json.dumps(text).replace("/", "\\/").replace("+", "\\u002b"),
)


@pytest.mark.parametrize("write", WRITINGS)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_only_the_secret_is_replaced_in_an_event_however_it_is_escaped(
    write: Callable[[str], str], end: str
) -> None:
    event = "event: error{0}data: {{'e': [{1}, 1.0]}}{0}{0}: a comment{0}".replace("'", '"')
    written = event.format(end, write(f"key {SECRET}!"))
    expected = event.format(end, '"key ***!"')
    assert mask_in_events(written.encode(), ("", SECRET)).decode() == expected


@given(st.binary(max_size=60), st.booleans())
def test_what_holds_no_secret_is_not_changed(data: bytes, has_secrets: bool) -> None:
    secrets = (SECRET,) if has_secrets else ()
    assert mask_in_events(data, secrets) == mask_in_body(data, secrets) == data


def test_text_that_is_no_json_is_searched_as_it_is() -> None:
    assert mask_in_body(f"no: {SECRET}".encode(), (SECRET,)) == b"no: ***"


@pytest.mark.parametrize(
    ("body", "found"), [(b"{}", True), (b"[]", True), (b'"a"', False), (b"<html>", False)]
)
def test_json_is_an_object_or_a_list(body: bytes, found: bool) -> None:
    assert is_json(body) is found

"""Lists of models of all dialects, as suppliers send them."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.errors import Unavailable
from agentd.llm.upstream.models_list import MAX_PAGES, fetch_offered_models


class ScriptedUpstream:
    """Answers each request with the next page; the last one is repeated."""

    def __init__(self, *pages: bytes, status: int = 200) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {}
        self.urls: list[str] = []
        self._pages = pages

    def send(self, request: Any) -> "ScriptedUpstream":
        """Take a request."""
        self.urls.append(request.url)
        return self

    async def __aenter__(self) -> "ScriptedUpstream":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def read(self, limit: int) -> bytes:
        """Return a page."""
        return self._pages[min(len(self.urls), len(self._pages)) - 1]


async def fetch(upstream: ScriptedUpstream, dialect: Any = "openai-chat") -> Any:
    """Fetch the whole list."""
    return await fetch_offered_models(upstream, dialect, "https://api.example", "key")


def run(upstream: ScriptedUpstream, dialect: Any = "openai-chat") -> Any:
    """Fetch the whole list to its end."""
    return asyncio.run(fetch(upstream, dialect))


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"id": "a", "context_length": 8192}, ("a", "", 8192, None)),  # OpenRouter
        ({"id": "a", "name": "A", "context_window": 8192}, ("a", "A", 8192, None)),  # Groq
        ({"id": "a", "max_model_len": 4096}, ("a", "", 4096, None)),  # vLLM
        (
            {"id": "a", "display_name": "A", "max_input_tokens": 9, "max_tokens": 5},
            ("a", "A", 9, 5),
        ),
        ({"id": "a", "context_length": True, "max_tokens": -1}, ("a", "", None, None)),
        ({"name": "models/a", "displayName": "a", "outputTokenLimit": 5}, ("a", "", None, 5)),
    ],
)
def test_sizes_and_titles_are_read_as_suppliers_write_them(
    row: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    (found,) = run(ScriptedUpstream(json.dumps({"data": [row]}).encode())).models
    assert (found.name, found.title, found.context, found.max_output) == expected


@pytest.mark.parametrize(
    ("dialect", "page", "query"),
    [
        ("anthropic", {"data": [{"id": "a"}], "has_more": True, "last_id": "a b"}, "after_id=a+b"),
        ("gemini", {"models": [{"name": "models/a"}], "nextPageToken": "t&"}, "pageToken=t%26"),
        ("openai-chat", {"data": [{"id": "a"}], "has_more": True, "last_id": "a"}, "after=a"),
    ],
)
def test_further_pages_are_asked_for_and_a_list_without_end_is_cut(
    dialect: str, page: dict[str, Any], query: str
) -> None:
    last = {"data": [{"id": "b"}]}
    upstream = ScriptedUpstream(json.dumps(page).encode(), json.dumps(last).encode())
    found = run(upstream, dialect)
    assert ([one.name for one in found.models], found.complete) == (["a", "b"], True)
    assert query in upstream.urls[1]
    endless = ScriptedUpstream(json.dumps(page).encode())
    found = run(endless, dialect)
    assert (len(endless.urls), found.complete) == (MAX_PAGES, False)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b"[" * 100_000, b'{"data": "\xff"}']
)
def test_what_is_no_list_is_unavailable(body: bytes) -> None:
    with pytest.raises(Unavailable, match="is the address right"):
        run(ScriptedUpstream(body))


@given(
    st.dictionaries(
        st.sampled_from(["data", "models", "has_more", "nextPageToken", "last_id"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        ),
    )
)
def test_any_json_is_a_list_or_unavailable(page: dict[str, Any]) -> None:
    try:
        found = run(ScriptedUpstream(json.dumps(page).encode()), "gemini")
    except Unavailable:
        assert not {"data", "models"} & page.keys()
    else:
        assert all(one.name for one in found.models)

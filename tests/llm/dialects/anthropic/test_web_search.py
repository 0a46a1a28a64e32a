"""What Anthropic's own search reports, streamed and whole, goes back to it as it came."""

import json

import pytest

from agentd.llm.conversation import SupplierItemDone, WebSearchDone, WebSource
from agentd.llm.dialects.anthropic import upstream
from tests.llm.dialects.streams import MESSAGE, encode_named_events

CALL = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "cats"}}
PAGE = {"type": "web_search_result", "url": "https://a.example", "title": "A"}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [PAGE]}


def read_whole():
    return upstream.parse_response(json.dumps({**MESSAGE, "content": [CALL, FOUND]}).encode())


def read_stream():
    piece = {"type": "input_json_delta", "partial_json": json.dumps(CALL["input"])}
    stream = encode_named_events(
        {"type": "message_start", "message": {**MESSAGE, "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {**CALL, "input": {}}},
        {"type": "content_block_delta", "index": 0, "delta": piece},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": FOUND},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_stop"},
    )
    return upstream.create_reader().feed(stream)


@pytest.mark.parametrize("read", [read_whole, read_stream])
def test_a_search_is_reported_and_goes_back_as_it_came(read):
    events = read()
    items = [event.item for event in events if isinstance(event, SupplierItemDone)]
    assert [json.loads(item.data) for item in items] == [CALL, FOUND]
    (search,) = (event for event in events if isinstance(event, WebSearchDone))
    assert (search.query, search.pages) == ("cats", (WebSource("https://a.example", "A"),))

"""Each caller's dialect is whole: what one half tells, the other understands."""

import json

import pytest

from agentd.llm.conversation import Conversation, ModelMessage, SupplierError, TextPart
from agentd.llm.dialects.callers import CALLERS
from agentd.llm.dialects.dialect import DIALECTS
from agentd.llm.dialects.value_count import MAX_VALUES
from agentd.llm.price import Usage
from tests.llm.dialects.replies import GLANCE, LOOK, build_draft
from tests.support.processor import busy_for_less_than

EACH = pytest.mark.parametrize("dialect", CALLERS)

PROMPT = ModelMessage("user", (TextPart("Look around"),))


def test_there_is_a_caller_s_side_of_every_dialect():
    assert list(CALLERS) == list(DIALECTS)


@EACH
def test_usage_of_a_whole_answer(dialect):
    caller = CALLERS[dialect]
    result = caller.read_usage(caller.render_response(LOOK, GLANCE, "r1", 17))
    assert result is not None
    assert (result.total_input, result.cache_read, result.total_output) == (33, 20, 9)


@EACH
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"usage": 7}', b'{"usage": null}'])
def test_an_answer_that_counts_nothing(dialect, body):
    assert CALLERS[dialect].read_usage(body) is None


def test_usage_of_embeddings_is_reported_in_the_same_place():
    body = b'{"object":"list","data":[],"usage":{"prompt_tokens":8,"total_tokens":8}}'
    assert CALLERS["openai-chat"].read_usage(body) == Usage(input=8)


def test_usage_is_read_beside_millions_of_numbers_but_not_beside_as_many_lists():
    for member, is_read in ((b"1.5,", True), (b"[],", False)):
        many = member * (MAX_VALUES + 1)
        body = b'{"usage":{"prompt_tokens":8,"detail":[%b0]},"data":[%b0]}' % (many, many)
        with busy_for_less_than(2):
            assert CALLERS["openai-chat"].read_usage(body) == (Usage(input=8) if is_read else None)


@EACH
def test_a_stream_is_reported_and_received_by_the_same_dialect(dialect):
    caller = CALLERS[dialect]
    writer, tap = caller.create_writer(GLANCE, "r1", 17), caller.create_observer(GLANCE)
    stream = b"".join(map(writer.write, LOOK))
    assert tap.feed(stream) + tap.close() == stream
    assert tap.usage is not None
    assert tap.usage.total_output == 9


@EACH
def test_an_error_event_ends_a_stream_in_both_ears(dialect):
    caller = CALLERS[dialect]
    tap, reader = caller.create_observer(GLANCE), DIALECTS[dialect].create_reader()
    event = caller.render_error_event("overloaded", "Later", "r1")
    assert tap.feed(event) == event
    for end in (tap.end, reader.feed(event)[-1]):
        assert isinstance(end, SupplierError)
        assert (end.kind, end.message) == ("overloaded", "Later")


@EACH
def test_what_is_said_to_a_supplier_is_understood_from_a_caller(dialect):
    reply = build_draft(LOOK).build_message()
    conversation = Conversation(messages=(PROMPT,), system="Be brief.", max_output=100)
    body = DIALECTS[dialect].encode_request(conversation, "m")
    again = CALLERS[dialect].parse_request(body)
    assert again.messages == conversation.messages
    assert (again.system, again.max_output) == ("Be brief.", 100)
    assert reply.parts


@EACH
def test_the_model_is_named_again(dialect):
    body = json.dumps({"model": "ours", "messages": [], "input": [], "contents": []}).encode()
    again = json.loads(CALLERS[dialect].rewrite_for_passthrough(body, "theirs"))
    assert again.get("model") == (None if dialect == "gemini" else "theirs")

"""Each caller's dialect is whole: what one half tells, the other understands."""

import json

import pytest

from agentd.proxy.dialects.callers import CALLERS
from agentd.proxy.dialects.conversation import Conversation, Message, SupplierError, Text
from agentd.proxy.dialects.dialect import DIALECTS
from agentd.proxy.price import Usage
from tests.proxy.dialects.callers.replies import GLANCE, LOOK, drafted

EACH = pytest.mark.parametrize("dialect", CALLERS)

PROMPT = Message("user", (Text("Look around"),))


def test_there_is_a_caller_s_side_of_every_dialect():
    assert list(CALLERS) == list(DIALECTS)


@EACH
def test_usage_of_a_whole_answer(dialect):
    caller = CALLERS[dialect]
    told = caller.usage(caller.whole(LOOK, GLANCE, "r1", 17))
    assert told is not None
    assert (told.total_input, told.cache_read, told.total_output) == (33, 20, 9)


@EACH
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"usage": 7}', b'{"usage": null}'])
def test_an_answer_that_counts_nothing(dialect, body):
    assert CALLERS[dialect].usage(body) is None


def test_usage_of_embeddings_is_told_in_the_same_place():
    body = b'{"object":"list","data":[],"usage":{"prompt_tokens":8,"total_tokens":8}}'
    assert CALLERS["openai-chat"].usage(body) == Usage(input=8)


@EACH
def test_a_stream_is_told_and_heard_by_the_same_dialect(dialect):
    caller = CALLERS[dialect]
    writer, tap = caller.writer(GLANCE, "r1", 17), caller.tap(GLANCE)
    stream = b"".join(map(writer.write, LOOK))
    assert tap.feed(stream) + tap.close() == stream
    assert tap.usage is not None
    assert tap.usage.total_output == 9


@EACH
def test_an_error_event_ends_a_stream_in_both_ears(dialect):
    caller = CALLERS[dialect]
    tap, reader = caller.tap(GLANCE), DIALECTS[dialect].reader()
    event = caller.error_event("overloaded", "Later", "r1")
    assert tap.feed(event) == event
    for end in (tap.end, reader.feed(event)[-1]):
        assert isinstance(end, SupplierError)
        assert (end.kind, end.message) == ("overloaded", "Later")


@EACH
def test_what_is_said_to_a_supplier_is_understood_from_a_caller(dialect):
    reply = drafted(LOOK).message()
    conversation = Conversation(messages=(PROMPT,), system="Be brief.", max_output=100)
    body = DIALECTS[dialect].request(conversation, "m")
    again = CALLERS[dialect].understood(body)
    assert again.messages == conversation.messages
    assert (again.system, again.max_output) == ("Be brief.", 100)
    assert reply.parts


@EACH
def test_the_model_is_named_anew(dialect):
    body = json.dumps({"model": "ours", "messages": [], "input": [], "contents": []}).encode()
    again = json.loads(CALLERS[dialect].passed_on(body, "theirs"))
    assert again.get("model") == (None if dialect == "gemini" else "theirs")

"""PDFs are documents in every dialect: what one calls them, another is told."""

import json

import pytest

from agentd.core.errors import BadRequest
from agentd.llm.conversation import DocumentPart, ModelMessage, TextPart, ToolResult
from agentd.llm.dialects.callers import CALLERS
from agentd.llm.dialects.dialect import DIALECTS

DATA = "JVBERi0xLjQK"
URL = f"data:application/pdf;base64,{DATA}"
LINK = "https://host/a.pdf"
FILE = {"filename": "a.pdf", "file_data": URL}
SOURCE = {"type": "base64", "media_type": "application/pdf", "data": DATA}
LINKED = {"type": "url", "url": LINK}
BYTES = {
    "openai-chat": {"type": "file", "file": FILE},
    "openai-responses": {"type": "input_file", **FILE},
    "anthropic": {"type": "document", "source": SOURCE, "title": "a.pdf"},
    "gemini": {"inlineData": {"mimeType": "application/pdf", "data": DATA}},
}
LINKS = {
    "openai-responses": {"type": "input_file", "file_url": LINK},
    "anthropic": {"type": "document", "source": LINKED},
    "gemini": {"fileData": {"mimeType": "application/pdf", "fileUri": LINK}},
}
TEXTS = {
    "openai-chat": {"type": "text", "text": "Read it"},
    "openai-responses": {"type": "input_text", "text": "Read it"},
    "anthropic": {"type": "text", "text": "Read it"},
    "gemini": {"text": "Read it"},
}
NAMES = {"openai-chat": "messages", "anthropic": "messages", "openai-responses": "input"}


def build_request(dialect, *shown):
    content = [TEXTS[dialect], *shown]
    if dialect == "gemini":
        return json.dumps({"contents": [{"role": "user", "parts": content}]}).encode()
    said = {NAMES[dialect]: [{"role": "user", "content": content}]}
    most = {"max_tokens": 9} if dialect == "anthropic" else {}
    return json.dumps({"model": "m", **most, **said}).encode()


def get_user_parts(dialect, body):
    """Return the user's parts in a request."""
    told = json.loads(body)
    turns = told["contents"] if dialect == "gemini" else told[NAMES[dialect]]
    return turns[-1]["parts" if dialect == "gemini" else "content"]


@pytest.mark.parametrize("supplier", DIALECTS)
@pytest.mark.parametrize("caller", CALLERS)
def test_the_bytes_of_a_pdf_are_sent_to_any_supplier(caller, supplier):
    conversation = CALLERS[caller].parse_request(build_request(caller, BYTES[caller]))
    name = "" if caller == "gemini" else "a.pdf"
    assert conversation.messages == (
        ModelMessage("user", (TextPart("Read it"), DocumentPart(DATA, "", name))),
    )
    words, told = get_user_parts(supplier, DIALECTS[supplier].encode_request(conversation, "n"))
    assert words == TEXTS[supplier]
    expected = json.dumps(BYTES[supplier])
    if not name:
        expected = expected.replace(', "title": "a.pdf"', "").replace("a.pdf", "document.pdf")
    assert told == json.loads(expected)


@pytest.mark.parametrize("supplier", DIALECTS)
@pytest.mark.parametrize("caller", LINKS)
def test_a_linked_pdf_is_shown_where_the_supplier_fetches_it(caller, supplier):
    conversation = CALLERS[caller].parse_request(build_request(caller, LINKS[caller]))
    if supplier == "openai-chat":
        with pytest.raises(BadRequest, match="send its bytes"):
            DIALECTS[supplier].encode_request(conversation, "n")
    else:
        assert (
            get_user_parts(supplier, DIALECTS[supplier].encode_request(conversation, "n"))[1]
            == LINKS[supplier]
        )


@pytest.mark.parametrize("supplier", DIALECTS)
def test_a_pdf_that_a_tool_gave_back_is_reported_with_its_result(supplier):
    call = {"type": "tool_use", "id": "a", "name": "read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": [BYTES["anthropic"]]}
    said = [
        {"role": "user", "content": "Read it"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    body = json.dumps({"model": "m", "max_tokens": 9, "messages": said}).encode()
    conversation = CALLERS["anthropic"].parse_request(body)
    document = DocumentPart(DATA, "", "a.pdf")
    assert conversation.messages[-1].parts == (ToolResult("a", (document,)),)
    assert DATA in DIALECTS[supplier].encode_request(conversation, "n").decode()


@pytest.mark.parametrize(
    ("caller", "piece"),
    [
        ("openai-chat", {"type": "file", "file": {"file_id": "file-1"}}),
        ("openai-chat", {"type": "file", "file": {"file_data": "data:text/csv;base64,eA=="}}),
        ("openai-responses", {"type": "input_file", "file_id": "file-1"}),
        ("openai-responses", {"type": "input_file"}),
        ("anthropic", {"type": "document", "source": {**SOURCE, "media_type": "text/csv"}}),
        ("anthropic", {**BYTES["anthropic"], "citations": {"enabled": True}}),
        ("gemini", {"inlineData": {"mimeType": "audio/wav", "data": "UklG"}}),
    ],
)
def test_files_that_not_all_suppliers_take_are_refused(caller, piece):
    with pytest.raises(BadRequest):
        CALLERS[caller].parse_request(build_request(caller, piece))

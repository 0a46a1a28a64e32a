"""Images in a reply reach callers of every dialect, or are spoken of; and they are taken back."""

import json

import pytest

from agentd.core.errors import BadRequest
from agentd.llm.conversation import ImageDone, ImagePart, ReplyBuilder, Thinking
from agentd.llm.dialects.callers import CALLERS
from agentd.llm.dialects.dialect import DIALECTS
from tests.llm.dialects.replies import GLANCE, WHOLE, WRITERS
from tests.llm.dialects.test_writers import parse_stream

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA"
PIXEL += "AABJRU5ErkJggg=="
URL = f"data:image/png;base64,{PIXEL}"
DRAFT = {"thought": True, "inlineData": {"mimeType": "image/png", "data": "ZHJhZnQ="}}
DRAWN = {"inlineData": {"mimeType": "image/png", "data": PIXEL}, "thoughtSignature": "seal"}
PARTS = [DRAFT, {"text": "Here:"}, DRAWN, {"text": "Fine?"}]
GEMINI = {
    "candidates": [{"content": {"parts": PARTS, "role": "model"}, "finishReason": "STOP"}],
    "responseId": "r",
    "modelVersion": "m",
}
COMPLETION = {
    "id": "c",
    "choices": [
        {
            "message": {
                "role": "assistant",
                "content": "Here:",
                "images": [{"type": "image_url", "image_url": {"url": URL}}],
            },
            "finish_reason": "stop",
        }
    ],
}
NOTE = "[The model returned an image (image/png, 72 bytes), not shown here.]"
CHUNKS = [{"candidates": [{"content": {"parts": [part]}}]} for part in PARTS]
STREAM = b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in [*CHUNKS, GEMINI][:4])
END = b'data: {"candidates":[{"finishReason":"STOP"}]}\n\n'


def read_whole(supplier="gemini", reply=GEMINI):
    return DIALECTS[supplier].parse_response(json.dumps(reply).encode())


def read_stream():
    reader = DIALECTS["gemini"].create_reader()
    return [*reader.feed(STREAM + END), *reader.close()]


def render(caller, events):
    return json.loads(WHOLE[caller](events, GLANCE, "r1", 17))


def stream(caller, events):
    writer = WRITERS[caller](GLANCE)
    return parse_stream(b"".join(writer.write(event) for event in events))


@pytest.mark.parametrize("read", [read_whole, read_stream])
def test_gemini_s_images_are_read_and_the_drafts_of_its_thinking_are_not(read):
    (image,) = (event.image for event in read() if isinstance(event, ImageDone))
    assert image == ImagePart("image/png", PIXEL)


def test_callers_of_chat_completions_get_them_as_openrouter_and_litellm_give_them():
    (choice,) = render("openai-chat", read_whole())["choices"]
    shown = {"type": "image_url", "image_url": {"url": URL}, "index": 0}
    assert choice["message"]["images"] == [shown]
    assert choice["message"]["content"] == "Here:Fine?"
    deltas = [one["choices"][0]["delta"] for one in stream("openai-chat", read_stream())[:-1]]
    assert [delta["images"] for delta in deltas if "images" in delta] == [[shown]]


def test_callers_of_the_responses_api_get_them_as_items():
    response = render("openai-responses", read_whole())
    kinds = [item["type"] for item in response["output"]]
    assert kinds == ["message", "reasoning", "image_generation_call", "message"]
    item = response["output"][2]
    assert (item["status"], item["output_format"], item["result"]) == ("completed", "png", PIXEL)
    events = stream("openai-responses", read_stream())
    assert events[-1]["response"]["output"] == response["output"]
    begun = [one["item"] for one in events if one["type"] == "response.output_item.added"]
    assert [one["result"] for one in begun if "result" in one] == [None]


def test_callers_of_anthropic_s_api_are_told_of_them():
    content = render("anthropic", read_whole())["content"]
    assert [block["text"] for block in content if block["type"] == "text"] == [
        "Here:",
        NOTE,
        "Fine?",
    ]
    deltas = [one["delta"] for one in stream("anthropic", read_stream()) if "delta" in one]
    assert NOTE in [delta.get("text") for delta in deltas]


def test_callers_of_gemini_s_api_get_those_of_openrouter():
    events = read_whole("openai-chat", COMPLETION)
    (candidate,) = render("gemini", events)["candidates"]
    drawn = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
    assert candidate["content"]["parts"] == [{"text": "Here:"}, drawn]
    parts = [one["candidates"][0]["content"]["parts"][0] for one in stream("gemini", [*events])]
    assert drawn in parts


def test_a_link_to_one_is_said_as_text():
    url = "https://images.example/1.png"
    message = {"role": "assistant", "images": [{"image_url": {"url": url}}]}
    reply = {"choices": [{"message": message, "finish_reason": "stop"}]}
    assert f"![image]({url})" in json.dumps(render("anthropic", read_whole("openai-chat", reply)))


def test_the_native_engine_s_reply_speaks_of_them():
    reply = ReplyBuilder()
    for event in read_whole():
        reply.add(event)
    assert reply.text == f"Here:{NOTE}Fine?"


def ask_again(caller):
    """Return the request of a caller who sends the reply back and asks for a change."""
    reply = render(caller, read_whole())
    if caller == "openai-chat":
        said = [reply["choices"][0]["message"], {"role": "user", "content": "Bigger"}]
        return {"model": "m", "messages": [{"role": "user", "content": "Draw"}, *said]}
    asked = [{"role": "user", "content": words} for words in ("Draw", "Bigger")]
    return {"model": "m", "input": [asked[0], *reply["output"], asked[1]]}


@pytest.mark.parametrize("caller", ["openai-chat", "openai-responses"])
def test_gemini_gets_its_image_back_with_its_seal(caller):
    known = CALLERS[caller].parse_request(json.dumps(ask_again(caller)).encode())
    (images,) = [
        [part for part in message.parts if isinstance(part, ImagePart)]
        for message in known.messages
        if message.role == "assistant"
    ]
    assert images == [ImagePart("image/png", PIXEL)]
    sent = json.loads(DIALECTS["gemini"].encode_request(known, "gemini-3"))
    drawn = [part for part in sent["contents"][1]["parts"] if "inlineData" in part]
    assert [part["inlineData"]["data"] for part in drawn] == [PIXEL]
    assert any(isinstance(part, Thinking) for part in known.messages[1].parts)
    assert "seal" in json.dumps(sent)


@pytest.mark.parametrize("supplier", ["openai-chat", "openai-responses", "anthropic"])
def test_suppliers_that_take_no_image_of_the_model_s_refuse_it_with_words(supplier):
    known = CALLERS["openai-chat"].parse_request(json.dumps(ask_again("openai-chat")).encode())
    with pytest.raises(BadRequest, match="image"):
        DIALECTS[supplier].encode_request(known, "m")

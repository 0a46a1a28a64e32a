"""What servers send, made fit for a model and its supplier."""

import base64
import re
from typing import Any

import pytest
from hypothesis import given as examples
from hypothesis import strategies as st

from agentd.agent.mcp_servers.messages import (
    MOST_CONTENTS,
    RemoteImage,
    decode_messages,
    read_call_result,
    read_tool,
)
from agentd.core.errors import TooLarge
from agentd.llm.dialects.value_count import MAX_PARTS
from tests.support.processor import busy_for_less_than

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(60)).decode()
JPEG = base64.b64encode(b"\xff\xd8\xff\xe0" + bytes(60)).decode()


def read_schema(schema: Any) -> Any:
    """Return the schema that a model gets."""
    tool = read_tool({"name": "find", "inputSchema": schema})
    assert tool
    return tool.schema


def read_image(kind: str, data: str) -> tuple[str, tuple[RemoteImage, ...]]:
    """Return the text and the images of a result with an image."""
    found = read_call_result({"content": [{"type": "image", "mimeType": kind, "data": data}]})
    return found.text, found.images


TEXT = {"type": "string"}
BY_PATH = {"properties": {"path": TEXT, "kind": TEXT}, "required": ["path", "kind"]}
BY_URL = {"properties": {"url": TEXT, "kind": TEXT}, "required": ["url", "kind"]}
EITHER = {"path": TEXT, "kind": TEXT, "url": TEXT}


@pytest.mark.parametrize(
    ("given", "properties", "required"),
    [
        ({"anyOf": [BY_PATH, BY_URL]}, EITHER, ["kind"]),
        ({"oneOf": [BY_PATH, BY_URL]}, EITHER, ["kind"]),
        ({"allOf": [BY_PATH, BY_URL]}, EITHER, ["path", "kind", "url"]),
        (
            {"anyOf": [{"$ref": "#/$defs/one"}, BY_URL], "$defs": {"one": BY_PATH}},
            EITHER,
            ["kind"],
        ),
        (
            {"properties": EITHER, "required": ["kind"], "anyOf": [{"required": ["path"]}, 7]},
            EITHER,
            ["kind", "path"],
        ),
        ({"properties": EITHER, "not": {"required": ["url"]}, "oneOf": 7}, EITHER, None),
    ],
)
def test_alternatives_at_the_top_of_a_schema_become_one_with_the_properties_of_all(
    given: dict[str, Any], properties: Any, required: Any
) -> None:
    found = read_schema({"type": "object", **given})
    assert found["properties"] == properties and found.get("required") == required
    assert not found.keys() & {"anyOf", "oneOf", "allOf", "not", "enum"}


def test_a_schema_without_a_type_is_that_of_an_object() -> None:
    found = read_schema({"properties": {"a": TEXT}, "required": ["a"]})
    assert found == {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}
    assert read_schema({"type": "array", "items": TEXT}) == {"type": "object", "properties": {}}


def test_alternatives_within_a_schema_stay() -> None:
    schema = {"type": "object", "properties": {"a": {"anyOf": [TEXT, {"type": "null"}]}}}
    assert read_schema({**schema, "required": ["a"]}) == {**schema, "required": ["a"]}


def test_alternatives_that_all_refer_to_one_part_cost_no_more_than_it() -> None:
    part = {"properties": {f"p{number}": {} for number in range(700)}}
    many = [{"$ref": "#/$defs/a"}] * 600
    schema = {"type": "object", "anyOf": many, "$defs": {"a": part}}
    with busy_for_less_than(0.2):
        for _ in range(20):
            assert len(read_schema(schema)["properties"]) == 700


def test_of_a_result_with_very_many_parts_the_first_are_read_and_the_rest_is_told() -> None:
    parts = [{"type": "text", "text": str(number)} for number in range(300_000)]
    with busy_for_less_than(0.2):
        text = read_call_result({"content": parts}).text
    assert text.splitlines()[:2] == ["0", "1"]
    assert text.endswith(f"[{300_000 - MOST_CONTENTS:,} more parts: cannot be shown here]")


@pytest.mark.parametrize("kind", ["image/png", "image/jpeg", "image/jpg", "image/x-unknown"])
def test_an_image_has_the_type_of_its_bytes_whatever_the_server_says(kind: str) -> None:
    assert read_image(kind, PNG) == ("", (RemoteImage("image/png", PNG),))
    assert read_image(kind, JPEG) == ("", (RemoteImage("image/jpeg", JPEG),))


def test_the_base64_of_an_image_comes_without_line_breaks() -> None:
    broken = "\n".join(PNG[at : at + 20] for at in range(0, len(PNG), 20))
    assert read_image("image/png", broken)[1] == (RemoteImage("image/png", PNG),)


@pytest.mark.parametrize(
    "data",
    ["", "no base64!", base64.b64encode(b"<svg/>").decode(), PNG[:11] + "A" * 5_000_001],
)
def test_what_no_supplier_takes_as_an_image_is_told_instead(data: str) -> None:
    assert read_image("image/png", data) == ("[image/png: cannot be shown here]", ())


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (rb'{"text": "cut \ud83d"}', "cut "),
        (rb'{"text": "cut \ud83d, and on"}', "cut \ufffd, and on"),
        (rb'{"text": "whole \ud83d\ude00"}', "whole \U0001f600"),
        (b'{"text": "cut \xf0\x9f"}', "cut \ufffd"),
        (b'{"text": "no number", "at": NaN, "to": -Infinity}', "no number"),
    ],
)
def test_a_text_that_is_cut_within_a_character_does_not_lose_the_message(
    line: bytes, text: str
) -> None:
    (message,) = decode_messages(line)
    assert message["text"] == text


@pytest.mark.parametrize("line", [b"", b"hello", b'{"text": "', b"[" * 100_000, b"7", b"\xff"])
def test_what_is_no_json_is_no_message(line: bytes) -> None:
    assert decode_messages(line) == ()


def test_a_message_with_so_many_values_that_all_else_would_wait_is_refused() -> None:
    body = b'{"id": 1, "result": {"content": [%b0]}}' % (b"[]," * MAX_PARTS)
    with pytest.raises(TooLarge):
        decode_messages(body)
    with pytest.raises(TooLarge):
        decode_messages(body.decode())


@pytest.mark.parametrize("depth", [40, 200, 2_000])
def test_a_tool_whose_schema_is_nested_too_deep_takes_any_object(depth: int) -> None:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    assert read_schema(schema) == {"type": "object", "properties": {}}


@pytest.mark.parametrize("depth", [10, 2_000])
def test_structured_content_of_any_depth_is_a_result(depth: int) -> None:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    text = read_call_result({"structuredContent": value}).text
    assert text.startswith("[[[[") or "too deep" in text


NAMES = st.lists(
    st.one_of(st.sampled_from(["a", "$a", "_a", "a[]", "a b", "x" * 65, ""]), st.text(max_size=70)),
    unique=True,
)


@examples(NAMES)
def test_properties_have_names_that_suppliers_take_and_calls_the_servers_own(
    names: list[str],
) -> None:
    schema = {"type": "object", "properties": dict.fromkeys(names, TEXT), "required": names}
    tool = read_tool({"name": "find", "inputSchema": schema})
    assert tool
    offered: Any = tool.schema
    assert all(re.fullmatch("[A-Za-z0-9_.-]{1,64}", name) for name in offered["properties"])
    assert list(offered["properties"]) == offered.get("required", [])
    call = {name: number for number, name in enumerate(offered["properties"])}
    assert tool.restore_names(call) == {name: number for number, name in enumerate(names)}
    assert [name for name in names if name in offered["properties"]] == [
        name for name in names if re.fullmatch("[A-Za-z0-9_.-]{1,64}", name)
    ]


def test_a_renamed_property_has_its_true_name_as_its_title() -> None:
    schema = {"type": "object", "properties": {"filter[id]": TEXT, "$top": {**TEXT, "title": "T"}}}
    assert read_schema(schema)["properties"] == {
        "filter_id_": {"title": "filter[id]", **TEXT},
        "_top": {"title": "T", **TEXT},
    }

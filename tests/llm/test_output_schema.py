"""Schemas of replies: which are taken, what fits them, and that nothing is fetched for them."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from agentd.core.errors import BadRequest
from agentd.llm.output_schema import LARGEST_SCHEMA, find_mismatch, parse_output_schema

pytest.importorskip("jsonschema", reason="jsonschema is not installed: pip install '.[schema]'")

CITY = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer", "minimum": 0}},
    "required": ["name", "people"],
    "additionalProperties": False,
}
SCHEMA = json.dumps(CITY)


def test_what_fits_and_what_does_not_with_its_place():
    def explain(reply: str) -> str:
        return find_mismatch(SCHEMA.encode(), reply.encode())

    assert explain('{"name": "Riga", "people": 605273}') == ""
    assert explain('{"name": "Riga", "people": -1}').startswith("people: -1 is")
    assert "'people' is a required property" in explain('{"name": "Riga"}')
    assert "is not of type 'object'" in explain("3")


def test_a_schema_comes_back_as_json():
    assert json.loads(parse_output_schema(CITY)) == CITY


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "array"}, "must describe an object"),
        ({}, "must describe an object"),
        ({"type": "object", "properties": 3}, "is no JSON Schema"),
        ({"type": "object", "required": "name"}, "is no JSON Schema"),
        ({"type": "object", "title": "x" * LARGEST_SCHEMA}, "is larger than"),
    ],
)
def test_what_is_no_schema_of_an_object_is_refused(schema, said):
    with pytest.raises(BadRequest, match=said):
        parse_output_schema(schema)


def test_nothing_is_fetched_for_a_reference():
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        address = f"http://127.0.0.1:{server.server_port}/schema"
        schema = {"type": "object", "properties": {"a": {"$ref": address}}}
        why = find_mismatch(parse_output_schema(schema).encode(), b'{"a": 1}')
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert why.startswith("The schema cannot be applied")
    assert asked == []

"""A reply is checked in a process of its own, whatever its schema demands."""

import asyncio
import json
import sys

import pytest

from agentd.llm.output_schema import parse_output_schema
from agentd.llm.output_schema_check import explain_mismatch

pytest.importorskip("jsonschema", reason="jsonschema is not installed: pip install '.[schema]'")

NESTED = {"properties": {"x": {"$ref": "#/$defs/a"}}, "required": ["x"]}
BACKTRACKING = {"type": "object", "properties": {"x": {"pattern": "^(a+)+$"}}}
BRANCHING = {**NESTED, "type": "object", "$defs": {"a": {"anyOf": [NESTED, NESTED, False]}}}


def nest(depth: int) -> str:
    return '{"x":' * depth + "{}" + "}" * depth


def explain(schema: dict[str, object], reply: str, seconds: int = 10) -> str:
    return asyncio.run(explain_mismatch(parse_output_schema(schema), reply, seconds))


def test_a_reply_fits_or_the_first_reason_is_told():
    schema = {"type": "object", "properties": {"name": {"type": "string", "title": "a\nb"}}}
    assert explain(schema, '{"name": "Rīga"}') == ""
    assert explain(schema, '\n{"name":\n"Rīga"}\n') == ""
    assert explain(schema, '{"name": 3}') == "name: 3 is not of type 'string'"
    assert explain(schema, '{"name": ["ī"]}') == "name: ['ī'] is not of type 'string'"


@pytest.mark.parametrize("reply", ["Riga has people.", "", "[" * 100_000, '"\ud800"', "{}\n{}"])
def test_what_is_not_json_does_not_fit(reply):
    assert explain({"type": "object"}, reply).startswith("The reply is not JSON: ")


@pytest.mark.parametrize(
    ("schema", "reply"),
    [(BACKTRACKING, json.dumps({"x": "a" * 60 + "!"})), (BRANCHING, nest(60))],
    ids=["an expression that backtracks", "references that branch"],
)
def test_a_check_that_takes_for_ever_is_ended_and_keeps_nobody_waiting(schema, reply):
    async def check_and_count() -> tuple[str, int]:
        check = asyncio.create_task(explain_mismatch(parse_output_schema(schema), reply, 1))
        passes = 0
        while not check.done():
            await asyncio.wait([check], timeout=0.01)
            passes += 1
        return check.result(), passes

    why, passes = asyncio.run(check_and_count())
    assert why.startswith("The reply could not be checked within 1 s: the schema's")
    assert passes > 10, "the loop waited for the check"


@pytest.mark.parametrize("program", ["/bin/false", "/nowhere/python"])
def test_a_check_that_cannot_be_done_is_told_with_its_cause(monkeypatch, program):
    monkeypatch.setattr(sys, "executable", program)
    assert explain({"type": "object"}, "{}").startswith("The reply could not be checked: ")

"""Replies that have to fit a schema: asked for in each dialect, and sent back until they do."""

import json
from pathlib import Path

import pytest

from agentd.agent.engines.native.turn import MOST_CORRECTIONS
from tests.agent.engines.native.scene import Scene, read_replies
from tests.supplier.steps import Call, Say
from tests.supplier.supplier import Supplier

pytest.importorskip("jsonschema", reason="jsonschema is not installed: pip install '.[schema]'")

DIALECTS = ("openai-chat", "openai-responses", "anthropic")
CITY = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
SCHEMA = json.dumps(CITY)
GOOD = '{"name": "Riga"}'


@pytest.fixture
def supplier():
    with Supplier() as it:
        yield it


@pytest.fixture
def scene(tmp_path: Path, supplier) -> Scene:
    root = tmp_path / "work"
    root.mkdir()
    return Scene(root, supplier)


@pytest.mark.parametrize(
    ("dialect", "place", "closed"),
    [
        ("openai-chat", ("response_format", "json_schema", "schema"), {}),
        ("openai-responses", ("text", "format", "schema"), {}),
        ("anthropic", ("output_config", "format", "schema"), {"additionalProperties": False}),
    ],
)
def test_each_dialect_asks_in_its_own_way_in_every_request_of_the_turn(
    scene, supplier, dialect, place, closed
):
    scene.dialect = dialect
    supplier.script(Call("list_files", {}), Say(GOOD))
    assert read_replies(scene.run(output_schema=SCHEMA)) == [GOOD]
    for request in supplier.requests:
        found = request.body
        for name in place:
            found = found[name]
        assert found == CITY | closed
    supplier.script(Say("Riga."))
    scene.run()
    assert place[0] not in supplier.requests[-1].body


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_reply_that_does_not_fit_is_sent_back_with_the_reason(scene, supplier, dialect):
    scene.dialect = dialect
    supplier.script(Say("Riga."), Say('{"city": "Riga"}'), Say(GOOD))
    assert read_replies(scene.run(output_schema=SCHEMA))[-1] == GOOD
    assert "The reply is not JSON" in supplier.requests[1].prompt
    assert "'name' is a required property" in supplier.requests[2].prompt


def test_a_model_that_never_learns_is_not_asked_for_ever(scene, supplier):
    supplier.answer_always(Say("Riga."))
    scene.run(output_schema=SCHEMA)
    assert len(supplier.requests) == 1 + MOST_CORRECTIONS


def test_a_sub_task_answers_in_words(scene, supplier):
    task = {"prompt": "Find it.", "title": "look", "tools": "read"}
    supplier.script(Call("run_task", task), Say("It is Riga."), Say(GOOD))
    assert read_replies(scene.run(output_schema=SCHEMA)) == [GOOD]
    asked = ["response_format" in request.body for request in supplier.requests]
    assert asked[0] and asked[-1]
    assert not all(asked)

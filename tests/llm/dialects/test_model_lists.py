"""Lists of models, read by the vendors' own clients."""

from anthropic.types import ModelInfo
from openai.types import Model

from agentd.llm.dialects import model_lists as lists
from agentd.llm.dialects.model_lists import ListedModel

MODELS = [ListedModel("a/b", 4096, 200_000, 1_700_000_000), ListedModel("c")]


def test_openai():
    body = lists.render_openai_list(MODELS)
    assert body["object"] == "list"
    first, second = (Model.model_validate(model, strict=True) for model in body["data"])
    assert (first.id, first.created, first.owned_by) == ("a/b", 1_700_000_000, "agentd")
    assert (second.id, second.object) == ("c", "model")


def test_anthropic():
    body = lists.render_anthropic_list(iter(MODELS))
    first, second = (ModelInfo.model_validate(model) for model in body["data"])
    assert (first.id, first.max_tokens, first.max_input_tokens) == ("a/b", 4096, 200_000)
    assert first.created_at.timestamp() == 1_700_000_000
    assert (second.type, second.max_tokens) == ("model", None)
    assert (body["has_more"], body["first_id"], body["last_id"]) == (False, "a/b", "c")


def test_gemini():
    first, second = lists.render_gemini_list(MODELS)["models"]
    assert (first["name"], first["inputTokenLimit"]) == ("models/a/b", 200_000)
    assert (first["displayName"], first["outputTokenLimit"]) == ("a/b", 4096)
    assert second["supportedGenerationMethods"] == [
        "generateContent",
        "streamGenerateContent",
        "countTokens",
    ]
    assert "inputTokenLimit" not in second


def test_no_model_at_all():
    assert lists.render_openai_list([])["data"] == lists.render_gemini_list([])["models"] == []
    assert lists.render_anthropic_list([]) == {
        "data": [],
        "has_more": False,
        "first_id": None,
        "last_id": None,
    }

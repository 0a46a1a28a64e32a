"""JSON Schemas of the bodies at the model gateway's addresses.

The vendors' own references describe these bodies in full; here stands what the gateway itself
needs or promises. Whatever else a body holds is passed on, or refused by its name.
"""

from agentd.http.routing import Schema

_TEXT: Schema = {"type": "string"}
_NAME: Schema = {"type": "string", "minLength": 1}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_OBJECT: Schema = {"type": "object"}
_OBJECTS: Schema = {"type": "array", "items": _OBJECT}
_STREAM: Schema = {
    "type": "boolean",
    "description": "True to stream the response as server-sent events.",
}
_MODEL: Schema = {**_NAME, "description": "As GET /v1/models lists it."}


def _make_object(*needed: str, **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(needed)}


def _make_choices(kind: str) -> Schema:
    about: dict[str, Schema] = {"id": _TEXT, "object": {"const": kind}, "model": _TEXT}
    return _make_object("id", "choices", **about, choices=_OBJECTS, usage=_OBJECT)


def _list(item: Schema) -> Schema:
    return {"type": "array", "items": item}


CHAT = _make_object(
    "model",
    "messages",
    model=_MODEL,
    messages=_OBJECTS,
    stream=_STREAM,
    max_completion_tokens=_COUNT,
    tools=_OBJECTS,
)
CHAT_REPLY = _make_choices("chat.completion")
RESPONSES = _make_object(
    "model",
    "input",
    model=_MODEL,
    input={"anyOf": [_TEXT, _OBJECTS]},
    instructions={"type": ["string", "null"]},
    stream=_STREAM,
    max_output_tokens=_COUNT,
    tools=_OBJECTS,
)
RESPONSE = _make_object(
    "id", "output", id=_TEXT, object={"const": "response"}, status=_TEXT, output=_OBJECTS
)
MESSAGES = _make_object(
    "model",
    "messages",
    "max_tokens",
    model=_MODEL,
    messages=_OBJECTS,
    max_tokens=_COUNT,
    system={"anyOf": [_TEXT, _OBJECTS]},
    stream=_STREAM,
    tools=_OBJECTS,
)
MESSAGE = _make_object(
    "id",
    "content",
    id=_TEXT,
    type={"const": "message"},
    role={"const": "assistant"},
    model=_TEXT,
    content=_OBJECTS,
    stop_reason={"type": ["string", "null"]},
    usage=_OBJECT,
)
COUNTING = _make_object("model", "messages", model=_MODEL, messages=_OBJECTS, tools=_OBJECTS)
COUNTED = _make_object("input_tokens", input_tokens=_COUNT)
COMPLETION = _make_object(
    "model",
    "prompt",
    model=_MODEL,
    prompt={"anyOf": [_TEXT, {"type": "array", "items": {}}]},
    suffix={"type": ["string", "null"]},
    stream=_STREAM,
    max_tokens=_COUNT,
)
COMPLETED = _make_choices("text_completion")
_EMBEDDED_INPUT: Schema = {"anyOf": [_NAME, {"type": "array", "items": {}, "minItems": 1}]}
EMBEDDING = _make_object(
    "model",
    "input",
    model=_MODEL,
    input=_EMBEDDED_INPUT,
)
EMBEDDED = _make_object("data", data=_OBJECTS, model=_TEXT, usage=_OBJECT)
_GENERATION = _make_object(
    "contents", contents=_OBJECTS, systemInstruction=_OBJECT, generationConfig=_OBJECT
)
GENERATE: Schema = {
    "anyOf": [
        _GENERATION,
        _make_object("content", content=_OBJECT, taskType=_TEXT, outputDimensionality=_COUNT),
        _make_object("requests", requests=_OBJECTS),
    ]
}
GENERATED: Schema = {
    "anyOf": [
        _make_object("candidates", candidates=_OBJECTS, usageMetadata=_OBJECT),
        _make_object("totalTokens", totalTokens=_COUNT),
        _make_object("embedding", embedding=_OBJECT, usageMetadata=_OBJECT),
        _make_object("embeddings", embeddings=_OBJECTS, usageMetadata=_OBJECT),
    ]
}

_OPENAI_MODEL = _make_object(
    "id", "object", id=_TEXT, object={"const": "model"}, created=_COUNT, owned_by=_TEXT
)
_ANTHROPIC_MODEL = _make_object(
    "id", "type", id=_TEXT, type={"const": "model"}, display_name=_TEXT, created_at=_TEXT
)
GEMINI_MODEL = _make_object(
    "name", name=_TEXT, displayName=_TEXT, inputTokenLimit=_COUNT, outputTokenLimit=_COUNT
)
MODEL: Schema = {"anyOf": [_OPENAI_MODEL, _ANTHROPIC_MODEL, GEMINI_MODEL]}
GEMINI_MODELS = _make_object("models", models=_list(GEMINI_MODEL))
MODELS: Schema = {
    "anyOf": [
        _make_object("data", "object", object={"const": "list"}, data=_list(_OPENAI_MODEL)),
        _make_object("data", "has_more", has_more={"const": False}, data=_list(_ANTHROPIC_MODEL)),
        GEMINI_MODELS,
    ]
}

"""The rows of the model gateway's data plane."""

from functools import partial

from agentd.access.gate import Surface
from agentd.web import dialect_shapes as shapes
from agentd.web.gateway import Gateway
from agentd.web.table import Parameter, Route
from agentd.web.telling import Telling

STREAM = ("text/event-stream",)
HELLO = [{"role": "user", "content": "Say hello."}]

VERSION = Parameter(
    "anthropic-version", "header", "Of Anthropic's API; clients of it send it.", {"type": "string"}
)
MODEL = Parameter("name", "path", "As GET /v1/models lists it.", {"type": "string", "minLength": 1})
CALL = Parameter(
    "name",
    "path",
    "A model and what is wanted of it: MODEL:generateContent, MODEL:streamGenerateContent or"
    " MODEL:countTokens.",
    {"type": "string", "pattern": "^.+:(generateContent|streamGenerateContent|countTokens)$"},
)
ALT = Parameter(
    "alt", "query", "Must be sse where a stream is wanted: it is told as events.", {"const": "sse"}
)
HEADERS = {
    "x-agentd-request-id": "The request's id, as reports have it.",
    "x-agentd-channel": "The channel that answered; absent where none was asked.",
    "x-agentd-dropped": "What of the request its supplier, who speaks another dialect, was not"
    " told, by the names of the fields; absent where it was told all.",
}
"""What every answer's head tells beside the body."""


def rows(gateway: Gateway, max_body: int) -> tuple[Route, ...]:
    """``max_body`` is the most bytes of a request."""
    ask = partial(
        Route,
        "POST",
        surface=Surface.MODELS,
        most=max_body,
        ends_with_caller=True,
        answer_headers=HEADERS,
    )
    gemini = partial(
        ask,
        telling=Telling("gemini"),
        reads=shapes.GENERATE,
        tells=shapes.GENERATED,
        also=STREAM,
        parameters=(CALL, ALT),
        example={"contents": [{"role": "user", "parts": [{"text": "Say hello."}]}]},
    )
    return (
        ask(
            "/v1/chat/completions",
            endpoint=gateway.chat_completions,
            summary="A reply by OpenAI's chat completions, streamed or whole.",
            telling=Telling("openai-chat"),
            reads=shapes.CHAT,
            tells=shapes.CHAT_REPLY,
            also=STREAM,
            example={"model": "small", "messages": HELLO},
            operation="create_chat_completion",
        ),
        ask(
            "/v1/responses",
            endpoint=gateway.responses,
            summary="A reply by OpenAI's Responses API, streamed or whole.",
            telling=Telling("openai-responses"),
            reads=shapes.RESPONSES,
            tells=shapes.RESPONSE,
            also=STREAM,
            example={"model": "small", "input": "Say hello."},
            operation="create_response",
        ),
        ask(
            "/v1/messages",
            endpoint=gateway.anthropic_messages,
            summary="A reply by Anthropic's messages, streamed or whole.",
            telling=Telling("anthropic"),
            reads=shapes.MESSAGES,
            tells=shapes.MESSAGE,
            also=STREAM,
            parameters=(VERSION,),
            example={"model": "small", "max_tokens": 100, "messages": HELLO},
            operation="create_message",
        ),
        ask(
            "/v1/messages/count_tokens",
            endpoint=gateway.count_tokens,
            summary="How many tokens a request has: the supplier's count, or an estimate.",
            telling=Telling("anthropic"),
            reads=shapes.COUNTING,
            tells=shapes.COUNTED,
            parameters=(VERSION,),
            example={"model": "small", "messages": HELLO},
        ),
        ask(
            "/v1/embeddings",
            endpoint=gateway.embeddings,
            summary="Embeddings, by OpenAI's API.",
            telling=Telling("openai-chat"),
            reads=shapes.EMBEDDING,
            tells=shapes.EMBEDDED,
            example={"model": "small", "input": "hello"},
            operation="create_embeddings",
        ),
        gemini(
            "/v1beta/models/{name}",
            endpoint=gateway.gemini,
            summary="A reply by Gemini, streamed or whole, or a count of tokens.",
            operation="generate_content",
        ),
        gemini(
            "/v1/models/{name}",
            endpoint=gateway.newer_gemini,
            summary="The same, where newer clients of Gemini look for it.",
            operation="generate_content_v1",
        ),
        *_lists(gateway),
    )


def _lists(gateway: Gateway) -> tuple[Route, ...]:
    tell = partial(Route, "GET", surface=Surface.MODELS)
    return (
        tell(
            "/v1/models",
            endpoint=gateway.list_models,
            summary="The models that the key may call, in the dialect of the caller.",
            telling=Telling("openai-chat", ()),
            tells=shapes.MODELS,
            parameters=(VERSION,),
        ),
        tell(
            "/v1/models/{name}",
            endpoint=gateway.one_model,
            summary="One model that the key may call.",
            telling=Telling("openai-chat", ("not_found",)),
            tells=shapes.MODEL,
            parameters=(MODEL, VERSION),
            operation="get_model",
        ),
        tell(
            "/v1beta/models",
            endpoint=gateway.gemini_models,
            summary="The models that the key may call, as Gemini lists them.",
            telling=Telling("gemini", ()),
            tells=shapes.GEMINI_MODELS,
            operation="list_gemini_models",
        ),
        tell(
            "/v1beta/models/{name}",
            endpoint=gateway.gemini_model,
            summary="One model that the key may call, as Gemini has it.",
            telling=Telling("gemini", ("not_found",)),
            tells=shapes.GEMINI_MODEL,
            parameters=(MODEL,),
            operation="get_gemini_model",
        ),
    )

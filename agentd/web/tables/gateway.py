"""The rows of the model gateway's data plane."""

from functools import partial

from agentd.access.gate import Surface
from agentd.web.gateway import Gateway, telling
from agentd.web.table import Parameter, Route

VERSION = Parameter(
    "anthropic-version", "header", "Of Anthropic's API; clients of it send it.", {"type": "string"}
)


def rows(gateway: Gateway, max_body: int) -> tuple[Route, ...]:
    """``max_body`` is the most bytes of a request."""
    openai, responses = telling("openai-chat"), telling("openai-responses")
    anthropic, gemini = telling("anthropic"), telling("gemini")
    ask = partial(Route, "POST", surface=Surface.MODELS, most=max_body, ends_with_caller=True)
    tell = partial(Route, "GET", surface=Surface.MODELS)
    return (
        ask(
            "/v1/chat/completions",
            endpoint=gateway.chat_completions,
            summary="A reply by OpenAI's chat completions, streamed or whole.",
            telling=openai,
        ),
        ask(
            "/v1/responses",
            endpoint=gateway.responses,
            summary="A reply by OpenAI's Responses API, streamed or whole.",
            telling=responses,
        ),
        ask(
            "/v1/messages",
            endpoint=gateway.anthropic_messages,
            summary="A reply by Anthropic's messages, streamed or whole.",
            telling=anthropic,
            parameters=(VERSION,),
        ),
        ask(
            "/v1/messages/count_tokens",
            endpoint=gateway.count_tokens,
            summary="How many tokens a request has: the supplier's count, or an estimate.",
            telling=anthropic,
            parameters=(VERSION,),
        ),
        ask(
            "/v1/embeddings",
            endpoint=gateway.embeddings,
            summary="Embeddings, by OpenAI's API.",
            telling=openai,
        ),
        ask(
            "/v1beta/models/{call}",
            endpoint=gateway.gemini,
            summary="A reply by Gemini: {model}:generateContent or :streamGenerateContent.",
            telling=gemini,
        ),
        tell(
            "/v1/models",
            endpoint=gateway.list_models,
            summary="The models that the key may call, in the dialect of the caller.",
            telling=openai,
            parameters=(VERSION,),
        ),
        tell(
            "/v1/models/{name}",
            endpoint=gateway.one_model,
            summary="One model that the key may call.",
            telling=openai,
            parameters=(VERSION,),
        ),
        tell(
            "/v1beta/models",
            endpoint=gateway.gemini_models,
            summary="The models that the key may call, as Gemini lists them.",
            telling=gemini,
        ),
    )

"""The model gateway over HTTP: what clients of OpenAI, Anthropic and Gemini call.

Errors are rendered in the dialect of the endpoint that was called, or of the caller where several
dialects have the same path.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from agentd.core.errors import BadRequest, NotFound, Unauthorized
from agentd.gateway.channels.routing import list_callable, make_not_found
from agentd.gateway.keys.model import AccessKey
from agentd.gateway.relay import schemas as shapes
from agentd.gateway.relay.error_bodies import (
    DialectErrorRenderer,
    SharedPathErrorRenderer,
    detect_caller_dialect,
)
from agentd.gateway.relay.relay import Relay
from agentd.gateway.relay.request import EndpointKind, GatewayEndpoint, GatewayRequest
from agentd.http.access import RouteGroup
from agentd.http.content_encoding import decompress_body
from agentd.http.request import Request, Response
from agentd.http.routing import Parameter, Route
from agentd.llm.dialects import model_lists as lists
from agentd.llm.dialects.value_count import check_value_count
from agentd.models.gateway_model import GatewayModel

CHAT = GatewayEndpoint("/v1/chat/completions", "openai-chat")
COMPLETIONS = GatewayEndpoint("/v1/completions", "openai-chat", "completion")
RESPONSES = GatewayEndpoint("/v1/responses", "openai-responses")
MESSAGES = GatewayEndpoint("/v1/messages", "anthropic")
EMBEDDINGS = GatewayEndpoint("/v1/embeddings", "openai-chat", "embeddings")
COUNT = GatewayEndpoint("/v1/messages/count_tokens", "anthropic", "count")
GEMINI = "/v1beta/models/{name}"
GEMINI_V1 = "/v1/models/{name}"

_GEMINI_KINDS: Mapping[str, EndpointKind] = {
    **dict.fromkeys(lists.GEMINI_METHODS, "reply"),
    "countTokens": "count",
    **dict.fromkeys(lists.GEMINI_EMBEDDING_METHODS, "embeddings"),
}
"""The methods of a model at Gemini's addresses, each with its kind of request."""

_FORWARDED = ("Anthropic-Version", "Anthropic-Beta", "Openai-Beta")
"""Request headers that are forwarded to a supplier of the same dialect."""

_TRACE = ("traceparent", "tracestate")
"""Request headers with the caller's trace (W3C Trace Context)."""

_NO_HEADERS: Mapping[str, str] = {}


class AccessKeyAuthenticator(Protocol):
    """The access keys by their ids."""

    def find(self, key_id: str) -> AccessKey | None:
        """Return the key with this id if it is enabled and not expired."""
        ...


class GatewayEndpoints:
    """The endpoints of the model gateway."""

    def __init__(
        self,
        relay: Relay,
        keys: AccessKeyAuthenticator,
        models: Callable[[], Mapping[str, GatewayModel]],
        max_body: Callable[[], int],
    ) -> None:
        """``max_body`` returns the largest allowed body in bytes, also decompressed."""
        self.get_max_body = max_body
        self._relay = relay
        self._keys = keys
        self._models = models

    async def serve_chat_completions(self, call: Request) -> Response:
        """Serve ``POST /v1/chat/completions``."""
        return await self._answer(CHAT, call)

    async def serve_completions(self, call: Request) -> Response:
        """Serve ``POST /v1/completions``."""
        return await self._answer(COMPLETIONS, call)

    async def serve_responses(self, call: Request) -> Response:
        """Serve ``POST /v1/responses``."""
        return await self._answer(RESPONSES, call)

    async def serve_anthropic_messages(self, call: Request) -> Response:
        """Serve ``POST /v1/messages``."""
        return await self._answer(MESSAGES, call)

    async def count_tokens(self, call: Request) -> Response:
        """Serve ``POST /v1/messages/count_tokens``."""
        return await self._answer(COUNT, call)

    async def serve_embeddings(self, call: Request) -> Response:
        """Serve ``POST /v1/embeddings``."""
        return await self._answer(EMBEDDINGS, call)

    async def serve_gemini(self, call: Request) -> Response:
        """Serve ``POST /v1beta/models/{model}:generateContent`` and Gemini's other methods."""
        return await self._answer_gemini(GEMINI, call)

    async def serve_gemini_v1(self, call: Request) -> Response:
        """Serve ``POST /v1/models/{model}:generateContent``, which newer Gemini clients use."""
        return await self._answer_gemini(GEMINI_V1, call)

    def list_models(self, call: Request) -> Response:
        """Serve ``GET /v1/models``: the models that the key may call, in the caller's dialect."""
        listed = self._list_models(call)
        match detect_caller_dialect(call.headers, call.query_string):
            case "anthropic":
                return Response(lists.render_anthropic_list(listed))
            case "gemini":
                return Response(lists.render_gemini_list(listed))
        return Response(lists.render_openai_list(listed))

    def get_model(self, call: Request) -> Response:
        """Serve ``GET /v1/models/{name}``."""
        one = self._find_model(call)
        match detect_caller_dialect(call.headers, call.query_string):
            case "anthropic":
                return Response(lists.render_anthropic_model(one))
            case "gemini":
                return Response(lists.render_gemini_model(one))
        return Response(lists.render_openai_model(one))

    def list_gemini_models(self, call: Request) -> Response:
        """Serve ``GET /v1beta/models``."""
        return Response(lists.render_gemini_list(self._list_models(call)))

    def get_gemini_model(self, call: Request) -> Response:
        """Serve ``GET /v1beta/models/{name}``."""
        return Response(lists.render_gemini_model(self._find_model(call)))

    async def _answer_gemini(self, path: str, call: Request) -> Response:
        model, _, method = call.get_name().rpartition(":")
        kind = _GEMINI_KINDS.get(method)
        if kind is None:
            known = ", ".join(_GEMINI_KINDS)
            raise NotFound(f"Unknown method {method[:40]!r}; expected one of {known}")
        stream = method == "streamGenerateContent"
        if stream and call.get_query("alt") != "sse":
            raise BadRequest(
                "Streaming is available as server-sent events only: add ?alt=sse to the URL"
            )
        is_batch = method == "batchEmbedContents"
        endpoint = GatewayEndpoint(path, "gemini", kind)
        return await self._answer(endpoint, call, model, stream=stream, is_batch=is_batch)

    async def _answer(
        self,
        endpoint: GatewayEndpoint,
        call: Request,
        model: str = "",
        *,
        stream: bool = False,
        is_batch: bool = False,
    ) -> Response:
        key = self._require_key(call)
        body = await decompress_body(
            call.body, call.headers.get("Content-Encoding", ""), self.get_max_body()
        )
        check_value_count(body)
        request = GatewayRequest(
            id=call.request_id,
            endpoint=endpoint,
            key=key,
            body=body,
            headers=_select_headers(call, _FORWARDED),
            model=model,
            stream=stream,
            is_batch=is_batch,
            trace_context=_select_headers(call, _TRACE) if self._relay.is_traced else _NO_HEADERS,
        )
        response = await self._relay.answer(request)
        return Response(response.body, response.status, response.headers, chunks=response.stream)

    def _find_model(self, call: Request) -> lists.ListedModel:
        name = call.get_name()
        listed = {one.name: one for one in self._list_models(call)}
        if name not in listed:
            raise make_not_found(name, list(listed))
        return listed[name]

    def _list_models(self, call: Request) -> list[lists.ListedModel]:
        models = self._models()
        return [
            lists.ListedModel(name, models[name].max_output, models[name].context)
            for name in list_callable(models, self._require_key(call))
        ]

    def _require_key(self, call: Request) -> AccessKey:
        key = self._keys.find(call.caller.access_key_id)
        if key is None:  # it was valid when the request's head arrived
            raise Unauthorized("Access key revoked or expired")
        return key


def _select_headers(call: Request, names: Sequence[str]) -> dict[str, str]:
    return {name: call.headers[name] for name in names if name in call.headers}


STREAM = ("text/event-stream",)
EXAMPLE_MESSAGES = [{"role": "user", "content": "Say hello."}]

VERSION = Parameter(
    "anthropic-version",
    "header",
    "Version of Anthropic's API, sent by its clients.",
    {"type": "string"},
)
MODEL = Parameter(
    "name", "path", "A model name as listed by GET /v1/models.", {"type": "string", "minLength": 1}
)
MODEL_AND_METHOD = Parameter(
    "name",
    "path",
    f"Model and method, such as MODEL:generateContent. The methods are {', '.join(_GEMINI_KINDS)}.",
    {"type": "string", "pattern": f"^.+:({'|'.join(_GEMINI_KINDS)})$"},
)
ALT = Parameter("alt", "query", "Required for streaming: server-sent events.", {"const": "sse"})
HEADERS = {
    "x-agentd-request-id": "The request's id, as in reports.",
    "x-agentd-channel": "The channel that answered; absent if no supplier was called.",
    "x-agentd-fallback": "The fallback model that answered; absent if it is the requested one.",
    "x-agentd-dropped": "Names of the request fields that the supplier's dialect cannot express and"
    " that were left out; absent if there are none.",
}
"""Headers of every response."""


def routes(gateway: GatewayEndpoints) -> tuple[Route, ...]:
    """Return the gateway's routes."""
    ask = partial(
        Route,
        "POST",
        group=RouteGroup.MODELS,
        max_body=gateway.get_max_body,
        ends_with_caller=True,
        response_headers=HEADERS,
    )
    return (
        *_list_chat_routes(gateway, ask),
        *_list_other_routes(gateway, ask),
        *_list_model_routes(gateway),  # which tell the dialect where a path has no such method
        *_list_gemini_routes(gateway, ask),
    )


def _list_chat_routes(gateway: GatewayEndpoints, ask: Callable[..., Route]) -> tuple[Route, ...]:
    return (
        ask(
            "/v1/chat/completions",
            endpoint=gateway.serve_chat_completions,
            summary="Create a chat completion (OpenAI), streamed or not.",
            error_renderer=DialectErrorRenderer("openai-chat"),
            raw_request_schema=shapes.CHAT,
            raw_response_schema=shapes.CHAT_REPLY,
            extra_media_types=STREAM,
            example={"model": "small", "messages": EXAMPLE_MESSAGES},
            operation_id="create_chat_completion",
        ),
        ask(
            "/v1/responses",
            endpoint=gateway.serve_responses,
            summary="Create a response (OpenAI Responses API), streamed or not.",
            error_renderer=DialectErrorRenderer("openai-responses"),
            raw_request_schema=shapes.RESPONSES,
            raw_response_schema=shapes.RESPONSE,
            extra_media_types=STREAM,
            example={"model": "small", "input": "Say hello."},
            operation_id="create_response",
        ),
        ask(
            "/v1/messages",
            endpoint=gateway.serve_anthropic_messages,
            summary="Create a message (Anthropic), streamed or not.",
            error_renderer=DialectErrorRenderer("anthropic"),
            raw_request_schema=shapes.MESSAGES,
            raw_response_schema=shapes.MESSAGE,
            extra_media_types=STREAM,
            parameters=(VERSION,),
            example={"model": "small", "max_tokens": 100, "messages": EXAMPLE_MESSAGES},
            operation_id="create_message",
        ),
    )


def _list_other_routes(gateway: GatewayEndpoints, ask: Callable[..., Route]) -> tuple[Route, ...]:
    return (
        ask(
            "/v1/messages/count_tokens",
            endpoint=gateway.count_tokens,
            summary="Count the tokens of a request: the supplier's count, or an estimate.",
            error_renderer=DialectErrorRenderer("anthropic"),
            raw_request_schema=shapes.COUNTING,
            raw_response_schema=shapes.COUNTED,
            parameters=(VERSION,),
            example={"model": "small", "messages": EXAMPLE_MESSAGES},
        ),
        ask(
            "/v1/completions",
            endpoint=gateway.serve_completions,
            summary="Continue a text, or fill a gap in it (OpenAI), streamed or not.",
            error_renderer=DialectErrorRenderer("openai-chat"),
            raw_request_schema=shapes.COMPLETION,
            raw_response_schema=shapes.COMPLETED,
            extra_media_types=STREAM,
            example={"model": "small", "prompt": "def add(a, b):", "suffix": "", "max_tokens": 50},
            operation_id="create_completion",
        ),
        ask(
            "/v1/embeddings",
            endpoint=gateway.serve_embeddings,
            summary="Create embeddings (OpenAI).",
            error_renderer=DialectErrorRenderer("openai-chat"),
            raw_request_schema=shapes.EMBEDDING,
            raw_response_schema=shapes.EMBEDDED,
            example={"model": "small", "input": "hello"},
            operation_id="create_embeddings",
        ),
    )


def _list_gemini_routes(gateway: GatewayEndpoints, ask: Callable[..., Route]) -> tuple[Route, ...]:
    gemini = partial(
        ask,
        takes_slashes=True,
        error_renderer=DialectErrorRenderer("gemini"),
        raw_request_schema=shapes.GENERATE,
        raw_response_schema=shapes.GENERATED,
        extra_media_types=STREAM,
        parameters=(MODEL_AND_METHOD, ALT),
        example={"contents": [{"role": "user", "parts": [{"text": "Say hello."}]}]},
    )
    return (
        gemini(
            "/v1beta/models/{name}",
            endpoint=gateway.serve_gemini,
            summary="Generate content (Gemini), streamed or not; count tokens; create embeddings.",
            operation_id="generate_content",
        ),
        gemini(
            "/v1/models/{name}",
            endpoint=gateway.serve_gemini_v1,
            summary="Generate content (Gemini) at the path that newer clients use.",
            operation_id="generate_content_v1",
        ),
    )


def _list_model_routes(gateway: GatewayEndpoints) -> tuple[Route, ...]:
    get_route = partial(Route, "GET", group=RouteGroup.MODELS)
    return (
        get_route(
            "/v1/models",
            endpoint=gateway.list_models,
            summary="List the models that the key may call, in the caller's dialect.",
            error_renderer=SharedPathErrorRenderer(()),
            raw_response_schema=shapes.MODELS,
            parameters=(VERSION,),
        ),
        get_route(
            "/v1/models/{name}",
            endpoint=gateway.get_model,
            summary="Get a model that the key may call.",
            error_renderer=SharedPathErrorRenderer(("not_found",)),
            raw_response_schema=shapes.MODEL,
            parameters=(MODEL, VERSION),
            takes_slashes=True,
            operation_id="get_model",
        ),
        get_route(
            "/v1beta/models",
            endpoint=gateway.list_gemini_models,
            summary="List the models that the key may call, in Gemini's format.",
            error_renderer=DialectErrorRenderer("gemini", ()),
            raw_response_schema=shapes.GEMINI_MODELS,
            operation_id="list_gemini_models",
        ),
        get_route(
            "/v1beta/models/{name}",
            endpoint=gateway.get_gemini_model,
            summary="Get a model that the key may call, in Gemini's format.",
            error_renderer=DialectErrorRenderer("gemini", ("not_found",)),
            raw_response_schema=shapes.GEMINI_MODEL,
            parameters=(MODEL,),
            takes_slashes=True,
            operation_id="get_gemini_model",
        ),
    )

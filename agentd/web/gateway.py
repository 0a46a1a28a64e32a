"""The model gateway over HTTP: what clients of OpenAI, Anthropic and Gemini call.

Every error is told in the dialect of the address that was called.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from agentd.errors import BadRequest, NotFound, Unauthorized
from agentd.proxy.access_key import AccessKey
from agentd.proxy.channel import ChannelDialect, ProxyModel
from agentd.proxy.dialects.callers import model_lists as lists
from agentd.proxy.gateway.asking import Asked, Endpoint
from agentd.proxy.gateway.relay import Relay
from agentd.proxy.routing import callable_by, unknown
from agentd.web.call import Answer, Call
from agentd.web.compressed import decompressed

CHAT = Endpoint("/v1/chat/completions", "openai-chat")
RESPONSES = Endpoint("/v1/responses", "openai-responses")
MESSAGES = Endpoint("/v1/messages", "anthropic")
EMBEDDINGS = Endpoint("/v1/embeddings", "openai-chat", "embeddings")
COUNT = Endpoint("/v1/messages/count_tokens", "anthropic", "count")
GEMINI = "/v1beta/models/{name}"
GEMINI_NEWER = "/v1/models/{name}"

_CARRIED = ("Anthropic-Version", "Anthropic-Beta", "Openai-Beta")
"""Headers that a supplier of the same dialect is to have, too."""

_GEMINI = ("generateContent", "streamGenerateContent", "countTokens")
"""The methods that Gemini's addresses may name."""


class Keys(Protocol):
    """The access keys by their ids."""

    def find(self, key_id: str) -> AccessKey | None:
        """The key of that id, if it is enabled and not expired."""
        ...


class Gateway:
    """The endpoints."""

    def __init__(
        self,
        relay: Relay,
        keys: Keys,
        models: Callable[[], Mapping[str, ProxyModel]],
        most: Callable[[], int],
    ) -> None:
        """``most`` tells the most bytes of a body, decompressed."""
        self._most = most
        self._relay = relay
        self._keys = keys
        self._models = models

    async def chat_completions(self, call: Call) -> Answer:
        """``POST /v1/chat/completions``."""
        return await self._answer(CHAT, call)

    async def responses(self, call: Call) -> Answer:
        """``POST /v1/responses``."""
        return await self._answer(RESPONSES, call)

    async def anthropic_messages(self, call: Call) -> Answer:
        """``POST /v1/messages``."""
        return await self._answer(MESSAGES, call)

    async def count_tokens(self, call: Call) -> Answer:
        """``POST /v1/messages/count_tokens``."""
        return await self._answer(COUNT, call)

    async def embeddings(self, call: Call) -> Answer:
        """``POST /v1/embeddings``."""
        return await self._answer(EMBEDDINGS, call)

    async def gemini(self, call: Call) -> Answer:
        """``POST /v1beta/models/{model}:generateContent``, or another of its methods."""
        return await self._gemini(GEMINI, call)

    async def newer_gemini(self, call: Call) -> Answer:
        """``POST /v1/models/{model}:generateContent``, as newer clients of Gemini call it."""
        return await self._gemini(GEMINI_NEWER, call)

    def list_models(self, call: Call) -> Answer:
        """``GET /v1/models``: those that the key may call, in the form of the caller's dialect."""
        listed = self._listed(call)
        match _caller(call):
            case "anthropic":
                return Answer(lists.anthropic(listed))
            case "gemini":
                return Answer(lists.gemini(listed))
        return Answer(lists.openai(listed))

    def one_model(self, call: Call) -> Answer:
        """``GET /v1/models/{name}``."""
        one = self._one(call)
        match _caller(call):
            case "anthropic":
                return Answer(lists.anthropic_model(one))
            case "gemini":
                return Answer(lists.gemini_model(one))
        return Answer(lists.openai_model(one))

    def gemini_models(self, call: Call) -> Answer:
        """``GET /v1beta/models``."""
        return Answer(lists.gemini(self._listed(call)))

    def gemini_model(self, call: Call) -> Answer:
        """``GET /v1beta/models/{name}``."""
        return Answer(lists.gemini_model(self._one(call)))

    async def _gemini(self, path: str, call: Call) -> Answer:
        model, _, method = call.name().rpartition(":")
        if method not in _GEMINI:
            raise NotFound(f"There is no method {method[:40]!r}; {', '.join(_GEMINI)} are known")
        stream = method == "streamGenerateContent"
        if stream and call.query("alt") != "sse":
            raise BadRequest(
                "Streams are told as server-sent events only: add ?alt=sse to the address"
            )
        endpoint = Endpoint(path, "gemini", "count" if method == "countTokens" else "reply")
        return await self._answer(endpoint, call, model, stream=stream)

    async def _answer(
        self, endpoint: Endpoint, call: Call, model: str = "", *, stream: bool = False
    ) -> Answer:
        headers = {name: call.headers[name] for name in _CARRIED if name in call.headers}
        asked = Asked(
            id=call.request_id,
            endpoint=endpoint,
            key=self._key(call),
            body=await decompressed(
                call.body, call.headers.get("Content-Encoding", ""), self._most()
            ),
            headers=headers,
            model=model,
            stream=stream,
        )
        answered = await self._relay.answer(asked)
        return Answer(answered.body, answered.status, answered.headers, portions=answered.portions)

    def _one(self, call: Call) -> lists.Listed:
        name = call.name()
        listed = {one.name: one for one in self._listed(call)}
        if name not in listed:
            raise unknown(name, list(listed))
        return listed[name]

    def _listed(self, call: Call) -> list[lists.Listed]:
        models = self._models()
        return [
            lists.Listed(name, models[name].max_output, models[name].context)
            for name in callable_by(models, self._key(call))
        ]

    def _key(self, call: Call) -> AccessKey:
        key = self._keys.find(call.caller.access)
        if key is None:  # it was good when the head came
            raise Unauthorized("The access key is good no more")
        return key


def _caller(call: Call) -> ChannelDialect:
    """Whose client asks at an address that several vendors have: it brings its vendor's header.

    What Google's clients send no header of, they put into the address.
    """
    if "Anthropic-Version" in call.headers:
        return "anthropic"
    if "X-Goog-Api-Key" in call.headers or call.query("key") is not None:
        return "gemini"
    return "openai-chat"

"""The model gateway over HTTP: what clients of OpenAI, Anthropic and Gemini call.

Every error is told in the dialect of the address that was called.
"""

import logging
from collections.abc import Callable, Mapping
from math import ceil
from typing import Protocol

from agentd.errors import AgentdError, NotFound, Unauthorized
from agentd.proxy.access_key import AccessKey
from agentd.proxy.channel import ChannelDialect, ProxyModel
from agentd.proxy.dialects.callers import errors
from agentd.proxy.dialects.callers import model_lists as lists
from agentd.proxy.gateway.asking import Asked, Endpoint
from agentd.proxy.gateway.refusing import refused
from agentd.proxy.gateway.relay import Relay
from agentd.proxy.routing import callable_by
from agentd.redaction import scrub
from agentd.web.call import Answer, Call

log = logging.getLogger(__name__)

CHAT = Endpoint("/v1/chat/completions", "openai-chat")
RESPONSES = Endpoint("/v1/responses", "openai-responses")
MESSAGES = Endpoint("/v1/messages", "anthropic")
EMBEDDINGS = Endpoint("/v1/embeddings", "openai-chat", "embeddings")
COUNT = Endpoint("/v1/messages/count_tokens", "anthropic", "count")
GEMINI = Endpoint("/v1beta/models/{call}", "gemini")
GEMINI_COUNT = Endpoint("/v1beta/models/{call}", "gemini", "count")

_CARRIED = ("Anthropic-Version", "Anthropic-Beta", "Openai-Beta")
"""Headers that a supplier of the same dialect is to have, too."""

_GEMINI = {"generateContent": GEMINI, "streamGenerateContent": GEMINI, "countTokens": GEMINI_COUNT}
"""The methods that Gemini's addresses may name."""


class Keys(Protocol):
    """The access keys by their ids."""

    def find(self, key_id: str) -> AccessKey | None:
        """The key of that id, if it is enabled and not expired."""
        ...


class Gateway:
    """The endpoints."""

    def __init__(
        self, relay: Relay, keys: Keys, models: Callable[[], Mapping[str, ProxyModel]]
    ) -> None:
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
        """``POST /v1beta/models/{model}:generateContent``, or ``:streamGenerateContent``."""
        model, _, method = call.name("call").rpartition(":")
        if method not in _GEMINI:
            raise NotFound(f"There is no method {method[:40]!r}; {', '.join(_GEMINI)} are known")
        stream = method == "streamGenerateContent"
        return await self._answer(_GEMINI[method], call, model, stream=stream)

    def list_models(self, call: Call) -> Answer:
        """``GET /v1/models``: those that the key may call, in the form of the caller's dialect."""
        listed = self._listed(call)
        if "Anthropic-Version" in call.headers:
            return Answer(lists.anthropic(listed))
        return Answer(lists.openai(listed))

    def one_model(self, call: Call) -> Answer:
        """``GET /v1/models/{name}``."""
        name = call.name()
        for one in self._listed(call):
            if one.name == name:
                anthropic = "Anthropic-Version" in call.headers
                return Answer(lists.anthropic_model(one) if anthropic else lists.openai_model(one))
        raise NotFound(f'There is no model "{name[:100]}", or this key may not call it')

    def gemini_models(self, call: Call) -> Answer:
        """``GET /v1beta/models``."""
        return Answer(lists.gemini(self._listed(call)))

    async def _answer(
        self, endpoint: Endpoint, call: Call, model: str = "", *, stream: bool = False
    ) -> Answer:
        headers = {name: call.headers[name] for name in _CARRIED if name in call.headers}
        asked = Asked(
            id=call.request_id,
            endpoint=endpoint,
            key=self._key(call),
            body=call.body,
            headers=headers,
            model=model,
            stream=stream,
        )
        answered = await self._relay.answer(asked)
        return Answer(answered.body, answered.status, answered.headers, portions=answered.portions)

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


def telling(dialect: ChannelDialect) -> Callable[[Exception, str], Answer]:
    """How errors are told to callers of a dialect."""

    def told(error: Exception, request_id: str) -> Answer:
        if not isinstance(error, AgentdError):
            log.error("an unexpected error", exc_info=error)
            error = AgentdError("Unexpected server error")
        no = refused(error)
        status, body = errors.error(dialect, no.kind, scrub(no.message), request_id)
        headers = {"x-agentd-request-id": request_id}
        if no.retry_after is not None:
            headers["Retry-After"] = str(ceil(no.retry_after))
        return Answer(body, status, headers)

    return told

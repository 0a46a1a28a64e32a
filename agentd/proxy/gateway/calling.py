"""A request as the suppliers are to have it, in each one's dialect."""

from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote

import msgspec
from msgspec import Struct, structs

from agentd.proxy.channel import ChannelDialect
from agentd.proxy.dialects.caller import Glance
from agentd.proxy.dialects.callers import CALLERS, embeddings
from agentd.proxy.dialects.callers.output_limit import LEAST_THINKING, with_output_limit
from agentd.proxy.dialects.callers.references import encode_items, items_of_reply
from agentd.proxy.dialects.conversation import (
    Conversation,
    Event,
    SupplierError,
    Thinking,
    UsageSeen,
)
from agentd.proxy.dialects.dialect import DIALECTS, address
from agentd.proxy.dialects.failure import explained
from agentd.proxy.dialects.one_call import OneCallReader, without_further_calls
from agentd.proxy.gateway.asking import Asked
from agentd.proxy.gateway.item_memory import ItemMemory
from agentd.proxy.gateway.lines import Line, Passing, Translating
from agentd.proxy.price import Usage
from agentd.proxy.routing import Choice
from agentd.proxy.secrets.hiding import Hidden
from agentd.proxy.upstream import Request, Timeouts, merged_headers

_EMBEDDINGS = "/v1/embeddings"
_COUNT = "/v1/messages/count_tokens"


class Whole(Struct, frozen=True):
    """An answer that came at once, as the caller is to have it."""

    body: bytes
    usage: Usage | None


class Calling:
    """One request on its way to a supplier; ``created`` tells the seconds since 1970.

    ``output_limit`` is the most tokens of each reply, which suppliers are told; 0: none is known.
    """

    def __init__(
        self,
        asked: Asked,
        glance: Glance,
        output_limit: int,
        hidden: Hidden,
        memory: ItemMemory,
        created: Callable[[], int],
    ) -> None:
        self.asked = asked
        self.caller = CALLERS[asked.endpoint.dialect]
        self.glance = glance
        self._output_limit = output_limit
        self.secrets: Mapping[str, str] = hidden.secrets
        """What may have to be put back, by what stands for it."""
        self._body = hidden.body
        self._memory = memory
        self._created = created
        self._conversation: Conversation | None = None

    @property
    def dialect(self) -> ChannelDialect:
        """The caller's."""
        return self.asked.endpoint.dialect

    @property
    def body(self) -> bytes:
        """The request without its secrets."""
        return self._body

    def request(self, choice: Choice, secret: str, idle: float) -> Request:
        """To be sent; its answer may be silent for ``idle`` seconds.

        Raises ``BadRequest`` for what the supplier's dialect cannot say.
        """
        channel, dialect = choice.channel, DIALECTS[choice.dialect]
        carried = self.asked.headers if choice.passes else {}
        return Request(
            "POST",
            address(channel.url, self._path(choice)),
            merged_headers(dialect.headers(secret), carried, channel.headers),
            self._said(choice),
            Timeouts(head=channel.timeout, idle=idle),
        )

    def dropped(self, choice: Choice) -> list[str]:
        """What of the request this choice's supplier was not told, by the names of the fields.

        Only what changes nothing that was asked for is dropped; anything else is refused.
        """
        known = self._conversation
        if choice.passes or known is None:
            return []
        thoughts = {
            part.dialect
            for message in known.messages
            for part in message.parts
            if isinstance(part, Thinking)
        }
        foreign = bool(thoughts) and choice.dialect not in thoughts
        return [*known.dropped, *(("thinking",) if foreign else ())]

    def line(self, choice: Choice) -> Line:
        """For a streamed answer."""
        if choice.passes:
            return Passing(self.caller.tap(self.glance), self.caller, self.asked.id)
        writer = self.caller.writer(self.glance, self.asked.id, self._created())
        reader = DIALECTS[choice.dialect].reader()
        if self._tells_one_call(choice):
            reader = OneCallReader(reader)
        return Translating(reader, writer, self.caller, self.asked.id, self._keep)

    def whole(self, choice: Choice, body: bytes) -> Whole | SupplierError:
        """An answer of status 200 that is there as a whole; told as a stream if that was asked for.

        Some suppliers answer at once whatever they are asked.
        """
        if choice.passes and not self.glance.stream:
            usage = self.caller.usage(body)
            wrong = _failure(body) if usage is None else None
            return wrong or Whole(body, usage)
        events = DIALECTS[choice.dialect].answer(body)
        if self._tells_one_call(choice):
            events = without_further_calls(events)
        if events and isinstance(events[-1], SupplierError):
            return events[-1]
        if self.glance.stream:
            writer = self.caller.writer(self.glance, self.asked.id, self._created())
            told = b"".join(map(writer.write, events))
            self._keep(writer.items)
        else:
            told = self.caller.whole(events, self.glance, self.asked.id, self._created())
            if self.glance.stores and not choice.passes:
                self._memory.keep(self.asked.key.id, items_of_reply(told))
        return Whole(told, _usage(events))

    def _keep(self, items: Sequence[Mapping[str, object]]) -> None:
        """Have later requests of the key find what it was told, unless it is not to be stored."""
        if self.glance.stores and items:
            self._memory.keep(self.asked.key.id, encode_items(items))

    def _tells_one_call(self, choice: Choice) -> bool:
        """Whether further calls are left out, which the supplier cannot be kept from."""
        known = self._conversation
        return choice.dialect == "gemini" and known is not None and not known.parallel

    def _path(self, choice: Choice) -> str:
        endpoint = self.asked.endpoint
        if endpoint.kind == "embeddings":
            return _EMBEDDINGS
        if endpoint.kind == "count":
            counts = f"/v1beta/models/{quote(choice.supplier_model, safe='')}:countTokens"
            return counts if endpoint.dialect == "gemini" else _COUNT
        return DIALECTS[choice.dialect].path(choice.supplier_model, stream=self.glance.stream)

    def _said(self, choice: Choice) -> bytes:
        if self.asked.endpoint.kind == "embeddings":
            return embeddings.passed_on(self._body, choice.supplier_model)
        if choice.passes:
            if self._passes_as_it_is(choice.supplier_model):
                return self._limited(self._body)
            return self._limited(self.caller.passed_on(self._body, choice.supplier_model))
        if self._conversation is None:
            known = self.caller.understood(self._body)
            self._conversation = structs.replace(
                known, max_output=self._output_limit, effort=self._effort(known.effort)
            )
        dialect = DIALECTS[choice.dialect]
        return dialect.request(self._conversation, choice.supplier_model, stream=self.glance.stream)

    def _limited(self, body: bytes) -> bytes:
        """The same with the limit of a reply's tokens, where the caller's own does not do."""
        limit = self._output_limit
        if self.asked.endpoint.kind != "reply" or not limit:
            return body
        # A Gemini request may hold its limit twice, of which suppliers take either: always look.
        if 0 < self.glance.max_output <= limit and self.dialect != "gemini":
            return body
        return with_output_limit(body, self.dialect, limit)

    def _effort(self, asked: str) -> str:
        """How hard to think: a number of tokens leaves some of the limit for the reply."""
        if asked.isdecimal() and LEAST_THINKING < self._output_limit <= int(asked):
            return str(self._output_limit - 1)
        return asked

    def _passes_as_it_is(self, supplier_model: str) -> bool:
        """Whether the glance told that ``passed_on`` has nothing to change."""
        glance = self.glance
        tells = glance.wants_usage or not glance.stream
        return tells and glance.model == supplier_model and self.dialect != "gemini"


def _failure(body: bytes) -> SupplierError | None:
    """Why an answer that counts nothing is none; some suppliers tell errors with status 200."""
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = None
    if not isinstance(said, dict):
        return SupplierError("garbled", "The supplier's answer is no JSON object")
    return explained(said) if said.get("error") else None


def _usage(events: list[Event]) -> Usage | None:
    told = [event.usage for event in events if isinstance(event, UsageSeen)]
    return told[-1] if told else None

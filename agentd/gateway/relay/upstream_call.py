"""A request in the form in which suppliers get it, each in its dialect."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, structs

from agentd.gateway.channels.routing import Candidate
from agentd.gateway.relay.item_cache import ItemCache
from agentd.gateway.relay.request import GatewayRequest
from agentd.gateway.relay.stream_adapters import (
    PassthroughAdapter,
    StreamAdapter,
    TranslatingAdapter,
)
from agentd.gateway.secrets.masker import MaskedRequest
from agentd.llm.conversation import Conversation, ReplyEvent, SupplierError, Thinking, UsageUpdated
from agentd.llm.dialects import openai_completions
from agentd.llm.dialects.caller import RequestSummary
from agentd.llm.dialects.callers import CALLERS
from agentd.llm.dialects.dialect import DIALECTS, join_url
from agentd.llm.dialects.embeddings.translation import EmbeddingTranslator
from agentd.llm.dialects.gemini.model_names import build_path
from agentd.llm.dialects.openai_chat.strict_suppliers import adapt_to_supplier
from agentd.llm.dialects.openai_responses.item_references import decode_items, encode_items
from agentd.llm.dialects.output_limit import MIN_THINKING_BUDGET, apply_output_limit
from agentd.llm.dialects.single_tool_call import FirstCallReader, drop_further_calls
from agentd.llm.dialects.stream_reader import decode_json
from agentd.llm.dialects.supplier_errors import parse_error
from agentd.llm.dialects.tool_names import OwnNamesReader, fit_tool_names, restore_tool_names
from agentd.llm.endpoint import ChannelDialect
from agentd.llm.parameters import apply_parameters, leave_out_changed
from agentd.llm.price import Usage
from agentd.llm.upstream.protocol import Timeouts, UpstreamRequest, merge_headers

_COUNT = "/v1/messages/count_tokens"


class WholeReply(Struct, frozen=True):
    """A complete reply in the caller's dialect."""

    body: bytes
    usage: Usage | None


class UpstreamCall:
    """A request to a supplier; ``created`` returns the seconds since 1970.

    ``output_limit`` is the maximum number of tokens of each reply, which suppliers get; 0: none.
    """

    def __init__(
        self,
        request: GatewayRequest,
        summary: RequestSummary,
        output_limit: int,
        hidden: MaskedRequest,
        item_cache: ItemCache,
        created: Callable[[], int],
    ) -> None:
        self.request = request
        self.caller = CALLERS[request.endpoint.dialect]
        self.summary = summary
        self._output_limit = output_limit
        self.secrets: Mapping[str, str] = hidden.secrets
        """The secrets by placeholder, to restore them in the reply."""
        self._body = hidden.body
        self._item_cache = item_cache
        self._created = created
        self._conversation: Conversation | None = None
        self._embeddings = _make_embedding_translator(request, hidden.body)
        self._own_tool_names: Mapping[str, str] = {}
        """The caller's names of tools, by those that the latest supplier got in their place."""

    @property
    def dialect(self) -> ChannelDialect:
        """The caller's dialect."""
        return self.request.endpoint.dialect

    @property
    def body(self) -> bytes:
        """The request with secrets masked."""
        return self._body

    @property
    def _is_completion(self) -> bool:
        return self.request.endpoint.kind == "completion"

    def build_request(self, candidate: Candidate, secret: str, idle: float) -> UpstreamRequest:
        """Build the HTTP request; the response may be silent for ``idle`` seconds.

        Raises ``BadRequest`` for what the supplier's dialect cannot express.
        """
        channel, dialect = candidate.channel, DIALECTS[candidate.dialect]
        forwarded = self.request.headers if candidate.is_passthrough else {}
        body = adapt_to_supplier(self._encode_body(candidate), candidate.dialect, channel.url)
        if candidate.parameters and self.request.endpoint.is_generation:
            body = apply_parameters(body, candidate.parameters)
        return UpstreamRequest(
            "POST",
            join_url(channel.url, self._choose_path(candidate)),
            merge_headers(
                dialect.build_headers(secret), forwarded, channel.headers, candidate.headers
            ),
            body,
            Timeouts(head=channel.timeout, idle=idle),
        )

    def list_dropped_fields(self, candidate: Candidate) -> list[str]:
        """Return the names of request fields that this candidate's supplier does not get.

        Only fields without effect on the reply are dropped; others make the request fail, unless an
        operator has them removed, which is not told.
        """
        if candidate.is_passthrough:
            return []
        if self._embeddings:
            return list(self._embeddings.dropped_fields)
        known = self._conversation
        if known is None:
            return []
        thoughts = {
            part.dialect
            for message in known.messages
            for part in message.parts
            if isinstance(part, Thinking)
        }
        foreign = bool(thoughts) and candidate.dialect not in thoughts
        return [*known.dropped_fields, *(("thinking",) if foreign else ())]

    def make_adapter(self, candidate: Candidate, secrets: Sequence[str]) -> StreamAdapter:
        """Create the adapter of a streamed reply, whose errors are told without ``secrets``."""
        if candidate.is_passthrough:
            return PassthroughAdapter(
                self.caller.create_observer(self.summary), self.caller, self.request.id, secrets
            )
        writer = self.caller.create_writer(self.summary, self.request.id, self._created())
        reader = DIALECTS[candidate.dialect].create_reader()
        if self._is_limited_to_one_call(candidate):
            reader = FirstCallReader(reader)
        if own := self._own_tool_names:
            reader = OwnNamesReader(reader, own)
        return TranslatingAdapter(
            reader, writer, self.caller, self.request.id, secrets, self._remember_items
        )

    def read_whole(self, candidate: Candidate, body: bytes) -> WholeReply | SupplierError:
        """Convert a complete response of status 200; to a stream's events if the caller streams.

        Some suppliers never stream.
        """
        if candidate.is_passthrough and not self.summary.stream:
            usage = self.caller.read_usage(body)
            wrong = _find_error(body) if usage is None else None
            return wrong or WholeReply(body, usage)
        if self._embeddings:
            translated = self._embeddings.translate_reply(
                candidate.dialect, body, self.summary.model
            )
            if isinstance(translated, SupplierError):
                return _find_error(body) or translated
            return WholeReply(*translated)
        events = DIALECTS[candidate.dialect].parse_response(body)
        if self._is_limited_to_one_call(candidate):
            events = drop_further_calls(events)
        events = restore_tool_names(events, self._own_tool_names)
        if events and isinstance(events[-1], SupplierError):
            return events[-1]
        if self.summary.stream:
            writer = self.caller.create_writer(self.summary, self.request.id, self._created())
            rendered = b"".join(map(writer.write, events))
            self._remember_items(writer.items)
        else:
            rendered = self.caller.render_response(
                events, self.summary, self.request.id, self._created()
            )
            if self.summary.stores_reply and not candidate.is_passthrough:
                self._item_cache.put(self.request.key.id, decode_items(rendered))
        return WholeReply(rendered, _find_last_usage(events))

    def _remember_items(self, items: Sequence[Mapping[str, object]]) -> None:
        """Cache the reply's items for later requests of the key, unless ``store`` is off."""
        if self.summary.stores_reply and items:
            self._item_cache.put(self.request.key.id, encode_items(items))

    def _is_limited_to_one_call(self, candidate: Candidate) -> bool:
        """Return whether to drop further tool calls, which this supplier may make anyway."""
        known = self._conversation
        return candidate.dialect == "gemini" and known is not None and not known.parallel_tool_calls

    def _choose_path(self, candidate: Candidate) -> str:
        endpoint = self.request.endpoint
        if self._embeddings:
            return self._embeddings.get_path(candidate.dialect, candidate.supplier_model)
        if self._is_completion:
            return openai_completions.PATH
        if endpoint.kind == "count":
            is_gemini = endpoint.dialect == "gemini"
            return build_path(candidate.supplier_model, "countTokens") if is_gemini else _COUNT
        return DIALECTS[candidate.dialect].get_path(
            candidate.supplier_model, stream=self.summary.stream
        )

    def _encode_body(self, candidate: Candidate) -> bytes:
        if self._embeddings:
            return self._embeddings.encode_request(candidate.dialect, candidate.supplier_model)
        self._own_tool_names = {}
        if candidate.is_passthrough:
            if self._is_sent_unchanged(candidate.supplier_model):
                return self._apply_output_limit(self._body)
            spoken = openai_completions if self._is_completion else self.caller
            return self._apply_output_limit(
                spoken.rewrite_for_passthrough(self._body, candidate.supplier_model)
            )
        if self._conversation is None:
            known = self.caller.parse_request(self._body)
            self._conversation = structs.replace(
                known,
                max_output=self._output_limit,
                reasoning_effort=self._cap_effort(known.reasoning_effort),
            )
        wanted = leave_out_changed(self._conversation, candidate.parameters)
        fitted, self._own_tool_names = fit_tool_names(wanted, candidate.dialect)
        return DIALECTS[candidate.dialect].encode_request(
            fitted, candidate.supplier_model, stream=self.summary.stream
        )

    def _apply_output_limit(self, body: bytes) -> bytes:
        """Return the body with the output limit set, unless the caller's own limit suffices."""
        limit = self._output_limit
        if not limit or not self.request.endpoint.is_generation:
            return body
        if self._is_completion:
            return openai_completions.apply_output_limit(body, limit)
        # A Gemini request may hold its limit twice, of which suppliers take either: always look.
        if 0 < self.summary.max_output <= limit and self.dialect != "gemini":
            return body
        return apply_output_limit(body, self.dialect, limit)

    def _cap_effort(self, effort: str) -> str:
        """Cap a thinking budget so that some of the output limit is left for the reply."""
        if effort.isdecimal() and MIN_THINKING_BUDGET < self._output_limit <= int(effort):
            return str(self._output_limit - 1)
        return effort

    def _is_sent_unchanged(self, supplier_model: str) -> bool:
        """Return whether ``rewrite_for_passthrough`` would change nothing, by the summary."""
        summary = self.summary
        reports_usage = summary.wants_usage or not summary.stream
        return reports_usage and summary.model == supplier_model and self.dialect != "gemini"


def _make_embedding_translator(request: GatewayRequest, body: bytes) -> EmbeddingTranslator | None:
    """Return the translator of a request for embeddings; None for any other."""
    if request.endpoint.kind != "embeddings":
        return None
    return EmbeddingTranslator(request.endpoint.dialect, body, is_batch=request.is_batch)


def _find_error(body: bytes) -> SupplierError | None:
    """Find the error in a response without usage: some suppliers send errors with status 200."""
    fields = decode_json(body)
    if not isinstance(fields, dict):
        return SupplierError("garbled", "The supplier's response is not a JSON object")
    return parse_error(fields) if fields.get("error") else None


def _find_last_usage(events: list[ReplyEvent]) -> Usage | None:
    reported = [event.usage for event in events if isinstance(event, UsageUpdated)]
    return reported[-1] if reported else None

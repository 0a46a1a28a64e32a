"""The state of a native turn: its conversation, its cost and its limits.

Pure: it takes replies and tool results, and returns the next request.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Literal

import msgspec
from msgspec import Struct, structs

from agentd.agent.engine import TurnRequest
from agentd.agent.engines.native.attachments import has_attachments, leave_out_attachments
from agentd.agent.engines.native.compaction import (
    apply_summary,
    ask_for_summary,
    is_worth_summary,
)
from agentd.agent.engines.native.supplier import Extra
from agentd.agent.engines.native.tool_calls import AnyUse, InvalidToolCall, is_parallel
from agentd.agent.engines.native.trimming import (
    TurnTranscript,
    cut_results,
    leave_out_old_attachments,
    measure,
    trim,
)
from agentd.agent.mcp_servers.turn_tools import McpTools
from agentd.llm.conversation import (
    Conversation,
    JsonFormat,
    ModelMessage,
    ReplyBuilder,
    ReplyFinished,
    TextPart,
    ToolDefinition,
    ToolResult,
)
from agentd.llm.price import NO_USAGE, Prices, Usage, compute_cost, sum_amounts

LARGEST_RESERVE = 16_000
"""Tokens reserved for the reply of a model whose longest one is not known; a quarter of a small
context."""

ASSUMED_CONTEXT = 128_000
"""Tokens of a model whose context is not known: more would cost much, and few have less."""

MOST_AT_ONCE = 8
"""Tools that run in parallel."""

_BYTES_PER_TOKEN = 4.0
_SANE_BYTES = (1.0, 8.0)
"""Plausible range of it; outside, the supplier counted something else."""

_NEXT = "Send another prompt to continue."

MOST_CORRECTIONS = 2
"""How often a reply that does not fit the output schema is sent back."""
_DOES_NOT_FIT = (
    "[Your last reply must be nothing but JSON that fits the output schema, and it does not:"
)

_SMALLEST_ROOM = 8_000
"""Bytes for messages in which a summary makes sense."""

_GO_ON = (
    "[Your reply was cut off at its length limit. Continue where it ended, in smaller pieces: a"
    " long file can be written in part and then edited.]"
)


class TurnLimits(Struct, frozen=True):
    """The limits of one turn."""

    steps: int = 60
    """Replies of the model."""
    seconds: float = 1800.0
    """The time limit, not counting waits for a person's answer."""
    cost: Decimal | None = None
    """USD; None: no limit."""
    missteps: int = 6
    """Useless replies in a row: invalid tool calls, or replies that were cut off."""


class NativeTurn:
    """A running prompt. ``done`` once the model has finished."""

    def __init__(
        self,
        assignment: TurnRequest,
        system: str,
        tools: tuple[ToolDefinition, ...],
        limits: TurnLimits,
        prices: Prices | None,
        transcript: TurnTranscript,
        cache_key: str = "",
    ) -> None:
        self.transcript = transcript
        self.done = False
        self.replied = False
        self.last_reply = ""
        self.left_out: set[Extra] = set()
        """The parts of requests that the supplier refused."""
        self._assignment = assignment
        self.system = system
        self.offer_tools(tools)
        self._limits = limits
        self.prices = prices
        self._cache_key = cache_key or f"agentd-{assignment.chat_id}"
        self._bytes_per_token = _BYTES_PER_TOKEN
        self._asked = 0
        self._steps = 0
        self._missteps = 0
        self._spent = Decimal(0)
        self._corrections = 0
        schema = assignment.output_schema
        self._format = JsonFormat(msgspec.json.decode(schema)) if schema else None
        self._summed_up = 0
        """Messages that were there after the last summary, or when none could be had."""
        context = assignment.context or ASSUMED_CONTEXT
        self._reserve = min(assignment.max_output, context // 2) or min(
            LARGEST_RESERVE, context // 4
        )
        """Tokens for the reply: suppliers refuse a request that leaves no room for it."""
        self._budget = context - self._reserve
        """Tokens of a request."""

    def offer_tools(self, tools: tuple[ToolDefinition, ...]) -> None:
        """Offer these tools to the model from now on."""
        self._tools = tools
        self._fixed = len(self.system.encode()) + sum(len(repr(tool)) for tool in tools)

    def build_conversation(self) -> Conversation:
        """Return the next request to the model, trimmed to its context."""
        self.transcript = trim(leave_out_old_attachments(self.transcript), self._room)
        self._asked = measure(self.transcript.messages) + self._fixed
        return self._encode(self.transcript.messages)

    @property
    def is_full(self) -> bool:
        """True if the conversation is to be summed up before the next request."""
        messages = self.transcript.messages
        enough = self._room > _SMALLEST_ROOM and len(messages) > max(1, self._summed_up + 1)
        return enough and is_worth_summary(self.transcript, self._room)

    @property
    def extras(self) -> frozenset[Extra]:
        """The parts of the next request that it could do without."""
        asked: set[Extra] = {"summaries", "kept_thinking"}
        if has_attachments(self.transcript.messages):
            asked.add("images")
        return frozenset(asked - self.left_out)

    def build_summary_request(self, tool_choice: Literal["auto", "none"]) -> Conversation:
        """Return the request for a summary of the conversation."""
        transcript = leave_out_old_attachments(self.transcript)
        messages = ask_for_summary(trim(transcript, self._room))
        self._asked = measure(messages) + self._fixed
        request = self._encode(messages)
        return structs.replace(
            request, tool_choice=tool_choice, response_format=None, keep_thinking=False
        )

    def sum_up(self, summary: str) -> None:
        """Put a summary in the place of the conversation; empty: none could be had."""
        if summary:
            self.transcript = apply_summary(self.transcript, summary, self._room)
        self._summed_up = len(self.transcript.messages)

    @property
    def _room(self) -> int:
        """Bytes for messages."""
        return int(self._budget * self._bytes_per_token) - self._fixed

    @property
    def _longest_output(self) -> int:
        """Tokens that are asked for at most; 0: the model's own maximum."""
        longest = self._assignment.max_output
        return min(longest, self._reserve) if self._assignment.context else longest

    def _encode(self, messages: tuple[ModelMessage, ...]) -> Conversation:
        if "images" in self.left_out:
            messages = leave_out_attachments(messages)
        return Conversation(
            messages=messages,
            system=self.system,
            tools=self._tools,
            max_output=self._longest_output,
            reasoning_effort=self._assignment.effort,
            show_thinking="summaries" not in self.left_out,
            keep_thinking="kept_thinking" not in self.left_out,
            web_search=self._assignment.web_search,
            cache_key=self._cache_key,
            response_format=self._format,
        )

    def demand_schema(self, mismatch: str) -> bool:
        """Ask for a reply that fits the output schema; False if that was asked often enough."""
        self._corrections += 1
        if self._corrections > MOST_CORRECTIONS:
            return False
        self.done = False
        message = ModelMessage("user", (TextPart(f"{_DOES_NOT_FIT} {mismatch}]"),))
        self.transcript = self.transcript.extend(message)
        return True

    @property
    def asked_tokens(self) -> int:
        """About how many tokens the last request had."""
        return round(self._asked / self._bytes_per_token)

    def halve_budget(self) -> None:
        """Halve the context budget: the last request was too long for the model."""
        self._budget = self.asked_tokens // 2

    def add_cost(self, usage: Usage, searches: int = 0) -> Decimal | None:
        """Add the usage and web searches of one request; return its cost in USD, None: unknown."""
        fee = (self._assignment.web_search_price or Decimal(0)) * searches
        if self.prices is None or usage == NO_USAGE:
            price = fee
        else:
            price = compute_cost(usage, self.prices) + fee
        if not price and (self.prices is None or usage == NO_USAGE):
            return None
        self._spent = sum_amounts((self._spent, price))
        return price

    def add_reply(self, draft: ReplyBuilder) -> None:
        """Add a complete reply of the model."""
        self._steps += 1
        self._calibrate(draft.usage)
        message = draft.build_message()
        self.last_reply = draft.text
        self.replied = self.replied or bool(draft.text.strip())
        is_paused = isinstance(draft.end, ReplyFinished) and draft.end.paused
        if draft.calls or (is_paused and message.parts):
            self.transcript = self.transcript.extend(message)
        elif isinstance(draft.end, ReplyFinished) and draft.end.reason == "length":
            self._missteps += 1
            self.transcript = self.transcript.extend(
                message, ModelMessage("user", (TextPart(_GO_ON),))
            )
        else:
            self.done = True
            self.keep_words(draft)

    def keep_words(self, draft: ReplyBuilder) -> None:
        """Keep what a reply said that calls no tools, or that was cut off; never thinking alone."""
        message = draft.build_message() if self.done else ModelMessage("assistant", ())
        if draft.text.strip():
            parts = message.parts or (TextPart(draft.text),)
            self.transcript = self.transcript.extend(ModelMessage("assistant", parts))

    @property
    def last_words(self) -> str:
        """The text of the model's last message."""
        message = next(
            (one for one in reversed(self.transcript.messages) if one.role != "user"), None
        )
        parts = message.parts if message else ()
        return "\n".join(part.text for part in parts if isinstance(part, TextPart))

    def go_on(self, why: str) -> None:
        """Let the model continue after its last reply, and tell it why."""
        self.done = False
        self.transcript = self.transcript.extend(ModelMessage("user", (TextPart(why),)))

    def add_tool_results(self, uses: Sequence[AnyUse], results: Sequence[ToolResult]) -> None:
        """Add the results of all calls of the latest reply, in their order."""
        brought = cut_results(results, self._room)
        self.transcript = self.transcript.extend(ModelMessage("user", brought))
        useless = all(isinstance(use, InvalidToolCall) for use in uses)
        self._missteps = self._missteps + 1 if useless else 0

    def explain_limit(self, seconds: float) -> str:
        """Explain why the turn must end, ``seconds`` after it began; empty if it may continue."""
        limits = self._limits
        if self._missteps >= limits.missteps:
            return (
                f"The model gave {self._missteps} useless replies in a row (invalid tool"
                " calls or replies that were cut off), so the turn was stopped."
            )
        if self._steps >= limits.steps:
            return f"The turn reached its limit of {limits.steps} steps. {_NEXT}"
        if seconds >= limits.seconds:
            return f"The turn reached its limit of {limits.seconds:.0f} seconds. {_NEXT}"
        return self.explain_cost_limit()

    def explain_cost_limit(self) -> str:
        """Explain why the turn must end for its cost; empty if it may continue."""
        limits = self._limits
        if limits.cost is not None and self.prices is None:
            return (
                f"The price of {self._assignment.model} is not known, so the limit of"
                f" {limits.cost} USD per turn cannot be enforced. Set its prices in"
                " config/models.yml."
            )
        if limits.cost is not None and self._spent >= limits.cost:
            return f"The turn reached its limit of {limits.cost} USD ({self._spent} USD). {_NEXT}"
        return ""

    def _calibrate(self, usage: Usage) -> None:
        """Derive bytes per token from the supplier's own count of the last request."""
        if usage.total_input:
            ratio = self._asked / usage.total_input
            self._bytes_per_token = min(max(ratio, _SANE_BYTES[0]), _SANE_BYTES[1])


def split_into_batches(uses: Sequence[AnyUse], mcp: McpTools) -> Iterator[tuple[AnyUse, ...]]:
    """Split calls into batches in their order; neighbours that only read share one."""
    together: list[AnyUse] = []
    for use in uses:
        if together and not (is_parallel(use, mcp) and len(together) < MOST_AT_ONCE):
            yield tuple(together)
            together = []
        if is_parallel(use, mcp):
            together.append(use)
        else:
            yield (use,)
    if together:
        yield tuple(together)

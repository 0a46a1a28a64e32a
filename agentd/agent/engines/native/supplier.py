"""The handling of supplier failures: retry, trim, defer the turn or fail."""

import random
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import timedelta
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from agentd.agent.engine import RateLimited, TurnFailed
from agentd.core.clock import Clock, format_iso_rounded_up, parse_iso
from agentd.core.errors import SupplierUnreachable
from agentd.llm.conversation import SupplierError
from agentd.llm.endpoint import SupplierAccess
from agentd.llm.upstream.protocol import Timeouts


class SupplierLookup(Protocol):
    """Looks up suppliers by name; keys are read when they are used."""

    def __call__(self, name: str, model: str) -> Awaitable[SupplierAccess]:
        """Return the access to this supplier for a model; ``NotFound`` or ``ConfigError``."""
        ...


class RetryPolicy(Struct, frozen=True):
    """The retries of one step; times in seconds."""

    tries: int = 5
    first: float = 1.0
    """The first pause; each next one is twice as long ..."""
    longest: float = 30.0
    """... but no longer than this."""
    max_delay: float = 60.0
    """The longest requested pause to wait for; a longer one defers the turn."""
    timeouts: Timeouts = Timeouts()
    """The timeouts of each request; the total is limited to the time left for the turn."""


class RetryAfter(Struct, frozen=True):
    """Retry after so many seconds."""

    seconds: float


class TrimConversation(Struct, frozen=True):
    """Retry with a shorter conversation."""


Extra: TypeAlias = Literal["summaries", "kept_thinking", "images"]
"""A part of requests that some suppliers refuse, and that a turn can do without: summaries of the
thinking, the thinking in a form that can be sent back, images and documents."""


class LeaveOut(Struct, frozen=True):
    """Retry without this part of the request."""

    extra: Extra


SupplierProblem: TypeAlias = SupplierError | SupplierUnreachable
Remedy: TypeAlias = RetryAfter | TrimConversation | LeaveOut | RateLimited | TurnFailed

_PASSING = ("rate_limit", "overloaded", "server", "garbled", "unusable_reply", "broken")
"""Kinds of errors that may be temporary."""

MOST_TRIMS = 4
"""How often a conversation is shortened that is too long: to a fiftieth at last."""

_REFUSED = ("invalid_request", "permission", "not_found")
"""Kinds of errors for a part that is refused; OpenRouter finds nobody who takes images."""


_REFUSALS: Mapping[Extra, re.Pattern[str]] = {
    # OpenAI's of organisations that it has not verified, or of a server that knows no such field.
    "summaries": re.compile(
        r"reasoning.{1,3}summar|thinking.{1,40}display|display.{1,40}thinking", re.I
    ),
    # OpenAI's of models that do not think, or of a server that knows no such value.
    "kept_thinking": re.compile(r"encrypted.{1,3}content|\binclude\b", re.I),
    "images": re.compile(r"image|vision|multi-?modal|modalit|input_file|document|pdf", re.I),
}
"""How a refusal of each part is worded."""


class Recovery:
    """Decides what to do about the problems of one step; ``chance`` is a random source (0 to 1)."""

    def __init__(
        self,
        access: SupplierAccess,
        model: str,
        patience: RetryPolicy,
        clock: Clock,
        chance: Callable[[], float] = random.random,
        *,
        extras: Collection[Extra] = (),
    ) -> None:
        self._extras = set(extras)
        """The parts of the request that it could do without."""
        self._access = access
        self._model = model
        self._patience = patience
        self._clock = clock
        self._chance = chance
        self._tries = 0
        self._torn = False
        self._trims = 0

    def decide(self, problem: SupplierProblem, *, shown: bool) -> Remedy:
        """Decide what to do; ``shown``: a part of the reply was published already.

        Such a step is retried only once, since the person reads it twice.
        """
        if isinstance(problem, SupplierUnreachable):
            return self._retry(shown) or TurnFailed(problem.message)
        problem = problem.mask((self._access.key,))
        if changed := self._change_request(problem):
            return changed
        wait = problem.retry_after
        if wait is not None and (problem.kind == "quota" or wait > self._patience.max_delay):
            return self._report_rate_limit(problem, wait)
        if problem.kind not in _PASSING:
            return TurnFailed(self._explain(problem))
        again = self._retry(shown, wait)
        if again is None and problem.kind == "rate_limit":
            return self._report_rate_limit(problem, None)
        return again or TurnFailed(self._explain(problem))

    def _change_request(self, problem: SupplierError) -> TrimConversation | LeaveOut | None:
        """Return what to ask for instead; None: the request is not the trouble, or stays it."""
        if problem.kind == "context_too_long" and self._trims < MOST_TRIMS:
            self._trims += 1
            return TrimConversation()
        if problem.kind in _REFUSED:
            for extra, worded in _REFUSALS.items():
                if extra in self._extras and worded.search(problem.message):
                    self._extras.remove(extra)
                    return LeaveOut(extra)
        return None

    def _retry(self, shown: bool, wait: float | None = None) -> RetryAfter | None:
        self._tries += 1
        if self._tries >= self._patience.tries or (shown and self._torn):
            return None
        self._torn = self._torn or shown
        pause = min(self._patience.first * 2.0 ** (self._tries - 1), self._patience.longest)
        # Half of it is random, so that requests refused together are not retried together.
        pause *= 0.5 + 0.5 * self._chance()
        return RetryAfter(pause if wait is None else wait + pause / 4)

    def _report_rate_limit(self, problem: SupplierError, wait: float | None) -> RateLimited:
        until = ""
        if wait is not None:
            until = format_iso_rounded_up(parse_iso(self._clock.now()) + timedelta(seconds=wait))
        return RateLimited(f"{self._access.name} limits its use: {problem.message}", until)

    def _explain(self, problem: SupplierError) -> str:  # noqa: PLR0911 - one for each kind
        name, detail = self._access.name, problem.message
        match problem.kind:
            case "authentication":
                key = f"suppliers.{name}.key in config/models.yml"
                what = (
                    "did not accept its key"
                    if self._access.key
                    else "requires a key, but none is set"
                )
                return f"{name} {what}: {detail} The key is set by {key}."
            case "permission":
                return f"{name} does not allow this with the key of suppliers.{name}.key: {detail}"
            case "not_found":
                return f"{name} does not know the model {self._model}, or its address: {detail}"
            case "quota":
                return f"{name} refuses requests until it is paid: {detail}"
            case "context_too_long":
                return (
                    f"The conversation is too long for {self._model}, even when shortened: {detail}"
                )
            case "content_refused":
                return f"The content filter of {name} refuses the request: {detail}"
            case "broken" | "garbled" | "unusable_reply":
                return f"The answer of {name} was incomplete or invalid: {detail}"
            case _:
                return f"{name} could not answer: {detail}"

"""One turn with Claude Code, from the handshake to its result, without any I/O."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import msgspec

from agentd.agent.claude_code.launch import Memory, afresh, fits
from agentd.agent.claude_code.questions import Questions, request
from agentd.agent.claude_code.usage import total_cost
from agentd.agent.claude_code.work import Work
from agentd.agent.conversation import Launch, Over, Pauses, Restart, Send, Step
from agentd.agent.engine import Answer, Assignment, Failed, Kept, Limited, ToolUsed
from agentd.agent.foreign import Bounds, prompted, resumed_prompt
from agentd.agent.json_rpc import each, pick, text
from agentd.clock import Timestamp, iso

LOST = "The earlier session is gone. A new one was begun, with the latest messages of this chat."
SIGN_IN = "Claude Code is not signed in: run `claude` once as the user whom agentd runs as."
BAD_KEY = "The supplier refuses the key that models.yml gives for it."
LIMIT = "The usage limit of Claude Code is reached."
PAUSE = "The supplier of Claude Code wants to be left alone for a while"

_INITIALIZE = "agentd-1"
_INTERRUPT = "agentd-2"


class ClaudeConversation:
    """A turn of the program that was started like this (``launch``)."""

    def __init__(self, assignment: Assignment, bounds: Bounds, launched: Launch) -> None:
        self._assignment = assignment
        self._launched = launched
        self._resumes = Memory.read(assignment.memory).session
        """The session to go on with, while it may still be there."""
        self._session = ""
        self._work = Work(bounds)
        self._questions = Questions(bounds)
        self._until: Timestamp | None = None
        """When the limit that was reached is over; empty: not told; None: no limit."""
        self._prompted = self._stopping = self._over = False

    def begin(self) -> Iterator[Step]:
        """Open the control channel."""
        yield request(_INITIALIZE, "initialize")

    def heard(self, line: bytes) -> Iterator[Step]:
        """Carry on from what Claude Code says."""
        try:
            given = msgspec.json.decode(line)
        except (ValueError, RecursionError):  # not JSON, not UTF-8, or nested too deep
            return
        handle = _TOLD.get(text(given, "type"))
        if handle and not self._over:
            yield from handle(self, given)

    def answered(self, ask: str, answer: Answer) -> Iterator[Step]:
        """Tell Claude Code the decision."""
        yield from self._questions.answered(ask, answer)

    def stop(self) -> Iterator[Step]:
        """Interrupt the turn; the result that follows has its cost."""
        if self._over:
            return
        self._stopping = True
        yield from self._questions.close()
        if self._prompted:
            yield request(_INTERRUPT, "interrupt")
        else:
            yield from self._end()

    def ended(self) -> Iterator[Step]:
        """Tell what was held back; a session that could not be resumed is begun anew."""
        if self._is_lost():
            yield from self._restart()
        elif not self._over:
            yield from self._work.finished(None)

    # The session.

    def _controlled(self, given: object) -> Iterator[Step]:
        """Whatever the answer to the handshake is, the prompt can be sent now."""
        ours = text(given, "response", "request_id") == _INITIALIZE
        if ours and not self._prompted and not self._stopping:
            self._prompted = True
            content = {"role": "user", "content": self._prompt()}
            message = {"type": "user", "message": content, "parent_tool_use_id": None}
            yield Send(msgspec.json.encode({**message, "session_id": self._resumes}))

    def _prompt(self) -> str:
        assignment = self._assignment
        if self._resumes:
            return resumed_prompt(assignment)
        told = "" if fits(assignment.instructions) else assignment.instructions
        return prompted(assignment.prompt, assignment.history, told)

    def _told(self, given: object) -> Iterator[Step]:
        """What Claude Code says of itself; the session has begun with ``init``."""
        match text(given, "subtype"):
            case "init":
                yield from self._keep(given)
            case "api_retry" if text(given, "error") == "authentication_failed":
                # It would ask ten times, for minutes; the same key is refused each time.
                yield from self._work.finished(None)
                yield Failed(self._no_access(f"HTTP {pick(given, 'error_status')}"))
                yield from self._end()
            case "api_retry":
                delay, status = pick(given, "retry_delay_ms"), pick(given, "error_status")
                if isinstance(delay, int | float) and 0 < delay < _FAR:
                    yield Pauses(
                        f"{PAUSE} (HTTP {status})." if status else f"{PAUSE}.", delay / 1000
                    )

    def _keep(self, given: object) -> Iterator[Step]:
        session = text(given, "session_id")
        if session and session != self._session:
            self._session = session
            yield Kept(str(Memory(session)))

    def _is_lost(self) -> bool:
        return bool(self._resumes) and not self._session and not self._stopping

    def _restart(self) -> Iterator[Step]:
        yield ToolUsed("claude-code", f"resume {self._resumes}", LOST)
        self._resumes = ""
        self._prompted = False
        yield Restart(afresh(self._launched))

    # The work.

    def _answered(self, given: object) -> Iterator[Step]:
        if self._session and not text(given, "parent_tool_use_id"):
            yield from self._keep(given)  # /clear gives a session another id
        yield from self._work.answered(given)

    def _came_back(self, given: object) -> Iterator[Step]:
        yield from self._work.came_back(given)

    def _streamed(self, given: object) -> Iterator[Step]:
        yield from self._work.streamed(given)

    def _asked(self, given: object) -> Iterator[Step]:
        yield from self._work.release()  # the reader sees first what it is asked about
        yield from self._questions.asked(given)

    def _cancelled(self, given: object) -> Iterator[Step]:
        yield from self._questions.cancelled(given)

    # The end.

    def _limited(self, given: object) -> Iterator[Step]:
        info = pick(given, "rate_limit_info")
        match text(info, "status"):
            case "rejected":
                self._until = _moment(pick(info, "resetsAt"))
            case "allowed" | "allowed_warning":
                self._until = None
        yield from ()

    def _result(self, given: object) -> Iterator[Step]:
        well = text(given, "subtype") == "success" and pick(given, "is_error") is not True
        if not well and self._is_lost():
            yield from self._restart()
            return
        reply = text(given, "result") if well else ""
        yield from self._work.finished(total_cost(given), reply)
        if not well and not self._stopping:
            yield self._failure(given)
        yield from self._end()

    def _failure(self, given: object) -> Step:
        status = pick(given, "api_error_status")
        errors = [one for one in each(given, "errors") if isinstance(one, str)]
        told = text(given, "result") or self._work.trouble or "\n".join(errors)
        if self._until is not None or status == 429 or self._work.error == "rate_limit":
            return Limited(told or LIMIT, self._until or "")
        if status in (401, 403) or self._work.error == "authentication_failed":
            return Failed(self._no_access(told))
        subtype = text(given, "subtype")
        reason = _REASONS.get(subtype) or (f"Claude Code: {subtype}" if not told else "Claude Code")
        return Failed(f"{reason}: {told}" if told else f"{reason}.")

    def _no_access(self, told: str) -> str:
        return f"{BAD_KEY if self._assignment.supplier else SIGN_IN} It says: {told}"

    def _end(self) -> Iterator[Step]:
        self._over = True
        yield Over()


_REASONS: Mapping[str, str] = {
    "error_max_turns": "Claude Code reached the number of steps that its settings allow",
    "error_max_budget_usd": "Claude Code spent what its settings allow for a turn",
}

_Handler: TypeAlias = Callable[[ClaudeConversation, object], Iterator[Step]]

_TOLD: Mapping[str, _Handler] = {
    "assistant": ClaudeConversation._answered,
    "control_cancel_request": ClaudeConversation._cancelled,
    "control_request": ClaudeConversation._asked,
    "control_response": ClaudeConversation._controlled,
    "rate_limit_event": ClaudeConversation._limited,
    "result": ClaudeConversation._result,
    "stream_event": ClaudeConversation._streamed,
    "system": ClaudeConversation._told,
    "user": ClaudeConversation._came_back,
}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FAR = 32_503_680_000
"""Seconds until the year 3000; what lies beyond is no time."""


def _moment(seconds: object) -> Timestamp:
    """A moment from seconds since 1970; empty when there is none."""
    if isinstance(seconds, int | float) and 0 < seconds < _FAR:
        return iso(_EPOCH + timedelta(seconds=seconds))
    return ""

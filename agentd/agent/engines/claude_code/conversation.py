"""A turn with Claude Code, from the handshake to its result, without any I/O."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias

import msgspec

from agentd.agent.engine import (
    ApprovalAnswer,
    EngineStateSaved,
    RateLimited,
    ToolUsed,
    TurnFailed,
    TurnRequest,
    UsageWindowsReported,
)
from agentd.agent.engines.claude_code.background import BackgroundAgents
from agentd.agent.engines.claude_code.events import ClaudeEvents
from agentd.agent.engines.claude_code.launch import ClaudeState, fits_argument, without_session
from agentd.agent.engines.claude_code.questions import ClaudeQuestions, build_control_request
from agentd.agent.engines.claude_code.servers import HandedServers
from agentd.agent.engines.claude_code.usage import (
    read_event_windows,
    read_report_windows,
    read_spent_before,
    read_turn_cost,
)
from agentd.agent.engines.external.common import (
    WorkspaceBounds,
    build_first_prompt,
    build_resume_prompt,
    digest_instructions,
    render_note,
)
from agentd.agent.engines.external.conversation import (
    AwaitLateOutput,
    ProgramLaunch,
    RestartProgram,
    SendLine,
    Step,
    SupplierPause,
    TurnDone,
)
from agentd.agent.engines.external.json_rpc import decode_line, get_path, get_text, iter_list
from agentd.agent.engines.external.usage_windows import parse_moment
from agentd.agent.mcp_servers.model import ReadyServer
from agentd.core.clock import Timestamp
from agentd.llm.dialects.half_characters import HalfCharacterDecoder

LOST = "The earlier session is gone. A new one was started with the latest messages of this chat."
SIGN_IN = "Claude Code is not signed in: run `claude` once as the user whom agentd runs as."
BAD_KEY = "The supplier refuses its key in models.yml."
LIMIT = "The usage limit of Claude Code is reached."
PAUSE = "The supplier of Claude Code asked for a pause"

_INITIALIZE = "agentd-1"
_INTERRUPT = "agentd-2"
_GET_USAGE = "agentd-3"
_GET_SERVERS = "agentd-4"
_GET_LATE_USAGE = "agentd-5"


class ClaudeConversation:
    """A turn with the program that was started by ``launched``."""

    def __init__(
        self,
        assignment: TurnRequest,
        bounds: WorkspaceBounds,
        launched: ProgramLaunch,
        mcp_servers: Sequence[ReadyServer] = (),
    ) -> None:
        self._servers = HandedServers(mcp_servers)
        self._assignment = assignment
        self._launched = launched
        self._state = ClaudeState.parse(assignment.engine_state)
        self._resumes = self._state.session
        """The session to resume, while it may still exist."""
        self._session = ""
        self._events = ClaudeEvents(bounds, priced=assignment.priced)
        self._questions = ClaudeQuestions(bounds.follow_mode(assignment.mode))
        self._agents = BackgroundAgents()
        self._halves = HalfCharacterDecoder()
        self._spent_before = Decimal(0)
        """USD that the session had cost before this turn, since a resumed one keeps counting."""
        self._until: Timestamp | None = None
        """The time at which the reached limit ends; empty: unknown; None: no limit."""
        self._prompted = self._stopping = self._over = False

    def on_start(self) -> Iterator[Step]:
        """Open the control channel."""
        yield build_control_request(_INITIALIZE, "initialize")

    def on_line(self, line: bytes) -> Iterator[Step]:
        """Handle one message of Claude Code."""
        try:
            given = decode_line(line, self._halves)
        except (ValueError, RecursionError):  # not JSON, not UTF-8, or nested too deep
            return
        handle = _HANDLERS.get(get_text(given, "type"))
        if handle and not self._over:
            yield from handle(self, given)

    def on_decision(self, ask: str, answer: ApprovalAnswer) -> Iterator[Step]:
        """Send the decision to Claude Code, and a note with what is allowed as a message.

        A denial has a place for the person's words; other words reach the model with the results of
        the tools.
        """
        subject = self._questions.get_subject(ask)
        if answer.allowed and answer.note and subject and not self._stopping:
            yield self._say(render_note(answer, subject))
        yield from self._questions.on_decision(ask, answer)

    def stop(self) -> Iterator[Step]:
        """Interrupt the turn; the result that follows has its cost."""
        if self._over:
            return
        self._stopping = True
        yield from self._questions.close()
        if self._prompted:
            yield build_control_request(_INTERRUPT, "interrupt")
        else:
            yield from self._end()

    def explain_silence(self, _: str) -> None:
        """Return nothing: Claude Code announces a long wait when it begins (``SupplierPause``)."""

    def on_exit(self) -> Iterator[Step]:
        """Report what was held back; replace a session that could not be resumed by a new one."""
        if self._is_lost():
            yield from self._restart()
        elif not self._over:
            yield from self._events.finish(None)

    # The session.

    def _on_control_response(self, given: object) -> Iterator[Step]:
        """Send the prompt after the handshake, whatever its response.

        In a resumed session, first ask for its cost so far: versions that keep counting report
        it; older ones, which start at zero, refuse the request.
        """
        number = get_text(given, "response", "request_id")
        if number == _GET_SERVERS:
            yield from self._servers.report(get_path(given, "response", "response"))
        if number == _INTERRUPT and self._agents.answered:
            # Of agents in the background only, there is no result.
            yield build_control_request(_GET_LATE_USAGE, "get_usage")
            yield AwaitLateOutput(_LATE)
        if number == _GET_LATE_USAGE:
            report = get_path(given, "response", "response")
            self._events.on_late_report(report)
            more = read_spent_before(report) - self._spent_before
            yield from self._events.finish(more if more > 0 else None)
            yield from self._end()
        if self._prompted or self._stopping:
            return
        if number == _INITIALIZE and self._resumes:
            yield build_control_request(_GET_USAGE, "get_usage")
        elif number in (_INITIALIZE, _GET_USAGE):
            report = get_path(given, "response", "response")
            self._spent_before = read_spent_before(report)
            self._events.on_first_report(report)
            if windows := read_report_windows(report):
                yield UsageWindowsReported(windows)
            yield self._send_prompt()

    def _send_prompt(self) -> Step:
        self._prompted = True
        return self._say(self._build_content())

    def _say(self, content: object) -> SendLine:
        """Return a message of the person."""
        content_message = {"role": "user", "content": content}
        message = {"type": "user", "message": content_message, "parent_tool_use_id": None}
        return SendLine(msgspec.json.encode({**message, "session_id": self._resumes}))

    def _build_content(self) -> object:
        """Return the prompt, with its images as blocks."""
        images = [
            {
                "type": "image",
                "source": {"type": "base64", "media_type": one.media_type, "data": one.data},
            }
            for one in self._assignment.images
        ]
        text = self._build_prompt()
        return [{"type": "text", "text": text}, *images] if images else text

    def _build_prompt(self) -> str:
        """Return the text of the prompt.

        A session that goes on keeps the system prompt with which it began, whatever the arguments
        say: its change is told.
        """
        assignment = self._assignment
        if self._resumes:
            return build_resume_prompt(assignment, self._state.instructions)
        text = "" if fits_argument(assignment.instructions) else assignment.instructions
        return build_first_prompt(assignment.prompt, assignment.history, text)

    def _on_system(self, given: object) -> Iterator[Step]:
        """Handle a system message; ``init`` means that the session has begun."""
        match get_text(given, "subtype"):
            case "init":
                yield from self._save_session(given)
                if self._servers.has_failed(given):
                    yield build_control_request(_GET_SERVERS, "mcp_status")
            case "background_tasks_changed":
                self._agents.on_changed(given)
            case "api_retry" if get_text(given, "error") == "authentication_failed":
                # Claude Code would retry ten times, for minutes, with the same refused key.
                yield from self._events.finish(None)
                yield TurnFailed(self._explain_no_access(f"HTTP {get_path(given, 'error_status')}"))
                yield from self._end()
            case "api_retry":
                delay, status = get_path(given, "retry_delay_ms"), get_path(given, "error_status")
                if isinstance(delay, int | float) and 0 < delay < _LONGEST_PAUSE:
                    yield SupplierPause(
                        f"{PAUSE} (HTTP {status})." if status else f"{PAUSE}.", delay / 1000
                    )

    def _save_session(self, given: object) -> Iterator[Step]:
        session = get_text(given, "session_id")
        if session and session != self._session:
            self._session = session
            digest = digest_instructions(self._assignment.instructions)
            yield EngineStateSaved(str(ClaudeState(session, digest)))

    def _is_lost(self) -> bool:
        return bool(self._resumes) and not self._session and not self._stopping

    def _restart(self) -> Iterator[Step]:
        yield ToolUsed("claude-code", f"resume {self._resumes}", LOST, ok=False)
        self._resumes = ""
        self._prompted = False
        yield RestartProgram(without_session(self._launched))

    # The work.

    def _on_assistant(self, given: object) -> Iterator[Step]:
        if self._session and not get_text(given, "parent_tool_use_id"):
            yield from self._save_session(given)  # /clear gives a session another id
        yield from self._events.on_assistant(given)

    def _on_user(self, given: object) -> Iterator[Step]:
        yield from self._events.on_tool_results(given)

    def _on_stream_event(self, given: object) -> Iterator[Step]:
        yield from self._events.on_stream_event(given)

    def _on_control_request(self, given: object) -> Iterator[Step]:
        yield from self._events.flush_reply()  # the reader first sees what the question is about
        yield from self._questions.on_request(given)

    def _on_control_cancel(self, given: object) -> Iterator[Step]:
        yield from self._questions.on_cancelled(given)

    # The end.

    def _on_rate_limit(self, given: object) -> Iterator[Step]:
        info = get_path(given, "rate_limit_info")
        match get_text(info, "status"):
            case "rejected":
                self._until = parse_moment(get_path(info, "resetsAt"))
            case "allowed" | "allowed_warning":
                self._until = None
        if windows := read_event_windows(info):
            yield UsageWindowsReported(windows)

    def _on_result(self, given: object) -> Iterator[Step]:
        well = get_text(given, "subtype") == "success" and get_path(given, "is_error") is not True
        if not well and self._is_lost():
            yield from self._restart()
            return
        self._events.on_result(given)
        reply = self._events.find_reply(given) if well else ""
        value = get_path(given, "structured_output")
        if well and value is not None and self._assignment.output_schema:
            yield from self._events.hold_output(msgspec.json.encode(value).decode())
        cost = read_turn_cost(given, self._spent_before)
        ends = self._agents.ends_turn(given, well=well, prompted=self._prompted)
        if not ends and not self._stopping:
            yield from self._events.report_result(cost, reply)
            self._spent_before += cost or 0
            return
        yield from self._events.finish(cost, reply)
        if not well and not self._stopping:
            yield self._explain_failure(given)
        yield from self._end()

    def _explain_failure(self, given: object) -> Step:
        status = get_path(given, "api_error_status")
        errors = [one for one in iter_list(given, "errors") if isinstance(one, str)]
        text = get_text(given, "result") or self._events.problem or "\n".join(errors)
        if self._until is not None or status == 429 or self._events.error == "rate_limit":
            return RateLimited(text or LIMIT, self._until or "")
        if status in (401, 403) or self._events.error == "authentication_failed":
            return TurnFailed(self._explain_no_access(text))
        subtype = get_text(given, "subtype")
        reason = _REASONS.get(subtype) or (f"Claude Code: {subtype}" if not text else "Claude Code")
        return TurnFailed(f"{reason}: {text}" if text else f"{reason}.")

    def _explain_no_access(self, text: str) -> str:
        return f"{BAD_KEY if self._assignment.supplier else SIGN_IN} It reports: {text}"

    def _end(self) -> Iterator[Step]:
        self._over = True
        yield TurnDone()


_REASONS: Mapping[str, str] = {
    "error_max_turns": "Claude Code reached the number of steps that its settings allow",
    "error_max_budget_usd": "Claude Code reached the budget that its settings allow for a turn",
}

_Handler: TypeAlias = Callable[[ClaudeConversation, object], Iterator[Step]]

_HANDLERS: Mapping[str, _Handler] = {
    "assistant": ClaudeConversation._on_assistant,
    "control_cancel_request": ClaudeConversation._on_control_cancel,
    "control_request": ClaudeConversation._on_control_request,
    "control_response": ClaudeConversation._on_control_response,
    "rate_limit_event": ClaudeConversation._on_rate_limit,
    "result": ClaudeConversation._on_result,
    "stream_event": ClaudeConversation._on_stream_event,
    "system": ClaudeConversation._on_system,
    "user": ClaudeConversation._on_user,
}

_LATE = 1.0
"""Seconds to wait for a result after a stop, once the prompt had its own."""

_LONGEST_PAUSE = 31_536_000_000
"""Milliseconds; anything beyond is invalid."""

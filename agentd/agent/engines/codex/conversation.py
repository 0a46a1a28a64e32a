"""A turn with ``codex app-server``, from the handshake to the turn's end, without any I/O."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec
from msgspec import structs

from agentd import __version__
from agentd.agent.engine import (
    ApprovalAnswer,
    EngineStateSaved,
    RateLimited,
    ReplyCompleted,
    ToolUsed,
    TurnFailed,
    TurnRequest,
    UsageWindowsReported,
)
from agentd.agent.engines.codex.events import CodexEvents
from agentd.agent.engines.codex.launch import CodexState
from agentd.agent.engines.codex.questions import CodexQuestions
from agentd.agent.engines.codex.sub_agents import SubAgentTurns
from agentd.agent.engines.codex.usage import read_reset_time, read_windows
from agentd.agent.engines.external.common import (
    COMPACTED,
    WorkspaceBounds,
    build_first_prompt,
    build_resume_prompt,
    digest_instructions,
    render_note,
    shorten,
)
from agentd.agent.engines.external.conversation import Step, SupplierPause, TurnDone
from agentd.agent.engines.external.json_rpc import (
    RpcError,
    RpcNotification,
    RpcPeer,
    RpcRequest,
    RpcResult,
    get_path,
    get_text,
)
from agentd.agent.mcp_servers.handover import render_for_codex
from agentd.agent.mcp_servers.model import ReadyServer
from agentd.llm.dialects.supplier_errors import parse_wait

POLICY = "untrusted"
SANDBOX = "workspace-write"

_USUAL_MODE = "default"

COMPACT = "/compact"
"""The prompt for which Codex sums up its thread; its server has a method for it, no command."""
NOTHING_TO_COMPACT = "There is nothing to compact: the session is new."
LOST = "The earlier session is gone. A new one was started with the latest messages of this chat."
SIGN_IN = "Codex is not signed in: run `codex login` as the user whom agentd runs as."
BAD_KEY = "The supplier refuses its key in models.yml."
TOO_LONG = "The session is longer than the model's context. Continue in a new chat."


class CodexConversation:
    """A turn, from the handshake to ``turn/completed``."""

    def __init__(
        self,
        assignment: TurnRequest,
        bounds: WorkspaceBounds,
        mcp_servers: Sequence[ReadyServer] = (),
    ) -> None:
        self._thread_settings = _build_thread_settings(assignment, mcp_servers)
        self._starting_servers = {server.name for server in mcp_servers}
        self._waiting_prompt = ""
        self._assignment = assignment
        # Codex would refuse its own edits in a folder that a symbolic link leads to.
        bounds = structs.replace(bounds, folder=bounds.resolve(bounds.folder))
        self._bounds = bounds
        self._state = CodexState.parse(assignment.engine_state)
        self._digest = digest_instructions(assignment.instructions)
        self._peer = RpcPeer(marked=False)
        self._mode = assignment.mode or (_USUAL_MODE if self._state.mode else "")
        """The collaboration mode to set; empty: the thread is in the usual one."""
        self._opened: object = None
        """The response that opened the thread."""
        self._compacts = assignment.prompt.strip() == COMPACT and not assignment.missed
        # A summary may leave out what the thread was told of its instructions.
        state = (
            CodexState(mode=self._state.mode)
            if self._compacts
            else CodexState(instructions=self._digest, mode=assignment.mode)
        )
        self._events = CodexEvents(bounds, state)
        self._questions = CodexQuestions(self._peer, bounds.follow_mode(assignment.mode))
        self._agents = SubAgentTurns(self._events.is_agent)
        self._limits: object = None
        self._prompted = self._answered = False
        self._stopping = False
        self._over = False

    def on_start(self) -> Iterator[Step]:
        """Send ``initialize``."""
        client = {"name": "agentd", "title": "agentd", "version": __version__}
        able = {"experimentalApi": True, "requestAttestation": False} if self._mode else None
        yield self._peer.request("initialize", {"clientInfo": client, "capabilities": able})

    def on_line(self, line: bytes) -> Iterator[Step]:
        """Handle one message of Codex."""
        if self._over:
            return
        match self._peer.parse(line):
            case RpcRequest() as request:
                yield from self._questions.on_request(request)
            case RpcNotification(method=method, params=params):
                if method in _NOTIFICATIONS:
                    yield from _NOTIFICATIONS[method](self, params)
            case RpcResult(method=method, value=value):
                if method in _RESULTS:
                    yield from _RESULTS[method](self, value)
            case RpcError() as refusal:
                yield from self._on_error(refusal)

    def on_decision(self, ask: str, answer: ApprovalAnswer) -> Iterator[Step]:
        """Send the decision to Codex, and a note with it as words into the running turn.

        The note goes first: after the decision, Codex may ask the model before it reads further.
        """
        subject = self._questions.get_subject(ask)
        if answer.note and subject and self._events.turn and not self._stopping:
            yield self._steer(render_note(answer, subject))
        yield from self._questions.on_decision(ask, answer)

    def stop(self) -> Iterator[Step]:
        """Interrupt the turn, now or once it has begun."""
        if self._over:
            return
        self._stopping = True
        yield from self._questions.close()
        if self._events.turn:
            yield from self._interrupt()
        elif not self._events.thread or self._waiting_prompt:
            yield from self._end()

    def explain_silence(self, _: str) -> None:
        """Return nothing: Codex announces a long wait when it begins (``SupplierPause``)."""

    def on_exit(self) -> Iterator[Step]:
        """Report what was held back."""
        yield from self._events.flush()

    def _interrupt(self) -> Iterator[Step]:
        """Interrupt the turn and those of its subagents: Codex then tells what they used."""
        turns = {} if self._answered else {self._events.thread: self._events.turn}
        for thread, turn in (*turns.items(), *self._agents.iter_running()):
            yield self._peer.request("turn/interrupt", {"threadId": thread, "turnId": turn})

    def _steer(self, text: str) -> Step:
        given = {
            "threadId": self._events.thread,
            "expectedTurnId": self._events.turn,
            "input": [{"type": "text", "text": text, "text_elements": []}],
        }
        return self._peer.request("turn/steer", given)

    def _end(self, *last: Step) -> Iterator[Step]:
        yield from self._events.flush()
        yield from last
        self._over = True
        yield TurnDone()

    def _on_initialized(self, _: object) -> Iterator[Step]:
        yield self._peer.notify("initialized")
        if self._state.thread:
            resumed = {"threadId": self._state.thread, "excludeTurns": True}
            yield self._peer.request("thread/resume", {**resumed, **self._thread_settings})
        else:
            yield self._peer.request("thread/start", self._thread_settings)

    def _on_thread_started(self, value: object) -> Iterator[Step]:
        if self._compacts:
            yield from self._end(ReplyCompleted(NOTHING_TO_COMPACT))
            return
        self._events.usage.set_baseline(get_text(value, "thread", "id"))
        assignment = self._assignment
        yield from self._start_turn(
            value, build_first_prompt(assignment.prompt, assignment.history)
        )

    def _on_thread_resumed(self, value: object) -> Iterator[Step]:
        """Continue a thread, which ignores new instructions in its settings."""
        if self._state.booked is not None:
            self._events.usage.set_baseline(get_text(value, "thread", "id"), self._state.booked)
        text = build_resume_prompt(self._assignment, self._state.instructions)
        yield from self._start_turn(value, text)

    def _start_turn(self, value: object, prompt: str) -> Iterator[Step]:
        """Send the prompt to the thread."""
        thread = self._events.thread = get_text(value, "thread", "id")
        if not thread:
            yield from self._end(TurnFailed("Codex began a session without an id."))
            return
        self._opened = value
        if self._stopping:
            yield from self._end()
            return
        self._waiting_prompt = prompt
        yield from self._send_prompt()

    def _send_prompt(self) -> Iterator[Step]:
        """Send the prompt once the MCP servers have started: Codex does not wait for them.

        The thread is saved with it: before it knows neither history nor new instructions.
        """
        if self._starting_servers or not self._waiting_prompt:
            return
        prompt, self._waiting_prompt = self._waiting_prompt, ""
        self._prompted = True
        yield EngineStateSaved(self._events.saved_state)
        thread = {"threadId": self._events.thread}
        if self._compacts:
            yield self._peer.request("thread/compact/start", thread)
            return
        given = {**thread, "cwd": self._bounds.folder, **_render_turn(self._assignment, prompt)}
        if self._mode:
            settings = _render_mode_settings(self._assignment, self._opened)
            given["collaborationMode"] = {"mode": self._mode, "settings": settings}
        yield self._peer.request("turn/start", given)

    def _on_server_status(self, params: object) -> Iterator[Step]:
        """Note that an MCP server has started or failed; the history is told why."""
        name, status = get_text(params, "name"), get_text(params, "status")
        if status == "starting" or name not in self._starting_servers:
            return
        self._starting_servers.remove(name)
        if status != "ready":
            reason = get_text(params, "error") or status
            yield ToolUsed("mcp", name, shorten(f"failed: {reason}"), ok=False)
        yield from self._send_prompt()

    def _on_turn_started(self, value: object) -> Iterator[Step]:
        """Note the turn's id; interrupt the turn if a person has stopped it meanwhile.

        A turn that begins before the prompt was sent is not the prompt's.
        """
        if get_text(value, "threadId") not in ("", self._events.thread):
            self._agents.on_started(value)
            if self._stopping:
                yield from self._interrupt()
        elif self._prompted and not self._events.turn:
            self._events.turn = get_text(value, "turn", "id")
            if self._events.turn and self._stopping:
                yield from self._interrupt()

    def _on_error(self, refusal: RpcError) -> Iterator[Step]:
        match refusal.method:
            case "thread/resume":
                yield ToolUsed("codex", f"resume {self._state.thread}", LOST, ok=False)
                yield self._peer.request("thread/start", self._thread_settings)
            case "turn/interrupt" | "turn/steer":
                return  # the turn is over already: its end is on the way
            case _:
                yield from self._end(TurnFailed(f"Codex: {refusal.message or refusal.method}"))

    def _on_item_started(self, params: object) -> Iterator[Step]:
        self._questions.on_item_started(get_path(params, "item"))
        yield from self._events.on_item_started(params)

    def _on_rate_limits(self, params: object) -> Iterator[Step]:
        self._limits = get_path(params, "rateLimits")
        if windows := read_windows(self._limits):
            yield UsageWindowsReported(windows)

    def _on_turn_completed(self, params: object) -> Iterator[Step]:
        """End the turn once its subagents are done, too: Codex does not wait for them."""
        if not self._events.is_own_thread(params):
            self._agents.on_completed(params)
        elif get_text(params, "turn", "id") == self._events.turn:
            if get_text(params, "turn", "status") == "failed":
                yield from self._end(self._explain_failure(get_path(params, "turn", "error")))
                return
            self._answered = True
            yield from self._events.flush_reply()
            if self._compacts and get_text(params, "turn", "status") == "completed":
                yield ReplyCompleted(COMPACTED)
        if self._answered and not self._agents.is_running:
            yield from self._end()

    def _explain_failure(self, error: object) -> RateLimited | TurnFailed:
        message, name, status = get_text(error, "message"), _read_kind(error), _read_status(error)
        if name in ("usageLimitExceeded", "rateLimitExceeded") or status == 429:
            return RateLimited(
                message or "The supplier's usage limit is reached.", read_reset_time(self._limits)
            )
        if name == "unauthorized" or status == 401:
            return TurnFailed(
                f"{BAD_KEY if self._assignment.supplier else SIGN_IN} {message}".strip()
            )
        if name == "contextWindowExceeded":
            return TurnFailed(TOO_LONG)
        return TurnFailed(f"Codex: {message or 'the turn failed without a reason'}")


def _build_thread_settings(
    assignment: TurnRequest, servers: Sequence[ReadyServer]
) -> Mapping[str, object]:
    """Return the settings of a thread, but for its folder, which each turn names.

    What ``thread/start`` is given as the folder to write to, Codex enters into the person's
    settings as one that they trust: from then on it would start the MCP servers of the folder's
    ``.codex`` and run the commands that its rules allow, all without a question.
    """
    terms = {
        "approvalPolicy": POLICY,
        "approvalsReviewer": "user",
        "sandbox": SANDBOX,
        "developerInstructions": assignment.instructions,
        "model": assignment.model,
        "config": render_for_codex(servers),
    }
    return {name: value for name, value in terms.items() if value}


def _render_turn(assignment: TurnRequest, prompt: str) -> dict[str, object]:
    """Return the prompt of a turn, and what the turn's settings ask of it."""
    images = [
        {"type": "image", "url": f"data:{one.media_type};base64,{one.data}"}
        for one in assignment.images
    ]
    given: dict[str, object] = {
        "input": [{"type": "text", "text": prompt, "text_elements": []}, *images],
    }
    if assignment.effort:
        given["effort"] = assignment.effort
    if assignment.output_schema:
        given["outputSchema"] = msgspec.json.decode(assignment.output_schema)
    return given


def _render_mode_settings(assignment: TurnRequest, opened: object) -> Mapping[str, object]:
    """Return what a mode's settings must repeat; its instructions are Codex's own."""
    return {
        "model": get_text(opened, "model"),
        "reasoning_effort": assignment.effort or get_path(opened, "reasoningEffort"),
        "developer_instructions": None,
    }


def _report_retry(params: object) -> Iterator[Step]:
    """Report the pause before Codex retries, as its supplier has asked for.

    Where the supplier said so in a header (``Retry-After``), Codex waits without telling how
    long.
    """
    error = get_path(params, "error")
    message = f"{get_text(error, 'message')} {get_text(error, 'additionalDetails')}".strip()
    seconds = parse_wait(message)
    is_limit = _read_status(error) == 429
    if get_path(params, "willRetry") is True and (seconds or is_limit):
        yield SupplierPause(message, seconds or None)


def _read_kind(error: object) -> object:
    """Return the kind of an error, as Codex names it."""
    info = get_path(error, "codexErrorInfo")
    return next(iter(info), "") if isinstance(info, dict) else info


def _read_status(error: object) -> object:
    """Return the supplier's HTTP status that led to an error, if there was one."""
    return get_path(error, "codexErrorInfo", str(_read_kind(error)), "httpStatusCode")


_Handler: TypeAlias = Callable[[CodexConversation, object], Iterator[Step]]

_RESULTS: Mapping[str, _Handler] = {
    "initialize": CodexConversation._on_initialized,
    "thread/start": CodexConversation._on_thread_started,
    "thread/resume": CodexConversation._on_thread_resumed,
    "turn/start": CodexConversation._on_turn_started,
}

_NOTIFICATIONS: Mapping[str, _Handler] = {
    "turn/started": CodexConversation._on_turn_started,
    "turn/completed": CodexConversation._on_turn_completed,
    "item/started": CodexConversation._on_item_started,
    "item/completed": lambda self, params: self._events.on_item_completed(params),
    "item/agentMessage/delta": lambda self, params: self._events.on_delta(params),
    "item/plan/delta": lambda self, params: self._events.on_delta(params),
    "item/reasoning/summaryTextDelta": lambda self, params: self._events.on_thinking(params),
    "item/reasoning/textDelta": lambda self, params: self._events.on_thinking(params),
    "item/reasoning/summaryPartAdded": lambda self, params: self._events.on_thinking_part(params),
    "turn/plan/updated": lambda self, params: self._events.on_plan(params),
    "thread/tokenUsage/updated": lambda self, params: self._events.on_usage(params),
    "mcpServer/startupStatus/updated": CodexConversation._on_server_status,
    "account/rateLimits/updated": CodexConversation._on_rate_limits,
    "error": lambda _, params: _report_retry(params),
    "serverRequest/resolved": lambda self, params: self._questions.on_resolved(params),
}

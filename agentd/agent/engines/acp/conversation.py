"""A turn with an ACP agent, from the handshake to the prompt's answer, without any I/O."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias

import msgspec
from msgspec import structs

from agentd import __version__
from agentd.agent.engine import (
    ApprovalAnswer,
    EngineStateSaved,
    ModesListed,
    RateLimited,
    ReplyCompleted,
    ReplyDelta,
    ToolStarted,
    ToolUsed,
    TurnFailed,
    TurnRequest,
    UsageReported,
)
from agentd.agent.engines.acp.commands import CommandCheck
from agentd.agent.engines.acp.events import AcpEvents
from agentd.agent.engines.acp.questions import AcpQuestions
from agentd.agent.engines.acp.session import (
    LOST,
    SettingRequest,
    build_prompt,
    parse_state,
    plan_settings,
    read_modes,
    render_blocks,
    render_state,
)
from agentd.agent.engines.acp.usage import CallMeter, CostMeter, read_usage
from agentd.agent.engines.external.common import WorkspaceBounds, render_note
from agentd.agent.engines.external.conversation import AskApproval, AwaitLateOutput, Step, TurnDone
from agentd.agent.engines.external.json_rpc import (
    RpcError,
    RpcNotification,
    RpcPeer,
    RpcRequest,
    RpcResult,
    get_path,
    get_text,
    iter_list,
)
from agentd.agent.mcp_servers.handover import render_for_acp, tell_failure
from agentd.agent.mcp_servers.model import ReadyServer
from agentd.llm.conversation import ImagePart
from agentd.llm.price import NO_USAGE, Usage

VERSION = 1
LATE = 2.0
"""Seconds to wait for the cost after the prompt's response."""

MOST_REMINDERS = 5
"""The number of times a turn is continued after its agent ended it at a denial."""
NOT_ALLOWED = "This was not allowed:\n\n{}\n\nContinue without it, or say what you would need."

_CAPABILITIES: Mapping[str, object] = {
    "fs": {"readTextFile": False, "writeTextFile": False},
    "terminal": False,
    "elicitation": {"form": {}},
}
_WAIT_FOR_SERVERS = {"mcpStartupAwaitTimeoutMs": 30_000}
"""Has codex-acp open a session only once its servers have started, or failed to, or are too slow:
else the model's first calls know none of their tools. Others ignore it."""
_OTHER_VERSION = "The agent uses version {} of the Agent Client Protocol, not {}."
_SIGN_IN_FIRST = -32000
_LIMIT = re.compile(
    r"\b429\b|rate.?limit|usage limit|hit your limit|quota|too many requests"
    r"|\bIt (?:resets at|never resets)\b",  # as agentd's own gateway says
    re.I,
)

_STREAM_ERROR = re.compile(
    r'message="stream error".*? error\.error="(?:AI_APICallError: )?((?:[^"\\\n]|\\.)*)"'
)
"""A line of opencode's log, which retries without telling its client."""
WAITS = "The agent is waiting, since its supplier refused a request:"

_ENDS: Mapping[str, str] = {
    "max_tokens": "The reply was cut off: it reached the model's output limit.",
    "max_turn_requests": "The agent stopped: it reached its limit of requests for one prompt.",
    "refusal": "The model refused to continue.",
}
"""Stop reasons that are failures."""

_RESUMES = ("agentCapabilities", "sessionCapabilities", "resume")

Servers: TypeAlias = Sequence[ReadyServer]
"""MCP servers that the agent is handed."""


class AcpConversation:
    """A turn, from ``initialize`` to the answer to ``session/prompt``."""

    def __init__(self, assignment: TurnRequest, bounds: WorkspaceBounds, mcp: Servers = ()) -> None:
        self._mcp_servers = mcp
        self._assignment = assignment
        self._bounds = bounds = bounds.follow_mode(assignment.mode)
        self._peer = RpcPeer(marked=True)
        self._events = AcpEvents(bounds)
        self._questions = AcpQuestions(self._peer, self._events, bounds, mcp)
        self._state = parse_state(assignment.engine_state)
        self._meter = CostMeter(self._state.cost)
        self._calls = CallMeter()
        self._commands = CommandCheck()
        self._agent: object = None
        """The response to ``initialize``."""
        self._session = ""
        self._fresh = False
        self._settings: list[SettingRequest] = []
        """The requests that are still to be sent before the prompt."""
        self._usual_mode = self._state.usual_mode
        """The mode in which the session began, once the chat has chosen another."""
        self._asked: dict[str, str] = {}
        """The subject of each action that is asked about."""
        self._denied: list[str] = []
        """The denied actions, for the model, until it writes or does something again."""
        self._notes: list[str] = []
        """What persons said with their decisions, until the model is told."""
        self._reminders = 0
        self._prompting = self._answered = self._stopping = self._over = False
        self._reported = False
        """True if the last update was a report of the cost."""
        self._used: Usage = NO_USAGE
        self._last: tuple[Step, ...] = ()

    def on_start(self) -> Iterator[Step]:
        """Send ``initialize``."""
        given = {
            "protocolVersion": VERSION,
            "clientCapabilities": _CAPABILITIES,
            "clientInfo": {"name": "agentd", "title": "agentd", "version": __version__},
        }
        yield self._peer.request("initialize", given)

    def on_line(self, line: bytes) -> Iterator[Step]:
        """Handle one message of the agent."""
        if self._over:
            return
        match self._peer.parse(line):
            case RpcRequest() as request:
                for step in self._questions.on_request(request):
                    if isinstance(step, AskApproval) and step.question.kind != "question":
                        self._asked[step.id] = step.question.subject
                    yield step
            case RpcNotification(method="session/update", params=params):
                yield from self._on_update(params)
            case RpcNotification(method="_agentd/usage", params=params) if self._prompting:
                for called in self._calls.add_call(params, self._session):
                    yield structs.replace(called, engine_state=self._render_state())
            case RpcNotification(method="_agentd/servers", params=params):
                yield from _tell_failed_servers(self._mcp_servers, get_path(params, "servers"))
            case RpcNotification(method="$/cancel_request", params=params):
                yield from self._questions.on_cancelled(params)
            case RpcResult(method=method, value=value):
                yield from _RESULTS[method](self, value)
            case RpcError() as refusal:
                yield from self._on_error(refusal)

    def on_decision(self, ask: str, answer: ApprovalAnswer) -> Iterator[Step]:
        """Send the decision; the protocol has no field for a reason: it is told later."""
        acts = ask in self._asked  # the answer to a question of the agent has a place of its own
        subject = self._asked.pop(ask, "")
        if acts and answer.note:
            self._notes.append(render_note(answer, subject))
        if acts and not answer.allowed:
            reason = "" if answer.note else answer.reason
            self._denied.append(f"{subject}\n{reason}".strip())
        yield from self._questions.on_decision(ask, answer)

    def stop(self) -> Iterator[Step]:
        """Cancel the prompt; without one, the turn is simply over."""
        if self._over:
            return
        self._stopping = True
        yield from self._questions.close()
        if self._answered or not self._prompting:
            yield from self._end()
        else:
            yield self._peer.notify("session/cancel", {"sessionId": self._session})

    def explain_silence(self, errors: str) -> RateLimited | None:
        """Return the limit found in opencode's log; the protocol has no message for one.

        opencode waits as long as its supplier requested, and otherwise retries every half minute:
        a single refusal before a long silence means a long wait, whose length it does not log.
        """
        refusals = _STREAM_ERROR.findall(errors)
        if refusals and (len(refusals) == 1 or _LIMIT.search(refusals[-1])):
            return RateLimited(f"{WAITS} {refusals[-1]}")
        return None

    def on_exit(self) -> Iterator[Step]:
        """Report the unfinished reply, its usage and its cost."""
        if self._over:
            return
        self._over = True
        reply = self._events.take_reply()
        state = self._render_state()
        used, cost = self._calls.complete(self._used, self._meter.take_spent())
        if reply:
            yield ReplyCompleted(reply, used, cost)
        yield from self._events.flush_tools()
        if not reply and (used != NO_USAGE or cost):
            yield UsageReported(used, cost)
        if self._session and self._meter.known:
            yield EngineStateSaved(state)
        yield from self._last

    def _end(self, *last: Step) -> Iterator[Step]:
        self._last = last or self._last
        yield from self.on_exit()
        yield TurnDone()

    # The handshake.

    def _on_initialized(self, value: object) -> Iterator[Step]:
        self._agent = value
        spoken = get_path(value, "protocolVersion")
        if spoken != VERSION:
            yield from self._end(TurnFailed(_OTHER_VERSION.format(spoken, VERSION)))
            return
        method, resumes = "session/new", get_path(value, *_RESUMES) is not None
        if self._state.session and (resumes or self._loads):
            method = "session/resume" if resumes else "session/load"
        yield self._open_session(method)

    @property
    def _loads(self) -> bool:
        return get_path(self._agent, "agentCapabilities", "loadSession") is True

    def _open_session(self, method: str) -> Step:
        known = {} if method == "session/new" else {"sessionId": self._state.session}
        servers = _build_server_fields(self._mcp_servers, self._agent)
        given = {**known, "cwd": self._bounds.folder, **servers}
        return self._peer.request(method, given)

    def _on_session_new(self, value: object) -> Iterator[Step]:
        self._fresh = True
        yield from self._on_session_open(get_text(value, "sessionId"), value)

    def _on_session_resumed(self, value: object) -> Iterator[Step]:
        yield from self._on_session_open(self._state.session, value)

    def _on_session_open(self, session: str, value: object) -> Iterator[Step]:
        """Choose the model in the session that was opened, then prompt."""
        if not session:
            yield from self._end(TurnFailed("The agent started a session without an id."))
            return
        self._session = session
        if self._fresh:
            self._meter.reset()
        current, modes = read_modes(value)
        if modes:
            yield ModesListed(modes)
        self._usual_mode = self._usual_mode or (current if self._assignment.mode else "")
        try:
            self._settings = plan_settings(value, self._assignment, self._usual_mode)
        except LookupError as error:
            yield from self._end(TurnFailed(str(error.args[0])))
            return
        yield from self._configure_next(None)

    def _configure_next(self, _: object) -> Iterator[Step]:
        """Send the next setting; after the last the prompt: from it on the session is kept."""
        if self._settings:
            method, given = self._settings.pop(0)
            yield self._peer.request(method, {"sessionId": self._session, **given})
            return
        self._prompting = True
        yield EngineStateSaved(self._render_state())
        words = build_prompt(self._assignment, self._state, fresh=self._fresh)
        yield self._send_prompt(self._commands.begin(words), self._assignment.images)

    def _send_prompt(self, words: str, images: Sequence[ImagePart] = ()) -> Step:
        blocks = render_blocks(words, images, self._agent)
        return self._peer.request("session/prompt", {"sessionId": self._session, "prompt": blocks})

    def _render_state(self) -> str:
        cost = self._meter.add_to_earlier(self._calls.own)
        return render_state(self._session, cost, self._assignment.instructions, self._usual_mode)

    def _on_error(self, refusal: RpcError) -> Iterator[Step]:
        if refusal.code == _SIGN_IN_FIRST:
            yield from self._end(TurnFailed(_explain_sign_in(self._agent)))
        elif refusal.method == "session/resume" and self._loads:
            yield self._open_session("session/load")
        elif refusal.method in ("session/resume", "session/load"):
            yield ToolUsed("session", f"resume {self._state.session}", LOST, ok=False)
            yield self._open_session("session/new")
        elif refusal.method == "session/prompt" and self._stopping:
            yield from self._end()
        elif refusal.method == "session/prompt" and _LIMIT.search(_describe_refusal(refusal)):
            yield from self._end(RateLimited(_describe_refusal(refusal)))
        else:
            yield from self._end(TurnFailed(f"The agent: {_find_reason(refusal)}"))

    # The running prompt.

    def _on_update(self, params: object) -> Iterator[Step]:
        """Handle an update; before the prompt, updates only replay the history."""
        update = get_path(params, "update")
        self._commands.on_update(update)
        if get_text(params, "sessionId") != self._session and self._session:
            return
        if get_text(update, "sessionUpdate") == "usage_update":
            self._meter.add_report(update, before=not self._prompting)
            self._reported = True
            if self._answered:
                yield from self._end()
        elif self._prompting:
            self._questions.on_update(update)
            for step in self._events.on_update(update):
                self._reported = False
                self._commands.note_work()
                if isinstance(step, ReplyDelta | ToolStarted):
                    self._denied.clear()
                yield step

    def _on_prompt_result(self, value: object) -> Iterator[Step]:
        """End the turn on the prompt's response; its cost may be reported a moment later.

        Some agents end the turn at a denial, before their model knows of it; and none tells its
        model what a person said.
        """
        self._used += read_usage(value)
        reason = get_text(value, "stopReason")
        if not self._stopping and (words := self._commands.rephrase()):
            yield self._send_prompt(words, self._assignment.images)
            return
        untold = self._denied or self._notes
        if untold and not self._stopping and self._reminders < MOST_REMINDERS:
            self._reminders += 1
            yield self._send_prompt(_take_untold(self._denied, self._notes))
            return
        self._answered = True
        if reason in _ENDS:
            self._last = (TurnFailed(_ENDS[reason]),)
        if self._reported or (self._stopping and not self._meter.known):
            yield from self._end()
        else:
            yield AwaitLateOutput(LATE)


def _take_untold(denied: list[str], notes: list[str]) -> str:
    """Return what the model is to be told of denials and notes, and forget it."""
    parts = [NOT_ALLOWED.format("\n\n".join(denied)) if denied else "", *notes]
    denied.clear()
    notes.clear()
    return "\n\n".join(filter(None, parts))


_Handler: TypeAlias = Callable[[AcpConversation, object], Iterator[Step]]

_RESULTS: Mapping[str, _Handler] = {
    "initialize": AcpConversation._on_initialized,
    "session/new": AcpConversation._on_session_new,
    "session/resume": AcpConversation._on_session_resumed,
    "session/load": AcpConversation._on_session_resumed,
    "session/set_config_option": AcpConversation._configure_next,
    "session/set_model": AcpConversation._configure_next,
    "session/set_mode": AcpConversation._configure_next,
    "session/prompt": AcpConversation._on_prompt_result,
}


def _explain_sign_in(agent: object) -> str:
    """Explain how to sign in, in the agent's own words if it has any."""
    methods = [
        get_text(method, "description") or get_text(method, "name")
        for method in iter_list(agent, "authMethods")
    ]
    how = "; or: ".join(filter(None, methods)) or "see the agent's own documentation"
    return f"The agent is not signed in for the user that agentd runs as. To sign in: {how}."


def _describe_refusal(refusal: RpcError) -> str:
    details = get_text(refusal.data, "details") or get_text(refusal.data, "message")
    return " ".join(part for part in (refusal.message, details) if part) or refusal.method


def _find_reason(refusal: RpcError) -> str:
    """Describe a refusal, without the JSON of a supplier's error that Gemini CLI passes on."""
    text = _describe_refusal(refusal)
    with suppress(msgspec.DecodeError, RecursionError):
        return get_text(msgspec.json.decode(text), "error", "message") or text
    return text


def _tell_failed_servers(servers: Servers, states: object) -> Iterator[Step]:
    """Yield for the history which of the servers that it was handed opencode cannot use."""
    for server in servers:
        state = get_text(states, server.name, "status")
        if state not in ("", "connected"):
            yield tell_failure(server.name, get_text(states, server.name, "error") or state)


def _build_server_fields(servers: Servers, agent: object) -> dict[str, object]:
    """Return the fields with the servers that a session is opened with."""
    http = get_path(agent, "agentCapabilities", "mcpCapabilities", "http") is True
    rendered = render_for_acp(servers, http=http)
    return {"mcpServers": rendered, **({"_meta": _WAIT_FOR_SERVERS} if rendered else {})}

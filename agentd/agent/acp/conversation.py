"""One turn with an ACP agent, from the handshake to the prompt's answer, without any I/O."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from agentd import __version__
from agentd.agent.acp.questions import Questions
from agentd.agent.acp.session import LOST, kept, model_to_set, opening, options, remembered
from agentd.agent.acp.usage import Meter, tokens
from agentd.agent.acp.work import Work
from agentd.agent.conversation import Ask, Linger, Over, Step
from agentd.agent.engine import (
    Answer,
    Assignment,
    Failed,
    Kept,
    Limited,
    Replied,
    Spent,
    ToolStarted,
    ToolUsed,
    Wrote,
)
from agentd.agent.foreign import Bounds
from agentd.agent.json_rpc import Notice, Peer, Refusal, Request, Result, each, pick, text
from agentd.proxy.price import NOTHING, Usage

VERSION = 1
LATE = 2.0
"""Seconds that a report of the cost may come after the prompt's answer."""

MOST_REMINDERS = 5
"""How often a turn goes on that its agent ended at a "no"."""
NOT_ALLOWED = "This was not allowed:\n\n{}\n\nGo on without it, or say what you would need."

_SIGN_IN_FIRST = -32000
_LIMIT = re.compile(r"\b429\b|rate.?limit|usage limit|hit your limit|quota|too many requests", re.I)

_ENDS: Mapping[str, str] = {
    "max_tokens": "The reply was cut off: it reached the longest that the model may write.",
    "max_turn_requests": "The agent stopped: it asked the model as often as one prompt allows.",
    "refusal": "The model refuses to go on.",
}
"""Ends of a turn that are failures."""


class AcpConversation:
    """A turn, from ``initialize`` to the answer to ``session/prompt``."""

    def __init__(self, assignment: Assignment, bounds: Bounds) -> None:
        self._assignment = assignment
        self._bounds = bounds
        self._peer = Peer(marked=True)
        self._work = Work(bounds)
        self._questions = Questions(self._peer, self._work, bounds)
        self._memory = remembered(assignment.memory)
        self._meter = Meter(self._memory.cost)
        self._agent: object = None
        """What it says of itself: the answer to ``initialize``."""
        self._session = ""
        self._fresh = False
        self._options: list[tuple[str, str]] = []
        """Those of the session that are still to be set."""
        self._model = ""
        """The model that is still to be set, where it is no option."""
        self._asked: dict[str, str] = {}
        """What leave was asked for, by question."""
        self._denied: list[str] = []
        """What was not allowed, for the model, as long as it has said and done nothing since."""
        self._reminders = 0
        self._prompting = self._answered = self._stopping = self._over = False
        self._reported = False
        """Whether a report of the cost came after all else that was told."""
        self._used: Usage = NOTHING
        self._last: tuple[Step, ...] = ()

    def begin(self) -> Iterator[Step]:
        """Shake hands."""
        files = {"readTextFile": False, "writeTextFile": False}
        given = {
            "protocolVersion": VERSION,
            "clientCapabilities": {"fs": files, "terminal": False},
            "clientInfo": {"name": "agentd", "title": "agentd", "version": __version__},
        }
        yield self._peer.ask("initialize", given)

    def heard(self, line: bytes) -> Iterator[Step]:
        """Carry on from what the agent says."""
        if self._over:
            return
        match self._peer.heard(line):
            case Request() as request:
                for step in self._questions.asked(request):
                    if isinstance(step, Ask):
                        self._asked[step.id] = step.question.subject
                    yield step
            case Notice(method="session/update", params=params):
                yield from self._updated(params)
            case Notice(method="$/cancel_request", params=params):
                yield from self._questions.withdrawn(params)
            case Result(method=method, value=value):
                yield from _RESULTS[method](self, value)
            case Refusal() as refusal:
                yield from self._refused(refusal)

    def answered(self, ask: str, answer: Answer) -> Iterator[Step]:
        """Tell the agent the decision; the protocol has no word for why not."""
        subject = self._asked.pop(ask, "")
        if not answer.allowed:
            self._denied.append(f"{subject}\n{answer.reason}".strip())
        yield from self._questions.answered(ask, answer)

    def stop(self) -> Iterator[Step]:
        """Cancel the prompt; before there is one, the turn is simply over."""
        if self._over:
            return
        self._stopping = True
        yield from self._questions.close()
        if self._answered or not self._prompting:
            yield from self._end()
        else:
            yield self._peer.tell("session/cancel", {"sessionId": self._session})

    def ended(self) -> Iterator[Step]:
        """Tell the reply that was being written, what was used and what it cost."""
        if self._over:
            return
        self._over = True
        reply, used, cost = self._work.reply(), self._used, self._meter.take()
        if reply:
            yield Replied(reply, used, cost)
        yield from self._work.ended()
        if not reply and (used != NOTHING or cost):
            yield Spent(used, cost)
        if self._session and cost:
            yield self._kept()
        yield from self._last

    def _end(self, *last: Step) -> Iterator[Step]:
        self._last = last or self._last
        yield from self.ended()
        yield Over()

    # The handshake.

    def _initialized(self, value: object) -> Iterator[Step]:
        self._agent = value
        spoken = pick(value, "protocolVersion")
        if spoken != VERSION:
            told = f"The agent speaks version {spoken} of the Agent Client Protocol, not {VERSION}."
            yield from self._end(Failed(told))
            return
        resumes = pick(value, "agentCapabilities", "sessionCapabilities", "resume") is not None
        if self._memory.session and resumes:
            yield self._open("session/resume")
        elif self._memory.session and self._loads:
            yield self._open("session/load")
        else:
            yield self._open("session/new")

    @property
    def _loads(self) -> bool:
        return pick(self._agent, "agentCapabilities", "loadSession") is True

    def _open(self, method: str) -> Step:
        known = {} if method == "session/new" else {"sessionId": self._memory.session}
        return self._peer.ask(method, {**known, "cwd": self._bounds.folder, "mcpServers": []})

    def _started(self, value: object) -> Iterator[Step]:
        self._fresh = True
        yield from self._opened(text(value, "sessionId"), value)

    def _resumed(self, value: object) -> Iterator[Step]:
        yield from self._opened(self._memory.session, value)

    def _opened(self, session: str, value: object) -> Iterator[Step]:
        """The session is there: choose the model, then prompt."""
        if not session:
            yield from self._end(Failed("The agent began a session without an id."))
            return
        self._session = session
        self._meter.begun(text(self._agent, "agentInfo", "name"), fresh=self._fresh)
        yield self._kept()
        try:
            self._options = list(options(value, self._assignment))
            self._model = "" if self._options else model_to_set(value, self._assignment)
        except LookupError as error:
            yield from self._end(Failed(str(error.args[0])))
            return
        yield from self._configured(None)

    def _configured(self, _: object) -> Iterator[Step]:
        """Set the next option of the session; after the last one, prompt."""
        if self._options:
            option, value = self._options.pop(0)
            given = {"sessionId": self._session, "configId": option, "value": value}
            yield self._peer.ask("session/set_config_option", given)
            return
        if self._model:
            given = {"sessionId": self._session, "modelId": self._model}
            self._model = ""
            yield self._peer.ask("session/set_model", given)
            return
        self._prompting = True
        yield self._prompt(opening(self._assignment, self._memory, fresh=self._fresh))

    def _prompt(self, words: str) -> Step:
        prompt = [{"type": "text", "text": words}]
        return self._peer.ask("session/prompt", {"sessionId": self._session, "prompt": prompt})

    def _kept(self) -> Kept:
        return Kept(kept(self._session, self._meter.seen, self._assignment.instructions))

    def _refused(self, refusal: Refusal) -> Iterator[Step]:
        if refusal.code == _SIGN_IN_FIRST:
            yield from self._end(Failed(_sign_in(self._agent)))
        elif refusal.method == "session/resume" and self._loads:
            yield self._open("session/load")
        elif refusal.method in ("session/resume", "session/load"):
            yield ToolUsed("session", f"resume {self._memory.session}", LOST)
            yield self._open("session/new")
        elif refusal.method == "session/prompt" and self._stopping:
            yield from self._end()
        elif refusal.method == "session/prompt" and _LIMIT.search(_said(refusal)):
            yield from self._end(Limited(_said(refusal)))
        else:
            yield from self._end(Failed(f"The agent: {_said(refusal)}"))

    # The prompt at work.

    def _updated(self, params: object) -> Iterator[Step]:
        """Before the prompt, updates replay what was told long ago."""
        update = pick(params, "update")
        report = text(update, "sessionUpdate") == "usage_update"
        if text(params, "sessionId") != self._session and self._session:
            return
        if report:
            self._meter.heard(update, before=not self._prompting)
            self._reported = True
            if self._answered:
                yield from self._end()
        elif self._prompting:
            for step in self._work.heard(update):
                self._reported = False
                if isinstance(step, Wrote | ToolStarted):
                    self._denied.clear()
                yield step

    def _finished(self, value: object) -> Iterator[Step]:
        """The prompt is answered; what it cost may come a moment later.

        Some agents end the turn at a "no", before their model has heard of it.
        """
        self._used += tokens(value)
        reason = text(value, "stopReason")
        if self._denied and not self._stopping and self._reminders < MOST_REMINDERS:
            self._reminders += 1
            told = NOT_ALLOWED.format("\n\n".join(self._denied))
            self._denied.clear()
            yield self._prompt(told)
            return
        self._answered = True
        if reason in _ENDS:
            self._last = (Failed(_ENDS[reason]),)
        if self._reported or (self._stopping and not self._meter.known):
            yield from self._end()
        else:
            yield Linger(LATE)


_Handler: TypeAlias = Callable[[AcpConversation, object], Iterator[Step]]

_RESULTS: Mapping[str, _Handler] = {
    "initialize": AcpConversation._initialized,
    "session/new": AcpConversation._started,
    "session/resume": AcpConversation._resumed,
    "session/load": AcpConversation._resumed,
    "session/set_config_option": AcpConversation._configured,
    "session/set_model": AcpConversation._configured,
    "session/prompt": AcpConversation._finished,
}


def _sign_in(agent: object) -> str:
    """What to do, in the agent's own words where it has some."""
    ways = [text(way, "description") or text(way, "name") for way in each(agent, "authMethods")]
    told = "; or: ".join(way for way in ways if way) or "see the agent's own documentation"
    return f"The agent is not signed in, as the user whom agentd runs as. To do so: {told}."


def _said(refusal: Refusal) -> str:
    details = text(refusal.data, "details") or text(refusal.data, "message")
    return " ".join(part for part in (refusal.message, details) if part) or refusal.method

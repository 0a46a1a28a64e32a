"""One turn with ``codex app-server``, from the handshake to the turn's end, without any I/O."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from agentd import __version__
from agentd.agent.codex.launch import Memory
from agentd.agent.codex.questions import Questions
from agentd.agent.codex.usage import reset_time
from agentd.agent.codex.work import Work
from agentd.agent.conversation import Over, Pauses, Step
from agentd.agent.engine import Answer, Assignment, Failed, Kept, Limited, ToolUsed
from agentd.agent.foreign import Bounds, instructions_digest, prompted, resumed_prompt
from agentd.agent.json_rpc import Notice, Peer, Refusal, Request, Result, pick, text
from agentd.proxy.dialects.failure import wait_in_words

POLICY = "untrusted"
SANDBOX = "workspace-write"

LOST = "The earlier session is gone. A new one was begun, with the latest messages of this chat."
SIGN_IN = "Codex is not signed in: run `codex login` as the user whom agentd runs as."
BAD_KEY = "The supplier refuses the key that models.yml gives for it."
TOO_LONG = "The session has grown longer than the model can take in. Go on in a new chat."


class CodexConversation:
    """A turn, from the handshake to ``turn/completed``."""

    def __init__(self, assignment: Assignment, bounds: Bounds) -> None:
        self._assignment = assignment
        self._bounds = bounds
        self._memory = Memory.read(assignment.memory)
        self._digest = instructions_digest(assignment.instructions)
        self._peer = Peer(marked=False)
        self._work = Work(bounds)
        self._questions = Questions(self._peer, bounds)
        self._limits: object = None
        self._stopping = False
        self._over = False

    def begin(self) -> Iterator[Step]:
        """Shake hands."""
        client = {"name": "agentd", "title": "agentd", "version": __version__}
        yield self._peer.ask("initialize", {"clientInfo": client, "capabilities": None})

    def heard(self, line: bytes) -> Iterator[Step]:
        """Carry on from what Codex says."""
        if self._over:
            return
        match self._peer.heard(line):
            case Request() as request:
                yield from self._questions.asked(request)
            case Notice(method=method, params=params):
                if method in _TOLD:
                    yield from _TOLD[method](self, params)
            case Result(method=method, value=value):
                if method in _RESULTS:
                    yield from _RESULTS[method](self, value)
            case Refusal() as refusal:
                yield from self._refused(refusal)

    def answered(self, ask: str, answer: Answer) -> Iterator[Step]:
        """Tell Codex the decision."""
        yield from self._questions.answered(ask, answer)

    def stop(self) -> Iterator[Step]:
        """Interrupt the turn, now or once it has begun."""
        if self._over:
            return
        self._stopping = True
        yield from self._questions.close()
        if self._work.turn:
            yield self._interrupt()
        elif not self._work.thread:
            yield from self._end()

    def ended(self) -> Iterator[Step]:
        """Tell what was held back."""
        yield from self._work.ended()

    def _interrupt(self) -> Step:
        given = {"threadId": self._work.thread, "turnId": self._work.turn}
        return self._peer.ask("turn/interrupt", given)

    def _end(self, *last: Step) -> Iterator[Step]:
        yield from self._work.ended()
        yield from last
        self._over = True
        yield Over()

    def _initialized(self, _: object) -> Iterator[Step]:
        yield self._peer.tell("initialized")
        if self._memory.thread:
            resumed = {"threadId": self._memory.thread, "excludeTurns": True}
            yield self._peer.ask("thread/resume", {**resumed, **self._terms()})
        else:
            yield self._peer.ask("thread/start", self._terms())

    def _terms(self) -> Mapping[str, object]:
        terms = {
            "cwd": self._bounds.folder,
            "approvalPolicy": POLICY,
            "approvalsReviewer": "user",
            "sandbox": SANDBOX,
            "developerInstructions": self._assignment.instructions,
            "model": self._assignment.model,
        }
        return {name: value for name, value in terms.items() if value}

    def _started(self, value: object) -> Iterator[Step]:
        self._work.ledger.begun(text(value, "thread", "id"))
        assignment = self._assignment
        yield from self._turn(value, prompted(assignment.prompt, assignment.history))

    def _resumed(self, value: object) -> Iterator[Step]:
        """Go on with a thread. It has read its instructions once and takes no others by terms."""
        assignment, heeded = self._assignment, self._memory.instructions == self._digest
        told = resumed_prompt(assignment, "" if heeded else assignment.instructions)
        yield from self._turn(value, told)

    def _turn(self, value: object, prompt: str) -> Iterator[Step]:
        """The thread is there: give it the prompt."""
        thread = self._work.thread = text(value, "thread", "id")
        if not thread:
            yield from self._end(Failed("Codex began a session without an id."))
            return
        yield Kept(str(Memory(thread, self._digest)))
        if self._stopping:
            yield from self._end()
            return
        given: dict[str, object] = {
            "threadId": thread,
            "input": [{"type": "text", "text": prompt, "text_elements": []}],
        }
        if self._assignment.effort:
            given["effort"] = self._assignment.effort
        yield self._peer.ask("turn/start", given)

    def _running(self, value: object) -> Iterator[Step]:
        """The turn has an id; a person may have stopped it before."""
        if self._work.turn or text(value, "threadId") not in ("", self._work.thread):
            return
        self._work.turn = text(value, "turn", "id")
        if self._work.turn and self._stopping:
            yield self._interrupt()

    def _refused(self, refusal: Refusal) -> Iterator[Step]:
        match refusal.method:
            case "thread/resume":
                yield ToolUsed("codex", f"resume {self._memory.thread}", LOST)
                yield self._peer.ask("thread/start", self._terms())
            case "turn/interrupt":
                return  # it is over already: its end is on the way
            case _:
                yield from self._end(Failed(f"Codex: {refusal.message or refusal.method}"))

    def _item_started(self, params: object) -> Iterator[Step]:
        self._questions.begun(pick(params, "item"))
        yield from self._work.started(params)

    def _limited(self, params: object) -> Iterator[Step]:
        self._limits = pick(params, "rateLimits")
        yield from ()

    def _retries(self, params: object) -> Iterator[Step]:
        """Codex asks its supplier again, as late as that one has told."""
        error = pick(params, "error")
        said = f"{text(error, 'message')} {text(error, 'additionalDetails')}".strip()
        seconds = wait_in_words(said)
        if pick(params, "willRetry") is True and seconds:
            yield Pauses(said, seconds)

    def _completed(self, params: object) -> Iterator[Step]:
        if not self._work.ours(params) or text(params, "turn", "id") != self._work.turn:
            return
        if text(params, "turn", "status") == "failed":
            yield from self._end(self._failure(pick(params, "turn", "error")))
        else:
            yield from self._end()

    def _failure(self, error: object) -> Limited | Failed:
        info, said = pick(error, "codexErrorInfo"), text(error, "message")
        name = next(iter(info), "") if isinstance(info, dict) else info
        status = pick(info, str(name), "httpStatusCode")
        if name in ("usageLimitExceeded", "rateLimitExceeded") or status == 429:
            return Limited(
                said or "The supplier's usage limit is reached.", reset_time(self._limits)
            )
        if name == "unauthorized" or status == 401:
            return Failed(f"{BAD_KEY if self._assignment.supplier else SIGN_IN} {said}".strip())
        if name == "contextWindowExceeded":
            return Failed(TOO_LONG)
        return Failed(f"Codex: {said or 'the turn failed, without a reason'}")


_Handler: TypeAlias = Callable[[CodexConversation, object], Iterator[Step]]

_RESULTS: Mapping[str, _Handler] = {
    "initialize": CodexConversation._initialized,
    "thread/start": CodexConversation._started,
    "thread/resume": CodexConversation._resumed,
    "turn/start": CodexConversation._running,
}

_TOLD: Mapping[str, _Handler] = {
    "turn/started": CodexConversation._running,
    "turn/completed": CodexConversation._completed,
    "item/started": CodexConversation._item_started,
    "item/completed": lambda self, params: self._work.completed(params),
    "item/agentMessage/delta": lambda self, params: self._work.wrote(params),
    "thread/tokenUsage/updated": lambda self, params: self._work.used(params),
    "account/rateLimits/updated": CodexConversation._limited,
    "error": CodexConversation._retries,
    "serverRequest/resolved": lambda self, params: self._questions.resolved(params),
}

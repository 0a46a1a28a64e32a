"""The hooks of one turn of the native engine: runs them, and keeps what the history is told.

Hooks of one event run one after the other, until one blocks. Those that say nothing leave no trace;
a hook that fails or takes too long is told, and blocks nothing. Before a tool those of a workspace
come first, so that the owner's judge the input that they may have changed.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from agentd.agent.engine import EngineEvent, ToolUsed
from agentd.agent.hooks.model import Hook, HookAnswer, HookEvent, read_answer
from agentd.agent.hooks.tool_forms import ToolForm, change_use, make_forms
from agentd.agent.mcp_servers.turn_tools import McpToolUse
from agentd.agent.text import sanitize
from agentd.agent.tools.model import ToolUse
from agentd.core.errors import AgentdError, BadRequest
from agentd.system.process import Finished

HOOK = "hook"
"""The name that the history gives to hooks."""
MOST_STOPS_BLOCKED = 8
"""How often hooks may send a model on at the end of one turn."""
LONGEST_INPUT = 2_000
"""Characters of a changed input that the history and the model are told."""

RunHook: TypeAlias = Callable[[str, bytes, float], Awaitable[Finished]]
"""Runs a command line with this input, for so many seconds at most."""


class HookVerdict(Struct, frozen=True):
    """What the hooks before a tool, a prompt or a turn's end decided together."""

    blocked: str = ""
    """Why it must not be, for the model; empty: it may."""
    ask: str = ""
    """Why a person is to decide; empty: hooks do not ask for it."""
    allowed: bool = False
    """The owner's hooks allow it."""
    context: tuple[str, ...] = ()
    """What the model is told beside."""
    use: ToolUse | McpToolUse | None = None
    """The use of a tool with the input that hooks have given it; None: it is as it was."""


class _HookSubject:
    """What the hooks of an event are told; those before a tool may change it."""

    def __init__(self, given: dict[str, object], names: frozenset[str] = frozenset()) -> None:
        self.given = given
        self.names = names

    def change(self, updated: dict[str, Any]) -> str:
        """Give the tool another input; return why it cannot have it, empty if it can."""
        return ""


class _ToolHookSubject(_HookSubject):
    def __init__(self, use: ToolUse | McpToolUse, form: ToolForm, root: str) -> None:
        super().__init__({}, form.names)
        self.use = use
        self._root = root
        self._tell(form)

    def change(self, updated: dict[str, Any]) -> str:
        """Give the tool another input; return why it cannot have it, empty if it can."""
        tool_input: Any = self.given["tool_input"]
        try:
            self.use = change_use(self.use, tool_input, updated, self._root)
        except BadRequest as error:
            return f"The hook changed the input, but {error.message}."
        self._tell(make_forms(self.use, self._root)[0])
        return ""

    def _tell(self, form: ToolForm) -> None:
        name = self.use.name
        self.given = {"tool_name": form.name, "tool_input": form.input, "agentd_tool": name}


class TurnHooks:
    """The hooks of a turn; ``run`` runs one in the folder ``root``."""

    def __init__(
        self,
        hooks: Sequence[Hook] = (),
        run: RunHook | None = None,
        root: str = "",
        chat_id: int = 0,
        problems: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.ended = ""
        """Why the turn must end; empty: it may go on."""
        self._hooks = hooks
        self._run = run
        self._root = root
        self._chat_id = chat_id
        self._stops = 0
        self._events: list[EngineEvent] = [
            ToolUsed(HOOK, source, f"failed: {sanitize(why)}", ok=False) for source, why in problems
        ]

    def take_events(self) -> Iterator[EngineEvent]:
        """Yield what the history has not been told yet."""
        while self._events:
            yield self._events.pop(0)

    async def before_prompt(self, prompt: str, left: float) -> HookVerdict:
        """Run the hooks of ``UserPromptSubmit``."""
        subject = _HookSubject({"prompt": prompt})
        return await self._run_all("UserPromptSubmit", subject, "the prompt", left)

    async def before_tool(self, use: ToolUse | McpToolUse, left: float) -> HookVerdict:
        """Run the hooks of ``PreToolUse``."""
        verdicts = [HookVerdict()]
        changed = None
        for form in self._list_forms("PreToolUse", use):
            subject = _ToolHookSubject(use, form, self._root)
            verdict = await self._run_all("PreToolUse", subject, use.name, left)
            verdicts.append(verdict)
            if subject.use is not use:  # only what has a single form is changed
                changed = subject.use
            if verdict.blocked:
                break
        return HookVerdict(
            verdicts[-1].blocked,
            next((one.ask for one in verdicts if one.ask), ""),
            len(verdicts) > 1 and all(one.allowed for one in verdicts[1:]),
            tuple(text for one in verdicts for text in one.context),
            changed,
        )

    async def after_tool(
        self, use: ToolUse | McpToolUse, output: str, left: float, *, ok: bool
    ) -> tuple[str, ...]:
        """Run the hooks of ``PostToolUse``; return what the model is told."""
        messages: list[str] = []
        for form in self._list_forms("PostToolUse", use):
            given: dict[str, object] = {
                **{"tool_name": form.name, "tool_input": form.input, "agentd_tool": use.name},
                "tool_response": {"output": output, "success": ok},
            }
            subject = _HookSubject(given, form.names)
            verdict = await self._run_all("PostToolUse", subject, use.name, left)
            messages += [*([verdict.blocked] if verdict.blocked else []), *verdict.context]
        return tuple(messages)

    async def before_end(self, reply: str, left: float) -> str:
        """Run the hooks of ``Stop``; return why the model must go on, empty if it need not."""
        given: dict[str, object] = {
            "stop_hook_active": self._stops > 0,
            "last_assistant_message": reply,
        }
        verdict = await self._run_all("Stop", _HookSubject(given), "the turn's end", left)
        if not verdict.blocked or self.ended:
            return ""
        self._stops += 1
        if self._stops > MOST_STOPS_BLOCKED:
            why = f"hooks sent the model on {MOST_STOPS_BLOCKED} times, so the turn ends now"
            self._events.append(ToolUsed(HOOK, "Stop", why, ok=False))
            return ""
        return verdict.blocked

    def _list_forms(self, event: HookEvent, use: ToolUse | McpToolUse) -> Sequence[ToolForm]:
        if not any(hook.event == event for hook in self._hooks):
            return ()
        return make_forms(use, self._root)

    def _list_hooks(self, event: HookEvent) -> list[Hook]:
        hooks = [hook for hook in self._hooks if hook.event == event]
        return sorted(hooks, key=lambda hook: hook.is_own) if event == "PreToolUse" else hooks

    async def _run_all(
        self, event: HookEvent, subject: _HookSubject, what: str, left: float
    ) -> HookVerdict:
        ask, allowed, context = "", False, []
        common = {
            "session_id": f"agentd-{self._chat_id}",
            "transcript_path": "",
            "cwd": self._root,
            "permission_mode": "default",
            "hook_event_name": event,
        }
        for hook in self._list_hooks(event):
            if subject.names and not hook.matches(subject.names):
                continue
            answer = await self._ask(hook, {**common, **subject.given}, left)
            if answer.updated is not None and (why := subject.change(answer.updated)):
                answer = HookAnswer("deny", why)
            self._note(hook, what, answer)
            if answer.ends_turn and not self.ended:
                self.ended = f"A hook ({hook.source}) ended the turn: {answer.ends_turn}"
            if answer.updated is not None:
                context.append(_tell_change(hook, subject.given["tool_input"]))
            if answer.context:
                context.append(f"[A hook of {event} says: {answer.context}]")
            if answer.ends_turn or answer.decision == "deny":
                reason = answer.reason or answer.ends_turn
                return HookVerdict(f"A hook ({hook.source}) blocked this: {reason}", "", False)
            if answer.decision == "ask":
                ask = ask or f"A hook ({hook.source}) wants a person to decide. {answer.reason}"
            # What a workspace says about itself permits nothing.
            allowed = allowed or (answer.decision == "allow" and hook.is_own)
        return HookVerdict("", ask.strip(), allowed, tuple(context))

    async def _ask(self, hook: Hook, given: dict[str, object], left: float) -> HookAnswer:
        assert self._run
        data = msgspec.json.encode(given)
        try:
            ended = await self._run(hook.command, data, min(hook.seconds, max(left, 1.0)))
        except AgentdError as error:
            return HookAnswer(problem=error.message)
        return read_answer(hook, ended)

    def _note(self, hook: Hook, what: str, answer: HookAnswer) -> None:
        """Keep for the history what a hook did, if it did anything."""
        reports = [
            f"failed: {answer.problem}" if answer.problem else "",
            f"blocked: {answer.reason}" if answer.decision == "deny" else "",
            f"asks for a person: {answer.reason}" if answer.decision == "ask" else "",
            f"allowed it: {answer.reason}" if answer.decision == "allow" else "",
            f"ended the turn: {answer.ends_turn}" if answer.ends_turn else "",
            "" if answer.updated is None else f"changed the input: {_render(answer.updated)}",
            f"told the model: {answer.context}" if answer.context else "",
            answer.note,
        ]
        outcome = "\n".join(filter(None, reports)).rstrip(": ")
        if outcome:
            ok = not answer.problem and answer.decision != "deny" and not answer.ends_turn
            name = f"{hook.event} of {what}: {hook.command} ({hook.source})"
            self._events.append(ToolUsed(HOOK, sanitize(name), sanitize(outcome), ok))


def _tell_change(hook: Hook, given: object) -> str:
    return f"[A hook ({hook.source}) changed the input. What was used is: {_render(given)}]"


def _render(given: object) -> str:
    """Return an input for a reader, cut where it is long."""
    shown = sanitize(msgspec.json.encode(given).decode())
    return shown if len(shown) <= LONGEST_INPUT else f"{shown[:LONGEST_INPUT]}…"

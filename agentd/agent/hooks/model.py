"""Hooks in the format of Claude Code's ``settings.json``: what they are, what they answer. Pure.

A hook reads JSON on its standard input. With exit code 2 it blocks, and the model is told its
standard error; with 0 it may print JSON. Source: https://code.claude.com/docs/en/hooks.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta, Struct

from agentd.agent.text import sanitize
from agentd.system.process import Finished

HookEvent: TypeAlias = Literal["PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop"]
HOOKS_FILE = "hooks.yml"
WORKSPACE_FILES = (".claude/settings.json", ".claude/settings.local.json")
"""The files of a workspace with hooks."""
USUAL_SECONDS = 60
LONGEST_SECONDS = 600
MOST_HOOKS = 100
LONGEST_COMMAND = 4_000
LONGEST_TEXT = 10_000
"""Characters of a hook's reason or context that the model is told."""
BLOCKS = 2
"""The exit code that blocks."""

_EXACT = re.compile(r"[A-Za-z0-9_ |,-]*")
_EVERYTHING = ("", "*")
_NO_MAP = "Its updatedInput is no map, so the tool is not run."


class HookCommand(Struct, frozen=True):
    """A command line that is run by ``/bin/sh``."""

    command: Annotated[str, Meta(min_length=1, max_length=LONGEST_COMMAND)]
    type: Literal["command"] = "command"
    timeout: Annotated[int, Meta(ge=1, le=LONGEST_SECONDS)] = USUAL_SECONDS
    """Seconds."""


class HookGroup(Struct, frozen=True):
    """Hooks for the same tools."""

    hooks: tuple[HookCommand, ...]
    matcher: str = ""
    """Names of tools with ``|`` between them, or an expression (RE2); empty: all."""


class HookGroups(Struct, frozen=True, rename="pascal"):
    """The hooks of each event."""

    pre_tool_use: tuple[HookGroup, ...] = ()
    post_tool_use: tuple[HookGroup, ...] = ()
    user_prompt_submit: tuple[HookGroup, ...] = ()
    stop: tuple[HookGroup, ...] = ()


class HookSettings(Struct, frozen=True):
    """The content of ``hooks.yml``."""

    hooks: HookGroups = HookGroups()
    workspace_hooks: bool = True
    """Whether a person is asked about the hooks of a workspace; else they are ignored."""


class Hook(Struct, frozen=True):
    """A hook, with the file that it is from."""

    event: HookEvent
    matcher: str
    command: str
    seconds: float
    source: str

    @property
    def is_own(self) -> bool:
        """True if it is the owner's, of ``hooks.yml``."""
        return self.source == HOOKS_FILE

    def matches(self, names: Iterable[str]) -> bool:
        """Return whether it is for a tool with one of these names."""
        if self.matcher in _EVERYTHING:
            return True
        if _EXACT.fullmatch(self.matcher):
            wanted = {one.strip() for one in re.split("[|,]", self.matcher)}
            return not wanted.isdisjoint(names)
        return any(_search(self.matcher, name) for name in names)


class WorkspaceHooks(Struct, frozen=True):
    """The hooks of one file of a workspace, with what is wrong in it."""

    source: str
    hooks: tuple[Hook, ...] = ()
    problems: tuple[str, ...] = ()
    workspace: str = ""
    """The workspace in which a decision counts: elsewhere ``./lint.sh`` is another program."""

    @property
    def digest(self) -> str:
        """Distinguishes these hooks from others, and from the same ones of another workspace."""
        workspace = self.workspace.encode(errors="surrogateescape")
        return sha256(b"%b\0%b" % (workspace, msgspec.json.encode(self.hooks))).hexdigest()

    def describe(self) -> str:
        """Describe the hooks for the person who is asked about them."""
        return "\n".join(
            f"{hook.event}{f' ({hook.matcher})' if hook.matcher else ''}: {hook.command}"
            for hook in self.hooks
        )


class HookAnswer(Struct, frozen=True):
    """What a hook decided."""

    decision: Literal["", "allow", "deny", "ask"] = ""
    """``deny`` blocks: the tool, the prompt, or the turn's end."""
    reason: str = ""
    """Why, for the model and the person."""
    context: str = ""
    """What the model is told beside."""
    ends_turn: str = ""
    """Why the whole turn must end; empty: it may go on."""
    note: str = ""
    """What the person is told."""
    updated: dict[str, Any] | None = None
    """The whole input that the tool is to have instead; only before a tool."""
    problem: str = ""
    """Why there is no answer; then it blocks nothing."""


def list_own_hooks(settings: HookSettings) -> Iterator[Hook]:
    """Yield the hooks of ``hooks.yml``."""
    groups: Mapping[HookEvent, tuple[HookGroup, ...]] = {
        "PreToolUse": settings.hooks.pre_tool_use,
        "PostToolUse": settings.hooks.post_tool_use,
        "UserPromptSubmit": settings.hooks.user_prompt_submit,
        "Stop": settings.hooks.stop,
    }
    for event, all_groups in groups.items():
        for group in all_groups:
            for hook in group.hooks:
                yield Hook(event, group.matcher, hook.command, hook.timeout, HOOKS_FILE)


def validate(settings: HookSettings) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the matchers of ``hooks.yml`` that are no expressions: where, and what."""
    for event, groups in zip(
        get_args(HookEvent),
        (
            settings.hooks.pre_tool_use,
            settings.hooks.post_tool_use,
            settings.hooks.user_prompt_submit,
            settings.hooks.stop,
        ),
        strict=True,
    ):
        for number, group in enumerate(groups):
            if why := explain_matcher(group.matcher):
                yield ("hooks", event, number, "matcher"), why


def explain_matcher(matcher: str) -> str:
    """Explain why a matcher cannot be used; empty if it can."""
    if matcher in _EVERYTHING or _EXACT.fullmatch(matcher):
        return ""
    import re2  # noqa: PLC0415 - few hooks have an expression

    try:
        re2.compile(matcher, _make_options())
    except re2.error as error:
        text = error.args[0] if error.args else error
        pattern_text = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
        return f"is no expression: {pattern_text}"
    return ""


def _search(matcher: str, name: str) -> bool:
    import re2  # noqa: PLC0415 - see above

    return bool(re2.search(matcher, name, _make_options()))


def _make_options() -> Any:
    import re2  # noqa: PLC0415 - see above

    options = re2.Options()
    options.log_errors = False
    return options


def parse_workspace_file(source: str, data: bytes) -> WorkspaceHooks:
    """Return the hooks of a ``settings.json``; its other settings are other programs'."""
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return WorkspaceHooks(source, problems=(f"is no JSON: {error}",))
    written = found.get("hooks") if isinstance(found, dict) else None
    if not isinstance(written, dict):
        return WorkspaceHooks(source)
    hooks: list[Hook] = []
    problems: list[str] = []
    for event in get_args(HookEvent):
        groups = written.get(event, [])
        for group in groups if isinstance(groups, list) else []:
            _read_group(event, group, source, hooks, problems)
    if len(hooks) > MOST_HOOKS:
        return WorkspaceHooks(source, problems=(f"has more than {MOST_HOOKS} hooks",))
    return WorkspaceHooks(source, tuple(hooks), tuple(problems))


def _read_group(
    event: HookEvent, group: object, source: str, hooks: list[Hook], problems: list[str]
) -> None:
    entries = group.get("hooks") if isinstance(group, dict) else None
    if not isinstance(group, dict) or not isinstance(entries, list):
        problems.append(f"{event}: expected a map with a list of hooks")
        return
    matcher = group.get("matcher") or ""
    for entry in entries:
        try:
            hook = msgspec.convert(entry, HookCommand)
            why = explain_matcher(matcher) if isinstance(matcher, str) else "is no text"
        except msgspec.ValidationError as error:
            problems.append(f"{event}: a hook cannot be run here: {error}")
            continue
        if why:
            problems.append(f"{event}: the matcher {why}")
        else:
            hooks.append(Hook(event, matcher, hook.command, hook.timeout, source))


def read_answer(hook: Hook, ended: Finished) -> HookAnswer:
    """Return what a hook said, from its exit code and outputs."""
    if ended.late or ended.truncated:
        what = "did not end in time" if ended.late else "wrote too much"
        return HookAnswer(problem=f"it {what}, and was ended")
    answer = _cut(ended.output.decode(errors="replace"))
    complained = _cut(ended.errors.decode(errors="replace"))
    if ended.code == BLOCKS:
        return HookAnswer("deny", complained or "It gave no reason.")
    if ended.code:
        what = f"it ended with exit code {ended.code}: {complained}"
        return HookAnswer(problem=what.rstrip(": "))
    if not answer.startswith("{"):
        return HookAnswer(context=answer if hook.event == "UserPromptSubmit" else "")
    try:
        found = msgspec.json.decode(ended.output)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return HookAnswer(problem=f"its answer is no JSON: {error}")
    return _read_json(found, changes=hook.event == "PreToolUse")


def _read_json(found: Mapping[str, object], *, changes: bool) -> HookAnswer:
    specific = found.get("hookSpecificOutput")
    special: Mapping[str, object] = specific if isinstance(specific, dict) else {}
    decided = special.get("permissionDecision") or found.get("decision")
    known: dict[object, Literal["", "allow", "deny", "ask"]] = {
        **{"block": "deny", "deny": "deny", "ask": "ask"},
        **{"approve": "allow", "allow": "allow"},
    }
    decision = known.get(decided, "") if isinstance(decided, str) else ""
    reason = _get_text(special, "permissionDecisionReason") or _get_text(found, "reason")
    updated = special.get("updatedInput") if changes and decision != "deny" else None
    if updated is not None and not isinstance(updated, dict):
        decision, reason, updated = "deny", _NO_MAP, None
    ends = found.get("continue") is False
    return HookAnswer(
        decision,
        reason or ("It gave no reason." if decision == "deny" else ""),
        _get_text(special, "additionalContext"),
        (_get_text(found, "stopReason") or "It gave no reason.") if ends else "",
        _get_text(found, "systemMessage"),
        updated,
    )


def _get_text(found: Mapping[str, object], name: str) -> str:
    value = found.get(name)
    return _cut(value) if isinstance(value, str) else ""


def _cut(text: str) -> str:
    text = sanitize(text.strip())
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"

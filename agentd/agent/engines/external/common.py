"""Shared by external engines: workspace bounds, shortening, first prompts."""

import hashlib
import itertools
import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import TypeAlias

from msgspec import Struct, structs

from agentd.agent.engine import ApprovalAnswer, Question, TurnRequest
from agentd.agent.text import sanitize
from agentd.chats.approval import ApprovalKind
from agentd.chats.model import Message
from agentd.chats.turns import CUT_OFF, INTERRUPTED, TOOL_INTERRUPTED
from agentd.llm.price import MAX_USD_PER_MILLION
from agentd.system.protected_paths import ProtectedPlaces, Protection, is_beneath

CONTINUE_PROMPT = "Go on with what you were doing; a usage limit had interrupted you."
"""The prompt of a retried turn, when the program's session already has the real one."""
SENT_AGAIN = (
    "[agentd was restarted while this prompt was being carried out, so it is sent again. If you"
    " have begun with it, go on where you were, and do not do twice what is done.]"
)
"""Precedes the prompt of a retried turn, when the program's session perhaps has it."""

NOBODY_ANSWERS = "Nobody can answer now. Decide yourself, and say in your reply what you assumed."

KEY_VARIABLE = "AGENTD_SUPPLIER_KEY"
"""The variable in which a program finds the supplier's key."""

LONGEST_CUT_NOTED = 300
"""Characters of the input of a tool that was cut off."""
MAX_INPUT_LENGTH = 2_000
MAX_OUTCOME_LENGTH = 4_000
MAX_HISTORY_LENGTH = 24_000
"""Characters."""

_CUT_ENDINGS = (f"\n\n{CUT_OFF}", f"\n\n{TOOL_INTERRUPTED}")
_FINEST_USD = Decimal("1e-9")
_VERSIONED = re.compile(r"/v[0-9]+$")

_Judge: TypeAlias = Callable[[str, str], Protection | None]

PLAN_MODE = "plan"
"""The mode of Claude Code, Codex and ACP agents in which a model plans and changes nothing."""
ONLY_PLANS = "This chat plans, and changes no files: say in the plan what is to be changed."
_PLAN_FILE = re.compile(r"/(\.[^/]+|opencode)/(.*/)?plans/[^/]+\.md")
"""Where programs keep their plans: in a folder of their own settings."""


class ModelEndpoint(Struct, frozen=True):
    """The endpoint at which an external program reaches its model. The key is never an argument."""

    url: str
    """The supplier's base address, with ``/v1`` or without."""
    key: str = ""

    @property
    def base_url(self) -> str:
        """The address as clients of OpenAI's API expect it: with ``/v1``."""
        plainly = self.url.rstrip("/")
        return plainly if _VERSIONED.search(plainly) else f"{plainly}/v1"

    def __repr__(self) -> str:
        """Return a representation without the key."""
        return f"ModelEndpoint({self.url!r})"


class ToolAccess(Struct, frozen=True):
    """The classification of a tool's use for approval."""

    kind: ApprovalKind
    protected: str = ""
    """Why a path is protected; empty if none is."""
    refusal: str = ""
    """Why it cannot be approved; empty if it can."""

    def to_question(self, tool: str, subject: str, reason: str = "", diff: str = "") -> Question:
        """Return the question about this use of a tool."""
        return Question(self.kind, tool, subject, reason, self.protected, self.refusal, diff)


class WorkspaceBounds(Struct, frozen=True):
    """The workspace, against which the paths of an external program are judged.

    ``resolve`` normalizes an absolute path. The default only sees the text; ``os.path.realpath``
    also follows symbolic links.
    """

    folder: str
    resolve: Callable[[str], str] = posixpath.normpath
    protected: ProtectedPlaces = ProtectedPlaces()
    planning: bool = False
    """Refuse the change of files, but for a plan's own."""

    def follow_mode(self, mode: str) -> "WorkspaceBounds":
        """Return the bounds of a program in this mode."""
        return structs.replace(self, planning=mode == PLAN_MODE)

    def move_to(self, folder: str) -> "WorkspaceBounds":
        """Return the bounds of a chat whose work tree has its copy of the workspace there."""
        covered = self.protected.cover_worktree(self.resolve(folder), self._root)
        return structs.replace(self, folder=folder, protected=covered)

    def contains(self, path: str) -> bool:
        """Return whether a path, absolute or relative to the folder, leads into it."""
        return "\0" not in path and is_beneath(self._resolve(path), self._root)

    def classify_read(
        self, paths: Iterable[str], otherwise: ApprovalKind = "outside"
    ) -> ToolAccess:
        """Judge the reading of these files.

        Outside of the workspace its kind is ``otherwise``, but for the files of skills.
        """
        return self._classify(paths, "read", otherwise, self.protected.check_reading)

    def classify_search(
        self, folders: Iterable[str], otherwise: ApprovalKind = "outside"
    ) -> ToolAccess:
        """Judge the search of these folders, or of the workspace when none is given."""
        return self._classify(list(folders) or [self.folder], "read", otherwise, self._check_search)

    def classify_write(self, paths: Iterable[str]) -> ToolAccess:
        """Judge the change of these files; without any it counts as outside."""
        known = list(paths)
        access = self._classify(known, "write", "outside", self._check_change)
        if self.planning and not all(_PLAN_FILE.search(self._resolve(path)) for path in known):
            return structs.replace(access, refusal=access.refusal or ONLY_PLANS)
        return access

    def display_path(self, path: str) -> str:
        """Return a path for display: relative if inside the workspace, else resolved.

        It is the same however a program spells it, so that rules and grants match.
        """
        real, root = self._resolve(path), self._root
        if not is_beneath(real, root):
            return real
        return real[len(root.rstrip("/")) + 1 :] or "."

    def explain_protection(self, path: str, *, changed: bool, whole: bool) -> str:
        """Explain why reading, changing or using a path as a ``whole`` folder is protected."""
        for one in self._iter_path_variants(path):
            found = self.protected.check_reading(one, self._root)
            found = found or (self.protected.check_writing(one, self._root) if changed else None)
            found = found or (self.protected.check_folder(one) if whole else None)
            if found:
                return found.why
        return ""

    def match_protected(self, folder: str, pattern: str) -> Iterable[str]:
        """Return protected paths that a shell pattern used in ``folder`` may match."""
        absolute = posixpath.join(self._resolve(folder), pattern)
        return self.protected.iter_matching(posixpath.normpath(absolute))

    @property
    def _root(self) -> str:
        return self.resolve(self.folder)

    def _resolve(self, path: str) -> str:
        absolute = posixpath.join(self.folder, path)
        try:
            return self.resolve(absolute)
        except ValueError:  # a NUL or half a character: no such path can exist
            return posixpath.normpath(absolute)

    def _iter_path_variants(self, path: str) -> Iterable[str]:
        """Return a path as written and resolved: a link named ``.env`` counts as one, too."""
        normal = posixpath.normpath(posixpath.join(self.folder, path))
        return dict.fromkeys((normal, self._resolve(path)))

    def _classify(
        self, paths: Iterable[str], inside: ApprovalKind, otherwise: ApprovalKind, rule: _Judge
    ) -> ToolAccess:
        known = list(paths)
        is_open = self._may_read if inside == "read" else self.contains
        kind = inside if known and all(map(is_open, known)) else otherwise
        for path in known:
            for one in self._iter_path_variants(path):
                if found := rule(one, self._root):
                    return ToolAccess(kind, found.why, found.why if found.refused else "")
        return ToolAccess(kind)

    def _may_read(self, path: str) -> bool:
        return self.contains(path) or self.protected.is_skill_file(self._resolve(path))

    def _check_search(self, folder: str, root: str) -> Protection | None:
        return self.protected.check_reading(folder, root) or self.protected.check_folder(folder)

    def _check_change(self, path: str, root: str) -> Protection | None:
        return self.protected.check_writing(path, root) or self.protected.check_folder(path)


def parse_usd(amount: object) -> Decimal | None:
    """Return a cost that a program reports as a JSON number; None if it is not one.

    Such numbers are sums of binary fractions (``0.0018000000000000002``): digits finer than any
    token price are noise.
    """
    number = isinstance(amount, int | float) and not isinstance(amount, bool)
    if not number or not 0 <= amount <= MAX_USD_PER_MILLION:  # type: ignore[operator]
        return None
    return Decimal(str(amount)).quantize(_FINEST_USD).normalize()


def shorten(text: str, most: int = MAX_OUTCOME_LENGTH) -> str:
    """Return a text with its middle left out if it is too long for a reader."""
    half = most // 2
    if len(text) > most:
        text = f"{text[:half]}\n[… {len(text) - 2 * half:,} characters …]\n{text[-half:]}"
    return sanitize(text.replace("\r\n", "\n"))


def render_note(answer: ApprovalAnswer, subject: str) -> str:
    """Return what a person said with a decision, for a model whose program has no field for it."""
    what = shorten(subject, MAX_INPUT_LENGTH)
    verb = "allowed" if answer.allowed else "did not allow"
    return f"[The person {verb} this and says: {answer.note}]\n\n{what}"


def explain_last_end(history: Sequence[Message]) -> str:
    """Explain that the turn before was stopped or killed; empty if it came to its own end.

    The program's session may end in the middle of a reply, or of a tool that was at work.
    """
    last = list(itertools.takewhile(lambda one: one.role != "user", reversed(history)))
    stopped = any(one.tool == "stop" for one in last)
    if not stopped and not any(one.text == INTERRUPTED for one in last if one.role == "error"):
        return ""
    cut = [_render_cut(one) for one in reversed(last) if one.text.endswith(_CUT_ENDINGS)]
    how = "The person stopped the turn before" if stopped else "The turn before was interrupted"
    tools = f" while this was at work, and part of it may be done: {'; '.join(cut)}" if cut else ""
    return f"[{how}{tools}.]"


def _render_cut(message: Message) -> str:
    text = message.text.removesuffix(TOOL_INTERRUPTED).removesuffix(CUT_OFF)
    return f"{message.tool}: {' '.join(text.split())[:LONGEST_CUT_NOTED]}"


def digest_instructions(instructions: str) -> str:
    """Return a digest that shows whether a session's instructions have changed."""
    return hashlib.sha256(instructions.encode(errors="replace")).hexdigest()[:16]


_NO_INSTRUCTIONS = digest_instructions("")
REPLACED = "These replace the instructions that you were given before."
COMPACTED = "The session was compacted: the model goes on with a summary of it."
WITHDRAWN = "The instructions that you were given before no longer apply."


def build_first_prompt(prompt: str, history: Sequence[Message], instructions: str = "") -> str:
    """Return the first prompt of a new session: instructions, history, then the prompt.

    Earlier messages come from another engine, or from a session that the program lost.
    """
    return _add_context(prompt, history, instructions, "earlier_in_this_chat")


def build_resume_prompt(assignment: TurnRequest, known: str) -> str:
    """Return the prompt of a turn that continues the program's session.

    Messages of other engines since then precede it, and what the session does not know yet of its
    instructions. ``known`` is the digest of those that it has read; empty: unknown.
    """
    prompt = assignment.prompt
    if assignment.is_delivery_uncertain:
        prompt = f"{SENT_AGAIN}\n\n{prompt}"
    elif assignment.is_retry:
        prompt = CONTINUE_PROMPT
    if ended := explain_last_end(assignment.history):
        prompt = f"{ended}\n\n{prompt}"
    instructions = _render_change(assignment.instructions, known)
    return _add_context(
        prompt, assignment.missed, instructions, "said_to_and_by_other_agents_since"
    )


def _render_change(instructions: str, known: str) -> str:
    """Return what to tell a session that has read other instructions; empty if these."""
    if known == digest_instructions(instructions):
        return ""
    had_none = known in ("", _NO_INSTRUCTIONS)
    if had_none or not instructions:
        return instructions if had_none else WITHDRAWN
    return f"{REPLACED}\n\n{instructions}"


def _add_context(prompt: str, past: Sequence[Message], instructions: str, title: str) -> str:
    text = "\n\n".join(
        f"{'User' if one.role == 'user' else 'Assistant'}: {one.text}"
        for one in past
        if one.role in ("user", "assistant")
    )[-MAX_HISTORY_LENGTH:]
    parts = [
        instructions and f"<instructions>\n{instructions}\n</instructions>",
        text and f"<{title}>\n{text}\n</{title}>",
        prompt,
    ]
    return "\n\n".join(part for part in parts if part)

"""What the conversations with foreign programs share: bounds, shortening, what went before."""

import hashlib
import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import TypeAlias

from msgspec import Struct

from agentd.agent.engine import Assignment, Question
from agentd.agent.protected import ProtectedPlaces, Protection, is_beneath
from agentd.agent.text import plain
from agentd.chats.approval import Kind
from agentd.chats.chat import Message
from agentd.proxy.price import MOST_USD

GO_ON = "Go on with what you were doing; a usage limit had interrupted you."
"""The prompt of a turn that is tried again, when the program's session has the real one."""

NOBODY_ANSWERS = "Nobody can answer now. Decide yourself, and say in your reply what you assumed."

KEY_VARIABLE = "AGENTD_SUPPLIER_KEY"
"""The variable in which a program finds the supplier's key."""

LONGEST_INPUT = 2_000
LONGEST_OUTCOME = 4_000
LONGEST_PAST = 24_000
"""Characters."""

_FINEST_USD = Decimal("1e-9")
_VERSIONED = re.compile(r"/v[0-9]+$")

_Judge: TypeAlias = Callable[[str, str], Protection | None]


class Endpoint(Struct, frozen=True):
    """Where a foreign program reaches its model. The key is never one of its arguments."""

    url: str
    """The supplier's base address, with ``/v1`` or without."""
    key: str = ""

    @property
    def base(self) -> str:
        """The address as programs for OpenAI's interface take it: with ``/v1``."""
        plainly = self.url.rstrip("/")
        return plainly if _VERSIONED.search(plainly) else f"{plainly}/v1"

    def __repr__(self) -> str:
        """Without the key, wherever it is printed."""
        return f"Endpoint({self.url!r})"


class Access(Struct, frozen=True):
    """What reading or writing some files is, for whoever decides about it."""

    kind: Kind
    protected: str = ""
    """Why one of them is protected; empty: none is."""
    refusal: str = ""
    """Why nobody may allow it; empty: somebody may."""

    def question(self, tool: str, subject: str, reason: str = "") -> Question:
        """Return the question about this use of a tool."""
        return Question(self.kind, tool, subject, reason, self.protected, self.refusal)


class Bounds(Struct, frozen=True):
    """The workspace, as a foreign program's paths are judged by it.

    ``resolve`` makes an absolute path plain. The default only sees the text; the file system's
    own also sees where a symbolic link leads.
    """

    folder: str
    resolve: Callable[[str], str] = posixpath.normpath
    protected: ProtectedPlaces = ProtectedPlaces()

    def holds(self, path: str) -> bool:
        """Whether a path, absolute or from the folder, leads into it."""
        return "\0" not in path and is_beneath(self._real(path), self._root)

    def reading(self, paths: Iterable[str], otherwise: Kind = "outside") -> Access:
        """Judge the reading of these files; outside of the workspace its kind is ``otherwise``."""
        return self._access(paths, "read", otherwise, self.protected.reading)

    def searching(self, folders: Iterable[str], otherwise: Kind = "outside") -> Access:
        """Judge the search of these folders, or of the workspace when none is told."""
        return self._access(list(folders) or [self.folder], "read", otherwise, self._search)

    def writing(self, paths: Iterable[str]) -> Access:
        """Judge the change of these files; nothing is known of it when none is told."""
        return self._access(paths, "write", "outside", self._change)

    def named(self, path: str) -> str:
        """A path as a reader wants it: from the folder, when it is in there, else where it leads.

        It is the same however a program spells it, so that rules and grants match what is meant.
        """
        real, root = self._real(path), self._root
        if not is_beneath(real, root):
            return real
        return real[len(root.rstrip("/")) + 1 :] or "."

    def why_protected(self, path: str, *, changed: bool, whole: bool) -> str:
        """Why a place is protected, that is read, maybe ``changed``, or taken as a ``whole``."""
        for one in self._forms(path):
            found = self.protected.reading(one, self._root)
            found = found or (self.protected.writing(one, self._root) if changed else None)
            found = found or (self.protected.holding(one) if whole else None)
            if found:
                return found.why
        return ""

    @property
    def _root(self) -> str:
        return self.resolve(self.folder)

    def _real(self, path: str) -> str:
        absolute = posixpath.join(self.folder, path)
        try:
            return self.resolve(absolute)
        except ValueError:  # a NUL, or half a character: nothing can be there
            return posixpath.normpath(absolute)

    def _forms(self, path: str) -> Iterable[str]:
        """A path as it is told, and as where it leads: a link named ``.env`` is one, too."""
        told = posixpath.normpath(posixpath.join(self.folder, path))
        return dict.fromkeys((told, self._real(path)))

    def _access(self, paths: Iterable[str], inside: Kind, otherwise: Kind, rule: _Judge) -> Access:
        known = list(paths)
        kind = inside if known and all(map(self.holds, known)) else otherwise
        for path in known:
            for one in self._forms(path):
                if found := rule(one, self._root):
                    return Access(kind, found.why, found.why if found.refused else "")
        return Access(kind)

    def _search(self, folder: str, root: str) -> Protection | None:
        return self.protected.reading(folder, root) or self.protected.holding(folder)

    def _change(self, path: str, root: str) -> Protection | None:
        return self.protected.writing(path, root) or self.protected.holding(path)


def exact_usd(amount: object) -> Decimal | None:
    """Return a cost that a program tells as a JSON number; None when it is none.

    Such numbers are sums of binary fractions (``0.0018000000000000002``): what is finer than any
    price of a token is noise.
    """
    number = isinstance(amount, int | float) and not isinstance(amount, bool)
    if not number or not 0 <= amount <= MOST_USD:  # type: ignore[operator]
        return None
    return Decimal(str(amount)).quantize(_FINEST_USD).normalize()


def shortened(text: str, most: int = LONGEST_OUTCOME) -> str:
    """A text with its middle left out, when it is too long for a reader."""
    half = most // 2
    if len(text) > most:
        text = f"{text[:half]}\n[… {len(text) - 2 * half:,} characters …]\n{text[-half:]}"
    return plain(text.replace("\r\n", "\n"))


def instructions_digest(instructions: str) -> str:
    """Return a digest by which a session's memory tells whether its instructions have changed."""
    return hashlib.sha256(instructions.encode(errors="replace")).hexdigest()[:16]


def prompted(prompt: str, history: Sequence[Message], instructions: str = "") -> str:
    """The first prompt of a session that knows nothing yet: what to heed, what went before.

    Earlier messages come from another engine, or from a session that the program lost.
    """
    return _introduced(prompt, history, instructions, "earlier_in_this_chat")


def resumed_prompt(assignment: Assignment, instructions: str = "") -> str:
    """Return the prompt of a turn that goes on with the program's session.

    What other engines were asked and answered since then stands before it, and instructions
    where the session has not read them.
    """
    prompt = GO_ON if assignment.again else assignment.prompt
    return _introduced(prompt, assignment.missed, instructions, "said_to_and_by_other_agents_since")


def _introduced(prompt: str, past: Sequence[Message], instructions: str, title: str) -> str:
    said = "\n\n".join(
        f"{'User' if one.role == 'user' else 'Assistant'}: {one.text}"
        for one in past
        if one.role in ("user", "assistant")
    )[-LONGEST_PAST:]
    parts = [
        instructions and f"<instructions>\n{instructions}\n</instructions>",
        said and f"<{title}>\n{said}\n</{title}>",
        prompt,
    ]
    return "\n\n".join(part for part in parts if part)

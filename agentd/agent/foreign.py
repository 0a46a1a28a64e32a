"""What the conversations with foreign programs share: bounds, shortening, what went before."""

import posixpath
import re
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from agentd.agent.text import plain
from agentd.chats.approval import Kind
from agentd.chats.chat import Message

GO_ON = "Go on with what you were doing; a usage limit had interrupted you."
"""The prompt of a turn that is tried again, when the program's session has the real one."""

NOBODY_ANSWERS = "Nobody can answer now. Decide yourself, and say in your reply what you assumed."

KEY_VARIABLE = "AGENTD_SUPPLIER_KEY"
"""The variable in which a program finds the supplier's key."""

LONGEST_INPUT = 2_000
LONGEST_OUTCOME = 4_000
LONGEST_PAST = 24_000
"""Characters."""

_VERSIONED = re.compile(r"/v[0-9]+$")


class Endpoint(Struct, frozen=True):
    """Where a foreign program reaches its model. The key goes into its environment only."""

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


class Bounds(Struct, frozen=True):
    """The workspace, as a foreign program's paths are judged by it.

    ``resolve`` makes an absolute path plain. The default only sees the text; the file system's
    own also sees where a symbolic link leads.
    """

    folder: str
    resolve: Callable[[str], str] = posixpath.normpath

    def holds(self, path: str) -> bool:
        """Whether a path, absolute or from the folder, leads into it."""
        root = self.resolve(self.folder).rstrip("/")
        found = self.resolve(posixpath.join(self.folder, path))
        return "\0" not in path and (found == root or found.startswith(f"{root}/"))

    def writing(self, paths: Iterable[str]) -> Kind:
        """What changing these files is; ``outside`` when nothing is told of them."""
        known = list(paths)
        return "write" if known and all(map(self.holds, known)) else "outside"

    def named(self, path: str) -> str:
        """A path as a reader wants it: from the folder, when it is in there."""
        root = f"{self.folder.rstrip('/')}/"
        return path.removeprefix(root) if self.holds(path) else path


def shortened(text: str, most: int = LONGEST_OUTCOME) -> str:
    """A text with its middle left out, when it is too long for a reader."""
    half = most // 2
    if len(text) > most:
        text = f"{text[:half]}\n[… {len(text) - 2 * half:,} characters …]\n{text[-half:]}"
    return plain(text.replace("\r\n", "\n"))


def prompted(prompt: str, history: Sequence[Message], instructions: str = "") -> str:
    """The first prompt of a session that knows nothing yet: what to heed, what went before.

    Earlier messages come from another engine, or from a session that the program lost.
    """
    said = [
        f"{'User' if one.role == 'user' else 'Assistant'}: {one.text}"
        for one in history
        if one.role in ("user", "assistant")
    ]
    past = "\n\n".join(said)[-LONGEST_PAST:]
    parts = [
        instructions and f"<instructions>\n{instructions}\n</instructions>",
        past and f"<earlier_in_this_chat>\n{past}\n</earlier_in_this_chat>",
        prompt,
    ]
    return "\n\n".join(part for part in parts if part)

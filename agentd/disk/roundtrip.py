"""Change a hand-written YAML file and leave the rest as the person wrote it.

Comments, order and quoting stay. Every scalar is carried through as it was typed, whatever YAML
would take it for; what is new is quoted, so that it means the same to every reader.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentd.disk.tree import Tree


def edited(where: str, text: bytes, change: "Callable[[Tree], object]") -> bytes:
    """The file ``where`` with ``change`` made to its outermost map.

    ``text`` must have been read by ``handwritten.load``, and the answer be read so again before
    it is kept: this is an editor, not a judge. Raises ``Conflict`` when it cannot be edited.
    """
    from agentd.disk import tree  # noqa: PLC0415 - with it comes ruamel, for edits alone

    return tree.edited(where, text, change)

"""Thinking of one dialect carried through a caller of another, and back.

Suppliers want back what their model thought, with their own seal on it. A caller of another
dialect keeps it for them where his dialect has a seal of its own: he gives it back unread.
"""

from base64 import b64decode, b64encode

import msgspec
from msgspec import Struct

from agentd.proxy.dialects import openai_responses
from agentd.proxy.dialects.conversation import DialectName, Thinking

_MARK = b"agentd:1:"
"""Nine bytes, so that base64 keeps them apart from the rest."""

_MARKED = b64encode(_MARK).decode()


class _Carried(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """All of it, but mostly for its text, which stands beside the seal."""

    dialect: DialectName
    text: str = ""
    signature: str = ""
    sealed: str = ""


def is_sealed(thinking: Thinking) -> bool:
    """True for thinking that its supplier wants back, and takes only with its own seal."""
    return bool(thinking.signature or thinking.sealed)


def seal(thinking: Thinking, *, with_text: bool = False) -> str:
    """What a caller of another dialect keeps of it, beside its text. It hides nothing.

    ``with_text`` is for callers who do not give the text back with the seal.
    """
    text = thinking.text if with_text else ""
    carried = _Carried(thinking.dialect, text, thinking.signature, thinking.sealed)
    return b64encode(_MARK + msgspec.json.encode(carried)).decode()


def unsealed(sealed: str, text: str) -> Thinking | None:
    """The thinking that such a seal carries; None: it is a supplier's own.

    Anybody can write one, so a reasoning item is put together anew from its fields.
    """
    if not sealed.startswith(_MARKED):
        return None
    try:
        carried = msgspec.json.decode(b64decode(sealed)[len(_MARK) :], type=_Carried)
        if carried.dialect != "openai-responses" or not carried.sealed:
            shown = carried.text or text
            return Thinking(carried.dialect, shown, carried.signature, carried.sealed)
        item = msgspec.json.decode(carried.sealed, type=dict[str, object])
    except (msgspec.DecodeError, ValueError):
        return None
    return openai_responses.thinking({**item, "type": "reasoning"})

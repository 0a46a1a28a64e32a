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
    """All of it but its text, which stands beside the seal."""

    dialect: DialectName
    signature: str = ""
    sealed: str = ""


def seal(thinking: Thinking) -> str:
    """What a caller of another dialect keeps of it, beside its text. It hides nothing."""
    carried = _Carried(thinking.dialect, thinking.signature, thinking.sealed)
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
            return Thinking(carried.dialect, text, carried.signature, carried.sealed)
        item = msgspec.json.decode(carried.sealed, type=dict[str, object])
    except (msgspec.DecodeError, ValueError):
        return None
    return openai_responses.thinking({**item, "type": "reasoning"})

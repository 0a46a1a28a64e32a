"""Carries thinking of one dialect through a caller of another dialect, and back.

Suppliers want the thinking of their models back with its signature. A caller of another dialect
stores it where its own dialect has a signature: it returns that unread.
"""

from base64 import b64decode, b64encode

import msgspec
from msgspec import Struct

from agentd.llm.conversation import DialectName, Thinking
from agentd.llm.dialects.openai_responses import upstream as openai_responses_upstream

_MARK = b"agentd:1:"
"""Nine bytes, so that base64 keeps them apart from the rest."""

_MARKED = b64encode(_MARK).decode()


class _Wrapped(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The thinking, mostly for its text, which is beside the signature."""

    dialect: DialectName
    text: str = ""
    signature: str = ""
    sealed: str = ""


def is_signed(thinking: Thinking) -> bool:
    """Return whether its supplier wants the thinking back, and accepts only its own signature."""
    return bool(thinking.signature or thinking.sealed)


def wrap_thinking(thinking: Thinking, *, with_text: bool = False) -> str:
    """Return a signature for callers of another dialect, holding all but the text. Not encrypted.

    ``with_text`` is for callers who do not send the text back with the signature.
    """
    text = thinking.text if with_text else ""
    payload = _Wrapped(thinking.dialect, text, thinking.signature, thinking.sealed)
    return b64encode(_MARK + msgspec.json.encode(payload)).decode()


def unwrap_thinking(sealed: str, text: str) -> Thinking | None:
    """Return the thinking wrapped in a signature; None if it is a supplier's own.

    Anybody can write one, so a reasoning item is rebuilt from its fields.
    """
    if not sealed.startswith(_MARKED):
        return None
    try:
        payload = msgspec.json.decode(b64decode(sealed)[len(_MARK) :], type=_Wrapped)
        if payload.dialect != "openai-responses" or not payload.sealed:
            shown = payload.text or text
            return Thinking(payload.dialect, shown, payload.signature, payload.sealed)
        item = msgspec.json.decode(payload.sealed, type=dict[str, object])
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return openai_responses_upstream.parse_reasoning({**item, "type": "reasoning"})

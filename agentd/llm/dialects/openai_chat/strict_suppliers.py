"""Requests for suppliers that speak OpenAI's dialect, but refuse some of its fields."""

from functools import lru_cache
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw

from agentd.llm.conversation import DialectName
from agentd.llm.dialects.request_parsing import decode_raw_fields

_REFUSED = ("max_completion_tokens", "stream_options", "user")
"""Mistral's limit of a reply is ``max_tokens``, it reports the usage of streams unasked, and has
no field for the caller's users."""


_THINKING = b"reasoning_content"


def adapt_to_supplier(body: bytes, dialect: DialectName, url: str) -> bytes:
    """Return the request in the form that the supplier at this URL takes.

    Mistral refuses whatever it does not know; no other supplier's request is changed.
    """
    if dialect != "openai-chat" or not _is_mistral(url):
        return body
    fields = decode_raw_fields(body)
    limit = fields.get("max_completion_tokens")
    if limit is not None and bytes(limit) != b"null":
        fields["max_tokens"] = limit
    for name in _REFUSED:
        fields.pop(name, None)
    if _THINKING in body and "messages" in fields:
        fields["messages"] = _leave_out_thinking(fields["messages"])
    return msgspec.json.encode(fields)


def _leave_out_thinking(messages: Raw) -> Raw:
    """Return the messages without what the model thought, which Mistral's have in another form."""
    try:
        found = msgspec.json.decode(messages, type=list[dict[str, Raw]])
    except msgspec.DecodeError:  # for the supplier to refuse
        return messages
    for message in found:
        message.pop(_THINKING.decode(), None)
    return Raw(msgspec.json.encode(found))


@lru_cache(1024)
def _is_mistral(url: str) -> bool:
    return f".{urlsplit(url).hostname or ''}".endswith(".mistral.ai")

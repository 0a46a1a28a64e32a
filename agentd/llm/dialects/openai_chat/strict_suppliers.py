"""Requests for suppliers that speak OpenAI's dialect, but without some of its fields."""

from functools import lru_cache
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw

from agentd.llm.conversation import DialectName
from agentd.llm.dialects.request_parsing import decode_raw_fields

_MISTRAL = ".mistral.ai"
_OLD_LIMIT = (_MISTRAL, ".deepseek.com", ".ollama.com")
"""The ends of hosts that know the limit of a reply as ``max_tokens`` only; most of them take the
newer name without a word, and write on without a limit."""
_OLLAMA_PORT = 11434
"""The port of Ollama on anybody's machine; it is one of them."""

_REFUSED = ("stream_options", "user")
"""Mistral reports the usage of streams unasked, and has no field for the caller's users."""
_LIMIT = "max_completion_tokens"
_THINKING = b"reasoning_content"


def adapt_to_supplier(body: bytes, dialect: DialectName, url: str) -> bytes:
    """Return the request in the form that the supplier at this URL takes.

    Mistral refuses whatever it does not know. Other suppliers' requests change in nothing but the
    name of the limit.
    """
    if dialect != "openai-chat" or not _knows_only_old_limit(url):
        return body
    is_mistral = _read_host(url).endswith(_MISTRAL)
    fields = decode_raw_fields(body)  # a name may be written with escapes
    if not is_mistral and _LIMIT not in fields:
        return body
    limit = fields.pop(_LIMIT, None)
    if limit is not None and bytes(limit) != b"null":
        fields["max_tokens"] = limit
    if is_mistral:
        _leave_out_refused(fields, body)
    return msgspec.json.encode(fields)


def _leave_out_refused(fields: dict[str, Raw], body: bytes) -> None:
    for name in _REFUSED:
        fields.pop(name, None)
    if _THINKING in body and "messages" in fields:
        fields["messages"] = _leave_out_thinking(fields["messages"])


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
def _knows_only_old_limit(url: str) -> bool:
    try:
        port = urlsplit(url).port
    except ValueError:
        port = None
    return port == _OLLAMA_PORT or _read_host(url).endswith(_OLD_LIMIT)


def _read_host(url: str) -> str:
    return f".{urlsplit(url).hostname or ''}"

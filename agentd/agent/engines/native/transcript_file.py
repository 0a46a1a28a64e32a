"""The transcript of a chat for the native engine's model, kept in one file between turns.

The history has short outcomes for a person; the model needs its own calls and their results, byte
for byte, so that it reads no file again and suppliers find the beginning in their caches. The file
is only appended to (``transcript`` in ``state/README.md``), step by step, so that a turn that is
killed leaves what it did; where the conversation was shortened, it is replaced as a whole.

Damage costs only what stands after it: the history is the truth, and the model is told from it.
"""

import logging
import os
from collections.abc import Iterable, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from agentd.core.errors import AgentdError
from agentd.core.threads import run_uncancellable
from agentd.llm.conversation import (
    ContentPart,
    DialectName,
    DocumentPart,
    ImagePart,
    MessagePart,
    ModelMessage,
    Role,
    SupplierItem,
    TextPart,
    Thinking,
    ToolCall,
    ToolResult,
)
from agentd.storage.checksummed_json import (
    ChecksumMismatch,
    decode_checksummed,
    encode_checksummed,
)
from agentd.storage.document import (
    read_document,
    replace_document,
    sync_folder,
    translate_os_errors,
    write_all,
)
from agentd.storage.layout import Layout

log = logging.getLogger(__name__)

LARGEST_TRANSCRIPT = 256 * 2**20
"""Bytes of a file that is still read."""

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class KeptTurn(Struct, frozen=True, tag="turn"):
    """A turn begins: the lines after it are its messages, the first one its prompt."""

    message: int
    """The id of its prompt in the history; 0: unknown."""
    model: str
    """The supplier and model whose thinking the messages have."""


class KeptPart(Struct, frozen=True, omit_defaults=True):
    """A part of a message; its ``kind`` says which of the fields it has."""

    kind: Literal["text", "image", "document", "call", "result", "thinking", "supplier"]
    text: str = ""
    id: str = ""
    name: str = ""
    arguments: str = ""
    content: tuple["KeptPart", ...] = ()
    is_error: bool = False
    media_type: str = ""
    data: str = ""
    dialect: DialectName = "openai-chat"
    signature: str = ""
    sealed: str = ""


class KeptMessage(Struct, frozen=True, tag="message"):
    """A message of the conversation."""

    role: Role
    parts: tuple[KeptPart, ...]


class KeptEnd(Struct, frozen=True, tag="end"):
    """The turn came to its own end; without this line it failed, was stopped or killed."""


KeptLine: TypeAlias = KeptTurn | KeptMessage | KeptEnd


class KeptTranscript(Struct, frozen=True):
    """The conversation after the chat's last turn of this engine."""

    messages: tuple[ModelMessage, ...] = ()
    model: str = ""
    """The supplier and model whose thinking the messages have."""
    message: int = 0
    """The id of the last turn's prompt in the history."""
    prompt: int = 0
    """The index of the last turn's prompt in the messages."""
    ended: bool = True
    """False: the last turn failed, was stopped or killed."""


class TranscriptStore(Protocol):
    """Keeps the conversation of each chat."""

    async def load(self, chat_id: int) -> KeptTranscript:
        """Return a chat's transcript; empty without one."""
        ...

    async def append(self, chat_id: int, lines: Sequence[KeptLine]) -> bool:
        """Add lines durably; return whether the disk took them."""
        ...

    async def replace(self, chat_id: int, lines: Sequence[KeptLine]) -> bool:
        """Replace all lines durably; return whether the disk took them."""
        ...


class TranscriptFiles:
    """``TranscriptStore`` in the chats' folders."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    async def load(self, chat_id: int) -> KeptTranscript:
        """Return a chat's transcript up to the first damaged line."""
        path = self._layout.get_native_transcript_path(chat_id)
        return await run_uncancellable(_read_file, path)

    async def append(self, chat_id: int, lines: Sequence[KeptLine]) -> bool:
        """Add lines durably; return whether the disk took them."""
        path = self._layout.get_native_transcript_path(chat_id)
        return await run_uncancellable(_append_lines, path, _encode_lines(lines))

    async def replace(self, chat_id: int, lines: Sequence[KeptLine]) -> bool:
        """Replace all lines durably; return whether the disk took them."""
        path = self._layout.get_native_transcript_path(chat_id)
        return await run_uncancellable(_replace_file, path, _encode_lines(lines))


class NoTranscripts:
    """``TranscriptStore`` that keeps nothing: for conversations of their own."""

    async def load(self, chat_id: int) -> KeptTranscript:
        """Return an empty transcript."""
        return KeptTranscript()

    async def append(self, chat_id: int, lines: Sequence[KeptLine]) -> bool:
        """Keep nothing."""
        return True

    async def replace(self, chat_id: int, lines: Sequence[KeptLine]) -> bool:
        """Keep nothing."""
        return True


def keep_messages(messages: Iterable[ModelMessage]) -> list[KeptLine]:
    """Return the lines of messages."""
    return [
        KeptMessage(message.role, tuple(map(_keep_part, message.parts))) for message in messages
    ]


def parse_transcript(data: bytes) -> tuple[KeptTranscript, int]:
    """Parse a file's bytes up to the first damaged line; return how many bytes are sound."""
    messages: list[ModelMessage] = []
    turn = KeptTurn(0, "")
    prompt = sound = 0
    ended = True
    for line in data.splitlines(keepends=True):
        try:
            kept = msgspec.json.decode(decode_checksummed(line), type=KeptLine)
        except (ChecksumMismatch, msgspec.DecodeError):
            break
        if not line.endswith(b"\n"):
            break
        match kept:
            case KeptTurn():
                turn, prompt, ended = kept, len(messages), False
            case KeptMessage(role, parts):
                messages.append(ModelMessage(role, tuple(map(_restore_part, parts))))
            case KeptEnd():
                ended = True
        sound += len(line)
    prompt = min(prompt, max(len(messages) - 1, 0))
    return KeptTranscript(tuple(messages), turn.model, turn.message, prompt, ended), sound


def _encode_lines(lines: Iterable[KeptLine]) -> bytes:
    return b"".join(map(encode_checksummed, lines))


def _read_file(path: str) -> KeptTranscript:
    """Read a file; cut off what follows its last sound line, since more is appended there."""
    try:
        document = read_document(path, LARGEST_TRANSCRIPT)
        if document is None:
            return KeptTranscript()
        kept, sound = parse_transcript(document.data)
        if sound < len(document.data):
            log.warning("%s is damaged after byte %d: what follows is left out", path, sound)
            replace_document(path, document.data[:sound])
        return kept
    except AgentdError as error:
        log.warning("a chat goes on from its history alone: %s", error.message)
        return KeptTranscript()


def _append_lines(path: str, data: bytes) -> bool:
    try:
        with translate_os_errors(path, "write"):
            is_new = not os.path.lexists(path)
            descriptor = os.open(path, _APPEND, 0o600)
            try:
                before = os.fstat(descriptor).st_size
                try:
                    write_all(descriptor, data)
                    os.fsync(descriptor)
                except OSError:
                    os.ftruncate(descriptor, before)
                    raise
            finally:
                os.close(descriptor)
            if is_new:
                sync_folder(os.path.dirname(path))
    except AgentdError as error:
        log.warning("what a model knows is not kept: %s", error.message)
        return False
    return True


def _replace_file(path: str, data: bytes) -> bool:
    try:
        replace_document(path, data)
    except AgentdError as error:
        log.warning("what a model knows is not kept: %s", error.message)
        return False
    return True


def _keep_part(part: MessagePart) -> KeptPart:  # noqa: PLR0911 - one for each kind
    match part:
        case TextPart(text):
            return KeptPart("text", text=_clean(text))
        case ImagePart():
            return KeptPart("image", media_type=part.media_type, data=part.data)
        case DocumentPart():
            return KeptPart("document", name=part.name, data=part.data)
        case ToolCall():
            return KeptPart(
                "call", id=_clean(part.id), name=_clean(part.name), arguments=_clean(part.arguments)
            )
        case ToolResult():
            content = tuple(map(_keep_part, part.content))
            return KeptPart("result", id=_clean(part.id), content=content, is_error=part.is_error)
        case SupplierItem():
            return KeptPart("supplier", dialect=part.dialect, data=_clean(part.data))
        case Thinking():
            return KeptPart(
                "thinking",
                dialect=part.dialect,
                text=_clean(part.text),
                signature=part.signature,
                sealed=part.sealed,
            )


def _restore_part(part: KeptPart) -> MessagePart:
    match part.kind:
        case "text" | "image" | "document":
            return _restore_content(part)
        case "call":
            return ToolCall(part.id, part.name, part.arguments)
        case "result":
            return ToolResult(part.id, tuple(map(_restore_content, part.content)), part.is_error)
        case "supplier":
            return SupplierItem(part.dialect, part.data)
        case "thinking":
            return Thinking(part.dialect, part.text, part.signature, part.sealed)


def _restore_content(part: KeptPart) -> ContentPart:
    match part.kind:
        case "image":
            return ImagePart(part.media_type, part.data)
        case "document":
            return DocumentPart(data=part.data, name=part.name)
        case _:
            return TextPart(part.text)


def _clean(text: str) -> str:
    """Return the text without halves of characters, which no file can hold."""
    return text.encode("utf-8", "replace").decode()

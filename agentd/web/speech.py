"""Speech recognition of the extended surface: which engines there are, and what was said.

Source: the remote-control specification, section 4, 'Extended surface'; the paths below the
prefix are ours.
"""

import re
from collections.abc import AsyncIterator, Awaitable
from contextlib import aclosing
from typing import NamedTuple, Protocol

from msgspec import Struct

from agentd.access.gate import Surface
from agentd.catalog.speech import Ear, Kind, Speech
from agentd.errors import (
    BadRequest,
    LimitReached,
    NotFound,
    TooLarge,
    Unavailable,
    UnsupportedMedia,
)
from agentd.web.call import Answer, Call
from agentd.web.multipart import Field, File, files
from agentd.web.table import Parameter, Route, Schema, Streamed

AUDIO_LIMIT = 25 * 1024 * 1024
"""Bytes of a recording: as much as suppliers take."""

_AUDIO = ("audio/*", "video/webm", "video/ogg", "application/ogg", "application/octet-stream")
_FORM = "multipart/form-data"
_FORM_FIELDS: Schema = {
    "type": "object",
    "properties": {
        "file": {"type": "string", "format": "binary"},
        "engine": {"type": "string"},
        "language": {"type": "string"},
    },
    "required": ["file"],
}
_FIELDS = 20
_LANGUAGE = "[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*"


class EarView(Struct, frozen=True):
    """A speech engine; ``missing`` tells what keeps it from being used, empty: nothing."""

    name: str
    engine: Kind
    model: str
    language: str
    available: bool
    missing: str


class SpeechView(Struct, frozen=True, rename="camel"):
    """The engines in the file's order, and how much audio is taken at a time."""

    default: str
    longest_seconds: int
    largest_bytes: int
    engines: list[EarView]


class TranscriptView(Struct, frozen=True):
    """What was said; ``seconds`` of audio."""

    text: str
    engine: str
    seconds: float


class Heard(Protocol):
    """What a transcription comes to (``outside.speech.Transcript``)."""

    @property
    def text(self) -> str:
        """What was said."""
        ...

    @property
    def seconds(self) -> float:
        """Of audio."""
        ...


class Hearing(Protocol):
    """Who turns speech into text (``outside.speech.Transcriber``)."""

    async def missing(self, ear: Ear) -> str:
        """Why an engine cannot be used now; empty when it can."""
        ...

    def transcribe(self, ear: Ear, audio: bytes, language: str, longest: int) -> Awaitable[Heard]:
        """What is said in ``audio`` of at most ``longest`` seconds."""
        ...


class SpeechFile(Protocol):
    """``speech.yml`` (``disk.reload.Reloaded``)."""

    @property
    def current(self) -> Speech:
        """The last good content."""
        ...

    async def ensure_current(self) -> None:
        """Take in an edit that nobody has noticed yet."""
        ...


class SpeechDesk:
    """The endpoints below ``/api/speechrecognition``, by the file as it is at a call."""

    def __init__(self, hearing: Hearing, file: SpeechFile) -> None:
        self._hearing = hearing
        self._file = file

    async def speech_engines(self, _: Call) -> Answer:
        """Which engines there are, and which can be used."""
        await self._file.ensure_current()
        speech = self._file.current
        views = []
        for ear in speech.engines:
            missing = await self._hearing.missing(ear)
            views.append(
                EarView(ear.name, ear.engine, ear.model, ear.language, not missing, missing)
            )
        default = speech.find("").name if speech.engines else ""
        return Answer(SpeechView(default, speech.longest, AUDIO_LIMIT, views))

    async def transcribe(self, call: Call) -> Answer:
        """What is said in one recording."""
        await self._file.ensure_current()
        speech = self._file.current
        recording = await _recording(call)
        ear = speech.find(call.query("engine") or recording.engine)
        language = _language(call.query("language") or recording.language)
        audio = recording.audio
        heard = await self._hearing.transcribe(ear, audio, language, speech.longest)
        return Answer(TranscriptView(heard.text, ear.name, heard.seconds))


def rows(desk: SpeechDesk) -> tuple[Route, ...]:
    """The rows of the routes table below ``/api/speechrecognition``."""
    door, section = Surface.EXTENDED, "4, extended surface"
    return (
        Route(
            "GET",
            "/api/speechrecognition/engines",
            door,
            desk.speech_engines,
            "The speech engines, and what keeps those that cannot be used from it.",
            operation="list_speech_engines",
            gives=SpeechView,
            section=section,
        ),
        Route(
            "POST",
            "/api/speechrecognition/transcribe",
            door,
            desk.transcribe,
            "What is said in a recording: the body itself, or the one file of a form, whose fields "
            "engine and language stand for the parameters of these names.",
            operation="transcribe_speech",
            streams=Streamed((*_AUDIO, _FORM), AUDIO_LIMIT, _FORM_FIELDS),
            gives=TranscriptView,
            errors=(BadRequest, NotFound, TooLarge, UnsupportedMedia, LimitReached, Unavailable),
            parameters=(
                Parameter(
                    "engine", "query", "The engine's name; else the default.", {"type": "string"}
                ),
                Parameter(
                    "language",
                    "query",
                    "What is spoken, such as en; else as the engine is configured.",
                    {"type": "string", "pattern": f"^{_LANGUAGE}$"},
                ),
            ),
            section=section,
        ),
    )


def _language(text: str) -> str:
    if text and not re.fullmatch(_LANGUAGE, text):
        raise BadRequest(f"'language' is {text[:40]!r}", "Expected one such as en or en-GB.")
    return text


class _Recording(NamedTuple):
    """The audio of a request, and the fields of its form, as OpenAI's clients send them."""

    audio: bytes
    engine: str = ""
    language: str = ""


async def _recording(call: Call) -> _Recording:
    """Read the request to its end."""
    assert call.incoming
    kind = call.headers.get("Content-Type", "")
    if kind.lower().startswith(_FORM):
        recording = await _read_form(kind, call.incoming)
    else:
        recording = _Recording(b"".join([portion async for portion in call.incoming]))
    if not recording.audio:
        raise BadRequest("There is no audio in the request", "Send it as the body, or in a form.")
    return recording


async def _read_form(kind: str, body: AsyncIterator[bytes]) -> _Recording:
    pieces: list[bytes] = []
    fields: dict[str, str] = {}
    found = 0
    async with aclosing(files(kind, body, _FIELDS, ("engine", "language"))) as events:
        async for event in events:
            if isinstance(event, bytes):
                pieces.append(event)
            elif isinstance(event, Field):
                fields[event.name] = event.value
            elif isinstance(event, File):
                found += 1
                if found > 1:
                    raise BadRequest("There are two files in the form", "Send one at a time.")
    return _Recording(b"".join(pieces), **fields)

"""Speech recognition of the extended surface: the engines, and transcriptions.

Source: the remote-control specification, section 4, 'Extended surface'; the paths below the
prefix are ours.
"""

import re
from collections.abc import AsyncIterator, Awaitable
from contextlib import aclosing
from typing import NamedTuple, Protocol

from msgspec import Struct

from agentd.core.errors import (
    BadRequest,
    LimitReached,
    NotFound,
    TooLarge,
    Unavailable,
    UnsupportedMedia,
)
from agentd.http.access import RouteGroup
from agentd.http.multipart import FileStart, FormField, read_form
from agentd.http.request import Request, Response
from agentd.http.routing import Parameter, Route, Schema, StreamedBody
from agentd.speech.model import Speech, SpeechEngine, SpeechEngineKind

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


class SpeechEngineView(Struct, frozen=True):
    """A speech engine; ``missing`` is the reason why it cannot be used, empty: it can."""

    name: str
    engine: SpeechEngineKind
    model: str
    language: str
    available: bool
    missing: str


class SpeechView(Struct, frozen=True, rename="camel"):
    """The engines in the file's order, and how much audio is taken at a time."""

    default: str
    max_seconds: int
    max_bytes: int
    engines: list[SpeechEngineView]


class TranscriptView(Struct, frozen=True):
    """The transcribed text; ``seconds`` of audio."""

    text: str
    engine: str
    seconds: float


class TranscriptionResult(Protocol):
    """The result of a transcription (``speech.engines.SpeechTranscript``)."""

    @property
    def text(self) -> str:
        """The transcribed text."""
        ...

    @property
    def seconds(self) -> float:
        """The duration of the audio."""
        ...


class TranscriptionService(Protocol):
    """The converter of speech into text (``speech.engines.SpeechTranscriber``)."""

    async def find_problem(self, recognizer: SpeechEngine) -> str:
        """Explain why an engine cannot be used now; empty when it can."""
        ...

    def transcribe(
        self, recognizer: SpeechEngine, audio: bytes, language: str, max_seconds: int
    ) -> Awaitable[TranscriptionResult]:
        """Transcribe ``audio`` of at most ``max_seconds`` seconds."""
        ...


class SpeechFile(Protocol):
    """``speech.yml`` (``storage.watched_file.WatchedFile``)."""

    @property
    def current(self) -> Speech:
        """The last good content."""
        ...

    async def ensure_current(self) -> None:
        """Take in an edit that nobody has noticed yet."""
        ...


class SpeechEndpoints:
    """The endpoints below ``/api/speechrecognition``, by the file as it is at a request."""

    def __init__(self, transcriber: TranscriptionService, file: SpeechFile) -> None:
        self._transcriber = transcriber
        self._file = file

    async def list_engines(self, _: Request) -> Response:
        """List the engines and whether each can be used."""
        await self._file.ensure_current()
        speech = self._file.current
        views = []
        for recognizer in speech.engines:
            missing = await self._transcriber.find_problem(recognizer)
            views.append(
                SpeechEngineView(
                    recognizer.name,
                    recognizer.engine,
                    recognizer.model,
                    recognizer.language,
                    not missing,
                    missing,
                )
            )
        default = speech.find("").name if speech.engines else ""
        return Response(SpeechView(default, speech.max_seconds, AUDIO_LIMIT, views))

    async def transcribe(self, request: Request) -> Response:
        """Transcribe one recording."""
        await self._file.ensure_current()
        speech = self._file.current
        recording = await _read_recording(request)
        recognizer = speech.find(request.get_query("engine") or recording.engine)
        language = _parse_language(request.get_query("language") or recording.language)
        audio = recording.audio
        transcript = await self._transcriber.transcribe(
            recognizer, audio, language, speech.max_seconds
        )
        return Response(TranscriptView(transcript.text, recognizer.name, transcript.seconds))


def routes(endpoints: SpeechEndpoints) -> tuple[Route, ...]:
    """Return the routes of speech recognition."""
    door, section = RouteGroup.EXTENDED, "4, extended surface"
    return (
        Route(
            "GET",
            "/api/speechrecognition/engines",
            door,
            endpoints.list_engines,
            "The speech engines, and why any of them cannot be used.",
            operation_id="list_speech_engines",
            response_type=SpeechView,
            section=section,
        ),
        Route(
            "POST",
            "/api/speechrecognition/transcribe",
            door,
            endpoints.transcribe,
            "Transcribe a recording: the body itself, or the one file of a form, whose fields "
            "engine and language replace the parameters.",
            operation_id="transcribe_speech",
            upload=StreamedBody((*_AUDIO, _FORM), AUDIO_LIMIT, _FORM_FIELDS),
            response_type=TranscriptView,
            errors=(BadRequest, NotFound, TooLarge, UnsupportedMedia, LimitReached, Unavailable),
            parameters=(
                Parameter(
                    "engine",
                    "query",
                    "The engine's name; by default that of speech.yml.",
                    {"type": "string"},
                ),
                Parameter(
                    "language",
                    "query",
                    "The spoken language, such as en; by default as the engine is configured.",
                    {"type": "string", "pattern": f"^{_LANGUAGE}$"},
                ),
            ),
            section=section,
        ),
    )


def _parse_language(text: str) -> str:
    if text and not re.fullmatch(_LANGUAGE, text):
        raise BadRequest(f"'language' is {text[:40]!r}", "Expected one such as en or en-GB.")
    return text


class _Recording(NamedTuple):
    """The audio of a request, and the fields of its form, as OpenAI's clients send them."""

    audio: bytes
    engine: str = ""
    language: str = ""


async def _read_recording(request: Request) -> _Recording:
    """Read the request to its end."""
    assert request.body_stream
    kind = request.headers.get("Content-Type", "")
    if kind.lower().startswith(_FORM):
        recording = await _read_form(kind, request.body_stream)
    else:
        recording = _Recording(b"".join([portion async for portion in request.body_stream]))
    if not recording.audio:
        raise BadRequest("There is no audio in the request", "Send it as the body, or in a form.")
    return recording


async def _read_form(kind: str, body: AsyncIterator[bytes]) -> _Recording:
    pieces: list[bytes] = []
    fields: dict[str, str] = {}
    found = 0
    async with aclosing(read_form(kind, body, _FIELDS, ("engine", "language"))) as events:
        async for event in events:
            if isinstance(event, bytes):
                pieces.append(event)
            elif isinstance(event, FormField):
                fields[event.name] = event.value
            elif isinstance(event, FileStart):
                found += 1
                if found > 1:
                    raise BadRequest("There are two files in the form", "Send one at a time.")
    return _Recording(b"".join(pieces), **fields)

"""Speech recognition of the extended surface: which engines there are, and what was said.

Source: the remote-control specification, section 4, 'Extended surface'; the paths below the
prefix are ours.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Protocol

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
from agentd.web.multipart import File, files
from agentd.web.table import Parameter, Route, Streamed

AUDIO_LIMIT = 25 * 1024 * 1024
"""Bytes of a recording: as much as suppliers take."""

_AUDIO = ("audio/*", "video/webm", "video/ogg", "application/ogg", "application/octet-stream")
_FORM = "multipart/form-data"
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


class SpeechDesk:
    """The endpoints below ``/api/speechrecognition``; ``speech`` tells the file's content now."""

    def __init__(self, hearing: Hearing, speech: Callable[[], Speech]) -> None:
        self._hearing = hearing
        self._speech = speech

    async def speech_engines(self, _: Call) -> Answer:
        """Which engines there are, and which can be used."""
        speech = self._speech()
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
        speech = self._speech()
        ear = speech.find(call.query("engine") or "")
        language = _language(call.query("language") or "")
        audio = await _recording(call)
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
            gives=SpeechView,
            section=section,
        ),
        Route(
            "POST",
            "/api/speechrecognition/transcribe",
            door,
            desk.transcribe,
            "What is said in a recording: the body itself, or the one file of a form.",
            streams=Streamed((*_AUDIO, _FORM), AUDIO_LIMIT),
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


async def _recording(call: Call) -> bytes:
    """The audio of the request, whole."""
    assert call.incoming
    kind = call.headers.get("Content-Type", "")
    body = call.incoming
    audio = await _of_form(kind, body) if kind.lower().startswith(_FORM) else await _whole(body)
    if not audio:
        raise BadRequest("There is no audio in the request", "Send it as the body, or in a form.")
    return audio


async def _whole(body: AsyncIterator[bytes]) -> bytes:
    return b"".join([portion async for portion in body])


async def _of_form(kind: str, body: AsyncIterator[bytes]) -> bytes:
    pieces: list[bytes] = []
    found = 0
    async with aclosing(files(kind, body, _FIELDS)) as events:
        async for event in events:
            if isinstance(event, bytes):
                pieces.append(event)
            elif isinstance(event, File):
                found += 1
                if found > 1:
                    raise BadRequest("There are two files in the form", "Send one at a time.")
    return b"".join(pieces)

"""Turning speech into text: with PocketSphinx, a supplier, or any program.

Any input is first converted to raw audio by ffmpeg, which also checks whether it is audio
and its duration; only WAV in the engines' own format needs no ffmpeg. Everything that takes
long is a program of its own or another host, with a limit of time: the loop never waits.
"""

import asyncio
import importlib.util
import os
import shutil
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec
from msgspec import Struct

from agentd.core import ids
from agentd.core.errors import (
    AgentdError,
    BadRequest,
    LimitReached,
    TooLarge,
    Unavailable,
    UnsupportedMedia,
)
from agentd.llm.endpoint import SupplierAccess
from agentd.llm.upstream.protocol import Timeouts, Upstream, UpstreamRequest
from agentd.speech import pocketsphinx_child
from agentd.speech.audio import SECOND, AudioKind, build_wav, detect_kind, extract_raw
from agentd.speech.model import FILE, LANGUAGE, SpeechEngine, fill_command
from agentd.system.installed import get_install_command
from agentd.system.process import MARK, Finished, build_environment, run

TAKEN = "wav, ogg, webm, mp3 or flac"
AT_ONCE = 2
"""Transcriptions at the same time; more wait ..."""
WAITING = 8
"""... and so many at most."""
DECODING_SECONDS = 60.0
SAID_LIMIT = 1024 * 1024
"""The longest text, in bytes."""

_DEMUXERS: dict[AudioKind, str] = {
    **{"wav": "wav", "ogg": "ogg", "webm": "matroska", "mp3": "mp3", "flac": "flac"}
}
"""Named to ffmpeg, which would otherwise take a list of addresses for audio, and fetch them."""


class SpeechTranscript(Struct, frozen=True):
    """The transcribed text; ``seconds`` of audio."""

    text: str
    seconds: float


class SupplierTranscript(Struct, frozen=True):
    """A supplier's response."""

    text: str


class TemporaryAudio(Protocol):
    """Keeps audio in a file while a program transcribes it (``speech.store.AudioFiles``)."""

    def open_temporary_file(self, audio: bytes) -> AbstractAsyncContextManager[str]:
        """Return a context manager for the path of the file."""
        ...


class SpeechTranscriber:
    """Transcribes; ``access`` returns the access to a supplier of ``models.yml``.

    By their ``mark`` a later daemon finds programs that a killed one left (``strays``).
    """

    def __init__(
        self,
        files: TemporaryAudio,
        upstream: Upstream,
        access: Callable[[str], Awaitable[SupplierAccess]],
        mark: str = "speech",
    ) -> None:
        self._files = files
        self._upstream = upstream
        self._access = access
        self._env = build_environment(**{MARK: mark})
        self._room = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    async def find_problem(self, recognizer: SpeechEngine) -> str:
        """Explain why the engine cannot be used now; empty when it can."""
        match recognizer.engine:
            case "pocketsphinx":
                if await asyncio.to_thread(importlib.util.find_spec, "pocketsphinx") is None:
                    return f"Install it: {get_install_command('speech')}"
            case "command":
                if await asyncio.to_thread(shutil.which, recognizer.command[0]) is None:
                    return f"The program {recognizer.command[0]} is not installed, or not in PATH."
            case "openai":
                try:
                    await self._access(recognizer.supplier)
                except AgentdError as error:
                    return error.message
        return ""

    async def transcribe(
        self, recognizer: SpeechEngine, audio: bytes, language: str, max_seconds: int
    ) -> SpeechTranscript:
        """Transcribe ``audio`` of at most ``max_seconds`` seconds.

        Raises ``UnsupportedMedia`` for what is no audio, ``TooLarge``, ``LimitReached``, and
        ``Unavailable`` when the engine is missing, fails or takes too long.
        """
        if self._waiting >= AT_ONCE + WAITING:
            raise LimitReached("Too many recordings are waiting", 10)
        self._waiting += 1
        try:
            async with self._room:
                kind = detect_kind(audio)
                if kind is None:
                    raise UnsupportedMedia("Unsupported audio format", f"Send {TAKEN}.")
                raw = await self._to_raw(audio, kind, max_seconds)
                text = await self._transcribe_raw(recognizer, raw, language or recognizer.language)
                return SpeechTranscript(text.strip(), round(len(raw) / SECOND, 3))
        finally:
            self._waiting -= 1

    async def _to_raw(self, audio: bytes, kind: AudioKind, max_seconds: int) -> bytes:
        raw = extract_raw(audio) if kind == "wav" else None
        if raw is None:
            raw = await _decode(audio, kind, max_seconds, self._env)
        if not raw:
            raise UnsupportedMedia("The recording has no sound", f"Send {TAKEN}.")
        if len(raw) > max_seconds * SECOND:
            raise TooLarge(f"The audio is longer than {max_seconds} seconds")
        return raw

    async def _transcribe_raw(self, recognizer: SpeechEngine, raw: bytes, language: str) -> str:
        match recognizer.engine:
            case "pocketsphinx":
                return await _run_pocketsphinx(recognizer, raw, language, self._env)
            case "command":
                async with self._files.open_temporary_file(build_wav(raw)) as path:
                    return await _run_command(recognizer, path, language, self._env)
            case "openai":
                return await self._ask_supplier(recognizer, build_wav(raw), language)

    async def _ask_supplier(self, recognizer: SpeechEngine, wav: bytes, language: str) -> str:
        access = await self._access(recognizer.supplier)
        fields = {"model": recognizer.model, "response_format": "json"}
        boundary, body = _build_form(wav, fields | ({"language": language} if language else {}))
        headers = {"content-type": f"multipart/form-data; boundary={boundary}"}
        if access.key:
            headers["authorization"] = f"Bearer {access.key}"
        url = f"{access.url.rstrip('/').removesuffix('/v1')}/v1/audio/transcriptions"
        limits = Timeouts(
            head=recognizer.timeout_seconds,
            idle=recognizer.timeout_seconds,
            total=recognizer.timeout_seconds,
        )
        async with self._upstream.send(
            UpstreamRequest("POST", url, headers, body, limits)
        ) as response:
            answer = await response.read(SAID_LIMIT)
        if response.status != 200:
            what = f"The supplier {recognizer.supplier} answered {response.status}"
            raise Unavailable(f"{what} instead of a transcript", _cut_tail(answer))
        try:
            return msgspec.json.decode(answer, type=SupplierTranscript).text
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            what = f"The supplier {recognizer.supplier} answered with no transcript"
            raise Unavailable(what, str(error)) from error


async def _decode(audio: bytes, kind: AudioKind, max_seconds: int, env: Mapping[str, str]) -> bytes:
    """Decode to raw audio by ffmpeg: at most one second over the limit, so that it is noticed."""
    program = await asyncio.to_thread(shutil.which, "ffmpeg")
    if program is None:
        advice = "Install ffmpeg, or send WAV with 16,000 samples a second, 16 bits, mono."
        raise UnsupportedMedia(f"Without ffmpeg, this {kind} cannot be read", advice)
    done = await run(
        [
            *(program, "-hide_banner", "-loglevel", "error", "-nostdin"),
            *("-protocol_whitelist", "pipe", "-f", _DEMUXERS[kind], "-i", "pipe:0"),
            *("-map", "0:a:0", "-t", str(max_seconds + 1), "-ac", "1", "-ar", "16000"),
            *("-f", "s16le", "pipe:1"),
        ],
        folder="/",
        env=env,
        given=audio,
        timeout=DECODING_SECONDS,
        limit=(max_seconds + 2) * SECOND,
    )
    if done.late:
        raise Unavailable(f"Reading the audio took longer than {DECODING_SECONDS:.0f} s")
    if done.code and not done.truncated:
        what = f"Invalid {kind} audio"
        raise UnsupportedMedia(what, _cut_tail(done.errors) or f"Send {TAKEN}.")
    return done.output


async def _run_pocketsphinx(
    recognizer: SpeechEngine, raw: bytes, language: str, env: Mapping[str, str]
) -> str:
    if language and not language.lower().startswith("en"):
        raise BadRequest("PocketSphinx only knows English here", f"language={language}")
    command = [sys.executable, "-P", pocketsphinx_child.__file__]
    done = await run(
        command,
        folder="/",
        env=env,
        given=raw,
        timeout=recognizer.timeout_seconds,
        limit=SAID_LIMIT,
    )
    if done.code == 2:
        raise Unavailable("PocketSphinx is not installed", get_install_command("speech"))
    return _parse_output(recognizer, done)


async def _run_command(
    recognizer: SpeechEngine, path: str, language: str, env: Mapping[str, str]
) -> str:
    if not language and any(LANGUAGE in argument for argument in recognizer.command):
        raise BadRequest(f'The engine "{recognizer.name}" needs a language', "language=en")
    command = fill_command(recognizer.command, path, language)
    folder = os.path.dirname(path)
    done = await run(
        command, folder=folder, env=env, timeout=recognizer.timeout_seconds, limit=SAID_LIMIT
    )
    return _parse_output(recognizer, done, path)


def _parse_output(recognizer: SpeechEngine, done: Finished, path: str = "") -> str:
    if done.late:
        raise Unavailable(
            f'The engine "{recognizer.name}" took longer than {recognizer.timeout_seconds} s'
        )
    if done.truncated:
        raise Unavailable(f'The engine "{recognizer.name}" said more than {SAID_LIMIT} bytes')
    if done.code:
        reason = _cut_tail(done.errors)
        what = f'The engine "{recognizer.name}" failed with code {done.code}'
        raise Unavailable(what, reason.replace(path, FILE) if path else reason)
    return done.output.decode("utf-8", "replace")


def _cut_tail(reason: bytes) -> str:
    """Return the end of an output, where the reason usually stands."""
    return reason[-600:].decode("utf-8", "replace").strip()


def _build_form(wav: bytes, fields: dict[str, str]) -> tuple[str, bytes]:
    """Build a form (RFC 7578) with some audio; return its boundary and body."""
    boundary = f"agentd-{ids.generate_request_id()}"
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="audio.wav"\r\n'
        "Content-Type: audio/wav\r\n\r\n"
    )
    return boundary, b"".join(
        [*(part.encode() for part in parts), head.encode(), wav, f"\r\n--{boundary}--\r\n".encode()]
    )

"""Turning speech into text: with PocketSphinx, a supplier, or any program.

Whatever comes in is first made raw audio by ffmpeg, which also tells whether it is audio at all
and how long; only WAV that is already as engines hear it needs no ffmpeg. Everything that takes
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

from agentd import ids
from agentd.agent.native.supplier import SupplierAccess
from agentd.catalog.speech import FILE, LANGUAGE, Ear, filled_in
from agentd.errors import (
    AgentdError,
    BadRequest,
    LimitReached,
    TooLarge,
    Unavailable,
    UnsupportedMedia,
)
from agentd.outside import pocketsphinx_child
from agentd.outside.installed import install_command
from agentd.outside.process import MARK, Finished, environment, run
from agentd.proxy.upstream import Request, Timeouts, Upstream
from agentd.wire.audio import SECOND, AudioKind, kind_of, raw_of, wav_of

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


class Transcript(Struct, frozen=True):
    """What was said; ``seconds`` of audio."""

    text: str
    seconds: float


class Said(Struct, frozen=True):
    """What a supplier answers."""

    text: str


class Holding(Protocol):
    """Keeps audio in a file for as long as a program hears it (``disk.speech.AudioFiles``)."""

    def holding(self, audio: bytes) -> AbstractAsyncContextManager[str]:
        """The path of the file."""
        ...


class Transcriber:
    """Hears; ``access`` tells how to call a supplier of ``models.yml``.

    By their ``mark`` a later daemon finds programs that a killed one left (``strays``).
    """

    def __init__(
        self,
        files: Holding,
        upstream: Upstream,
        access: Callable[[str], Awaitable[SupplierAccess]],
        mark: str = "speech",
    ) -> None:
        self._files = files
        self._upstream = upstream
        self._access = access
        self._env = environment(**{MARK: mark})
        self._room = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    async def missing(self, ear: Ear) -> str:
        """Why the engine cannot be used now; empty when it can."""
        match ear.engine:
            case "pocketsphinx":
                if await asyncio.to_thread(importlib.util.find_spec, "pocketsphinx") is None:
                    return f"Install it: {install_command('speech')}"
            case "command":
                if await asyncio.to_thread(shutil.which, ear.command[0]) is None:
                    return f"The program {ear.command[0]} is not installed, or not in PATH."
            case "openai":
                try:
                    await self._access(ear.supplier)
                except AgentdError as error:
                    return error.message
        return ""

    async def transcribe(self, ear: Ear, audio: bytes, language: str, longest: int) -> Transcript:
        """What is said in ``audio`` of at most ``longest`` seconds.

        Raises ``UnsupportedMedia`` for what is no audio, ``TooLarge``, ``LimitReached``, and
        ``Unavailable`` when the engine is missing, fails or takes too long.
        """
        if self._waiting >= AT_ONCE + WAITING:
            raise LimitReached("Too many recordings wait to be heard", 10)
        self._waiting += 1
        try:
            async with self._room:
                kind = kind_of(audio)
                if kind is None:
                    raise UnsupportedMedia("This is no audio that is taken here", f"Send {TAKEN}.")
                raw = await self._raw(audio, kind, longest)
                text = await self._heard(ear, raw, language or ear.language)
                return Transcript(text.strip(), round(len(raw) / SECOND, 3))
        finally:
            self._waiting -= 1

    async def _raw(self, audio: bytes, kind: AudioKind, longest: int) -> bytes:
        raw = raw_of(audio) if kind == "wav" else None
        if raw is None:
            raw = await _decoded(audio, kind, longest, self._env)
        if not raw:
            raise UnsupportedMedia("There is no sound in this", f"Send {TAKEN}.")
        if len(raw) > longest * SECOND:
            raise TooLarge(f"The audio is longer than {longest} seconds")
        return raw

    async def _heard(self, ear: Ear, raw: bytes, language: str) -> str:
        match ear.engine:
            case "pocketsphinx":
                return await _by_pocketsphinx(ear, raw, language, self._env)
            case "command":
                async with self._files.holding(wav_of(raw)) as path:
                    return await _by_command(ear, path, language, self._env)
            case "openai":
                return await self._by_supplier(ear, wav_of(raw), language)

    async def _by_supplier(self, ear: Ear, wav: bytes, language: str) -> str:
        access = await self._access(ear.supplier)
        fields = {"model": ear.model, "response_format": "json"}
        boundary, body = _form(wav, fields | ({"language": language} if language else {}))
        headers = {"content-type": f"multipart/form-data; boundary={boundary}"}
        if access.key:
            headers["authorization"] = f"Bearer {access.key}"
        url = f"{access.url.rstrip('/').removesuffix('/v1')}/v1/audio/transcriptions"
        limits = Timeouts(head=ear.seconds, idle=ear.seconds, total=ear.seconds)
        async with self._upstream.send(Request("POST", url, headers, body, limits)) as response:
            answer = await response.read(SAID_LIMIT)
        if response.status != 200:
            what = f"The supplier {ear.supplier} answered {response.status}"
            raise Unavailable(f"{what} instead of a transcript", _shortened(answer))
        try:
            return msgspec.json.decode(answer, type=Said).text
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            what = f"The supplier {ear.supplier} answered with no transcript"
            raise Unavailable(what, str(error)) from error


async def _decoded(audio: bytes, kind: AudioKind, longest: int, env: Mapping[str, str]) -> bytes:
    """Raw audio, by ffmpeg; one second more at most than is allowed, so that this is noticed."""
    program = await asyncio.to_thread(shutil.which, "ffmpeg")
    if program is None:
        advice = "Install ffmpeg, or send WAV with 16,000 samples a second, 16 bits, mono."
        raise UnsupportedMedia(f"Without ffmpeg, this {kind} cannot be read", advice)
    done = await run(
        [
            *(program, "-hide_banner", "-loglevel", "error", "-nostdin"),
            *("-protocol_whitelist", "pipe", "-f", _DEMUXERS[kind], "-i", "pipe:0"),
            *("-map", "0:a:0", "-t", str(longest + 1), "-ac", "1", "-ar", "16000"),
            *("-f", "s16le", "pipe:1"),
        ],
        folder="/",
        env=env,
        given=audio,
        timeout=DECODING_SECONDS,
        limit=(longest + 2) * SECOND,
    )
    if done.late:
        raise Unavailable(f"Reading the audio took longer than {DECODING_SECONDS:.0f} s")
    if done.code and not done.cut:
        what = f"This is no sound {kind} audio"
        raise UnsupportedMedia(what, _shortened(done.errors) or f"Send {TAKEN}.")
    return done.output


async def _by_pocketsphinx(ear: Ear, raw: bytes, language: str, env: Mapping[str, str]) -> str:
    if language and not language.lower().startswith("en"):
        raise BadRequest("PocketSphinx only knows English here", f"language={language}")
    command = [sys.executable, "-P", pocketsphinx_child.__file__]
    done = await run(command, folder="/", env=env, given=raw, timeout=ear.seconds, limit=SAID_LIMIT)
    if done.code == 2:
        raise Unavailable("PocketSphinx is not installed", install_command("speech"))
    return _said(ear, done)


async def _by_command(ear: Ear, path: str, language: str, env: Mapping[str, str]) -> str:
    if not language and any(LANGUAGE in argument for argument in ear.command):
        raise BadRequest(f'The engine "{ear.name}" must be told the language', "language=en")
    command = filled_in(ear.command, path, language)
    folder = os.path.dirname(path)
    done = await run(command, folder=folder, env=env, timeout=ear.seconds, limit=SAID_LIMIT)
    return _said(ear, done, path)


def _said(ear: Ear, done: Finished, path: str = "") -> str:
    if done.late:
        raise Unavailable(f'The engine "{ear.name}" took longer than {ear.seconds} s')
    if done.cut:
        raise Unavailable(f'The engine "{ear.name}" said more than {SAID_LIMIT} bytes')
    if done.code:
        told = _shortened(done.errors)
        what = f'The engine "{ear.name}" failed with code {done.code}'
        raise Unavailable(what, told.replace(path, FILE) if path else told)
    return done.output.decode("utf-8", "replace")


def _shortened(told: bytes) -> str:
    """The end of what a program or supplier said, which is where the reason stands."""
    return told[-600:].decode("utf-8", "replace").strip()


def _form(wav: bytes, fields: dict[str, str]) -> tuple[str, bytes]:
    """A form (RFC 7578) with some audio, and the boundary of its parts."""
    boundary = f"agentd-{ids.new_request_id()}"
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

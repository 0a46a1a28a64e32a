"""``speech.yml`` of the configuration folder, and the audio that programs are given as a file."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from agentd import ids
from agentd.catalog.speech import Speech, contradictions
from agentd.disk import document, handwritten
from agentd.disk.document import make_folder, told
from agentd.disk.layout import Layout
from agentd.threads import finished

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME = re.compile(r"[A-Za-z0-9-]+\.wav")


def load(layout: Layout) -> Speech:
    """The speech engines of the file; without one, the offline engine. Blocking.

    Raises ``Misconfigured`` with every mistake, or ``Unavailable``.
    """
    path = layout.speech_settings
    found = document.read(path, handwritten.LIMIT)
    return handwritten.load(path, found.data, Speech, contradictions) if found else Speech()


class AudioFiles:
    """Audio while a program hears it: private, and gone afterwards, after a crash at the start."""

    def __init__(self, layout: Layout) -> None:
        self._folder = layout.audio

    async def sweep(self) -> None:
        """Remove what a killed daemon left."""
        await asyncio.to_thread(self._sweep)

    @asynccontextmanager
    async def holding(self, audio: bytes) -> AsyncIterator[str]:
        """The path of a file with this audio, for as long as the block lasts."""
        path = os.path.join(self._folder, f"{ids.new_request_id()}.wav")
        try:
            await finished(self._write, path, audio)
            yield path
        finally:
            await asyncio.shield(asyncio.to_thread(_remove, path))

    def _write(self, path: str, audio: bytes) -> None:
        make_folder(self._folder)
        with told(path, "write"), open(os.open(path, _CREATE, 0o600), "wb") as file:
            file.write(audio)

    def _sweep(self) -> None:
        with suppress(OSError):
            for name in os.listdir(self._folder):
                if _NAME.fullmatch(name):
                    os.unlink(os.path.join(self._folder, name))


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)

"""``speech.yml`` of the configuration folder, and the audio that programs are given as a file."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from agentd.core import ids
from agentd.core.errors import AgentdError
from agentd.core.threads import run_uncancellable
from agentd.models.store import load as load_models
from agentd.speech.model import Speech, find_unknown_suppliers, validate
from agentd.storage import document
from agentd.storage.document import make_folder, translate_os_errors
from agentd.storage.layout import Layout
from agentd.storage.yaml import reader as yaml_reader

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME = re.compile(r"[A-Za-z0-9-]+\.wav")


def load(layout: Layout) -> Speech:
    """Return the speech engines of the file; without one, the offline engine. Blocking.

    Raises ``ConfigError`` with every mistake, or ``Unavailable``.
    """
    path = layout.speech_settings
    found = document.read_document(path, yaml_reader.MAX_FILE_SIZE)
    return yaml_reader.load_yaml(path, found.data, Speech, validate) if found else Speech()


def check(layout: Layout) -> None:
    """Raise as ``load``, and ``ConfigError`` for suppliers that are not in ``models.yml``.

    Mistakes in ``models.yml`` are not reported here. Blocking.
    """
    load(layout)
    found = document.read_document(layout.speech_settings, yaml_reader.MAX_FILE_SIZE)
    try:
        suppliers = load_models(layout).suppliers
    except AgentdError:
        return
    if found:
        path, data = layout.speech_settings, found.data
        yaml_reader.load_yaml(
            path, data, Speech, lambda speech: find_unknown_suppliers(speech, suppliers)
        )


class AudioFiles:
    """Audio while a program transcribes it: private, removed afterwards or at the next start."""

    def __init__(self, layout: Layout) -> None:
        self._folder = layout.audio

    async def sweep(self) -> None:
        """Remove what a killed daemon left."""
        await asyncio.to_thread(self._sweep)

    @asynccontextmanager
    async def open_temporary_file(self, audio: bytes) -> AsyncIterator[str]:
        """Write the audio to a file that exists as long as the block lasts."""
        path = os.path.join(self._folder, f"{ids.generate_request_id()}.wav")
        try:
            await run_uncancellable(self._write, path, audio)
            yield path
        finally:
            await asyncio.shield(asyncio.to_thread(_remove, path))

    def _write(self, path: str, audio: bytes) -> None:
        make_folder(self._folder)
        with translate_os_errors(path, "write"), open(os.open(path, _CREATE, 0o600), "wb") as file:
            file.write(audio)

    def _sweep(self) -> None:
        with suppress(OSError):
            for name in os.listdir(self._folder):
                if _NAME.fullmatch(name):
                    os.unlink(os.path.join(self._folder, name))


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)

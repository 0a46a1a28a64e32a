"""speech.yml, and audio that is a file for a moment."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from agentd.core.errors import ConfigError
from agentd.speech.model import POCKETSPHINX
from agentd.speech.store import AudioFiles, load
from tests.conftest import until
from tests.support.paths import REPOSITORY

pytestmark = pytest.mark.gen_test


def write(layout, text):
    path = Path(layout.speech_settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_missing_file_means_the_offline_engine(layout):
    assert load(layout).engines == (POCKETSPHINX,)


def test_the_example_of_the_readme_is_read(layout):
    readme = REPOSITORY / "config" / "README.md"
    section = readme.read_text().split("## `speech.yml`")[1]
    write(layout, section.split("```yaml\n")[1].split("```")[0])
    speech = load(layout)
    assert [ear.engine for ear in speech.engines] == ["pocketsphinx", "openai", "command"]


def test_every_mistake_is_reported_with_its_line(layout):
    write(layout, "max_seconds: 0\nengines:\n  - {name: a, engine: whisper}\n  - {name: b}\n")
    with pytest.raises(ConfigError) as caught:
        load(layout)
    assert [problem.line for problem in caught.value.problems] == [1, 3, 4]


async def test_audio_is_private_and_gone_afterwards(layout):
    files = AudioFiles(layout)
    async with files.open_temporary_file(b"sound") as path:
        assert Path(path).read_bytes() == b"sound"
        assert os.stat(path).st_mode & 0o777 == 0o600
        assert os.stat(layout.audio).st_mode & 0o777 == 0o700
    assert os.listdir(layout.audio) == []
    with pytest.raises(ZeroDivisionError):
        async with files.open_temporary_file(b"sound"):
            raise ZeroDivisionError
    assert os.listdir(layout.audio) == []


async def test_what_a_killed_daemon_left_is_swept_and_nothing_else(layout):
    files = AudioFiles(layout)
    await files.sweep()
    async with files.open_temporary_file(b"sound") as path:
        kept = path
        other = Path(layout.audio, "notes.txt")
        other.write_text("mine")
        await files.sweep()
        assert not os.path.exists(kept)
        assert other.exists()


async def test_audio_is_gone_though_its_sender_left_while_it_was_written(layout, monkeypatch):
    files = AudioFiles(layout)
    begun, may_write = threading.Event(), threading.Event()
    write = AudioFiles._write

    def write_slowly(*arguments):
        begun.set()
        assert may_write.wait(30)
        write(*arguments)

    async def hold():
        async with files.open_temporary_file(b"sound"):
            raise AssertionError("he has left")

    monkeypatch.setattr(AudioFiles, "_write", write_slowly)
    holding = asyncio.create_task(hold())
    await until(begun.is_set)
    holding.cancel()
    await asyncio.wait([holding], timeout=0.1)
    may_write.set()
    await asyncio.wait([holding])
    assert holding.cancelled()
    assert os.listdir(layout.audio) == []

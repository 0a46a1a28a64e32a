"""Speech is heard by real programs, a stand-in for a supplier, or told clearly why not."""

import asyncio
import os
import shutil
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import run

import pytest

from agentd.core.errors import BadRequest, LimitReached, TooLarge, Unavailable, UnsupportedMedia
from agentd.llm.endpoint import SupplierAccess
from agentd.llm.upstream.client import HttpUpstream
from agentd.speech import engines as module
from agentd.speech.audio import SECOND, build_wav
from agentd.speech.engines import SpeechTranscriber
from agentd.speech.model import POCKETSPHINX, SpeechEngine
from agentd.speech.store import AudioFiles
from tests.conftest import until
from tests.support.loopback import OK, supplier

pytestmark = pytest.mark.gen_test

SPOKEN = "one two three four five"
HEARD = {"two", "three", "four", "five"}
"""The text that PocketSphinx recognises when eSpeak NG's American voice speaks it."""
SILENCE = build_wav(bytes(SECOND))

needs_ffmpeg = pytest.mark.skipif(not shutil.which("ffmpeg"), reason="ffmpeg is not installed")
needs_voice = pytest.mark.skipif(
    not shutil.which("espeak-ng"), reason="espeak-ng is not installed: apt-get install espeak-ng"
)


@asynccontextmanager
async def hearing(layout, url="", key=""):
    async def find_access(name):
        return SupplierAccess(name, "openai-chat", url, key)

    upstream = HttpUpstream()
    try:
        yield SpeechTranscriber(AudioFiles(layout), upstream, find_access)
    finally:
        await upstream.close()


async def transcribe(layout, ear, audio, language="", max_seconds=60):
    async with hearing(layout) as ears:
        return await ears.transcribe(ear, audio, language, max_seconds)


def make_command(script: str, *more: str, **options) -> SpeechEngine:
    line = (sys.executable, "-c", script, "{file}", *more)
    return SpeechEngine(name="program", engine="command", command=line, **options)


@pytest.fixture(scope="module")
def spoken(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("voice") / "spoken.wav"
    run(["espeak-ng", "-v", "en-us", "-s", "130", "-w", path, SPOKEN], check=True)
    return path.read_bytes()


def as_kind(wav: bytes, kind: str, tmp_path: Path, rate: str = "192k") -> bytes:
    """Convert the sound to another kind of file with ffmpeg.

    PocketSphinx mishears what a low rate leaves of a voice.
    """
    source, target = tmp_path / "source.wav", tmp_path / f"target.{kind}"
    source.write_bytes(wav)
    form = ("-ar", "48000", "-b:a", rate)
    run(["ffmpeg", "-loglevel", "error", "-i", source, *form, target], check=True)
    return target.read_bytes()


@needs_voice
@needs_ffmpeg
@pytest.mark.parametrize("kind", ["wav", "ogg", "webm", "mp3", "flac"])
async def test_pocketsphinx_receives_what_a_voice_says(layout, spoken, tmp_path, kind):
    pytest.importorskip("pocketsphinx", reason="the extra 'speech' is not installed")
    audio = spoken if kind == "wav" else as_kind(spoken, kind, tmp_path)
    result = await transcribe(layout, POCKETSPHINX, audio)
    assert set(result.text.split()) >= HEARD
    assert 2 < result.seconds < 6


async def test_pocketsphinx_receives_nothing_in_silence_and_only_english(layout):
    pytest.importorskip("pocketsphinx", reason="the extra 'speech' is not installed")
    assert (await transcribe(layout, POCKETSPHINX, SILENCE)).seconds == 1.0
    with pytest.raises(BadRequest, match="English"):
        await transcribe(layout, POCKETSPHINX, SILENCE, "de")


async def test_the_loop_goes_on_while_something_is_received(layout, tmp_path):
    begun, enough = tmp_path / "begun", tmp_path / "enough"
    script = f"import os, time; open({str(begun)!r}, 'w').close()\n"
    script += f"while not os.path.exists({str(enough)!r}): time.sleep(0.01)\nprint('x')"
    hearing = asyncio.ensure_future(transcribe(layout, make_command(script), SILENCE))
    await until(begun.exists)
    enough.touch()
    assert (await hearing).text == "x"


# Any program.


async def test_a_program_is_given_a_wav_file_and_the_language_and_its_output_is_the_text(layout):
    script = (
        "import sys, wave; w = wave.open(sys.argv[1]);"
        "print(' ', w.getframerate(), w.getnframes(), sys.argv[2], '; rm -rf / ')"
    )
    result = await transcribe(layout, make_command(script, "--in={language}"), SILENCE, "de-AT")
    assert result.text == "16000 16000 --in=de-AT ; rm -rf /"
    assert os.listdir(layout.audio) == []


async def test_a_program_that_needs_a_language_asks_for_it(layout):
    with pytest.raises(BadRequest, match="needs a language"):
        await transcribe(layout, make_command("", "{language}"), SILENCE)
    assert (
        await transcribe(layout, make_command("print(1)", "{language}", language="en"), SILENCE)
    ).text


@pytest.mark.parametrize(
    ("script", "seconds", "why"),
    [
        ("import sys; sys.exit('no model at ' + sys.argv[1])", 60, "failed with code 1"),
        ("import time; time.sleep(60)", 1, "longer than 1 s"),
        ("print('x' * 2_000_000)", 60, "said more than"),
    ],
)
async def test_a_program_that_fails_hangs_or_floods_is_informed_of(layout, script, seconds, why):
    with pytest.raises(Unavailable, match=why) as caught:
        await transcribe(layout, make_command(script, timeout_seconds=seconds), SILENCE)
    assert os.listdir(layout.audio) == []
    assert layout.audio not in caught.value.details


async def test_a_program_that_does_not_exist_is_informed_of(layout):
    ear = SpeechEngine(name="x", engine="command", command=("/no/such/program", "{file}"))
    with pytest.raises(Unavailable, match="not installed"):
        await transcribe(layout, ear, SILENCE)
    async with hearing(layout) as ears:
        assert "not installed" in await ears.find_problem(ear)
        assert await ears.find_problem(make_command("")) == ""


async def test_a_client_that_no_longer_waits_leaves_no_program_and_no_file(layout, tmp_path):
    mark = tmp_path / "pid"
    script = f"import os, time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    task = asyncio.ensure_future(transcribe(layout, make_command(script), SILENCE))
    await until(lambda: mark.exists() and mark.read_text())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    pid = int(mark.read_text())
    await until(lambda: not os.path.exists(f"/proc/{pid}"))
    assert os.listdir(layout.audio) == []


async def test_only_so_many_wait(layout, monkeypatch):
    monkeypatch.setattr(module, "WAITING", 1)
    ear = make_command("import sys; sys.stdin.read(); import time; time.sleep(0.3)")
    async with hearing(layout) as ears:
        tasks = [
            asyncio.ensure_future(ears.transcribe(ear, SILENCE, "", 60))
            for _ in range(module.AT_ONCE + 2)
        ]
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(one, LimitReached) for one in done] == [False] * 3 + [True]
        assert (await ears.transcribe(ear, SILENCE, "", 60)).seconds == 1.0


# What is no audio, or too much of it.


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"hello", b"#EXTM3U\nhttp://127.0.0.1/x.mp3", b"<html>", b"%PDF-1.4"),
        *(build_wav(b""), b"RIFF\0\0\0\0WAVE"),
    ],
)
@needs_ffmpeg
async def test_what_is_no_audio_is_refused(layout, data):
    with pytest.raises(UnsupportedMedia):
        await transcribe(layout, make_command("print('heard')"), data)


@needs_ffmpeg
@pytest.mark.parametrize("begins", [b"OggS", b"ID3\x04", b"\x1a\x45\xdf\xa3", b"fLaC", b"\xff\xfb"])
async def test_what_only_begins_like_audio_is_refused(layout, begins):
    with pytest.raises(UnsupportedMedia, match="Invalid"):
        await transcribe(layout, make_command("print('heard')"), begins + b"nonsense" * 400)


@needs_ffmpeg
async def test_audio_that_is_longer_than_allowed_is_refused_however_it_is_packed(layout, tmp_path):
    long = build_wav(bytes(SECOND * 100))
    small = as_kind(long, "mp3", tmp_path, "32k")
    assert len(small) < len(long) // 3
    for audio in (long, small):
        with pytest.raises(TooLarge, match="longer than 60 seconds"):
            await transcribe(layout, make_command("print('heard')"), audio)


async def test_without_ffmpeg_only_plain_wav_is_received_and_the_rest_is_reported(
    layout, monkeypatch
):
    which = shutil.which
    monkeypatch.setattr(
        module.shutil, "which", lambda name: None if name == "ffmpeg" else which(name)
    )
    assert (await transcribe(layout, make_command("print('heard')"), SILENCE)).text == "heard"
    with pytest.raises(UnsupportedMedia, match="ffmpeg") as caught:
        await transcribe(layout, make_command("print('heard')"), b"OggS" + bytes(100))
    assert "16,000" in caught.value.details


# A supplier in OpenAI's dialect.

WHISPER = SpeechEngine(
    name="whisper", engine="openai", supplier="s", model="whisper-1", timeout_seconds=60
)


def answer_with(body: bytes, status: bytes = OK):
    requests = []

    async def behave(line):
        requests.append(await line.read_request())
        line.say(status + b"Content-Length: %d\r\n\r\n" % len(body) + body)

    return requests, behave


@pytest.mark.parametrize("base", ["", "/v1", "/v1/"])
async def test_a_supplier_is_sent_a_form_with_the_sound(layout, base):
    requests, behave = answer_with(b'{"text": " Hello. ", "usage": {}}')
    async with supplier(behave) as there, hearing(layout, there.url + base, "sk-1") as ears:
        result = await ears.transcribe(WHISPER, SILENCE, "en", 60)
    assert (result.text, result.seconds) == ("Hello.", 1.0)
    (request,) = requests
    head, _, body = request.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/audio/transcriptions HTTP/1.1\r\n")
    assert b"authorization: Bearer sk-1" in head
    for part in (b'name="model"\r\n\r\nwhisper-1\r\n', b'name="language"\r\n\r\nen\r\n'):
        assert part in body
    assert b'filename="audio.wav"\r\nContent-Type: audio/wav\r\n\r\n' + SILENCE in body


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (b"HTTP/1.1 401 Unauthorized\r\n", b'{"error": "bad key"}', "answered 401"),
        (OK, b"<html>", "no transcript"),
        (OK, b'{"words": []}', "no transcript"),
    ],
)
async def test_a_supplier_that_does_not_hear_is_informed_of(layout, status, body, why):
    _, behave = answer_with(body, status)
    async with supplier(behave) as there, hearing(layout, there.url, "sk-secret") as ears:
        with pytest.raises(Unavailable, match=why) as caught:
            await ears.transcribe(WHISPER, SILENCE, "", 60)
    assert "sk-secret" not in caught.value.message + caught.value.details

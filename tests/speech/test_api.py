"""Speech recognition over HTTP (specification 4, extended surface)."""

import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from agentd.speech.api import AUDIO_LIMIT
from agentd.speech.audio import SECOND, build_wav
from tests.support.daemon import KEY, Client, Reply, Serving, send_raw

TRANSCRIBE = "/api/speechrecognition/transcribe"
SILENCE = build_wav(bytes(SECOND))
WAV = {"Content-Type": "audio/wav"}
COUNTS = "import os, sys; print(os.path.getsize(sys.argv[1]), sys.argv[2])"


@pytest.fixture
def ears(daemon: Serving) -> Client:
    """A daemon whose speech.yml was written while it works."""
    Path(daemon.layout.speech_settings).write_text(
        f"max_seconds: 5\nengines:\n"
        f"  - {{name: counts, engine: command, language: en,\n"
        f'     command: ["{sys.executable}", -c, "{COUNTS}", "{{file}}", "{{language}}"]}}\n'
        f"  - {{name: gone, engine: command, command: [/no/such/program, '{{file}}']}}\n"
        f"  - {{name: far, engine: openai, supplier: none, model: whisper-1}}\n"
        f"  - {{name: nobody, engine: openai, supplier: nobody, model: whisper-1}}\n"
    )
    return daemon.client()


def build_form(*files: bytes, end: str = "--") -> tuple[bytes, dict[str, str]]:
    parts = [b'--b\r\nContent-Disposition: form-data; name="note"\r\n\r\na field\r\n']
    parts += [
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="../../a.wav"\r\n'
        b"Content-Type: audio/wav\r\n\r\n" + data + b"\r\n"
        for data in files
    ]
    body = b"".join(parts) + f"--b{end}\r\n".encode()
    return body, {"Content-Type": "multipart/form-data; boundary=b"}


def transcribe(client: Client, query: str = "") -> Reply:
    return client.send("POST", f"{TRANSCRIBE}{query}", SILENCE, WAV)


def test_the_engines_are_reported_with_what_they_miss(ears: Client) -> None:
    result = ears.get("/api/speechrecognition/engines").json()
    assert (result["maxSeconds"], result["maxBytes"]) == (5, AUDIO_LIMIT)
    missing = {one["name"]: one["missing"] for one in result["engines"]}
    assert list(missing) == ["counts", "gone", "far", "nobody"]
    assert {one["name"] for one in result["engines"] if one["available"]} == {"counts", "far"}
    assert "/no/such/program" in missing["gone"]
    assert "nobody" in missing["nobody"]


def test_a_recording_is_received_as_the_body_and_in_a_form(ears: Client, daemon: Serving) -> None:
    for body, headers in ((SILENCE, WAV), build_form(SILENCE)):
        reply = ears.send("POST", TRANSCRIBE, body, headers)
        assert reply.status == 200, reply.body
        expected = {"text": f"{len(SILENCE)} en", "engine": "counts", "seconds": 1.0}
        assert reply.json() == expected
    assert list(Path(daemon.layout.audio).iterdir()) == []


def test_the_caller_may_choose_the_language_and_the_engine(ears: Client) -> None:
    assert transcribe(ears, "?engine=counts&language=pt-BR")["text"].endswith(" pt-BR")
    assert transcribe(ears, "?engine=gone").status == 503
    assert transcribe(ears, "?engine=far").status == 503
    reply = transcribe(ears, "?engine=count")
    assert (reply.status, "counts" in reply["message"]) == (404, True)
    for bad in ("?language=;rm", "?language=en%0A", "?language=--help"):
        assert transcribe(ears, bad).status == 400


def test_the_fields_of_a_form_choose_the_language_and_the_engine(ears: Client) -> None:
    def send(**fields: str) -> Reply:
        body, headers = build_form(SILENCE, end="")
        body += b"".join(
            b'Content-Disposition: form-data; name="%s"\r\n\r\n%s\r\n--b'
            % (name.encode(), value.encode())
            + (b"--\r\n" if name == list(fields)[-1] else b"\r\n")
            for name, value in fields.items()
        )
        return ears.send("POST", TRANSCRIBE, body, headers)

    assert send(engine="counts", language="pt-BR")["text"].endswith(" pt-BR")
    assert send(engine="gone").status == 503
    assert send(engine="count").status == 404
    assert send(language="--help").status == 400
    assert send(engine="x" * 5000).status == 400


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"", WAV, 400),
        (b"not audio", WAV, 415),
        (b"OggS" + bytes(500), {"Content-Type": "audio/ogg"}, 415),
        (SILENCE, {"Content-Type": "application/json"}, 415),
        (SILENCE, {"Content-Type": "text/plain"}, 415),
        (build_wav(bytes(SECOND * 6)), WAV, 413),
        (*build_form(), 400),
        (*build_form(SILENCE, SILENCE), 400),
        (*build_form(SILENCE, end=""), 400),
    ],
)
def test_what_is_no_recording_is_refused_clearly(
    ears: Client, body: bytes, headers: dict[str, str], status: int
) -> None:
    reply = ears.send("POST", TRANSCRIBE, body, headers)
    assert reply.status == status, reply.body
    assert reply["message"]


def test_more_bytes_than_are_taken_are_refused_before_they_come(ears: Client) -> None:
    head = (
        f"POST {TRANSCRIBE} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {KEY}\r\n"
        f"Content-Type: audio/wav\r\nContent-Length: {AUDIO_LIMIT + 1}\r\n\r\n"
    )
    (reply,) = send_raw(urlsplit(ears.url).port or 0, head.encode())
    assert (reply.status, reply["error"]) == (413, "TooLarge")
    assert str(AUDIO_LIMIT) in reply["details"]


def test_a_broken_file_takes_no_engine_away(ears: Client, daemon: Serving) -> None:
    assert transcribe(ears)["engine"] == "counts"  # the file was read before it is broken
    Path(daemon.layout.speech_settings).write_text("engines: [{name: x}]\n")
    assert transcribe(ears)["engine"] == "counts"


def test_what_a_killed_daemon_left_is_gone_with_the_next_start(serve, daemon: Serving) -> None:
    left = Path(daemon.layout.audio)
    left.mkdir(mode=0o700)
    (left / "0-1.wav").write_bytes(SILENCE)
    daemon.stop()
    daemon.join()
    serve()
    assert list(left.iterdir()) == []

"""A key that is sent anywhere is found nowhere: no log line, error, number or file has it."""

import io
import logging
import sys
import unicodedata
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.app import http_server
from agentd.bots.api import RemoteBotEndpoints
from agentd.core import ids
from agentd.core.redaction import escape_unprintable, scrub
from agentd.http.access_log import AccessLog, AccessLogLine
from agentd.http.log_scrubber import LogFormatter
from tests.support.daemon import KEY, Client, Serving, build_request, send_raw
from tests.support.fixtures import Serve

CHATS = "/api/remote/chats"
LAST = "Connection: close"
STRANGER = "agent_" + "Canary00" * 4
"""A key that is not ours, and may be somebody else's."""
HEX = "c0ffee00" * 8
MANAGEMENT_KEY = ids.generate_management_key()
ACCESS_KEY = ids.generate_access_key()[1]
"""A key as ``openssl rand -hex 32`` makes it."""


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """Yield all that the daemon writes to standard error: access lines and log messages."""
    stream = io.StringIO()
    monkeypatch.setattr(http_server, "AccessLog", partial(AccessLog, stream=stream))
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LogFormatter())
    everything = logging.getLogger()
    everything.addHandler(handler)
    monkeypatch.setattr(everything, "level", logging.DEBUG)
    yield stream
    everything.removeHandler(handler)


def stop_and_read_log(daemon: Serving, log: io.StringIO) -> str:
    """Return the whole log, once the daemon has stopped."""
    daemon.stop()
    daemon.join()
    return log.getvalue()


def test_the_id_of_a_live_connection_is_masked_in_an_address_and_other_ids_are_not() -> None:
    result = scrub("GET /liveChatHub?id=fHx7Zk_-3Q&api_key=x HTTP/1.1, then /y?a=1&ID=Zk_-3Q'")
    assert result == "GET /liveChatHub?id=***&api_key=*** HTTP/1.1, then /y?a=1&id=***'"
    assert scrub("the chat's id=7 is fine") == "the chat's id=7 is fine"


@pytest.mark.parametrize("secret", [KEY, STRANGER, HEX], ids=["ours", "another", "hex"])
def test_a_key_in_any_place_is_found_in_no_place(
    log: io.StringIO, serve: Serve, secret: str
) -> None:
    """The address parameter ``api_key`` (specification 5.2) reaches no log, even misplaced."""
    daemon = serve()
    answers = []
    for key in (secret, KEY):
        for method, path in [
            ("GET", f"/api/remote/bots?api_key={secret}"),
            ("GET", f"/{secret}"),
            ("GET", f"/api/{secret}/x?{secret}"),
            ("GET", f"{CHATS}/{secret}/status?wait={secret}"),
            ("GET", f"{CHATS}/1/messages?since={secret}"),
            ("GET", f"/{'x' * 480}{secret}/"),
            ("GET", f"http://u:{secret}@localhost/x"),
            (secret, "/healthz"),
            ("DELETE", f"{CHATS}/1/queue/{secret}"),
        ]:
            answers += send_raw(daemon.port, build_request(method, path, LAST, key=key))
        for lines in (
            [f"Authorization: Bearer {secret}"],
            [f"Cookie: session={secret}"],
            [f"Idempotency-Key: {secret}"],
            [f"User-Agent: {secret}"],
            [f"{secret}: x"],
            [f"X-API-Key: {secret}", f"X-API-Key: {secret}"],
        ):
            answers += send_raw(
                daemon.port, build_request("GET", f"{CHATS}/1/queue", LAST, *lines, key=key)
            )
        for body in (b"{", b'{"prompt":7,"x":"%b"}', b'{"%b":1,"%b":1}', b"%b", b'{"skill":"%b"}'):
            sent = body.replace(b"%b", secret.encode())
            answers += send_raw(daemon.port, build_request("POST", CHATS, LAST, body=sent, key=key))
        answers += send_raw(daemon.port, f"GET {secret}\r\n\r\n".encode())
        answers += send_raw(
            daemon.port, build_request("GET", "/healthz", f"Host: {secret}", LAST, key=None)
        )
    answers.append(daemon.client().get("/metrics"))
    text = stop_and_read_log(daemon, log)
    assert text.count("\n") >= 40
    assert secret not in text
    assert {answer.status for answer in answers} >= {200, 400, 401, 404, 405, 421}
    for answer in answers:
        assert secret not in str(answer.headers)
        assert secret.encode() not in answer.body
    for file in Path(daemon.layout.state).rglob("*"):
        if file.is_file():
            assert secret.encode() not in file.read_bytes(), file


def test_what_a_person_wrote_into_a_prompt_is_kept_but_not_logged(
    log: io.StringIO, serve: Serve
) -> None:
    daemon = serve()
    client = daemon.client()
    chat = client.create_chat(prompt=f"my key is {STRANGER}", title=STRANGER)
    assert STRANGER in client.messages(chat)[0]["content"]
    assert STRANGER not in stop_and_read_log(daemon, log)


def test_the_details_of_an_unexpected_error_are_scrubbed(
    monkeypatch: pytest.MonkeyPatch, log: io.StringIO, serve: Serve
) -> None:
    """Specification 7, row 'InternalServerError': details holds the exception text."""

    def fail_with_secrets(self: RemoteBotEndpoints, call: object) -> None:
        raise ValueError(f"bad key {KEY} and {HEX}; X-API-Key: {STRANGER}\nx")

    monkeypatch.setattr(RemoteBotEndpoints, "list_bots", fail_with_secrets)
    daemon = serve()
    reply = daemon.client().get("/api/remote/bots")
    assert reply.status == 500
    text = stop_and_read_log(daemon, log)
    for secret in (KEY, HEX, STRANGER):
        assert secret.encode() not in reply.body
        assert secret not in text
    assert reply["details"].startswith("ValueError: bad key agent_*** and ***")
    assert "Traceback" in text, "the log has what the caller is not told"


@pytest.mark.parametrize(
    "text",
    [
        f"?api_key={KEY}",
        f"?API_KEY={KEY}&x=1",
        "?apikey=short",
        "?token=abc",
        "access_token=abc",
        "password=abc",
        f"x{KEY}",
        f"{KEY}{KEY}",
        f"/{HEX}/",
        "X-API-Key: abc",
        "{'X-Api-Key': 'abc'}",
        "Authorization: Bearer abc",
        "told: Bearer abcdefghij",
        "key sk-ant-api03-abcdefghijklmnop refused",
        "Cookie: a=abc",
        "/bot123456789:abcdefghijklmnopqrstuvwxyz-_0123/getMe",
        "/bot123456789%3Aabcdefghijklmnopqrstuvwxyz-_0123/getMe",
    ],
)
def test_secrets_are_known_by_their_form_and_by_their_place(text: str) -> None:
    found = scrub(text)
    for secret in (KEY, HEX, "abc", "short"):
        assert secret not in found
    assert "***" in found


@pytest.mark.parametrize(
    "text",
    [
        *("/api/remote/chats/1/status", "agent_api_key", "deadbeef", "tokens", "a=b&c=d"),
        *("/task-management-of-many-things", "mytoken=abc", "agentd-manage-keys", "sk-short"),
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert scrub(text) == text


@given(
    before=st.text("x:/\n\r\t\x1b\u2028\u202e\x00 ", max_size=5),
    joint=st.sampled_from(
        (" ", "\n", "\t", "\x1b", "\u2028", "_", "/", "%20", "%2F", "%0a", "\\n")
    ),
    secret=st.sampled_from(
        (KEY, HEX, MANAGEMENT_KEY, ACCESS_KEY, "Bearer abcdefghij", "token=abc")
    ),
)
def test_no_separator_hides_the_begin_of_a_secret(before: str, joint: str, secret: str) -> None:
    text = f"{before}{joint}{secret}"
    record = logging.LogRecord("x", logging.INFO, "", 0, "said %s", (text,), None)
    try:
        raise ValueError(text)
    except ValueError:
        failed = LogFormatter().formatException(sys.exc_info())
    shown = scrub(escape_unprintable(text)), scrub(repr(text))
    for told in (LogFormatter().format(record), str(_make_line(text)), failed, *shown):
        assert secret not in told
        assert "***" in told


# One event, one line.

NASTY = "\n\r\x00\x1b[2J\x7f\x85\x9b\u2028\u2029\u202e\u2066\u200b\ufeff\ud800"


@pytest.mark.parametrize("character", NASTY)
def test_what_moves_a_cursor_or_turns_writing_around_is_escaped(character: str) -> None:
    if character.isascii() and character.isprintable():
        return
    line = str(_make_line(f"/a{character}b"))
    assert character not in line
    record = logging.LogRecord("x", logging.INFO, "", 0, "said %s", (character,), None)
    assert character not in LogFormatter().format(record)


def _make_line(path: str, caller: str = "key:x") -> AccessLogLine:
    return AccessLogLine(
        "2026-01-01T00:00:00.000Z", "127.0.0.1", caller, "GET", path, 200, 0.1, "id"
    )


@settings(deadline=None)
@given(path=st.text(alphabet=st.characters()), caller=st.text(alphabet=st.characters()))
def test_an_access_line_is_one_printable_line(path: str, caller: str) -> None:
    line = str(_make_line(path, caller))
    assert len(line.splitlines()) == 1
    assert all(unicodedata.category(one)[0] != "C" for one in line)
    assert escape_unprintable(line) == line


@pytest.mark.parametrize("inject", ["%0a", "%0d%0aX: y", "%1b[31m", "\x85x", "\xad", "\xa0"])
def test_no_path_can_forge_a_line(log: io.StringIO, serve: Serve, inject: str) -> None:
    daemon = serve()
    send_raw(daemon.port, build_request("GET", f"/a{inject}FORGED", LAST))
    daemon.client().get("/healthz")
    lines = [line for line in stop_and_read_log(daemon, log).split("\n") if "127.0.0.1 " in line]
    assert len(lines) == 2
    assert not any(line.startswith("FORGED") for line in lines)
    assert all(line.isascii() and line.isprintable() for line in lines)


def test_a_traceback_stays_below_its_line(log: io.StringIO) -> None:
    try:
        raise ValueError("a\nERROR forged: line\x1b[31m")
    except ValueError:
        logging.getLogger("agentd.test").exception("it\nfailed")
    first, *rest = log.getvalue().splitlines()
    assert first == r"ERROR agentd.test: it\nfailed"
    assert len(rest) > 2
    assert all(line.startswith("  | ") for line in rest)
    assert "\x1b" not in log.getvalue()


def test_text_of_a_caller_reaches_no_header(client: Client) -> None:
    """Response splitting: CR and LF in what is stored or asked never end a header."""
    evil = "x\r\nSet-Cookie: a=b\r\n\r\n<html>"
    chat = client.create_chat(title=evil)
    replies = [
        client.get(f"{CHATS}/{chat}/status"),
        client.get(f"{CHATS}/{quote(evil)}/status"),
        client.get(f"{CHATS}/{chat}/messages?since={quote(evil)}"),
    ]
    for reply in replies:
        assert "Set-Cookie" not in reply.headers
    assert replies[0]["title"] == evil

"""Hostile and broken input: a clear refusal, and nothing changes."""

import gzip
import json
import select
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.daemon import (
    KEY,
    PATIENCE,
    Client,
    Reply,
    Serving,
    build_request,
    parse_replies,
    read_journals,
    read_until_close,
    send_raw,
    until,
)
from tests.support.examples import limit_examples
from tests.support.fixtures import Serve

CHATS = "/api/remote/chats"
LAST = "Connection: close"


@pytest.fixture
def chat(caller: Client) -> int:
    """A chat with one paused prompt."""
    chat = caller.create_chat()
    caller.put(f"{CHATS}/{chat}/queue", {"prompts": [{"prompt": "p", "isPaused": True}]})
    return chat


@pytest.fixture(autouse=True)
def unchanged(request: pytest.FixtureRequest) -> Iterator[None]:
    """After a test that uses ``chat``, all journals are as they were before it."""
    if "chat" not in request.fixturenames:
        yield
        return
    request.getfixturevalue("chat")
    shared: Serving = request.getfixturevalue("shared")
    before = read_journals(shared.layout)
    yield
    assert read_journals(shared.layout) == before


def list_body_endpoints(chat: int) -> list[tuple[str, str]]:
    """List every endpoint that reads a body."""
    return [
        ("POST", CHATS),
        ("POST", f"{CHATS}/{chat}/queue"),
        ("PUT", f"{CHATS}/{chat}/queue/1"),
        ("PUT", f"{CHATS}/{chat}/queue"),
    ]


DEEP = 100_000
NO_JSON = {
    "nothing": b"",
    "blank": b" \n",
    "cut": b'{"prompt":"p"',
    "two": b'{"prompt":"p"}{}',
    "a comment": b'{"prompt":"p"} // x',
    "a comma": b'{"prompt":"p",}',
    "single quotes": b"{'prompt':'p'}",
    "deep lists": b"[" * DEEP,
    "deep objects": b'{"a":' * DEEP,
    "deep and whole": b"[" * DEEP + b"]" * DEEP,
    "deep where unknown": b'{"prompt":"p","prompts":[],"x":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "NaN": b'{"prompt":"p","prompts":[],"x":NaN}',
    "Infinity": b'{"prompt":"p","prompts":[],"x":Infinity}',
    "-Infinity": b'{"prompt":"p","prompts":[],"x":-Infinity}',
    "5,000 digits": b'{"prompt":"p","prompts":[],"x":' + b"9" * 5000 + b"}",
    "-5,000 digits": b'{"prompt":"p","prompts":[],"x":-' + b"9" * 5000 + b"}",
    "invalid UTF-8": b'{"prompt":"\xff","prompts":[]}',
    "Latin-1": '{"prompt":"\u00e4","prompts":[]}'.encode("latin1"),
    "encoded surrogate": b'{"prompt":"\xed\xa0\x80","prompts":[]}',
    "UTF-16": '{"prompt":"p","prompts":[]}'.encode("utf-16"),
    "UTF-16 without BOM": '{"prompt":"p","prompts":[]}'.encode("utf-16-le"),
    "UTF-32": '{"prompt":"p","prompts":[]}'.encode("utf-32"),
    "BOM": b'\xef\xbb\xbf{"prompt":"p","prompts":[]}',
    "NUL": b'{"prompt":"p","prompts":[]}\0',
    "raw control": b'{"prompt":"a\x01b","prompts":[]}',
    "a key twice": b'{"prompt":"p","prompt":"p","prompts":[],"prompts":[]}',
    "an unknown key twice": b'{"prompt":"p","prompts":[],"x":1,"x":1}',
    "gzip": b"\x1f\x8b\x08\x00" + b"\0" * 30,
    "a form": b"prompt=p&prompts=",
    "binary": bytes(range(256)),
}


@pytest.mark.parametrize("body", NO_JSON.values(), ids=list(NO_JSON))
def test_what_is_not_sound_json_is_a_bad_request(caller: Client, chat: int, body: bytes) -> None:
    """Specification 7, row 'BadRequest': bad request body."""
    for method, path in list_body_endpoints(chat):
        reply = caller.send(method, path, body)
        assert (reply.status, reply["error"]) == (400, "BadRequest")
        assert len(reply.body) < 1000


def test_a_body_that_is_missing_is_reported_as_such(caller: Client) -> None:
    assert caller.send("POST", CHATS, b"")["message"] == "The body is empty"


SURROGATES = [r"\ud800", r"\udfff", r"a\ud83dz", r"\udc00\ud800"]


@pytest.mark.parametrize("text", [*SURROGATES, r"a\u0000b"])
def test_lone_surrogates_and_nul_are_no_text(caller: Client, chat: int, text: str) -> None:
    bodies = [
        ("POST", CHATS, '{"prompt":"%s"}'),
        ("POST", CHATS, '{"title":"%s"}') if text in SURROGATES else None,
        ("POST", CHATS, '{"systemPrompt":"%s"}') if text in SURROGATES else None,
        ("POST", CHATS, '{"model":"%s"}') if text in SURROGATES else None,
        ("POST", CHATS, '{"skill":"%s"}'),
        ("POST", f"{CHATS}/{chat}/queue", '{"prompt":"%s"}'),
        ("PUT", f"{CHATS}/{chat}/queue/1", '{"prompt":"%s"}'),
        ("PUT", f"{CHATS}/{chat}/queue", '{"prompts":[{"prompt":"%s"}]}'),
    ]
    for method, path, body in filter(None, bodies):
        assert caller.send(method, path, (body % text).encode()).status == 400


@pytest.mark.parametrize("field", ["prompt", "title", "model", "skill", "systemPrompt", "botId"])
@pytest.mark.parametrize("value", [7, 1.5, True, [], {}, ["x"]])
def test_a_wrong_type_is_a_bad_request_that_names_its_path(
    caller: Client, chat: int, field: str, value: object
) -> None:
    """Specification 2, 'Chat creation request body': every field is a string."""
    reply = caller.post(CHATS, {field: value})
    assert (reply.status, reply["error"]) == (400, "BadRequest")
    assert f"$.{field}" in reply["details"]


@pytest.mark.parametrize(
    ("element", "path"),
    [
        ({"prompt": "p", "id": True}, "$.prompts[1].id"),
        ({"prompt": "p", "id": "7"}, "$.prompts[1].id"),
        ({"prompt": "p", "id": 2**53}, "$.prompts[1].id"),
        ({"prompt": "p", "isPaused": 1}, "$.prompts[1].isPaused"),
        ({"prompt": "p", "isPaused": "true"}, "$.prompts[1].isPaused"),
        ({"prompt": 7}, "$.prompts[1].prompt"),
        ({}, "$.prompts[1]"),
    ],
)
def test_a_wrong_element_is_named(caller: Client, chat: int, element: object, path: str) -> None:
    reply = caller.put(f"{CHATS}/{chat}/queue", {"prompts": [{"prompt": "p"}, element]})
    assert reply.status == 400
    assert path in reply["details"]


@pytest.mark.parametrize("where", ["id", "float"])
def test_numbers_of_5000_digits_are_refused_where_numbers_count(
    caller: Client, chat: int, where: str
) -> None:
    number = "9" * 5000 + (".5" if where == "float" else "")
    body = '{"prompts":[{"prompt":"p","id":' + number + "}]}"
    assert caller.put(f"{CHATS}/{chat}/queue", body.encode()).status == 400
    assert caller.get(f"{CHATS}/{'9' * 5000}/status").status == 404
    assert caller.get(f"{CHATS}/{chat}/status?wait={number}").status == 400
    assert caller.get(f"{CHATS}/{chat}/messages?since={number}").status == 200


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "text/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/xml",
        "application/json; charset=utf-16",
        "application/json; charset=latin1",
        "application/jsonx",
        "*/*",
        "x",
        "",
    ],
)
def test_a_body_of_another_type_is_refused(caller: Client, chat: int, kind: str) -> None:
    """A page of a stranger can send these without being asked; JSON it cannot."""
    for method, path in list_body_endpoints(chat):
        body = b'{"prompt":"p","prompts":[]}'
        reply = caller.send(method, path, body, {"Content-Type": kind})
        assert (reply.status, reply["error"]) == (415, "UnsupportedMediaType")


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "br", "identity, gzip"])
def test_a_compressed_body_is_refused_as_such(caller: Client, chat: int, coding: str) -> None:
    packed = gzip.compress(b'{"prompt":"p","prompts":[]}')
    for method, path in list_body_endpoints(chat):
        reply = caller.send(method, path, packed, {"Content-Encoding": coding})
        assert (reply.status, reply["error"]) == (415, "UnsupportedMediaType")
        assert "compressed" in reply["message"]


@pytest.mark.parametrize("coding", ["", "identity", "Identity"])
def test_a_body_that_is_said_not_to_be_compressed_is_taken(caller: Client, coding: str) -> None:
    assert caller.send("POST", CHATS, b"{}", {"Content-Encoding": coding}).status == 201


@pytest.mark.parametrize(
    "kind",
    ["application/json", "Application/JSON", 'application/json; charset="UTF-8"', None],
)
def test_json_by_any_spelling_is_taken(caller: Client, kind: str | None) -> None:
    lines = [LAST] if kind is None else [LAST, f"Content-Type: {kind}"]
    (reply,) = send_raw(_get_port(caller), build_request("POST", CHATS, *lines, body=b"{}"))
    assert reply.status == 201


def _get_port(client: Client) -> int:
    return int(client.url.rsplit(":", 1)[1])


# Size.


@pytest.mark.parametrize("size", [1024 * 1024 + 1, 10 * 1024 * 1024])
def test_a_large_body_is_refused_and_the_connection_stays_usable(
    caller: Client, chat: int, size: int
) -> None:
    for method, path in list_body_endpoints(chat):
        reply = caller.send(method, path, b'{"x":"' + b"x" * size)
        assert (reply.status, reply["error"]) == (413, "TooLarge")
        assert reply.headers["Connection"] != "close"
        assert caller.get("/healthz").status == 200


def test_a_large_chunked_body_is_refused(shared: Serving, chat: int) -> None:
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    head = build_request("POST", CHATS, "Transfer-Encoding: chunked", LAST)
    (reply,) = send_raw(shared.port, head + chunk * 160 + b"0\r\n\r\n")
    assert (reply.status, reply["error"]) == (413, "TooLarge")


def test_a_body_of_just_the_limit_is_read(caller: Client, chat: int) -> None:
    body = b'{"prompt":"' + b" " * (1024 * 1024 - 13) + b'"}'
    assert len(body) == 1024 * 1024
    assert caller.post(CHATS, body).status == 400


@pytest.mark.parametrize("length", [str(2**40), "9" * 15, "9" * 500])
def test_a_giant_is_refused_before_its_body(shared: Serving, chat: int, length: str) -> None:
    data = build_request("POST", CHATS, f"Content-Length: {length}")
    (reply, *_) = send_raw(shared.port, data)
    assert (reply.status, reply["error"]) == (413, "TooLarge")
    assert reply.headers["Connection"] == "close"


def test_a_client_that_waits_to_be_asked_for_a_large_body_is_not_asked(
    shared: Serving, chat: int
) -> None:
    data = build_request("POST", CHATS, "Expect: 100-continue", "Content-Length: 2000000")
    assert [reply.status for reply in send_raw(shared.port, data)] == [413]


def test_a_body_without_end_is_cut_off(shared: Serving, chat: int) -> None:
    for key in (KEY, "bad"):
        with socket.create_connection(("127.0.0.1", shared.port), timeout=PATIENCE) as connection:
            connection.sendall(build_request("POST", CHATS, "Transfer-Encoding: chunked", key=key))
            chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
            sent = 0
            with pytest.raises(ConnectionError):
                while sent < 500:
                    connection.sendall(chunk)
                    sent += 1
            assert sent < 100, "megabytes were taken in for nothing"


# What is hardly HTTP.

GARBAGE = [
    b"nonsense\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET /healthz\r\n\r\n",
    b"GET /healthz HTTP/9.9\r\nHost: localhost\r\n\r\n",
    b"GET  /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"G\xe9T / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nNo colon\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nBlank : x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n",
    b"GET / HTTP/1.1\r\n Host: localhost\r\n\r\n",
    b"\0\0\0\0\r\n\r\n",
    b"{}\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]


@pytest.mark.parametrize("data", GARBAGE)
def test_what_is_not_http_is_refused_in_the_envelope(
    shared: Serving, chat: int, data: bytes
) -> None:
    """Specification 7: every error body has the form."""
    (reply,) = send_raw(shared.port, data)
    assert (reply.status, reply["error"]) == (400, "BadRequest")
    assert reply.headers["Connection"] == "close"
    assert reply.headers["X-Request-Id"]


TOO_MUCH = {
    "many headers": (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 20_000, 431),
    "one long header": (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 100_000, 431),
    "a long address": (b"GET /" + b"y" * 100_000 + b" HTTP/1.1\r\nHost: localhost", 414),
    "a megabyte": (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 1_000_000, 431),
}
KINDS_OF_EXCESS = {431: "HeadersTooLarge", 414: "UriTooLong"}


@pytest.mark.parametrize("piece", [1_000, 2_000_000], ids=["in pieces", "at once"])
@pytest.mark.parametrize(("head", "status"), TOO_MUCH.values(), ids=list(TOO_MUCH))
def test_a_head_over_64_kib_is_refused_so_that_its_sender_receives_it(
    shared: Serving, head: bytes, status: int, piece: int
) -> None:
    """Also a client that reads only once it has sent everything gets the whole answer."""
    head += b"\r\n\r\n"
    with socket.create_connection(("127.0.0.1", shared.port), timeout=PATIENCE) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for begin in range(0, len(head), piece):
            connection.sendall(head[begin : begin + piece])
        (reply,) = parse_replies(read_until_close(connection))
    assert (reply.status, reply["error"]) == (status, KINDS_OF_EXCESS[status])
    assert "65536 bytes" in reply["details"]
    assert reply.headers["Connection"] == "close"
    assert reply.headers["X-Request-Id"]


def test_a_head_that_just_fits_is_read(shared: Serving) -> None:
    head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: "
    head += b"y" * (64 * 1024 - len(head) - 4) + b"\r\n\r\n"
    (reply,) = send_raw(shared.port, head)
    assert reply.status == 200


def test_a_head_that_is_too_long_after_other_requests_ends_the_connection(shared: Serving) -> None:
    good = build_request("GET", "/healthz")
    answers = send_raw(shared.port, good + good + TOO_MUCH["many headers"][0] + good)
    assert [answer.status for answer in answers] == [200, 200, 431]


def test_a_line_between_chunks_that_is_too_long_is_refused(shared: Serving) -> None:
    data = build_post(
        "Transfer-Encoding: chunked", body=b"2;" + b"x" * 500_000 + b"\r\n{}\r\n0\r\n\r\n"
    )
    (reply,) = send_raw(shared.port, data)
    assert (reply.status, reply["error"]) == (400, "BadRequest")


def test_what_is_not_http_is_refused_audibly_however_much_follows(shared: Serving) -> None:
    (reply,) = send_raw(shared.port, b"{}\r\n\r\n" + b"x" * 2_000_000)
    assert (reply.status, reply["error"]) == (400, "BadRequest")


def build_post(*lines: str, body: bytes = b"") -> bytes:
    """Build a request to create a chat, with these header lines about its body."""
    head = ["POST /api/remote/chats HTTP/1.1", "Host: localhost", f"X-API-Key: {KEY}", *lines]
    return "\r\n".join([*head, "", ""]).encode("latin1") + body


SMUGGLED = b"GET /api/remote/bots HTTP/1.1\r\nHost: localhost\r\n\r\n"
SMUGGLING = {
    "TE and CL": build_post("Transfer-Encoding: chunked", "Content-Length: 4", body=b"0\r\n\r\n"),
    "CL and TE": build_post("Content-Length: 4", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
    "two lengths": build_post("Content-Length: 2", "Content-Length: 3", body=b"{}"),
    "plus": build_post("Content-Length: +2", body=b"{}"),
    "minus": build_post("Content-Length: -2", body=b"{}"),
    "underscore": build_post("Content-Length: 1_0", body=b"{}" * 5),
    "hexadecimal": build_post("Content-Length: 0x2", body=b"{}"),
    "blank inside": build_post("Content-Length: 1 0", body=b"{}" * 5),
    "Arabic digit": build_post("Content-Length: \u00b2", body=b"{}"),
    "a list": build_post("Content-Length: 2,3", body=b"{}"),
    "TE unknown": build_post("Transfer-Encoding: gzip", body=b"0\r\n\r\n"),
    "TE twice": build_post("Transfer-Encoding: chunked", "Transfer-Encoding: x", body=b"0\r\n\r\n"),
    "TE identity": build_post("Transfer-Encoding: identity, chunked", body=b"0\r\n\r\n"),
    "chunk plus": build_post("Transfer-Encoding: chunked", body=b"+2\r\n{}\r\n0\r\n\r\n"),
    "chunk 0x": build_post("Transfer-Encoding: chunked", body=b"0x2\r\n{}\r\n0\r\n\r\n"),
    "chunk minus": build_post("Transfer-Encoding: chunked", body=b"-2\r\n{}\r\n0\r\n\r\n"),
    "chunk without end": build_post("Transfer-Encoding: chunked", body=b"2\r\n{}XX0\r\n\r\n"),
    "chunk of nothing": build_post("Transfer-Encoding: chunked", body=b"\r\n{}\r\n0\r\n\r\n"),
    "chunk extension": build_post("Transfer-Encoding: chunked", body=b"2;\n{}\r\n02\r\n0\r\n\r\n"),
    "trailer": build_post("Transfer-Encoding: chunked", body=b"2\r\n{}\r\n0\r\nA:\n\n\r\n\r\n"),
    "TE of HTTP/1.0": build_post(
        "Connection: keep-alive", "Transfer-Encoding: chunked", body=b"2\r\n{}\r\n0\r\n\r\n"
    ).replace(b"HTTP/1.1", b"HTTP/1.0"),
    "folded": build_post("Transfer-Encoding:\r\n chunked", "Content-Length: 2", body=b"{}"),
}


@pytest.mark.parametrize("data", SMUGGLING.values(), ids=list(SMUGGLING))
def test_a_body_of_two_lengths_is_refused_and_what_follows_is_never_a_request(
    shared: Serving, chat: int, data: bytes
) -> None:
    answers = send_raw(shared.port, data + SMUGGLED)
    assert [answer.status for answer in answers] == [400]


@pytest.mark.parametrize(
    "lines",
    [
        ["Host: localhost", "Host: localhost"],
        ["Host: localhost", "Host: evil.example"],
        ["Host: evil.example", "Host: localhost"],
        [],
    ],
)
@pytest.mark.parametrize("target", ["/healthz", "http://localhost/healthz"])
def test_two_hosts_or_none_are_refused(shared: Serving, lines: list[str], target: str) -> None:
    head = [f"GET {target} HTTP/1.1", LAST, *lines, "", ""]
    (reply,) = send_raw(shared.port, "\r\n".join(head).encode())
    assert reply.status in (400, 421)


@pytest.mark.parametrize(
    ("authority", "host", "status"),
    [
        ("localhost:8750", "localhost", 200),
        ("localhost", "evil.example", 200),
        ("evil.example", "localhost", 421),
        ("localhost@evil.example", "localhost", 421),
        ("", "localhost", 421),
    ],
)
def test_a_whole_address_as_the_target_is_read_and_its_host_counts(
    shared: Serving, authority: str, host: str, status: int
) -> None:
    """RFC 9112, section 3.2.2: a server accepts it, and ignores the header."""
    head = [f"GET http://{authority}/healthz?x=1 HTTP/1.1", LAST, f"Host: {host}", "", ""]
    (reply,) = send_raw(shared.port, "\r\n".join(head).encode())
    assert reply.status == status


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8750",
        "localhost:",
        "LOCALHOST",
        "127.0.0.1",
        "127.0.0.1:1",
        "127.9.9.9",
        "[::1]",
        "[::1]:8750",
        "my.box",
        "MY.BOX:80",
    ],
)
def test_this_host_by_any_of_its_names_is_served(serve: Serve, host: str) -> None:
    reply = serve(hosts=("my.box",)).client().get("/healthz", {"Host": host})
    assert reply.status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "rebind.evil.example:8750",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.example#localhost",
        "localhost@evil.example",
        "localhost, localhost",
        "192.0.2.1",
        "0x7f000001",
        "2130706433",
        "0177.0.0.1",
        "127.1",
        "0",
        "::1",
        "[::1",
        "[evil.example]",
        "[::1]x",
        "localhost:x",
        "localhost:80:80",
        "localhost:\u00b2",
        "localhost:+1",
        "[::ffff:192.0.2.1]",
        "localhost/",
        "localhost\\",
        "xn--localhost",
        ".",
        "",
    ],
)
def test_a_strangers_name_for_this_host_is_refused(caller: Client, host: str) -> None:
    """DNS rebinding: a page of a stranger reaches this machine under the stranger's name."""
    for path in ("/healthz", "/api/remote/bots", "/x"):
        reply = caller.get(path, {"Host": host})
        assert (reply.status, reply["error"]) == (421, "Misdirected")


@pytest.mark.parametrize(
    "spelling",
    [
        "/api/remote/chats/\u00d9\u00a3/status",
        "/api/remote/chats/%D9%A3/status",
        "/api/remote/chats/1%2Fstatus",
        "/api/remote/chats/%31/status",
        "/api/remote/chats/1%00/status",
        "/api/remote/chats/1;x/status",
        "/api/remote/chats/1/status;x",
        "/api/remote/chats/1/status/",
        "/api/remote/chats/1//status",
        "/api/remote/chats/./1/status",
        "/api/remote/chats/../chats/1/status",
        "/api/remote/chats/1/../1/status",
        "/api/remote/chats/ 1/status",
        "/api/remote/chats/+1/status",
        "/api/remote/chats/1_0/status",
        "/api/remote/chats/1\u00b2/status",
        "//api/remote/chats/1/status",
        "/API/remote/chats/1/status",
        "/api/remote/chats/1/STATUS",
        "/api/remote\\chats/1/status",
        "/api%2Fremote/chats/1/status",
        "api/remote/chats/1/status",
        "*",
        "/healthz/",
        "/healthz%00",
        "/" + "a" * 50_000,
        "/" * 50_000,
    ],
)
def test_a_path_has_one_spelling(shared: Serving, chat: int, spelling: str) -> None:
    (reply,) = send_raw(shared.port, build_request("GET", spelling, LAST))
    assert reply.status in (400, 404)


# Time.


def test_a_slow_body_holds_nobody_up(shared: Serving, chat: int) -> None:
    slow = [
        socket.create_connection(("127.0.0.1", shared.port), timeout=PATIENCE) for _ in range(50)
    ]
    for connection in slow:
        connection.sendall(build_request("POST", CHATS, "Content-Length: 12"))
        connection.sendall(b"{")
    client = shared.client()
    for _ in range(20):
        assert client.get("/healthz").status == 200
    assert not select.select(slow, [], [], 0)[0], "they are still waited for"
    for connection in slow:
        connection.close()


def test_half_a_head_is_hung_up_on(monkeypatch: pytest.MonkeyPatch, serve: Serve) -> None:
    monkeypatch.setattr("agentd.http.context.HEAD_TIMEOUT", 0.1)
    port = serve().port
    for half in (b"", b"GET", b"GET / HTTP/1.1\r\nHost: localhost\r\n"):
        assert send_raw(port, half) == []


def test_half_a_body_is_hung_up_on(monkeypatch: pytest.MonkeyPatch, serve: Serve) -> None:
    monkeypatch.setattr("agentd.http.context.BODY_TIMEOUT", 0.1)
    daemon = serve()
    assert send_raw(daemon.port, build_request("POST", CHATS, "Content-Length: 100") + b"{") == []
    chunked = build_request("POST", CHATS, "Transfer-Encoding: chunked") + b"5\r\n{"
    assert send_raw(daemon.port, chunked) == []
    assert read_journals(daemon.layout) == {}


# By chance.

values: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.just(" "),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["prompt", "prompts", "id", "isPaused", "title", "model", "skill", "x"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@settings(
    max_examples=limit_examples(120),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(door=st.integers(0, 3), body=values | st.fixed_dictionaries({"prompts": values}))
def test_no_body_breaks_anything_and_a_refused_one_changes_nothing(
    shared: Serving, caller: Client, door: int, body: Any
) -> None:
    method, path = list_body_endpoints(1)[door]
    before = read_journals(shared.layout)
    reply: Reply = caller.send(method, path, json.dumps(body).encode())
    assert reply.status in (200, 201, 400, 404)
    if reply.status >= 400:
        assert read_journals(shared.layout) == before


@settings(max_examples=limit_examples(150), deadline=None, derandomize=True)
@given(data=st.binary(max_size=200))
def test_no_bytes_break_the_server(shared: Serving, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", shared.port), timeout=PATIENCE) as connection:
        connection.sendall(data + b"\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        for reply in parse_replies(read_until_close(connection)):
            assert reply.status < 500
    assert until(lambda: shared.client(None).get("/healthz").status == 200)


@pytest.mark.parametrize("value", ["True", "1", "yes", ""])
def test_a_misspelt_yes_is_no_no(client: Client, value: str) -> None:
    """Who revokes a leaked key with its children, or signs out everywhere, is told of a mistake."""
    assert client.post("/api/keys", {"name": "leaked"}).status in (201, 409)
    for path in ("/api/keys/leaked?children", "/api/session?everywhere"):
        reply = client.delete(f"{path}={value}")
        assert reply.status == 400
        assert "must be true or false" in reply["message"]
    assert "leaked" in str(client.get("/api/keys").json())

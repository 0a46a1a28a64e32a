"""Where requests and bodies end, however their bytes arrive, and what is refused as ambiguous."""

import re
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tornado.httputil import HTTPHeaders, HTTPInputError

from agentd.http.framing import (
    END_OF_REQUEST,
    MAX_HEAD_BYTES,
    ChunkedBody,
    EndOfRequest,
    FixedBody,
    HeadTooLong,
    ParsedHead,
    RequestParser,
    TargetTooLong,
    parse_head,
)

REST = b"GET /next HTTP/1.1\r\n\r\n"


def build_head(*lines: str, version: str = "HTTP/1.1") -> bytes:
    return "\r\n".join([f"POST /path?q=1 {version}", "Host: here", *lines, "", ""]).encode()


def encode_chunks(chunks: list[bytes], extension: bytes = b"", trailers: bytes = b"") -> bytes:
    lines = [b"%x%b\r\n%b\r\n" % (len(chunk), extension, chunk) for chunk in chunks if chunk]
    return b"".join([*lines, b"0%b\r\n" % extension, trailers, b"\r\n"])


def feed(body: ChunkedBody | FixedBody, data: bytes, cuts: list[int]) -> tuple[bytes, bytes]:
    """Feed data in the pieces between cuts; return the body's data, and what is left over."""
    buffer, found = bytearray(), b""
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for begin, end in pairwise(places):
        buffer += data[begin:end]
        before = -1
        while len(buffer) != before and not body.is_complete:
            before = len(buffer)
            found += body.take(buffer)
    return found, bytes(buffer)


@given(
    st.lists(st.binary(max_size=300)),
    st.lists(st.integers(0, 100_000), max_size=30),
    st.sampled_from([b"", b";name=value", b' ; a="b"']),
    st.sampled_from([b"", b"Checksum: 1\r\n"]),
)
def test_a_chunked_body_is_the_same_however_it_arrives(chunks, cuts, extension, trailers):
    body = ChunkedBody()
    found, rest = feed(body, encode_chunks(chunks, extension, trailers) + REST, cuts)
    assert found == b"".join(chunks)
    assert body.is_complete
    assert rest == REST


@given(st.binary(max_size=2000), st.lists(st.integers(0, 100_000), max_size=30))
def test_a_body_of_known_length_is_the_same_however_it_arrives(data, cuts):
    body = FixedBody(len(data))
    assert feed(body, data + REST, cuts) == (data, REST)
    assert body.is_complete


@given(st.binary(max_size=500), st.data())
def test_a_body_that_is_cut_off_is_not_complete(data, draw):
    whole = encode_chunks([data])
    body = ChunkedBody()
    feed(body, whole[: draw.draw(st.integers(0, len(whole) - 1))], [])
    assert not body.is_complete


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=10))
def test_bytes_that_are_no_chunks_end_in_an_error_or_wait_for_more(data, cuts):
    try:
        found, rest = feed(ChunkedBody(), data, cuts)
    except HTTPInputError:
        return
    assert len(found) + len(rest) <= len(data)


@pytest.mark.parametrize(
    "data",
    [
        *(b"+2\r\n{}\r\n", b"0x2\r\n{}\r\n", b"-2\r\n{}\r\n", b"2\r\n{}XX\r\n", b"\r\n{}\r\n"),
        *(b"2_0\r\n", b"2" + b" " * 300 + b"\r\n", b"f" * 16 + b"\r\n"),
        b"0\r\n" + b"A: b\r\n" * 3000,
    ],
)
def test_a_chunk_of_doubtful_size_is_refused(data: bytes) -> None:
    with pytest.raises(HTTPInputError):
        feed(ChunkedBody(), data, [])


@pytest.mark.parametrize(
    "data",
    [
        b"2;\nxx\r\n45\r\n0\r\n\r\n",
        b"2;a=\x00b\r\n{}\r\n0\r\n\r\n",
        b"2;\ra\r\n{}\r\n0\r\n\r\n",
        b"0\r\nA: b\n\nGET /next HTTP/1.1\r\n\r\n",
        b"0\r\nA: b\rc\r\n\r\n",
    ],
)
def test_a_line_between_chunks_that_others_could_end_elsewhere_is_refused(data: bytes) -> None:
    with pytest.raises(HTTPInputError):
        feed(ChunkedBody(), data, [])


def test_tiny_chunks_are_taken_some_at_a_time() -> None:
    buffer = bytearray(b"1\r\nx\r\n" * 40_000)
    body = ChunkedBody()
    taken = body.take(buffer)
    assert 0 < len(taken) < 1_000
    assert feed(body, bytes(buffer), [])[0] == b"x" * (40_000 - len(taken))


def test_a_whole_part_of_a_body_is_taken_without_a_copy_and_never_more() -> None:
    body = FixedBody(5)
    assert body.take_whole(b"abc")
    assert not body.take_whole(b"def")
    assert body.take_whole(b"de")
    assert body.is_complete
    assert not ChunkedBody().take_whole(b"2\r\n{}\r\n")


@pytest.mark.parametrize(
    "lines",
    [
        ("Transfer-Encoding: chunked", "Content-Length: 4"),
        ("Transfer-Encoding: gzip",),
        ("Transfer-Encoding: gzip, chunked",),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
        ("Content-Length: 2", "Content-Length: 2"),
        ("Content-Length: 2,2",),
        ("Content-Length: +2",),
        ("Content-Length: -2",),
        ("Content-Length: 1_0",),
        ("Content-Length: 0x2",),
        ("Content-Length: \u00b2",),
        ("Content-Length:",),
    ],
)
def test_a_body_of_ambiguous_length_is_refused(lines: tuple[str, ...]) -> None:
    with pytest.raises(HTTPInputError):
        parse_head(build_head(*lines))


def test_a_body_of_http_1_0_does_not_come_in_chunks() -> None:
    with pytest.raises(HTTPInputError):
        parse_head(build_head("Transfer-Encoding: chunked", version="HTTP/1.0"))


@pytest.mark.parametrize(
    ("lines", "length"),
    [
        ((), 0),
        (("Content-Length: 0",), 0),
        (("Content-Length: 0042",), 42),
        (("Transfer-Encoding: Chunked",), None),
        ((f"Content-Length: {'9' * 60_000}",), 10**18),
    ],
)
def test_the_length_of_a_body_is_that_of_its_head(
    lines: tuple[str, ...], length: int | None
) -> None:
    assert parse_head(build_head(*lines)).length == length


@pytest.mark.parametrize(
    ("version", "wish", "keeps_alive"),
    [
        ("HTTP/1.1", None, True),
        ("HTTP/1.1", "keep-alive", True),
        ("HTTP/1.1", "Close", False),
        ("HTTP/1.1", "foo, close", False),
        ("HTTP/1.1", "Upgrade", True),
        ("HTTP/1.0", None, False),
        ("HTTP/1.0", "Keep-Alive", True),
        ("HTTP/1.0", "close", False),
    ],
)
def test_a_connection_is_kept_as_version_and_client_say(
    version: str, wish: str | None, keeps_alive: bool
) -> None:
    lines = [f"Connection: {wish}"] if wish else []
    assert parse_head(build_head(*lines, version=version)).keeps_alive is keeps_alive


def test_a_head_keeps_what_was_sent() -> None:
    head = b"\r\n" + build_head("X: a", "x: b")
    message = parse_head(head)
    assert message.start_line == ("POST", "/path?q=1", "HTTP/1.1")
    assert message.headers["X"] == "a,b"


@pytest.mark.parametrize(
    ("target", "host", "path"),
    [
        ("http://here.example:8750/v1/models?limit=1", "here.example:8750", "/v1/models?limit=1"),
        ("HTTPS://[::1]/", "[::1]", "/"),
        ("http://here.example", "here.example", "/"),
        ("http://here.example?q=1", "here.example", "/?q=1"),
        ("http:///path", "", "/path"),
        ("/http://here.example/", "there", "/http://here.example/"),
    ],
)
def test_the_host_of_a_target_replaces_that_of_the_headers(
    target: str, host: str, path: str
) -> None:
    head = parse_head(f"GET {target} HTTP/1.1\r\nHost: there\r\n\r\n".encode())
    assert head.start_line == ("GET", path, "HTTP/1.1")
    assert head.headers["Host"] == host


@pytest.mark.parametrize(
    ("lines", "version", "expects"),
    [
        (["Expect: 100-continue"], "HTTP/1.1", True),
        (["expect: 100-Continue"], "HTTP/1.1", True),
        (["Expect: something-else"], "HTTP/1.1", False),
        (["Expect: 100-continue"], "HTTP/1.0", False),
        ([], "HTTP/1.1", False),
    ],
)
def test_a_client_may_wait_to_be_asked_for_the_body(
    lines: list[str], version: str, *, expects: bool
) -> None:
    assert parse_head(build_head(*lines, version=version)).expects_continue is expects


PIECES = st.sampled_from(
    [
        "Host",
        ":",
        " ",
        "\t",
        "\r",
        "\n",
        "\r\n",
        "a",
        "X-Y",
        "x-y: 1\r\n",
        "\0",
        "\x7f",
        "\x0b",
        "é",
        "ÿ",
        "",
    ]
)


@given(st.lists(PIECES, max_size=30).map("".join))
def test_headers_are_understood_as_tornado_understands_them(text: str) -> None:
    head = f"GET / HTTP/1.1\r\n{text}\r\n\r\n"
    lines = head[head.index("\n") :]
    first_end = re.search("\r?\n\r?\n", head)
    assert first_end
    head, lines = head[: first_end.end()], lines[: first_end.end() - head.index("\n")]
    try:
        expected = list(HTTPHeaders.parse(lines).get_all())
    except HTTPInputError:
        with pytest.raises(HTTPInputError):
            parse_head(head.encode("latin-1"))
        return
    assert list(parse_head(head.encode("latin-1")).headers.get_all()) == expected


@pytest.mark.parametrize(
    "line", ["X:" + " " * 60_000 + "\0", "X: " + "a " * 30_000 + "\0", "X" * 60_000, ": " * 30_000]
)
def test_a_hostile_head_is_refused_in_linear_time(line: str) -> None:
    began = time.process_time()
    with pytest.raises(HTTPInputError):
        parse_head(build_head(line))
    assert time.process_time() - began < 1


# Requests out of the bytes of a connection.


def read_events(
    parser: RequestParser, pieces: list[bytes]
) -> list[ParsedHead | bytes | EndOfRequest]:
    """Return all events; the parts of a body together, as their boundaries mean nothing."""
    found: list[ParsedHead | bytes | EndOfRequest] = []
    for piece in pieces:
        parser.feed(piece)
        while (event := parser.next_event()) is not None:
            if event is END_OF_REQUEST:
                parser.begin_next()
            if isinstance(event, bytes) and found and isinstance(found[-1], bytes):
                found[-1] += event
            else:
                found.append(event)
    return found


REQUESTS = st.lists(st.tuples(st.booleans(), st.binary(max_size=400)), max_size=4)


@given(REQUESTS, st.lists(st.integers(0, 100_000), max_size=30))
def test_the_requests_of_a_connection_are_the_same_however_they_arrive(requests, cuts):
    data = b""
    for is_chunked, body in requests:
        if is_chunked:
            data += build_head("Transfer-Encoding: chunked") + encode_chunks([body])
        else:
            data += build_head(f"Content-Length: {len(body)}") + body
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    events = read_events(RequestParser(), [data[one:other] for one, other in pairwise(places)])
    assert [event for event in events if isinstance(event, bytes)] == [
        body for _, body in requests if body
    ]
    assert sum(event is END_OF_REQUEST for event in events) == len(requests)


def test_many_lines_after_the_last_chunk_do_not_hold_the_request_up() -> None:
    trailers = b"a:\r\n" * 1500
    parser = RequestParser()
    parser.feed(build_head("Transfer-Encoding: chunked") + encode_chunks([], trailers=trailers))
    assert isinstance(parser.next_event(), ParsedHead)
    assert parser.next_event() is END_OF_REQUEST


def test_the_next_request_waits_until_this_one_is_answered() -> None:
    parser = RequestParser()
    parser.feed(build_head() * 2)
    assert isinstance(parser.next_event(), ParsedHead)
    assert parser.next_event() is END_OF_REQUEST
    assert parser.is_complete
    assert parser.next_event() is None
    parser.begin_next()
    assert isinstance(parser.next_event(), ParsedHead)


def test_a_part_of_a_body_that_comes_alone_is_passed_on_as_it_is() -> None:
    parser = RequestParser()
    parser.feed(build_head("Content-Length: 6"))
    parser.next_event()
    data, rest = bytes(bytearray(b"abc")), b"def"
    parser.feed(data)
    parser.feed(rest)
    assert parser.waiting_bytes == 6
    assert parser.next_event() is data
    assert (parser.next_event(), parser.next_event()) == (rest, END_OF_REQUEST)


@pytest.mark.parametrize("size", [1, 1000, MAX_HEAD_BYTES * 3])
@pytest.mark.parametrize(
    ("begin", "error"),
    [(b"GET / HTTP/1.1\r\nX: ", HeadTooLong), (b"GET /", TargetTooLong)],
)
def test_a_head_that_is_too_long_is_refused(
    begin: bytes, error: type[HTTPInputError], size: int
) -> None:
    parser = RequestParser()
    parser.feed(begin + b"y" * (MAX_HEAD_BYTES - len(begin)))
    assert parser.next_event() is None
    parser.feed(b"y" * size)
    with pytest.raises(error):
        parser.next_event()


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x02", b"\r\n\x16", b" GET /", b"\0", b"{"])
def test_bytes_that_begin_no_request_are_refused_before_more_comes(data: bytes) -> None:
    parser = RequestParser()
    parser.feed(data)
    with pytest.raises(HTTPInputError):
        parser.next_event()


PIECES = (b"\r", b"\n", b"\x16", b"G", b"ET / HTTP/1.1", b"\r\n\r\n", b" ", b"Host: here")


@given(st.lists(st.sampled_from(PIECES), max_size=12), st.lists(st.integers(0, 1000), max_size=8))
def test_bytes_are_refused_however_they_arrive(pieces, cuts):
    data = b"".join(pieces)
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})

    def list_events(parts):
        try:
            return [type(event) for event in read_events(RequestParser(), parts)]
        except HTTPInputError:
            return "refused"

    parts = [data[one:other] for one, other in pairwise(places)]
    assert list_events(parts) == list_events([data])


@pytest.mark.parametrize("data", [b"\r", b"\r\n", b"G", b"\r\nPOST /"])
def test_what_may_become_a_request_waits_for_more(data: bytes) -> None:
    parser = RequestParser()
    parser.feed(data)
    assert parser.next_event() is None


@pytest.mark.parametrize("end", [b"\r\n\r\n", b"\n\n", b"\r\n\n", b"\n\r\n"])
def test_a_line_may_end_without_a_carriage_return(end: bytes) -> None:
    parser = RequestParser()
    parser.feed(b"GET / HTTP/1.1\r\nHost: here" + end + b"rest")
    event = parser.next_event()
    assert isinstance(event, ParsedHead)
    assert event.headers["Host"] == "here"
    assert parser.take_rest() == b"rest"

"""Suppliers are called over HTTP/1.1, whatever they do to a caller."""

import asyncio
import gc
import gzip
import os
import socket
import ssl
import threading
import tracemalloc
import zlib

import pytest
import trustme

from agentd.core.errors import BadRequest, SupplierUnreachable, TooLarge
from agentd.llm.upstream.client import HttpUpstream
from agentd.llm.upstream.connection import ResponseLimits, UpstreamConnection
from agentd.llm.upstream.protocol import Timeouts, UpstreamRequest
from tests.conftest import until
from tests.support.loopback import (
    OK,
    PATIENT,
    advance_loop_clock,
    answer_each,
    answer_once,
    supplier,
)

ABC = OK + b"Content-Length: 3\r\n\r\nabc"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def fetch(behave, limits=None, **request):
    async def run():
        async with supplier(behave, limits=limits) as there:
            return await there.fetch(**request)

    return asyncio.run(run())


def fetch_failing(behave, limits=None, **request) -> SupplierUnreachable:
    with pytest.raises(SupplierUnreachable) as caught:
        fetch(behave, limits, **request)
    assert "localhost" in caught.value.message
    assert caught.value.host.startswith("localhost:")
    return caught.value


@pytest.mark.parametrize(
    "answer",
    [
        ABC,
        CHUNKED + b"1\r\na\r\n2;x=y\r\nbc\r\n0\r\nTrailer: t\r\n\r\n",
        OK + b"\r\nabc",
        b"HTTP/1.0 200 OK\r\n\r\nabc",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ABC,
    ],
    ids=["content-length", "chunked", "until close", "1.0", "1xx"],
)
def test_a_body_is_read_however_it_is_framed(answer):
    status, headers, body = fetch(answer_once(answer))
    assert (status, body) == (200, b"abc")
    assert "link" not in headers
    assert "trailer" not in headers


@pytest.mark.parametrize("cut", range(0, len(CHUNKED + b"3\r\nabc\r\n0\r\n\r\n"), 3))
def test_an_answer_may_come_in_any_pieces(cut):
    answer = CHUNKED + b"3\r\nabc\r\n0\r\n\r\n"

    async def behave(line):
        await line.read_request()
        line.say(answer[:cut])
        await line.writer.drain()
        await asyncio.sleep(0)
        line.say(answer[cut:])
        await line.wait_until_cut()

    assert fetch(behave)[2] == b"abc"


def test_what_is_sent():
    async def behave(line):
        request = await line.read_request()
        line.say(OK + b"Content-Length: %d\r\n\r\n" % len(request) + request)

    head, _, body = fetch(behave, path="/v1/x?y=%20", body=b'{"a":1}', X_Key="k")[2].partition(
        b"\r\n\r\n"
    )
    first, *headers = head.split(b"\r\n")
    assert first == b"POST /v1/x?y=%20 HTTP/1.1"
    assert b"accept-encoding: identity" in headers
    assert b"content-length: 7" in headers
    assert b"X_Key: k" in headers
    assert any(header.startswith(b"host: localhost:") for header in headers)
    assert body == b'{"a":1}'


@pytest.mark.parametrize(
    ("answer", "method"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", "POST"),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", "GET"),
        (OK + b"Content-Length: 3\r\n\r\n", "HEAD"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n", "HEAD"),
        (OK + b"Content-Length: 0\r\n\r\n", "POST"),
    ],
)
def test_an_answer_without_a_body_ends_at_its_head_and_keeps_the_connection(answer, method):
    async def run():
        async with supplier(answer_each(answer)) as there:
            for _ in range(3):
                assert (await there.fetch(method, body=b""))[2] == b""
            assert len(there.lines) == 1

    asyncio.run(run())


def test_headers_come_in_lower_case_and_repeated_ones_joined():
    _, headers, _ = fetch(answer_once(OK + b"X-A: 1\r\nx-a: \xe4 \r\nContent-Length: 0\r\n\r\n"))
    assert headers == {"x-a": "1, ä", "content-length": "0"}


def test_redirects_are_not_followed():
    answer = b"HTTP/1.1 302 Found\r\nLocation: http://localhost/\r\nContent-Length: 0\r\n\r\n"
    assert fetch(answer_once(answer))[0] == 302


def test_each_piece_is_reported_as_it_comes():
    async def run():
        async def behave(line):
            await line.read_request()
            line.say(CHUNKED)
            while True:
                await go.wait()
                go.clear()
                line.say(b"1\r\na\r\n" * 3)

        go = asyncio.Event()
        async with supplier(behave) as there, there.send() as response:
            chunks = response.iter_chunks()
            for _ in range(5):
                go.set()
                assert await anext(chunks) == b"aaa"

    asyncio.run(run())


def test_a_connection_is_kept_only_after_a_sound_end():
    async def run(answer, connections, *, read=True):
        async with supplier(answer_each(answer)) as there:
            for _ in range(3):
                async with there.send() as response:
                    if read:
                        assert await response.read() == b"abc"
            assert len(there.lines) == connections

    asyncio.run(run(ABC, 1))
    asyncio.run(run(CHUNKED + b"3\r\nabc\r\n0\r\n\r\n", 1))
    asyncio.run(run(CHUNKED + b"3\r\nabc\r\n", 3, read=False))
    asyncio.run(run(OK + b"Content-Length: 3\r\nConnection: close\r\n\r\nabc", 3))
    asyncio.run(run(ABC + b"unasked", 3))
    asyncio.run(run(ABC + ABC, 3))


def test_a_body_where_there_must_be_none_ends_the_connection():
    async def run():
        async with supplier(answer_each(ABC)) as there:
            for _ in range(2):
                assert (await there.fetch("HEAD", body=b""))[2] == b""
            assert len(there.lines) == 2

    asyncio.run(run())


def test_connections_at_the_same_time_are_different_ones_and_all_kept():
    async def run():
        async with supplier(answer_each(ABC)) as there:
            for _ in range(3):
                answers = await asyncio.gather(*(there.fetch() for _ in range(8)))
                assert {body for _, _, body in answers} == {b"abc"}
            assert len(there.lines) == 8

    asyncio.run(run())


def test_what_a_supplier_says_unasked_ends_its_kept_connection():
    async def run():
        async def behave(line):
            await line.read_request()
            line.say(ABC)
            if line.number == 0:
                await go.wait()
                line.say(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
                await line.wait_until_cut()
                left.set()
            await line.wait_until_cut()

        go, left = asyncio.Event(), asyncio.Event()
        async with supplier(behave) as there:
            await there.fetch()
            go.set()
            await left.wait()
            assert (await there.fetch())[0] == 200

    asyncio.run(run())


@pytest.mark.parametrize("how", ["hang_up", "cut"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_only_what_changes_nothing_is_asked_again_after_a_kept_connection_died(how, method):
    async def run():
        async def behave(line):
            bodies.append((await line.read_request()).partition(b"\r\n\r\n")[2])
            line.say(ABC)
            if line.number == 0:
                bodies.append((await line.read_request()).partition(b"\r\n\r\n")[2])
                getattr(line, how)()
            await line.wait_until_cut()

        bodies = []
        async with supplier(behave) as there:
            await there.fetch(method, body=b"first")
            if method == "GET":
                assert (await there.fetch(method, body=b"second"))[2] == b"abc"
                assert bodies == [b"first", b"second", b"second"]
            else:
                with pytest.raises(SupplierUnreachable, match="without an answer"):
                    await there.fetch(method, body=b"second")
                assert bodies == [b"first", b"second"]

    asyncio.run(run())


def test_a_kept_connection_that_was_closed_meanwhile_is_not_used_though_nobody_noticed():
    closed, bodies = threading.Event(), []

    def serve(listener):
        for _ in range(2):
            line, _ = listener.accept()
            with line:
                bodies.append(line.recv(65536).partition(b"\r\n\r\n")[2])
                line.sendall(ABC)
            closed.set()

    async def run():
        upstream = HttpUpstream()
        url = f"http://localhost:{listener.getsockname()[1]}/"
        for body in (b"first", b"second"):
            async with upstream.send(UpstreamRequest("POST", url, {}, body, PATIENT)) as response:
                assert await response.read() == b"abc"
            assert closed.wait(60)  # the loop stands still: it sees no close
        await upstream.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        asyncio.run(run())
        thread.join()
    assert bodies == [b"first", b"second"]


def test_anyone_who_reads_an_answer_that_is_let_go_of_has_what_had_come():
    """As a stream whose key is taken away in the very moment of its end."""

    async def run():
        async def behave(line):
            await line.read_request()
            line.say(OK + b"Content-Length: 6\r\n\r\nabc")
            await line.wait_until_cut()

        async with supplier(behave) as there:
            response = await there.upstream.open(
                UpstreamRequest("POST", there.url, {}, b"", PATIENT)
            )
            chunks = response.iter_chunks()
            assert await anext(chunks) == b"abc"
            reading = asyncio.ensure_future(anext(chunks, b""))
            await asyncio.sleep(0)
            response._connection.data_received(b"def")
            response.close()
            assert await reading == b"def"
            with pytest.raises(SupplierUnreachable, match="not listened to"):
                await anext(chunks)

    asyncio.run(run())


@pytest.mark.parametrize("said", [b"", b"H", OK])
def test_a_call_is_never_repeated_on_a_new_connection_or_after_the_first_byte(said):
    async def run():
        async def behave(line):
            await line.read_request()
            if kept and line.number == 0:
                line.say(ABC)
                await line.read_request()
            calls.append(line.number)
            line.say(said)
            line.hang_up()

        calls, kept = [], bool(said)
        async with supplier(behave) as there:
            if kept:
                await there.fetch()
            with pytest.raises(SupplierUnreachable, match="without an answer"):
                await there.fetch()
            assert calls == [0]

    asyncio.run(run())


def test_a_slow_answer_over_a_kept_connection_is_not_asked_for_again():
    async def run():
        async def behave(line):
            await line.read_request()
            line.say(ABC)
            await line.read_request()
            calls.append(line.number)
            await line.wait_until_cut()

        calls = []
        async with supplier(behave) as there:
            await there.fetch()
            with pytest.raises(SupplierUnreachable, match="did not answer"):
                await there.fetch(timeouts=Timeouts(head=0.05))
            await until(lambda: calls)
            assert calls == [0]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("said", "timeouts", "stage", "words"),
    [
        (b"", Timeouts(head=0.05), "head", "did not answer: nothing came for 0.05 s"),
        (OK + b"X: ", Timeouts(head=0.05), "head", "did not answer"),
        (CHUNKED, Timeouts(idle=0.05), "body", "stopped in the middle of its answer"),
        (CHUNKED + b"3\r\nab", Timeouts(idle=0.05), "body", "stopped in the middle of its answer"),
    ],
)
def test_each_stage_has_its_patience(said, timeouts, stage, words):
    async def behave(line):
        await line.read_request()
        line.say(said)
        await line.wait_until_cut()

    error = fetch_failing(behave, timeouts=timeouts)
    assert error.stage == stage
    assert words in error.message


def test_an_answer_that_does_not_begin_within_the_total_is_cut_off_at_it():
    async def behave(line):
        await line.read_request()
        advance_loop_clock(61)
        await line.wait_until_cut()

    error = fetch_failing(behave, timeouts=Timeouts(total=60))
    assert error.stage == "head"
    assert "longer than it may in total" in error.message


@pytest.mark.parametrize("said", [b"", b"1\r\na\r\n"], ids=["nothing", "a little"])
def test_a_supplier_that_says_something_now_and_then_is_cut_off_at_the_total(said):
    async def behave(line):
        await line.read_request()
        line.say(CHUNKED)
        while True:
            line.say(said)
            await asyncio.sleep(0.01)

    async def run():
        timeouts = Timeouts(total=60)
        async with supplier(behave) as there, there.send(timeouts=timeouts) as response:
            advance_loop_clock(61)
            with pytest.raises(SupplierUnreachable, match="longer than it may in total") as caught:
                await response.read()
            assert caught.value.stage == "body"

    asyncio.run(run())


def test_only_the_time_in_which_a_reader_waits_counts_as_idle():
    async def run():
        async def behave(line):
            await line.read_request()
            line.say(CHUNKED + b"1\r\na\r\n")
            await go.wait()
            line.say(b"1\r\nb\r\n0\r\n\r\n")
            await line.wait_until_cut()

        go = asyncio.Event()
        async with supplier(behave) as there, there.send(timeouts=Timeouts(idle=60)) as response:
            chunks = response.iter_chunks()
            assert await anext(chunks) == b"a"
            advance_loop_clock(61)  # the reader is busy elsewhere
            await asyncio.sleep(0.001)  # whatever is due by then is done before
            go.set()
            assert [piece async for piece in chunks] == [b"b"]

    asyncio.run(run())


def test_what_came_in_time_counts_though_we_ourselves_stood_still_beyond_it():
    async def behave(line):
        await line.read_request()
        line.say(CHUNKED + b"1\r\na\r\n")
        advance_loop_clock(61)
        await asyncio.sleep(0.001)
        line.say(b"0\r\n\r\n")

    assert fetch(behave, timeouts=Timeouts(head=60, idle=60))[2] == b"a"


def test_tls_that_never_answers_is_a_connection_that_does_not_come_about():
    async def run():
        async def behave(line):
            await line.wait_until_cut()

        async with supplier(behave) as there:
            there.url = there.url.replace("http:", "https:")
            with pytest.raises(SupplierUnreachable, match=r"within 0\.05 s") as caught:
                await there.fetch(timeouts=Timeouts(connect=0.05))
            assert caught.value.stage == "connect"

    asyncio.run(run())


@pytest.mark.parametrize(
    "said",
    [CHUNKED + b"3\r\nab", CHUNKED + b"3\r\nabc\r\n", OK + b"Content-Length: 9\r\n\r\nabc"],
)
@pytest.mark.parametrize("how", ["hang_up", "cut"])
def test_an_answer_that_breaks_off_says_so_after_what_came(said, how):
    async def run():
        async def behave(line):
            await line.read_request()
            line.say(said)
            await line.writer.drain()
            await go.wait()
            getattr(line, how)()

        go = asyncio.Event()
        async with supplier(behave) as there, there.send() as response:
            got = b""
            with pytest.raises(SupplierUnreachable, match="in the middle") as caught:
                async for piece in response.iter_chunks():
                    got += piece
                    go.set()
            assert got.startswith(b"ab")
            assert caught.value.stage == "body"

    asyncio.run(run())


def test_an_answer_until_the_close_is_whole_only_if_the_close_is_proper():
    async def run():
        async def behave(line):
            await line.read_request()
            line.say(OK + b"\r\nabc")
            await go.wait()
            line.cut()

        go = asyncio.Event()
        async with supplier(behave) as there, there.send() as response:
            chunks = response.iter_chunks()
            assert await anext(chunks) == b"abc"
            go.set()
            with pytest.raises(SupplierUnreachable, match="in the middle"):
                await anext(chunks)

    asyncio.run(run())


def test_what_comes_after_a_whole_answer_does_not_spoil_it():
    async def run():
        async def behave(line):
            await line.read_request()
            line.say(ABC)
            await go.wait()
            line.say(b"x" * 200_000)
            await line.wait_until_cut()
            left.set()

        go, left = asyncio.Event(), asyncio.Event()
        async with supplier(behave) as there, there.send() as response:
            go.set()
            await left.wait()
            assert await response.read() == b"abc"

    asyncio.run(run())


def test_a_connection_that_is_closed_before_anything_is_asked_fails_at_once():
    async def run():
        async def behave(line):
            line.hang_up()

        async with supplier(behave) as there:
            port = int(there.url.rpartition(":")[2])
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: UpstreamConnection("localhost", ResponseLimits(), lambda lost: None),
                "127.0.0.1",
                port,
            )
            await connection.gone
            with pytest.raises(SupplierUnreachable, match="at once"):
                await connection.send_request(b"", bodiless=False, timeouts=Timeouts(), end=1e9)

    asyncio.run(run())


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"\x15\x03\x01\x00\x02",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nBad Header: x\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
        CHUNKED + b"zz\r\nabc",
    ],
)
def test_what_is_no_http_is_reported_as_that(answer):
    assert "does not speak HTTP/1.1" in fetch_failing(answer_once(answer)).message


SMALL = ResponseLimits(head=1000, body=1000)


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"X: " + b"x" * 2000,
        OK + b"X: x\r\n" * 300 + b"\r\n",
        OK + b"X: " + b"x" * 1500 + b"\r\nContent-Length: 1\r\n\r\na",
        b"HTTP/1.1 103 Early Hints\r\n\r\n" * 50,
        CHUNKED + b"1\r\na\r\n0\r\nX: " + b"x" * 2**21,
        CHUNKED + b"1;" + b"x" * 2**21,
    ],
    ids=["endless", "many", "long", "interim", "trailer", "extension"],
)
def test_a_giant_head_is_refused(answer):
    assert "head of more than 1000 bytes" in fetch_failing(answer_once(answer), SMALL).message


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"\r\n" + b"x" * 1001,
        CHUNKED + b"10\r\n0123456789abcdef\r\n" * 100,
        OK + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"x" * 100_000),
    ],
    ids=["until close", "chunked", "compressed"],
)
def test_a_giant_body_is_refused(answer):
    assert "body of more than 1000 bytes" in fetch_failing(answer_once(answer), SMALL).message


def test_many_small_chunks_are_no_giant_head():
    body = b"1\r\na\r\n" * 5000
    assert (
        fetch(answer_once(CHUNKED + body + b"0\r\n\r\n"), ResponseLimits(head=1000))[2]
        == b"a" * 5000
    )


def test_reading_whole_has_a_limit_of_its_own():
    async def run():
        async with supplier(answer_once(ABC)) as there, there.send() as response:
            with pytest.raises(TooLarge, match="2 bytes"):
                await response.read(limit=2)

    asyncio.run(run())


TEXT = b"data: a long word\n\n" * 40_000


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        (b"gzip", gzip.compress(TEXT, mtime=0)),
        (b"x-gzip", gzip.compress(TEXT[:100]) + gzip.compress(TEXT[100:])),
        (b"deflate", zlib.compress(TEXT)),
        (b"identity", TEXT),
    ],
)
def test_a_compressed_answer_is_understood_though_nobody_asked_for_it(encoding, body):
    head = OK + b"Content-Encoding: %b\r\nContent-Length: %d\r\n\r\n" % (encoding, len(body))
    _, headers, got = fetch(answer_once(head + body))
    assert got == TEXT
    assert ("content-encoding" in headers) == (encoding == b"identity")


@pytest.mark.parametrize(
    ("encoding", "body", "words"),
    [
        (b"gzip", gzip.compress(TEXT)[:-9], "truncated"),
        (b"gzip", b"no gzip", "cannot be decompressed"),
        (b"br", b"...", "'br'"),
    ],
)
def test_a_compression_that_cannot_be_undone_is_reported(encoding, body, words):
    head = OK + b"Content-Encoding: %b\r\nContent-Length: %d\r\n\r\n" % (encoding, len(body))
    assert words in fetch_failing(answer_once(head + body)).message


def test_a_supplier_has_to_wait_for_a_slow_reader():
    async def run():
        async def behave(line):
            await line.read_request()
            line.say(OK + b"\r\n")
            for _ in range(1024):
                line.say(b"x" * 65536)
                await line.writer.drain()
                sent.append(65536)
            line.hang_up()

        sent = []
        async with supplier(behave) as there, there.send() as response:
            before = -1
            while before != len(sent):  # until nothing moves any more
                before = len(sent)
                await asyncio.sleep(0.1)
            assert sum(sent) < 32 * 2**20
            largest = total = 0
            async for piece in response.iter_chunks():
                largest, total = max(largest, len(piece)), total + len(piece)
            assert total == 64 * 2**20
            assert largest < 2 * 2**20

    asyncio.run(run())


@pytest.mark.parametrize("when", ["head", "body"])
def test_cancelling_cuts_the_connection_at_once(when):
    async def run():
        async def behave(line):
            await line.read_request()
            if when == "body":
                line.say(CHUNKED + b"1\r\na\r\n")
            asked.set()
            await line.wait_until_cut()
            left.set()

        asked, left = asyncio.Event(), asyncio.Event()
        async with supplier(behave) as there:
            task = asyncio.create_task(there.fetch(timeouts=Timeouts()))
            await asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with asyncio.timeout(20):
                await left.wait()

    asyncio.run(run())


def test_leaving_early_cuts_the_connection_at_once():
    async def run():
        async def behave(line):
            await line.read_request()
            line.say(CHUNKED + b"1\r\na\r\n")
            await line.wait_until_cut()
            left.set()

        left = asyncio.Event()
        async with supplier(behave) as there:
            async with there.send() as response:
                assert await anext(response.iter_chunks()) == b"a"
            async with asyncio.timeout(20):
                await left.wait()

    asyncio.run(run())


def test_an_answer_before_the_request_is_sent_counts_but_ends_the_connection():
    async def run():
        async def behave(line):
            await line.reader.readuntil(b"\r\n\r\n")
            line.say(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
            await go.wait()
            await line.wait_until_cut()

        go = asyncio.Event()
        async with supplier(behave) as there:
            for _ in range(2):
                assert (await there.fetch(body=b"x" * 2**24))[0] == 413
            assert len(there.lines) == 2
            go.set()

    asyncio.run(run())


def test_nobody_there_and_no_such_name_are_reported_apart():
    async def run(url):
        upstream = HttpUpstream()
        with pytest.raises(SupplierUnreachable) as caught:
            async with upstream.send(
                UpstreamRequest("GET", url, {"authorization": "Bearer sk-1"}, timeouts=PATIENT)
            ):
                pass
        assert "sk-1" not in str(caught.value) + repr(caught.value)
        return caught.value

    error = asyncio.run(run("http://127.0.0.1:1/?key=sk-1"))
    assert (error.stage, error.host) == ("connect", "127.0.0.1:1")
    assert error.message == "127.0.0.1:1 cannot be connected to: Connection refused"
    error = asyncio.run(run("https://no-such-host.invalid/?key=sk-1"))
    assert (error.stage, error.host) == ("name", "no-such-host.invalid")


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        ("ftp://host/", {}),
        ("http:///x", {}),
        ("http://host:99999/", {}),
        ("http://user:sk-1@host/", {}),
        ("http://host/a b?sk-1", {}),
        ("http://host/ä?sk-1", {}),
        ("http://[::1/", {}),
        ("http://" + "a" * 70 + ".com/", {}),
        ("http://host/", {"X-A": "sk-1\r\nX-B: c"}),
        ("http://host/", {"X-A": "sk-1\0"}),
        ("http://host/", {"X A": "sk-1"}),
        ("http://host/", {"X-A": "sk-1 €"}),
        ("http://host/", {"Content-Length": "1"}),
        ("http://host/", {"Host": "sk-1"}),
    ],
)
def test_a_request_that_cannot_be_sent_is_refused_without_its_secrets(url, headers):
    async def run():
        async with HttpUpstream().send(UpstreamRequest("POST", url, headers)):
            pass

    with pytest.raises(BadRequest) as caught:
        asyncio.run(run())
    assert "sk-1" not in caught.value.message


def test_a_request_is_shown_without_its_secrets():
    request = UpstreamRequest("POST", "http://host/p?key=sk-1", {"x-api-key": "sk-1"}, b"sk-1")
    assert repr(request) == "UpstreamRequest(POST http://host/p, 4 bytes)"


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


def build_server_context(authority, name):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name).configure_cert(context)
    return context


def test_tls_to_a_trusted_supplier_streams_and_is_kept(authority):
    async def run():
        trusting = ssl.create_default_context()
        authority.configure_trust(trusting)
        served = build_server_context(authority, "localhost")
        async with supplier(answer_each(ABC), serving=served, calling=trusting) as there:
            for _ in range(3):
                assert (await there.fetch())[2] == b"abc"
            assert len(there.lines) == 1

    asyncio.run(run())


@pytest.mark.parametrize("name", ["localhost", "elsewhere.test"])
def test_tls_to_anybody_else_is_refused(authority, name):
    async def run():
        trusting = None
        if name != "localhost":
            trusting = ssl.create_default_context()
            authority.configure_trust(trusting)
        served = build_server_context(authority, name)
        async with supplier(answer_each(ABC), serving=served, calling=trusting) as there:
            with pytest.raises(SupplierUnreachable, match="no certificate that is trusted") as e:
                await there.fetch()
            assert e.value.stage == "tls"

    asyncio.run(run())


def test_a_supplier_without_tls_is_reported_as_that():
    async def behave(line):
        line.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await line.wait_until_cut()

    async def run():
        async with supplier(behave) as there:
            there.url = there.url.replace("http:", "https:")
            with pytest.raises(SupplierUnreachable, match="does not speak TLS") as caught:
                await there.fetch()
            assert caught.value.stage == "tls"

    asyncio.run(run())


def count_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_thousand_calls_leave_neither_memory_nor_descriptors_behind():
    async def behave(line):
        count = 0
        while True:
            await line.read_request()
            count += 1
            line.say(ABC if line.number % 2 else CHUNKED + b"3\r\nabc\r\n0\r\n\r\n")
            if count == 7:
                line.hang_up()
                return

    async def run():
        async with supplier(behave) as there:
            for _ in range(50):
                await there.fetch()
            gc.collect()  # what the tests before left behind is none of ours
            base = count_descriptors()
            tracemalloc.start()
            for _ in range(1000):
                assert (await there.fetch())[2] == b"abc"
                del there.lines[:-1], there.tasks[:-1]
            gc.collect()
            grown, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            await until(lambda: count_descriptors() <= base + 2)
            assert grown < 200_000
            await there.upstream.close()
            assert not there.upstream._open
            assert not there.upstream._idle

    before = count_descriptors()
    asyncio.run(run())
    assert count_descriptors() <= before


def test_a_kept_connection_is_closed_after_a_while(monkeypatch):
    async def run():
        async def behave(line):
            await line.read_request()
            line.say(ABC)
            await line.wait_until_cut()
            left.set()

        left = asyncio.Event()
        async with supplier(behave) as there:
            await there.fetch()
            await left.wait()
            assert not there.upstream._idle

    monkeypatch.setattr("agentd.llm.upstream.client.IDLE_SECONDS", 0.02)
    asyncio.run(run())


def test_a_connection_that_is_to_be_secured_is_over_though_nobody_waits_for_it(monkeypatch):
    begun, may_end = threading.Event(), threading.Event()

    def slow():
        begun.set()
        assert may_end.wait(60)
        return ssl.create_default_context()

    monkeypatch.setattr("agentd.llm.upstream.client._get_default_tls_context", slow)

    async def run():
        async with supplier(answer_once(ABC)) as there:
            caller = HttpUpstream()
            connection = await caller.open_tcp(there.url, PATIENT)
            securing = asyncio.create_task(caller.open_tls(there.url, connection, PATIENT))
            await until(begun.is_set)
            securing.cancel()
            await asyncio.wait([securing])
            may_end.set()
            assert connection.fileno() == -1

    asyncio.run(run())


@pytest.mark.parametrize(
    ("variables", "url", "told"),
    [
        ({"HTTPS_PROXY": "http://user:pw@proxy:3128"}, "http://api.example/", "HTTPS_PROXY"),
        ({"all_proxy": "socks5://proxy"}, "http://api.example/", "all_proxy"),
        ({}, "http://api.example/", ""),
        ({"HTTPS_PROXY": "http://proxy:3128"}, "http://127.0.0.1:9/", ""),
    ],
)
@pytest.mark.parametrize("problem", [OSError("no route"), socket.gaierror(-2, "unknown")])
def test_who_has_a_proxy_in_the_environment_is_told_that_it_is_not_used(
    monkeypatch, variables, url, told, problem
):
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    async def dial(*_):
        raise problem

    async def run():
        async with HttpUpstream(dial=dial).send(UpstreamRequest("GET", url)):
            pass

    with pytest.raises(SupplierUnreachable) as caught:
        asyncio.run(run())
    message = caught.value.message
    assert (
        (f"{told} of the environment is not used" in message)
        if told
        else "not used" not in (message)
    )
    assert "pw" not in message

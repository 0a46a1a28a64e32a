"""Subscriptions are fetched from public hosts, in time, and in small portions only."""

import asyncio
import gzip
from contextlib import asynccontextmanager

import pytest

from agentd.core.errors import BadRequest, SupplierUnreachable
from agentd.gateway.vpn import fetch as subscription_module
from agentd.gateway.vpn.fetch import Subscriptions
from agentd.storage.yaml.untrusted import parse_untrusted_yaml as yaml
from tests.support.loopback import OK, supplier

LINK = "trojan://s3cret@h.test:443#n"
BODY = OK + b"Subscription-Userinfo: total=7\r\nContent-Length: %d\r\n\r\n" % len(LINK)
BODY += LINK.encode()


def build_redirect(to: str, status=302) -> bytes:
    head = b"HTTP/1.1 %d Moved\r\nContent-Length: 0\r\nLocation: " % status
    return head + to.encode() + b"\r\n\r\n"


def fetch_subscription(url: str, *, local=True):
    return asyncio.run(Subscriptions(yaml).read(url, local=local))


@asynccontextmanager
async def answering_server(*answers: bytes):
    """A server that gives these answers, one after the other; ``heard`` are the requests."""
    heard = []

    async def behave(line):
        heard.append(await line.read_request())
        line.say(answers[min(line.number, len(answers) - 1)])
        line.hang_up()

    async with supplier(behave) as there:
        yield there, heard


def fetch_from_server(*answers: bytes):
    async def run():
        async with answering_server(*answers) as (there, heard):
            return await Subscriptions(yaml).read(f"{there.url}/s3cret", local=True), heard

    return asyncio.run(run())


def get_refusal(*answers: bytes) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        fetch_from_server(*answers)
    assert "s3cret" not in caught.value.message
    return caught.value


def test_a_subscription_is_fetched_with_its_traffic():
    found, heard = fetch_from_server(BODY)
    assert [one.name for one in found.servers] == ["n"]
    assert found.traffic.total == 7
    assert b"user-agent: Clash.Meta" in heard[0]


def test_a_link_needs_no_network():
    assert fetch_subscription(LINK).servers[0].host == "h.test"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed(status):
    found, heard = fetch_from_server(
        build_redirect("/there", status), build_redirect("elsewhere", status), BODY
    )
    assert [request.split(b" ")[1] for request in heard] == [b"/s3cret", b"/there", b"/elsewhere"]
    assert found.servers


def test_three_redirects_are_followed_and_no_fourth():
    again = build_redirect("/s3cret")
    assert fetch_from_server(again, again, again, BODY)[0].servers
    assert "more than 3" in get_refusal(again, again, again, again, BODY).message


@pytest.mark.parametrize("to", ["", "file:///etc/passwd", "ss://s3cret@h:1", "http://[", "//[::1"])
def test_a_redirect_to_what_is_no_address_is_refused(to):
    get_refusal(build_redirect(to), BODY)


def test_a_redirect_from_https_to_http_is_refused():
    with pytest.raises(BadRequest, match="not encrypted"):
        subscription_module._resolve_redirect("https://a.test/x", "http://a.test/x")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "[::1]", "169.254.169.254"])
def test_an_address_inside_is_refused_unless_it_is_allowed(host):
    async def run():
        async with answering_server(BODY) as (there, heard):
            port = there.url.rpartition(":")[2]
            with pytest.raises(BadRequest, match="local: true") as caught:
                await Subscriptions(yaml).read(f"http://{host}:{port}/s3cret", local=False)
            assert "s3cret" not in caught.value.message
            assert not heard

    asyncio.run(run())


def test_each_redirect_is_looked_at_again(monkeypatch):
    """The first hop is let through here, as a public one would be: the next one is not."""
    asked = []

    def direct(*, local):
        async def dial(host, port):
            asked.append(host)
            return await (through if host == "public.test" else guarded)("localhost", port)

        through, guarded = real(local=True), real(local=local)
        return dial

    real = subscription_module.dial_directly
    monkeypatch.setattr(subscription_module, "dial_directly", direct)

    async def run():
        async with answering_server(build_redirect("http://inside.test/"), BODY) as (there, heard):
            port = there.url.rpartition(":")[2]
            with pytest.raises(BadRequest, match="not public"):
                await Subscriptions(yaml).read(f"http://public.test:{port}/", local=False)
            assert asked == ["public.test", "inside.test"]
            assert len(heard) == 1

    asyncio.run(run())


@pytest.mark.parametrize("status", [b"404 Not Found", b"500 Oh", b"204 No Content", b"304 Same"])
def test_another_answer_than_200_is_reported(status):
    answer = b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n"
    assert status[:3].decode() in get_refusal(answer).message


def test_more_than_2_mib_is_refused():
    assert "larger than 2097152" in get_refusal(OK + b"\r\n" + b"#" * (2**21 + 1)).message


def test_a_subscription_that_does_not_come_in_time_is_reported(monkeypatch):
    monkeypatch.setattr(subscription_module, "FETCH_SECONDS", 0.2)

    async def send_slowly(line):
        await line.read_request()
        line.say(OK + b"\r\n")
        while True:
            line.say(b"#")
            await asyncio.sleep(0.01)

    async def run():
        async with supplier(send_slowly) as there:
            with pytest.raises(SupplierUnreachable) as caught:
                await Subscriptions(yaml).read(f"{there.url}/s3cret", local=True)
            assert "s3cret" not in caught.value.message

    asyncio.run(run())


def test_what_is_no_subscription_is_refused():
    get_refusal(OK + b"\r\n<html>s3cret</html>")


def test_nobody_there_is_reported_without_the_address():
    with pytest.raises(SupplierUnreachable) as caught:
        fetch_subscription("http://127.0.0.1:1/s3cret")
    assert "s3cret" not in caught.value.message


@pytest.mark.parametrize("url", ["", "ftp://s3cret", "http://", "http://u:s3cret@h/", "s3cret"])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(BadRequest) as caught:
        fetch_subscription(url)
    assert "s3cret" not in caught.value.message


def test_a_compressed_body_counts_as_what_it_becomes():
    bomb = gzip.compress(b"#" * 2**24)
    answer = OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb) + bomb
    assert "larger than" in get_refusal(answer).message

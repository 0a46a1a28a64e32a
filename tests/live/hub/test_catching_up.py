"""Catching up: live never overtakes what was missed; nothing is told twice, nothing is lost."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tornado.httputil import HTTPHeaders

from agentd.chats.events import ChatUpdate
from agentd.core.events import Event
from agentd.http.access import Caller
from agentd.http.connections import ConnectionRegistry
from agentd.http.hosts import Hosts
from agentd.http.request import Request
from agentd.live import event_batch, event_log, feed, hub
from agentd.live.hub import Hub
from agentd.live.hub_client import HubClient
from agentd.live.signalr.negotiate import DIRECT, Transport
from agentd.live.signalr.records import Record
from agentd.storage.layout import Layout
from tests.chats.test_replay import change_chats
from tests.conftest import ME, Services, running_services, until
from tests.live.hub.support import END, HUB, Line
from tests.live.test_feed import FeedSetup

COME = {"type": 1, "invocationId": "1", "target": "Subscribe", "arguments": ["all", 0]}


class Link:
    """Keeps what a client is sent."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def write(self, *records: Record) -> None:
        for record in records:
            self.lines += [json.loads(line) for line in record.data.decode().split(END)[:-1]]

    def close(self, last: Record | None) -> None:
        self.lines.append({"type": "cut", "last": str(last)})

    def respond(self, status: int, body: bytes) -> None:
        raise AssertionError(f"it does not poll: {status} {body!r}")

    @property
    def events(self) -> list[Line]:
        return [line for line in self.lines if line.get("type") == 1]


class Guest:
    """A client of a hub, by hand."""

    def __init__(self, home: Hub, token: str) -> None:
        self.link = Link()
        caller = Caller("key", "laptop", "manager")
        call = Request("GET", HUB, "", {}, HTTPHeaders(), caller, "127.0.0.1")
        self.client: HubClient = home._add_client(token, DIRECT, call)
        now = self.client.now
        self.client.apply(self.client.connection.attach(self.link, Transport.WEBSOCKET, now))
        self.say({"protocol": "json", "version": 1})

    def say(self, message: object) -> None:
        text = json.dumps(message) + END
        self.client.apply(self.client.connection.on_message(self.link, text, self.client.now))


@asynccontextmanager
async def home(services: Services) -> AsyncIterator[tuple[FeedSetup, Hub]]:
    """A feed with a past, and a hub on it."""
    fed = FeedSetup(services)
    await change_chats(services)
    served = Hub(fed.feed, ConnectionRegistry(Hosts()), asyncio.get_running_loop().time)
    try:
        yield fed, served
    finally:
        for client in list(served._clients.values()):
            client.close("")
        served.close()
        await fed.replay.close()


def read_lines(fed: FeedSetup) -> list[Line]:
    return [json.loads(event.data[:-1]) for event in fed.told]


@pytest.mark.gen_test
async def test_a_client_that_knew_another_history_of_the_folder_is_informed_of_a_gap(
    layout: Layout,
) -> None:
    async with running_services(layout) as services, home(services) as (fed, served):
        (seen,) = read_lines(fed)[-1]["arguments"]
        assert seen["runId"] == services.state.runs.current
        for known, expected in ((seen["runId"], []), ("0badc0de", ["gap"]), (None, [])):
            guest = Guest(served, str(known))
            guest.say({**COME, "arguments": ["all", seen["seq"], known]})
            await until(lambda guest=guest: guest.link.lines[-1].get("type") == 3)
            assert [line["target"] for line in guest.link.events] == expected


@pytest.mark.parametrize("kept", [0, 50, 9999])
@pytest.mark.gen_test
async def test_what_happens_while_the_missed_is_read_comes_after_it_once(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setattr(feed, "RECENT_EVENTS", kept)
    async with running_services(layout) as services, home(services) as (fed, served):
        begun, go_on = asyncio.Event(), asyncio.Event()
        missed = fed.feed.read_missed

        async def read_slowly(*arguments):
            begun.set()
            await go_on.wait()
            return await missed(*arguments)

        monkeypatch.setattr(fed.feed, "read_missed", read_slowly)
        guest = Guest(served, "late")
        guest.say(COME)
        await begun.wait()
        await change_chats(services, 1)
        assert guest.link.events == []
        go_on.set()
        await change_chats(services, 2)
        await until(lambda: len(guest.link.events) >= len(fed.told))
        assert guest.link.events == read_lines(fed)


@pytest.mark.gen_test
async def test_what_is_on_its_way_to_the_clients_is_not_reported_again(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was recorded before the client asked, and would reach it after it has caught up."""
    monkeypatch.setattr(hub, "CLIENTS_PER_TURN", 1)
    async with running_services(layout) as services, home(services) as (fed, served):
        for number in range(500):  # they are told first, and it takes a while
            Guest(served, f"before {number}").say({**COME, "arguments": [[99]]})
        guest = Guest(served, "late")

        def ask(event: Event) -> None:
            if isinstance(event, ChatUpdate):
                stop()
                guest.say(COME)

        stop = services.bus.subscribe(ask)
        await services.chats.append_prompt(1, "on its way", "", ME)
        await until(lambda: len(guest.link.events) >= len(fed.told))
        await services.chats.append_prompt(1, "the last", "", ME)
        await until(lambda: guest.link.events[-1:] == read_lines(fed)[-1:])
        assert guest.link.events == read_lines(fed)


@pytest.mark.gen_test
async def test_a_client_that_fails_is_forgotten_and_the_others_are_reported(
    layout: Layout, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_services(layout) as services, home(services) as (_, served):
        broken, sound = Guest(served, "broken"), Guest(served, "sound")
        for guest in (broken, sound):  # from a client's first word on it is told at once
            guest.say({"type": 6})
        broken.link.write = None
        await services.chats.append_prompt(1, "told", "", ME)
        await until(lambda: sound.link.events)
        assert "broken" not in served._clients
        await services.chats.append_prompt(1, "the next", "", ME)
        await until(lambda: len(sound.link.events) == 4)
        assert "a live connection failed" in caplog.text


@pytest.mark.gen_test
async def test_a_client_that_leaves_while_it_waits_for_its_turn_silences_nobody(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "CLIENTS_PER_TURN", 1)
    async with running_services(layout) as services, home(services) as (fed, served):

        async def read_nothing(*_: object) -> None:
            """Find at once that the missed events can be read no more."""

        monkeypatch.setattr(fed.feed, "read_missed", read_nothing)
        staying, leaving = Guest(served, "staying"), Guest(served, "leaving")
        staying.say({"type": 6})
        for number in range(20):  # it takes a while to tell them
            Guest(served, f"other {number}")
        served._enqueue(fed.told[-1])
        leaving.say(COME)
        await asyncio.sleep(0)  # as many more turns of the loop are needed as there are clients
        assert isinstance(served._queue[-1], asyncio.Future)
        leaving.client.close("")
        await until(lambda: served._broadcaster is None)
        await services.chats.append_prompt(1, "the next", "", ME)
        await until(lambda: staying.link.events[-1:] == read_lines(fed)[-1:])


class SlowLink(Link):
    """A socket that has not yet written what it was last given."""

    client: HubClient

    def write(self, *records: Record) -> None:
        super().write(*records)
        self.client.connection.pause(self, self.client.now)


@pytest.mark.parametrize("kept", [0, 9999])
@pytest.mark.gen_test
async def test_a_client_that_takes_what_it_missed_slowly_receives_it_part_by_part(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    """Or each client that comes back would hold all that it missed in memory."""
    for module in (event_batch, event_log):
        monkeypatch.setattr(module, "BATCH_BYTES", 2000)
    monkeypatch.setattr(feed, "RECENT_EVENTS", kept)
    async with running_services(layout) as services, home(services) as (fed, served):
        guest = Guest(served, "slow")
        slow = SlowLink()
        slow.client, slow.lines = guest.client, guest.link.lines
        guest.link = guest.client.connection.link = slow
        guest.say(COME)

        def is_done() -> bool:
            return slow.lines[-1].get("type") == 3

        most = times = 0
        while not is_done():
            before = len(slow.events)
            guest.client.apply(guest.client.connection.resume(slow, guest.client.now))
            await until(lambda: is_done() or not guest.client.connection.has_room)
            most = max(most, len(slow.events) - before)
            times += 1
        assert slow.events == read_lines(fed)
        assert times > 5
        assert most < len(slow.events) / 4

"""``GET /api/events`` on a real daemon: resumed or gap first, nothing missed, nothing twice."""

import json
import os
import shutil
import socket
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest
from tornado.httputil import HTTPHeaders

from agentd.app import daemon as daemon_module
from agentd.app import http_server
from agentd.auth.events import KeysUpdate
from agentd.auth.key_store import KeyFile
from agentd.chats import replay
from agentd.chats.replay import Replay
from agentd.core.events import Event
from agentd.core.sse import SseReader
from agentd.http.access import Caller
from agentd.http.connections import ConnectionRegistry
from agentd.http.hosts import Hosts
from agentd.http.request import Request
from agentd.live import feed, sse_api
from agentd.live.event_log import EventLog
from agentd.live.sse_api import EventStreamEndpoint
from agentd.storage.document import TEMPORARY_PREFIX
from tests.chats.test_replay import change_chats
from tests.conftest import ME, overwrite, running_services
from tests.live.test_feed import FeedSetup
from tests.support.daemon import KEY, PATIENCE, build_request, until

EVENTS = "/api/events"


@dataclass
class Stream:
    """A listener: what it got so far, and how it ended."""

    socket: socket.socket
    head: bytes = b""
    body: bytes = b""
    events: list = field(default_factory=list)
    ended: bool = False
    reader: SseReader = field(default_factory=SseReader)
    _rest: bytes = b""

    def take(self):
        """Wait for the next bytes; False at the end."""
        data = self.socket.recv(65536)
        if not data:
            self.ended = True
            return False
        self._rest += data
        if not self.head:
            head, blank, rest = self._rest.partition(b"\r\n\r\n")
            if not blank:
                return True
            self.head, self._rest = head, rest
        self._take_chunks()
        return True

    def _take_chunks(self):
        while b"\r\n" in self._rest and not self.ended:
            size, _, rest = self._rest.partition(b"\r\n")
            length = int(size, 16)
            if len(rest) < length + 2:
                return
            chunk, self._rest = rest[:length], rest[length + 2 :]
            self.ended = not length
            self.body += chunk
            self.events += self.reader.feed(chunk)

    def read_until(self, true):
        """Read on until ``true()`` is."""
        deadline = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < deadline, self.body[-2000:]
            assert not self.ended, self.head + self.body[-2000:]
            self.take()
        return self

    def count(self, number):
        """Wait for so many events, without the greeting, and return them."""
        self.read_until(lambda: len(self.events) > number)
        return self.events[1 : number + 1]

    def to_end(self):
        """Read until it ends."""
        with suppress(ConnectionError):
            while not self.ended and self.take():
                pass
        self.ended = True
        return self

    @property
    def marks(self):
        return [event.id for event in self.events[1:]]


@contextmanager
def listening(serving, path=EVENTS, *lines, key=KEY, buffer=0):
    with socket.socket() as connection:
        if buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        connection.settimeout(PATIENCE)
        connection.connect(("127.0.0.1", serving.port))
        connection.sendall(build_request("GET", path, *lines, key=key))
        yield Stream(connection)


def read_history(serving, since="0", *lines):
    """Return all events since a cursor, up to now."""
    with listening(serving, f"{EVENTS}?since={since}", *lines) as stream:
        stream.read_until(lambda: stream.events)
        last = json.loads(stream.events[0].data)["to"]
        return list(
            stream.read_until(lambda: parse_whole_seq(stream.reader.last_id) == last).events[1:]
        )


def parse_whole_seq(mark):
    """Return the seq of a whole record; -1 for a cursor within one."""
    place = mark.partition("~")[0]
    return int(place) if place.isdigit() else -1


def get_refusal_status(serving, path=EVENTS, *lines, key=KEY):
    with listening(serving, path, *lines, "Connection: close", key=key) as stream:
        while b"}" not in stream._rest and b"}" not in stream.body:
            assert stream.take()
            if b"Content-Length" in stream.head:
                break
        return int(stream.head.split()[1])


def talk(client, number=3):
    chat = client.create_chat(title=f"chat {number}")
    for prompt in range(number):
        client.post(f"/api/remote/chats/{chat}/queue", {"prompt": f"prompt {prompt}"})
    client.messages(chat)
    return chat


# What comes first.


def test_the_first_event_says_resumed_and_shows_where_one_is(daemon, client):
    talk(client)
    with listening(daemon) as stream:
        stream.read_until(lambda: stream.reader.last_id)
        (first,) = stream.events
        place = json.loads(first.data)
        assert first.name == "resumed"
        assert place["from"] == place["to"] == parse_whole_seq(stream.reader.last_id)
        assert b"text/event-stream; charset=utf-8" in stream.head
        assert b"Cache-Control: no-cache, no-store" in stream.head
        assert stream.body.startswith(b"retry: 1000\n\n")


def test_live_events_follow_with_name_arguments_and_mark(daemon, client):
    with listening(daemon) as stream:
        stream.read_until(lambda: stream.events)
        chat = talk(client, 1)
        events = stream.count(4)
        assert [event.name for event in events] == [
            "chatUpdate", "queueUpdate", "chatUpdate", "queueUpdate",
        ]  # fmt: skip
        stream.read_until(lambda: any("echo: prompt 0" in event.data for event in stream.events))
        (update,) = [event for event in stream.events if "echo: prompt 0" in event.data]
        assert update.name == "messageUpdate"
        assert json.loads(update.data) == [chat, client.messages(chat)[-1]]


@pytest.mark.parametrize("kept", [0, 20, 2000])
def test_coming_back_with_any_mark_yields_exactly_the_rest(daemon, client, monkeypatch, kept):
    monkeypatch.setattr(feed, "RECENT_EVENTS", kept)
    with listening(daemon) as stream:
        stream.read_until(lambda: stream.events)
        for number in range(1, 4):
            talk(client, number)
        told = read_history(daemon)
        assert stream.count(len(told)) == told
        assert len(set(stream.marks)) == len(told) > 30
    for place in range(len(told)):
        assert read_history(daemon, told[place].id) == told[place + 1 :]
    assert read_history(daemon, "999", f"Last-Event-ID: {told[0].id}") == told[1:]


@pytest.mark.parametrize("checkpoints", [True, False])
def test_what_was_published_live_is_reported_in_the_same_bytes_after_a_restart(serve, checkpoints):
    first = serve()
    with listening(first) as stream:
        stream.read_until(lambda: stream.events)
        talk(first.client())
        told = stream.count(len(read_history(first)))
    first.stop()
    first.join()
    for path in Path(first.layout.chats).glob("*/checkpoint.json"):
        if not checkpoints:
            path.unlink()
    again = serve()
    for event, place in zip(told, range(1, len(told) + 1), strict=True):
        assert read_history(again, event.id) == told[place:]


@pytest.mark.parametrize("mark", ["99999", "9999999999999999", "99999.3"])
def test_a_mark_from_the_future_is_a_gap_and_live_goes_on(daemon, client, mark):
    talk(client)
    with listening(daemon, f"{EVENTS}?since={mark}") as stream:
        stream.read_until(lambda: stream.events)
        (gap,) = stream.events
        assert gap.name == "gap"
        place = json.loads(gap.data)
        assert place == {"from": int(mark.partition(".")[0]), "to": parse_whole_seq(gap.id)}
        chat = client.create_chat(title="after the gap")
        (update,) = stream.count(1)
        assert json.loads(update.data)[0]["chatId"] == chat
    assert read_history(daemon, gap.id) == [update]


@pytest.mark.parametrize("hot", [True, False], ids=["copied at work", "copied at rest"])
def test_an_older_copy_of_the_folder_that_grew_past_a_mark_is_a_gap(serve, tmp_path, hot):
    first = serve()
    state, copy = Path(first.layout.state), tmp_path / "copy"
    talk(first.client(), 1)
    shared = read_history(first)[-1].id
    if hot:  # a file that is being written may be gone by the time that it is copied
        shutil.copytree(state, copy, ignore=shutil.ignore_patterns(f"{TEMPORARY_PREFIX}*"))
    else:
        first.stop()
        first.join()
        shutil.copytree(state, copy)
        first = serve()
    talk(first.client(), 2)
    lost = [event.id for event in read_history(first, shared)]
    first.stop()
    first.join()
    shutil.rmtree(state)
    copy.rename(state)
    again = serve()
    while parse_whole_seq(read_history(again)[-1].id) < parse_whole_seq(lost[-1]):
        talk(again.client(), 3)
    for mark in lost:
        with listening(again, f"{EVENTS}?since={mark}") as stream:
            assert stream.read_until(lambda s=stream: s.events).events[0].name == "gap"
    everything = read_history(again)
    place = [event.id for event in everything].index(shared)
    assert read_history(again, shared) == everything[place + 1 :]


def test_too_many_missed_are_a_gap(serve, monkeypatch):
    monkeypatch.setattr(feed, "RECENT_EVENTS", 0)
    monkeypatch.setattr(daemon_module, "Replay", partial(Replay, largest=1000))
    serving = serve()
    talk(serving.client())
    with listening(serving, f"{EVENTS}?since=0") as stream:
        assert stream.read_until(lambda: stream.events).events[0].name == "gap"


def test_live_never_overtakes_what_was_missed(daemon, client, monkeypatch):
    """Events recorded while the disk is read come after it, each once."""
    monkeypatch.setattr(feed, "RECENT_EVENTS", 0)
    talk(client)
    begun, go_on = threading.Event(), threading.Event()
    told_by = replay.derive_events

    def derive_slowly(*arguments):
        begun.set()
        assert go_on.wait(PATIENCE)
        return told_by(*arguments)

    monkeypatch.setattr(replay, "derive_events", derive_slowly)
    with listening(daemon, f"{EVENTS}?since=0") as stream:
        assert begun.wait(PATIENCE)
        talk(client, 5)
        go_on.set()
        told = read_history(daemon)
        assert stream.count(len(told)) == told


@pytest.mark.gen_test
async def test_what_happens_between_the_first_bytes_and_the_reading_is_reported_once(layout):
    async with running_services(layout) as services:
        fed = FeedSetup(services)
        await change_chats(services)
        stream = EventStreamEndpoint(fed.feed, ConnectionRegistry(Hosts()))
        caller = Caller("key", "laptop", "manager")
        call = Request("GET", EVENTS, "since=0", {}, HTTPHeaders(), caller, "127.0.0.1")
        portions = stream.stream_events(call).chunks
        reader, found = SseReader(), []
        for seed in range(1, 3):  # before what was missed is read, and after
            found += reader.feed(await anext(portions))
            await change_chats(services, seed)
        await services.chats.append_prompt(1, "the last", "", ME)
        while not any("the last" in event.data for event in found[-2:]):
            found += reader.feed(await anext(portions))
        await portions.aclose()
        await fed.replay.close()
        assert [event.id for event in found[1:]] == [str(event.cursor) for event in fed.told]


def test_a_client_that_comes_while_much_happens_misses_nothing_and_gets_nothing_twice(
    daemon, client
):
    streams = []
    writer = threading.Thread(target=lambda: [talk(daemon.client()) for _ in range(15)])
    client.create_chat(title="there is something to be told")
    writer.start()
    since = "0"
    while writer.is_alive():
        with listening(daemon, f"{EVENTS}?since={since}") as stream:
            streams.append((stream.read_until(lambda s=stream: len(s.events) > 1), since))
        since = ["0", since, *stream.marks][-2]  # at least one event comes after it
    writer.join()
    told = read_history(daemon)
    marks = [event.id for event in told]
    for stream, since in streams:
        begin = marks.index(since) + 1 if since in marks else 0
        assert stream.events[1:] == told[begin : begin + len(stream.marks)]


# The log of events.


@pytest.mark.parametrize("harm", ["none", "deleted", "torn", "cut", "altered", "behind"])
def test_whatever_became_of_the_log_the_same_is_reported_after_a_restart(serve, monkeypatch, harm):
    monkeypatch.setattr(feed, "RECENT_EVENTS", 0)
    first = serve()
    with listening(first) as stream:
        stream.read_until(lambda: stream.events)
        talk(first.client())
        read_history(first)
        if harm == "behind":
            talk(first.client())
        told = stream.count(len(read_history(first)))
    first.stop()
    first.join()
    data, index = (next(Path(first.layout.events).glob(f"*.{end}")) for end in ("sse", "jsonl"))
    match harm:
        case "deleted":
            shutil.rmtree(first.layout.events)
        case "torn":
            os.truncate(index, index.stat().st_size - 9)
        case "cut":
            os.truncate(data, data.stat().st_size - 9)
        case "altered":
            overwrite(str(data), data.stat().st_size // 2, b"~~~")
        case "behind":
            lines = index.read_bytes().splitlines(keepends=True)
            index.write_bytes(b"".join(lines[:-1]))
    again = serve()
    for event, place in zip(told, range(1, len(told) + 1), strict=True):
        assert read_history(again, event.id) == told[place:]


def test_a_long_replay_to_a_client_that_does_not_read_stays_on_the_disk(serve, monkeypatch):
    monkeypatch.setattr(feed, "RECENT_EVENTS", 0)
    reads = []
    read = EventLog.read

    def count_read(*arguments):
        reads.append(arguments)
        return read(*arguments)

    monkeypatch.setattr(EventLog, "read", count_read)
    serving = serve()
    client = serving.client()
    chat = client.create_chat(title="long")
    for _ in range(60):
        wish = {"prompts": [{"prompt": "x" * 200_000, "isPaused": True}]}
        client.put(f"/api/remote/chats/{chat}/queue", wish)
    told = read_history(serving)
    every = len(reads)
    assert every > 25
    reads.clear()
    with listening(serving, f"{EVENTS}?since=0", buffer=4096) as slow:
        until(lambda: reads)
        assert read_history(serving) == told  # another one has had it all meanwhile
        assert len(reads) < every * 2 - 5
        slow.count(len(told))


# Filters and keep-alive.


def test_only_the_chats_that_were_asked_for(daemon, client):
    first, second, third = (talk(client, 1) for _ in range(3))
    for wanted in ({first}, {second, third}):
        told = read_history(daemon)
        query = f"{EVENTS}?since=0&chats={','.join(map(str, wanted))}"
        with listening(daemon, query) as stream:
            stream.read_until(lambda s=stream, last=told[-1].id: s.reader.last_id == last)
            assert stream.events[1:] == [event for event in told if get_chat_id(event) in wanted]
            client.create_chat(title="not asked for")
            client.post(f"/api/remote/chats/{min(wanted)}/queue", {"prompt": "more"})
            stream.read_until(lambda s=stream: '"more"' in s.body.decode())
            assert {get_chat_id(event) for event in stream.events[1:]} == wanted
            client.messages(min(wanted))


def get_chat_id(event):
    first = json.loads(event.data)[0]
    return first if isinstance(first, int) else first["chatId"]


def test_signs_of_life_carry_the_place_past_events_of_other_chats(serve, monkeypatch):
    monkeypatch.setattr(
        http_server, "EventStreamEndpoint", partial(EventStreamEndpoint, keep_alive=0.02)
    )
    serving = serve()
    client = serving.client()
    chat = client.create_chat(title="followed")
    with listening(serving, f"{EVENTS}?chats={chat}") as stream:
        stream.read_until(lambda: stream.events)
        talk(client)
        last = read_history(serving)[-1].id
        stream.read_until(lambda: stream.reader.last_id == last)
        count = len(stream.events)
        stream.read_until(lambda: len(stream.events) > count + 2)
        assert stream.reader.last_id == last
        assert {event.name for event in stream.events[1:]} == {"alive"}


@pytest.mark.gen_test
async def test_a_stream_that_is_never_quiet_sends_alive_too_and_without_an_id_that_skips(layout):
    async with running_services(layout) as services:
        fed = FeedSetup(services)
        stream = EventStreamEndpoint(fed.feed, ConnectionRegistry(Hosts()), keep_alive=0)
        caller = Caller("key", "laptop", "manager")
        call = Request("GET", EVENTS, "", {}, HTTPHeaders(), caller, "127.0.0.1")
        portions = stream.stream_events(call).chunks
        reader, found = SseReader(), []
        while "alive" not in [event.name for event in found]:
            await change_chats(services)
            found += reader.feed(await anext(portions))
        marks = [str(event.cursor) for event in fed.told]
        assert found[-1].name == "alive"
        assert reader.last_id == found[-2].id != marks[-1]
        await portions.aclose()
        await fed.replay.close()


class _Secret(Event, frozen=True):
    """An event for administrators."""

    name: ClassVar[str] = "gatewayUpdate"
    for_administrators: ClassVar[bool] = True

    def build_arguments(self, run: str) -> list[object]:
        return ["figures"]


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("role", "sees"), [("viewer", False), ("manager", False), ("administrator", True)]
)
async def test_events_for_administrators_reach_nobody_else(layout, role, sees):
    async with running_services(layout) as services:
        fed = FeedSetup(services)
        stream = EventStreamEndpoint(fed.feed, ConnectionRegistry(Hosts()), keep_alive=0.01)
        call = Request("GET", EVENTS, "", {}, HTTPHeaders(), Caller("user", "x", role), "127.0.0.1")
        portions = stream.stream_events(call).chunks
        reader, names = SseReader(), []
        while "resumed" not in names:
            names += [event.name for event in reader.feed(await anext(portions))]
        services.bus.publish(_Secret())
        services.bus.publish(KeysUpdate(("laptop",)))
        while "keysUpdate" not in names:
            names += [event.name for event in reader.feed(await anext(portions))]
        assert ("gatewayUpdate" in names) is sees
        await portions.aclose()
        await fed.replay.close()


class _OwnEvent(Event, frozen=True):
    """An event for the logins of ada."""

    name: ClassVar[str] = "meUpdate"

    @property
    def for_user(self) -> str:
        return "ada"

    def build_arguments(self, run: str) -> list[object]:
        return [{}]


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("caller", "sees"),
    [
        (Caller("user", "ada", "viewer"), True),
        (Caller("user", "bob", "administrator"), False),
        (Caller("key", "ada", "manager"), False),
    ],
)
async def test_events_of_a_user_reach_the_logins_of_nobody_else(layout, caller, sees):
    async with running_services(layout) as services:
        fed = FeedSetup(services)
        stream = EventStreamEndpoint(fed.feed, ConnectionRegistry(Hosts()), keep_alive=0.01)
        call = Request("GET", EVENTS, "", {}, HTTPHeaders(), caller, "127.0.0.1")
        portions = stream.stream_events(call).chunks
        reader, names = SseReader(), []
        while "resumed" not in names:
            names += [event.name for event in reader.feed(await anext(portions))]
        services.bus.publish(_OwnEvent())
        services.bus.publish(KeysUpdate(("laptop",)))
        while "keysUpdate" not in names:
            names += [event.name for event in reader.feed(await anext(portions))]
        assert ("meUpdate" in names) is sees
        await portions.aclose()
        await fed.replay.close()


# Refusals.


@pytest.mark.parametrize("mark", ["x", "1.", "-1", "1.2.3", "12345678901234567", "1.12345"])
def test_what_is_no_mark_is_a_bad_request(shared, mark):
    assert get_refusal_status(shared, f"{EVENTS}?since={mark}") == 400
    assert get_refusal_status(shared, EVENTS, f"Last-Event-ID: {mark}") == 400


@pytest.mark.parametrize("chats", ["", "0", "1,", "x", "9999999999999999"])
def test_what_is_no_chat_is_a_bad_request(shared, chats):
    assert get_refusal_status(shared, f"{EVENTS}?chats={chats}") == 400


@pytest.mark.parametrize("key", [None, "agent_wrong"])
def test_without_a_valid_key_there_is_nothing_to_receive(shared, key):
    assert get_refusal_status(shared, key=key) == 401
    assert get_refusal_status(shared, f"{EVENTS}?api_key={KEY}", key=None) == 401


def test_pages_of_a_foreign_origin_may_not_listen(shared):
    assert get_refusal_status(shared, EVENTS, "Origin: http://evil.example") == 403
    assert get_refusal_status(shared, EVENTS, "Origin: null") == 403
    with listening(shared, EVENTS, f"Origin: {shared.url}") as stream:
        stream.read_until(lambda: stream.events)


def test_there_are_so_many_per_key_and_so_many_in_all(serve, monkeypatch):
    monkeypatch.setattr(
        daemon_module, "ConnectionRegistry", partial(ConnectionRegistry, most=3, most_per_key=2)
    )
    serving = serve()
    other = serving.new_key("other")
    with listening(serving) as first, listening(serving) as second:
        for stream in (first, second):
            stream.read_until(lambda s=stream: s.events)
        assert get_refusal_status(serving) == 429
        with listening(serving, key=other) as third:
            third.read_until(lambda: third.events)
            assert get_refusal_status(serving, key=other) == 429
    until(lambda: _may_listen(serving))  # who leaves is counted no more


def _may_listen(serving):
    with listening(serving) as stream:
        while not stream.head:
            stream.take()
        return b" 200 " in stream.head


def test_head_answers_and_listens_to_nothing(serve, monkeypatch):
    monkeypatch.setattr(daemon_module, "ConnectionRegistry", partial(ConnectionRegistry, most=1))
    serving = serve()
    connection = serving.client().connection
    for _ in range(3):
        connection.request("HEAD", EVENTS, headers={"X-API-Key": KEY})
        response = connection.getresponse()
        assert (response.status, response.read()) == (200, b"")


# How streams end.


def test_a_revoked_key_ends_its_streams_within_a_second_and_no_others(daemon, client, beats):
    keys = [daemon.new_key("lost"), daemon.new_key("kept")]
    with listening(daemon, key=keys[0]) as lost, listening(daemon, key=keys[1]) as kept:
        for stream in (lost, kept):
            stream.read_until(lambda s=stream: s.events)
        KeyFile(daemon.layout).revoke("lost", "2026-01-01T00:00:00.000Z")
        began = beats.seconds
        lost.to_end()
        assert beats.seconds - began < 5  # one, and what the machine needs
        client.create_chat(title="later")
        kept.read_until(lambda: any("later" in event.data for event in kept.events))
        assert "later" not in lost.body.decode()


def test_a_stop_ends_streams_cleanly_and_takes_no_time(serve, monkeypatch):
    """They end by themselves: every limit that would cut them off is far away."""
    monkeypatch.setattr(sse_api, "CLOSE_TIMEOUT", 2 * PATIENCE)
    monkeypatch.setattr(http_server, "FINISH_SECONDS", 2 * PATIENCE)
    daemon = serve()
    with listening(daemon) as stream:
        stream.read_until(lambda: stream.events)
        daemon.stop()
        stream.to_end()
        assert stream.body.endswith(b"\n\n")
        assert stream._rest == b"", "the last chunk came"
        daemon.join()


def test_a_listener_that_does_not_read_is_cut_and_affects_nobody_else(serve, monkeypatch):
    """It receives the missed events when it comes back."""
    monkeypatch.setattr(sse_api, "MAX_BACKLOG_BYTES", 500_000)
    monkeypatch.setattr(daemon_module, "ConnectionRegistry", partial(ConnectionRegistry, most=2))
    daemon = serve()
    client = daemon.client()
    chat = client.create_chat(title="long")
    with listening(daemon, buffer=4096) as slow, listening(daemon) as quick:
        for stream in (slow, quick):
            stream.read_until(lambda s=stream: s.events)
        for number in range(40):
            text = f"{number:03}" + "x" * 200_000
            wish = {"prompts": [{"prompt": text, "isPaused": True}]}
            client.put(f"/api/remote/chats/{chat}/queue", wish)
            assert f"{number:03}xxx" in quick.count(2 * number + 2)[-2].data[:200]
        until(lambda: _may_listen(daemon))  # the slow one is gone, though it never read
        slow.to_end()
        assert len(slow.events) < len(quick.events)
        back = slow.reader.last_id
    with listening(daemon, f"{EVENTS}?since={back}") as stream:
        rest = stream.count(len(quick.events) - len(slow.events))
    assert slow.events[1:] + rest == quick.events[1:]


def test_a_damaged_chat_keeps_nobody_from_the_others(serve):
    first = serve()
    one, other = talk(first.client()), talk(first.client())
    told = read_history(first)
    first.stop()
    first.join()
    overwrite(first.layout.get_journal_path(one), 300, b"\0\0")
    Path(first.layout.index).unlink()
    found = read_history(serve())
    assert [event for event in found if get_chat_id(event) == other] == [
        event for event in told if get_chat_id(event) == other
    ]


def test_a_chat_that_was_deleted_for_good_is_in_no_event_and_no_file(serve):
    daemon = serve()
    client = daemon.client()
    gone = client.create_chat(title="a word of the past")
    assert any("a word of the past" in event.data for event in read_history(daemon))
    client.delete(f"/api/chats/{gone}")
    assert client.delete(f"/api/chats/trash/{gone}").status == 204
    talk(client)
    events = read_history(daemon)
    assert events
    assert not any("a word of the past" in event.data for event in events)
    files = [path for path in Path(daemon.layout.state).rglob("*") if path.is_file()]
    assert files
    assert not any(b"a word of the past" in path.read_bytes() for path in files)

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

import pytest
from tornado.httputil import HTTPHeaders

from agentd.access.gate import Caller
from agentd.daemon import door, life
from agentd.disk import replay
from agentd.disk.document import TEMPORARY
from agentd.disk.event_log import EventLog
from agentd.disk.keys import KeyFile
from agentd.disk.replay import Replay
from agentd.web import event_stream, feed
from agentd.web.call import Call
from agentd.web.event_stream import EventStream
from agentd.web.hosts import Hosts
from agentd.web.live import Roll
from agentd.wire.sse import Reader
from tests.conftest import ME, living, overwrite
from tests.disk.test_replay import busy
from tests.web.support import KEY, PATIENCE, request, until
from tests.web.test_feed import Fed

EVENTS = "/api/events"


@dataclass
class Stream:
    """A listener: what it got so far, and how it ended."""

    socket: socket.socket
    head: bytes = b""
    body: bytes = b""
    events: list = field(default_factory=list)
    ended: bool = False
    reader: Reader = field(default_factory=Reader)
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
        self._chunks()
        return True

    def _chunks(self):
        while b"\r\n" in self._rest and not self.ended:
            size, _, rest = self._rest.partition(b"\r\n")
            length = int(size, 16)
            if len(rest) < length + 2:
                return
            chunk, self._rest = rest[:length], rest[length + 2 :]
            self.ended = not length
            self.body += chunk
            self.events += self.reader.feed(chunk)

    def until(self, true):
        """Read on until ``true()`` is."""
        deadline = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < deadline, self.body[-2000:]
            assert not self.ended, self.head + self.body[-2000:]
            self.take()
        return self

    def count(self, number):
        """The first so many events, once they are here, without the greeting."""
        self.until(lambda: len(self.events) > number)
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
        connection.sendall(request("GET", path, *lines, key=key))
        yield Stream(connection)


def history(serving, since="0", *lines):
    """Everything that was told since a mark, up to now."""
    with listening(serving, f"{EVENTS}?since={since}", *lines) as stream:
        stream.until(lambda: stream.events)
        last = json.loads(stream.events[0].data)["to"]
        return list(stream.until(lambda: whole(stream.reader.last_id) == last).events[1:])


def whole(mark):
    """The seq of a whole record; -1 for a mark within one."""
    place = mark.partition("~")[0]
    return int(place) if place.isdigit() else -1


def refused(serving, path=EVENTS, *lines, key=KEY):
    with listening(serving, path, *lines, "Connection: close", key=key) as stream:
        while b"}" not in stream._rest and b"}" not in stream.body:
            assert stream.take()
            if b"Content-Length" in stream.head:
                break
        return int(stream.head.split()[1])


def talk(client, number=3):
    chat = client.chat(title=f"chat {number}")
    for prompt in range(number):
        client.post(f"/api/remote/chats/{chat}/queue", {"prompt": f"prompt {prompt}"})
    client.messages(chat)
    return chat


# What comes first.


def test_the_first_event_says_resumed_and_tells_where_one_is(daemon, client):
    talk(client)
    with listening(daemon) as stream:
        stream.until(lambda: stream.reader.last_id)
        (first,) = stream.events
        place = json.loads(first.data)
        assert first.name == "resumed"
        assert place["from"] == place["to"] == whole(stream.reader.last_id)
        assert b"text/event-stream; charset=utf-8" in stream.head
        assert b"Cache-Control: no-cache, no-store" in stream.head
        assert stream.body.startswith(b"retry: 1000\n\n")


def test_live_events_follow_with_name_arguments_and_mark(daemon, client):
    with listening(daemon) as stream:
        stream.until(lambda: stream.events)
        chat = talk(client, 1)
        events = stream.count(4)
        assert [event.name for event in events] == [
            "chatUpdate", "queueUpdate", "chatUpdate", "queueUpdate",
        ]  # fmt: skip
        stream.until(lambda: any("echo: prompt 0" in event.data for event in stream.events))
        (update,) = [event for event in stream.events if "echo: prompt 0" in event.data]
        assert update.name == "messageUpdate"
        assert json.loads(update.data) == [chat, client.messages(chat)[-1]]


@pytest.mark.parametrize("kept", [0, 20, 2000])
def test_coming_back_with_any_mark_yields_exactly_the_rest(daemon, client, monkeypatch, kept):
    monkeypatch.setattr(feed, "RECENT_EVENTS", kept)
    with listening(daemon) as stream:
        stream.until(lambda: stream.events)
        for number in range(1, 4):
            talk(client, number)
        told = history(daemon)
        assert stream.count(len(told)) == told
        assert len(set(stream.marks)) == len(told) > 30
    for place in range(len(told)):
        assert history(daemon, told[place].id) == told[place + 1 :]
    assert history(daemon, "999", f"Last-Event-ID: {told[0].id}") == told[1:]


@pytest.mark.parametrize("checkpoints", [True, False])
def test_what_was_told_live_is_told_in_the_same_bytes_after_a_restart(serve, checkpoints):
    first = serve()
    with listening(first) as stream:
        stream.until(lambda: stream.events)
        talk(first.client())
        told = stream.count(len(history(first)))
    first.stop()
    first.join()
    for path in Path(first.layout.chats).glob("*/checkpoint.json"):
        if not checkpoints:
            path.unlink()
    again = serve()
    for event, place in zip(told, range(1, len(told) + 1), strict=True):
        assert history(again, event.id) == told[place:]


@pytest.mark.parametrize("mark", ["99999", "9999999999999999", "99999.3"])
def test_a_mark_from_the_future_is_a_gap_and_live_goes_on(daemon, client, mark):
    talk(client)
    with listening(daemon, f"{EVENTS}?since={mark}") as stream:
        stream.until(lambda: stream.events)
        (gap,) = stream.events
        assert gap.name == "gap"
        place = json.loads(gap.data)
        assert place == {"from": int(mark.partition(".")[0]), "to": whole(gap.id)}
        chat = client.chat(title="after the gap")
        (update,) = stream.count(1)
        assert json.loads(update.data)[0]["chatId"] == chat
    assert history(daemon, gap.id) == [update]


@pytest.mark.parametrize("hot", [True, False], ids=["copied at work", "copied at rest"])
def test_an_older_copy_of_the_folder_that_grew_past_a_mark_is_a_gap(serve, tmp_path, hot):
    first = serve()
    state, copy = Path(first.layout.state), tmp_path / "copy"
    talk(first.client(), 1)
    shared = history(first)[-1].id
    if hot:  # a file that is being written may be gone by the time that it is copied
        shutil.copytree(state, copy, ignore=shutil.ignore_patterns(f"{TEMPORARY}*"))
    else:
        first.stop()
        first.join()
        shutil.copytree(state, copy)
        first = serve()
    talk(first.client(), 2)
    lost = [event.id for event in history(first, shared)]
    first.stop()
    first.join()
    shutil.rmtree(state)
    copy.rename(state)
    again = serve()
    while whole(history(again)[-1].id) < whole(lost[-1]):
        talk(again.client(), 3)
    for mark in lost:
        with listening(again, f"{EVENTS}?since={mark}") as stream:
            assert stream.until(lambda s=stream: s.events).events[0].name == "gap"
    everything = history(again)
    place = [event.id for event in everything].index(shared)
    assert history(again, shared) == everything[place + 1 :]


def test_too_many_missed_are_a_gap(serve, monkeypatch):
    monkeypatch.setattr(feed, "RECENT_EVENTS", 0)
    monkeypatch.setattr(life, "Replay", partial(Replay, largest=1000))
    serving = serve()
    talk(serving.client())
    with listening(serving, f"{EVENTS}?since=0") as stream:
        assert stream.until(lambda: stream.events).events[0].name == "gap"


def test_live_never_overtakes_what_was_missed(daemon, client, monkeypatch):
    """Events recorded while the disk is read come after it, each once."""
    monkeypatch.setattr(feed, "RECENT_EVENTS", 0)
    talk(client)
    begun, go_on = threading.Event(), threading.Event()
    told_by = replay.told_by

    def slowly(*arguments):
        begun.set()
        assert go_on.wait(PATIENCE)
        return told_by(*arguments)

    monkeypatch.setattr(replay, "told_by", slowly)
    with listening(daemon, f"{EVENTS}?since=0") as stream:
        assert begun.wait(PATIENCE)
        talk(client, 5)
        go_on.set()
        told = history(daemon)
        assert stream.count(len(told)) == told


@pytest.mark.gen_test
async def test_what_happens_between_the_first_bytes_and_the_reading_is_told_once(layout):
    async with living(layout) as life:
        fed = Fed(life)
        await busy(life)
        stream = EventStream(fed.feed, Roll(Hosts()))
        caller = Caller("key", "laptop", "manager")
        call = Call("GET", EVENTS, "since=0", {}, HTTPHeaders(), caller, "127.0.0.1")
        portions = stream.events(call).portions
        reader, found = Reader(), []
        for seed in range(1, 3):  # before what was missed is read, and after
            found += reader.feed(await anext(portions))
            await busy(life, seed)
        await life.chats.append(1, "the last", "", ME)
        while not any("the last" in event.data for event in found[-2:]):
            found += reader.feed(await anext(portions))
        await portions.aclose()
        await fed.replay.close()
        assert [event.id for event in found[1:]] == [str(event.mark) for event in fed.told]


def test_who_comes_while_much_happens_misses_nothing_and_gets_nothing_twice(daemon, client):
    streams = []
    writer = threading.Thread(target=lambda: [talk(daemon.client()) for _ in range(15)])
    client.chat(title="there is something to be told")
    writer.start()
    since = "0"
    while writer.is_alive():
        with listening(daemon, f"{EVENTS}?since={since}") as stream:
            streams.append((stream.until(lambda s=stream: len(s.events) > 1), since))
        since = ["0", since, *stream.marks][-2]  # at least one event comes after it
    writer.join()
    told = history(daemon)
    marks = [event.id for event in told]
    for stream, since in streams:
        begin = marks.index(since) + 1 if since in marks else 0
        assert stream.events[1:] == told[begin : begin + len(stream.marks)]


# The log of events.


@pytest.mark.parametrize("harm", ["none", "deleted", "torn", "cut", "altered", "behind"])
def test_whatever_became_of_the_log_the_same_is_told_after_a_restart(serve, monkeypatch, harm):
    monkeypatch.setattr(feed, "RECENT_EVENTS", 0)
    first = serve()
    with listening(first) as stream:
        stream.until(lambda: stream.events)
        talk(first.client())
        history(first)
        if harm == "behind":
            talk(first.client())
        told = stream.count(len(history(first)))
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
        assert history(again, event.id) == told[place:]


def test_a_long_replay_to_who_does_not_read_stays_on_the_disk(serve, monkeypatch):
    monkeypatch.setattr(feed, "RECENT_EVENTS", 0)
    reads = []
    read = EventLog.read

    def counted(*arguments):
        reads.append(arguments)
        return read(*arguments)

    monkeypatch.setattr(EventLog, "read", counted)
    serving = serve()
    client = serving.client()
    chat = client.chat(title="long")
    for _ in range(60):
        wish = {"prompts": [{"prompt": "x" * 200_000, "isPaused": True}]}
        client.put(f"/api/remote/chats/{chat}/queue", wish)
    told = history(serving)
    every = len(reads)
    assert every > 25
    reads.clear()
    with listening(serving, f"{EVENTS}?since=0", buffer=4096) as slow:
        until(lambda: reads)
        assert history(serving) == told  # another one has had it all meanwhile
        assert len(reads) < every * 2 - 5
        slow.count(len(told))


# Filters and keep-alive.


def test_only_the_chats_that_were_asked_for(daemon, client):
    first, second, third = (talk(client, 1) for _ in range(3))
    for wanted in ({first}, {second, third}):
        told = history(daemon)
        query = f"{EVENTS}?since=0&chats={','.join(map(str, wanted))}"
        with listening(daemon, query) as stream:
            stream.until(lambda s=stream, last=told[-1].id: s.reader.last_id == last)
            assert stream.events[1:] == [event for event in told if chat_of(event) in wanted]
            client.chat(title="not asked for")
            client.post(f"/api/remote/chats/{min(wanted)}/queue", {"prompt": "more"})
            stream.until(lambda s=stream: '"more"' in s.body.decode())
            assert {chat_of(event) for event in stream.events[1:]} == wanted
            client.messages(min(wanted))


def chat_of(event):
    first = json.loads(event.data)[0]
    return first if isinstance(first, int) else first["chatId"]


def test_signs_of_life_carry_the_place_past_events_of_other_chats(serve, monkeypatch):
    monkeypatch.setattr(door, "EventStream", partial(EventStream, keep_alive=0.02))
    serving = serve()
    client = serving.client()
    chat = client.chat(title="followed")
    with listening(serving, f"{EVENTS}?chats={chat}") as stream:
        stream.until(lambda: stream.events)
        talk(client)
        last = history(serving)[-1].id
        stream.until(lambda: stream.reader.last_id == last)
        assert len(stream.events) == 1
        size = len(stream.body)
        stream.until(lambda: len(stream.body) > size + 50)
        assert stream.reader.last_id == last


# Refusals.


@pytest.mark.parametrize("mark", ["x", "1.", "-1", "1.2.3", "12345678901234567", "1.12345"])
def test_what_is_no_mark_is_a_bad_request(shared, mark):
    assert refused(shared, f"{EVENTS}?since={mark}") == 400
    assert refused(shared, EVENTS, f"Last-Event-ID: {mark}") == 400


@pytest.mark.parametrize("chats", ["", "0", "1,", "x", "9999999999999999"])
def test_what_is_no_chat_is_a_bad_request(shared, chats):
    assert refused(shared, f"{EVENTS}?chats={chats}") == 400


@pytest.mark.parametrize("key", [None, "agent_wrong"])
def test_without_a_good_key_there_is_nothing_to_hear(shared, key):
    assert refused(shared, key=key) == 401
    assert refused(shared, f"{EVENTS}?api_key={KEY}", key=None) == 401


def test_pages_of_a_foreign_origin_may_not_listen(shared):
    assert refused(shared, EVENTS, "Origin: http://evil.example") == 403
    assert refused(shared, EVENTS, "Origin: null") == 403
    with listening(shared, EVENTS, f"Origin: {shared.url}") as stream:
        stream.until(lambda: stream.events)


def test_there_are_so_many_per_key_and_so_many_in_all(serve, monkeypatch):
    monkeypatch.setattr(life, "Roll", partial(Roll, most=3, most_per_key=2))
    serving = serve()
    other = serving.new_key("other")
    with listening(serving) as first, listening(serving) as second:
        for stream in (first, second):
            stream.until(lambda s=stream: s.events)
        assert refused(serving) == 429
        with listening(serving, key=other) as third:
            third.until(lambda: third.events)
            assert refused(serving, key=other) == 429
    until(lambda: _may_listen(serving))  # who leaves is counted no more


def _may_listen(serving):
    with listening(serving) as stream:
        while not stream.head:
            stream.take()
        return b" 200 " in stream.head


def test_head_answers_and_listens_to_nothing(serve, monkeypatch):
    monkeypatch.setattr(life, "Roll", partial(Roll, most=1))
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
            stream.until(lambda s=stream: s.events)
        KeyFile(daemon.layout).revoke("lost", "2026-01-01T00:00:00.000Z")
        began = beats.seconds
        lost.to_end()
        assert beats.seconds - began < 5  # one, and what the machine needs
        client.chat(title="later")
        kept.until(lambda: any("later" in event.data for event in kept.events))
        assert "later" not in lost.body.decode()


def test_a_stop_ends_streams_cleanly_and_takes_no_time(serve, monkeypatch):
    """Nothing ends them but their own end: all that would cut them off is far away."""
    monkeypatch.setattr(event_stream, "LAST_SECONDS", 2 * PATIENCE)
    monkeypatch.setattr(door, "HANG_UP_SECONDS", 2 * PATIENCE)
    daemon = serve()
    with listening(daemon) as stream:
        stream.until(lambda: stream.events)
        daemon.stop()
        stream.to_end()
        assert stream.body.endswith(b"\n\n")
        assert stream._rest == b"", "the last chunk came"
        daemon.join()


def test_a_listener_that_does_not_read_is_cut_and_harms_nobody(serve, monkeypatch):
    """What it missed it is told when it comes back."""
    monkeypatch.setattr(event_stream, "BACKLOG", 500_000)
    monkeypatch.setattr(life, "Roll", partial(Roll, most=2))
    daemon = serve()
    client = daemon.client()
    chat = client.chat(title="long")
    with listening(daemon, buffer=4096) as slow, listening(daemon) as quick:
        for stream in (slow, quick):
            stream.until(lambda s=stream: s.events)
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
    told = history(first)
    first.stop()
    first.join()
    overwrite(first.layout.journal(one), 300, b"\0\0")
    Path(first.layout.index).unlink()
    found = history(serve())
    assert [event for event in found if chat_of(event) == other] == [
        event for event in told if chat_of(event) == other
    ]

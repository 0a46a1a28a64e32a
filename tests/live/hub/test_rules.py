"""The promises of the hub on its sockets, streams and polls, seen byte by byte."""

import logging
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from http.client import HTTPConnection
from io import StringIO
from pathlib import Path
from urllib.parse import quote

import pytest

from agentd.auth.key_store import KeyFile
from agentd.http.log_scrubber import LogFormatter
from agentd.live.signalr import records
from agentd.live.signalr.framing import encode_text_frame
from agentd.live.signalr.records import Record
from agentd.live.websocket import SocketLink
from tests.live.hub.conftest import Dial
from tests.live.hub.support import END, HUB, Line, Socket, delete_by_hand
from tests.support.daemon import (
    KEY,
    PATIENCE,
    Beats,
    Client,
    Serving,
    build_request,
    parse_replies,
    read_until_close,
)

PING = {"type": 6}
AT_ONCE = 5.0
"""Seconds within which a revoked key's connections are closed: one, and what the machine needs."""


Log = Callable[[Serving], str]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    """Yield a function that stops a daemon, started after this, and returns its log."""
    lines = StringIO()
    monkeypatch.setattr("sys.stderr", lines)
    handler = logging.StreamHandler(lines)
    handler.setFormatter(LogFormatter())
    logging.getLogger().addHandler(handler)

    def stop_and_read_log(daemon: Serving) -> str:
        daemon.stop()
        daemon.join()
        return lines.getvalue()

    yield stop_and_read_log
    logging.getLogger().removeHandler(handler)


@pytest.fixture(autouse=True)
def _no_pings(monkeypatch: pytest.MonkeyPatch) -> None:
    """None comes between what is looked at record by record, however long that takes."""
    monkeypatch.setattr("agentd.live.signalr.session.PING_AFTER", 2 * PATIENCE)


def is_chat(record: Line) -> bool:
    """Return whether the record is about a chat as a whole."""
    return record.get("target") == "chatUpdate"


def assert_silent(listening: Socket) -> None:
    """Assert that nothing came, and that nothing comes for a while."""
    assert not select.select([listening.connection], [], [], 0.2)[0]


def negotiate(client: Client, query: str = "negotiateVersion=1") -> str:
    """Return the id to dial."""
    reply = client.send("POST", f"{HUB}/negotiate?{query}")
    assert reply.status == 200
    return str(reply.json().get("connectionToken") or reply["connectionId"])


def test_rule_1_negotiation_without_a_version_gives_the_connection_id_as_token(
    client: Client, dial: Dial
) -> None:
    """Rule 1."""
    old = client.send("POST", f"{HUB}/negotiate").json()
    assert old["negotiateVersion" if "negotiateVersion" in old else "connectionId"] is not None
    assert "connectionToken" not in old
    dial(f"id={old['connectionId']}").greet()


def test_rule_2_only_text_is_offered_and_stateful_reconnect_only_when_asked_for(
    client: Client,
) -> None:
    """Rule 2."""
    plain = client.send("POST", f"{HUB}/negotiate?negotiateVersion=1").json()
    assert [one["transferFormats"] for one in plain["availableTransports"]] == [["Text"]] * 3
    assert "useStatefulReconnect" not in plain
    asked = f"{HUB}/negotiate?negotiateVersion=1&useStatefulReconnect=true"
    assert client.send("POST", asked)["useStatefulReconnect"] is True


def test_rule_3_nothing_is_sent_before_the_handshake_and_its_answer_is_empty(
    client: Client, dial: Dial
) -> None:
    """Rules 3 and 4: and an event has nothing but type, target and arguments."""
    listening = dial()
    client.messages(client.create_chat(prompt="before"))
    listening.greet(1, PING)
    events = listening.read_events(1)
    assert set(events[0]) == {"type", "target", "arguments"}


def test_rule_5_a_ping_comes_by_itself_and_silence_counts_only_after_the_clients_first(
    monkeypatch: pytest.MonkeyPatch, dial: Dial
) -> None:
    """Rule 5: with short intervals."""
    monkeypatch.setattr("agentd.live.signalr.session.PING_AFTER", 0.05)
    monkeypatch.setattr("agentd.live.signalr.session.SILENCE", 0.2)
    listening = dial()
    listening.greet()
    records = listening.read_records()
    assert [next(records) for _ in range(10)] == [PING] * 10, "0.5 s of silence, and it lives"
    began = time.monotonic()
    listening.send(PING)
    assert all(record == PING for record in records)
    assert time.monotonic() - began >= 0.2


def test_rule_7_events_wait_for_the_first_record_after_the_handshake(
    monkeypatch: pytest.MonkeyPatch, client: Client, dial: Dial
) -> None:
    """Rule 7: and no longer than a while, which is as good as for ever here."""
    monkeypatch.setattr("agentd.live.signalr.session.HOLD", 2 * PATIENCE)
    listening, other = dial(), dial()
    listening.greet()
    other.greet(1, PING)
    client.create_chat()
    assert other.read_events(1)
    assert_silent(listening)
    listening.send(PING)
    assert listening.read_events(1)[0]["target"] == "chatUpdate"


def test_rule_8_a_stateful_socket_that_comes_back_receives_nothing_before_its_sequence(
    client: Client, dial: Dial
) -> None:
    """Rules 6, 8 and 9: then the oldest unacknowledged number, and what was missed."""
    token = negotiate(client, "negotiateVersion=1&useStatefulReconnect=true")
    first = dial(f"id={token}")
    first.greet(2, PING)
    client.create_chat()
    assert first.read_events(1)
    second = dial(f"id={token}")
    assert list(first.read_records()) == []
    client.create_chat()
    assert_silent(second)
    second.send({"type": 9, "sequenceId": 1})
    records = second.read_records()
    assert next(records) == {"type": 9, "sequenceId": 1}
    assert [next(records)["arguments"][0]["chatId"] for _ in range(2)] == [1, 2]


@pytest.mark.parametrize("still_open", [True, False])
def test_rule_10_a_second_socket_of_version_0_greets_again_and_gets_what_it_missed(
    client: Client, dial: Dial, *, still_open: bool
) -> None:
    """Rule 10: whether the first one looks open or was hung up."""
    token = negotiate(client, "")
    first = dial(f"id={token}")
    first.greet(1, PING)
    client.create_chat()
    assert first.read_events(1)[0]["arguments"][0]["chatId"] == 1
    if not still_open:
        first.connection.shutdown(socket.SHUT_WR)
        assert list(first.read_records()) == []  # the daemon has heard it
        client.create_chat()
    second = dial(f"id={token}")
    assert second.status == 101
    if still_open:
        assert list(first.read_records()) == []
        client.create_chat()
    second.greet(1, PING)
    assert second.read_events(1)[0]["arguments"][0]["chatId"] == 2


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", f"{HUB}/negotiate"),
        ("GET", HUB),
        ("POST", HUB),
        ("DELETE", HUB),
    ],
)
def test_rule_11_every_request_needs_a_key_of_its_own_an_id_is_none(
    daemon: Serving, client: Client, method: str, path: str
) -> None:
    """Rule 11."""
    token = negotiate(client)
    for wrong in ("", f"&api_key={'x' * 38}"):
        refused = daemon.client(key=None).send(method, f"{path}?id={token}{wrong}")
        assert (refused.status, refused["message"]) == (401, "Invalid or missing API key")
    assert daemon.client(key=None).send("OPTIONS", path).status == 204


def test_rule_11_an_id_is_valid_only_with_the_key_that_negotiated_it(
    daemon: Serving, client: Client, dial: Dial
) -> None:
    """Rule 11."""
    token = negotiate(client)
    assert dial(f"id={token}", key=daemon.new_key("other")).status == 404


@pytest.mark.parametrize("how", ["by hand", "by agentd", "by the API"])
def test_rule_11_the_connections_of_a_revoked_key_end_within_a_second(
    daemon: Serving, dial: Dial, beats: Beats, how: str
) -> None:
    """Rule 11."""
    cut = dial(key=daemon.new_key("lost"))
    cut.greet(1, PING)
    kept = dial(key=daemon.new_key("kept"))
    kept.greet(1, PING)
    if how == "by hand":
        delete_by_hand(daemon.layout, "lost")
    elif how == "by the API":
        assert daemon.client().delete("/api/keys/lost").status == 200
        daemon.client().create_chat(title="nothing of it is told")
    else:
        KeyFile(daemon.layout).revoke("lost", "2026-01-01T00:00:00.000Z")
    began = beats.seconds
    said = list(cut.read_records())
    assert beats.seconds - began < AT_ONCE
    assert said[-1] == {"type": 7, "error": "The API key is no longer valid"}
    assert cut.code == 4401
    assert "chatUpdate" not in [record.get("target") for record in said]
    daemon.client().create_chat()
    assert "chatUpdate" in [event["target"] for event in kept.read_events(2)]


def test_rule_11_without_the_file_of_keys_all_of_them_are_lost(daemon: Serving, dial: Dial) -> None:
    """Rule 11."""
    cut = dial(key=daemon.new_key("lost"))
    cut.greet(1, PING)
    Path(daemon.layout.keys).unlink()
    assert list(cut.read_records())[-1] == {"type": 7, "error": "The API key is no longer valid"}


@pytest.fixture
def unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files come and go between two scans of their folder."""
    monkeypatch.setattr("agentd.storage.folder_watcher._scan_folder", lambda path: {})


def test_rule_11_keys_whose_file_came_and_went_unseen_are_lost_too(
    unseen: None, daemon: Serving, dial: Dial
) -> None:
    """Rule 11."""
    cut = dial(key=daemon.new_key("lost"))
    cut.greet(1, PING)
    Path(daemon.layout.keys).unlink()
    assert list(cut.read_records())[-1] == {"type": 7, "error": "The API key is no longer valid"}


def test_rule_12_at_shutdown_clients_are_asked_to_come_back(daemon: Serving, dial: Dial) -> None:
    """Rule 12."""
    listening = dial()
    listening.greet(1, PING)
    daemon.stop()
    assert list(listening.read_records())[-1] == {"type": 7, "allowReconnect": True}
    assert listening.code == 1000


def test_rule_13_a_poll_that_is_over_gets_a_204_without_a_body(
    daemon: Serving, client: Client
) -> None:
    """Rule 13: one that a newer one replaces, and one whose connection ends."""
    query = f"{HUB}?id={negotiate(client)}"
    assert client.get(query).body == b""
    polls = [socket.create_connection(("127.0.0.1", daemon.port), PATIENCE) for _ in range(2)]
    for poll in polls:
        poll.sendall(build_request("GET", query, "Connection: close"))
    (replaced,) = select.select(polls, [], [], PATIENCE)[0]
    polls.remove(replaced)
    assert client.delete(query).status == 202
    for poll in (replaced, *polls):
        (reply,) = parse_replies(read_until_close(poll))
        assert (reply.status, reply.body, reply.headers.get("Content-Length")) == (204, b"", None)
        poll.close()
    assert client.get(query).status == 404


def test_rule_15_an_event_is_encoded_and_framed_once_however_many_listen(
    monkeypatch: pytest.MonkeyPatch, client: Client, dial: Dial
) -> None:
    """Rule 15."""
    made: list[bytes] = []

    def frame_and_note(data: bytes) -> bytes:
        made.append(data)
        return encode_text_frame(data)

    class CountingEncoder:
        """The encoder, watched."""

        def encode(self, message: object) -> bytes:
            encoded.append(message)
            return encoder.encode(message)

    encoder, encoded = records._encoder, []
    crowd = [dial() for _ in range(20)]
    for listening in crowd:
        listening.greet(1, PING)
    monkeypatch.setattr(records, "encode_text_frame", frame_and_note)
    monkeypatch.setattr(records, "_encoder", CountingEncoder())
    client.create_chat()
    for listening in crowd:
        assert listening.read_events(1)[0]["target"] == "chatUpdate"
    assert sum(b"chatUpdate" in data for data in made) == 1
    assert len(encoded) == 1


def test_events_that_gather_are_reported_together_and_in_order(
    monkeypatch: pytest.MonkeyPatch, daemon: Serving, dial: Dial
) -> None:
    write = SocketLink.write
    together: list[int] = []

    def write_and_note(self: SocketLink, *records: Record) -> None:
        together.append(len(records))
        write(self, *records)

    monkeypatch.setattr(
        "agentd.live.hub.CLIENTS_PER_TURN", 1
    )  # each client waits for its turn of the loop
    crowd = [dial() for _ in range(5)]
    for listening in crowd:
        listening.greet(1, PING)
    monkeypatch.setattr(SocketLink, "write", write_and_note)
    count = 60
    with ExitStack() as stack:
        address = ("127.0.0.1", daemon.port)
        with daemon.paused():
            connections = [socket.create_connection(address, PATIENCE) for _ in range(count)]
            for connection in map(stack.enter_context, connections):
                connection.sendall(build_request("POST", "/api/remote/chats", body=b"{}"))
        for listening in crowd:
            told = [event["arguments"][0]["seq"] for event in listening.read_events(count)]
            assert told == sorted(set(told))
    assert max(together) > 1
    assert sum(together) == count * len(crowd)


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost.evil.example"]
)
def test_rule_16_a_page_of_a_foreign_origin_is_refused(
    client: Client, dial: Dial, origin: str
) -> None:
    """Rule 16."""
    assert dial("", f"Origin: {origin}").status == 403
    headers = {"Origin": origin}
    assert client.send("POST", f"{HUB}/negotiate", None, headers).status == 403
    ours = {"Origin": "http://localhost:3000"}
    assert client.send("POST", f"{HUB}/negotiate", None, ours).status == 200


def test_rule_16_nothing_is_compressed(dial: Dial) -> None:
    """Rule 16."""
    offered = dial("", "Sec-WebSocket-Extensions: permessage-deflate")
    assert offered.status == 101
    assert "Sec-WebSocket-Extensions" not in offered.headers


def test_a_foreign_host_name_is_misdirected(dial: Dial) -> None:
    assert dial("", host="evil.example").status == 421


def test_the_key_in_an_address_opens_the_hub_and_nothing_else(daemon: Serving) -> None:
    """Specification 5.2."""
    nobody = daemon.client(key=None)
    assert nobody.send("POST", f"{HUB}/negotiate?api_key={KEY}").status == 200
    for path in ("/api/remote/bots", "/api/events", "/api/remote/chats/1/status"):
        assert nobody.get(f"{path}?api_key={KEY}").status == 401


@pytest.mark.parametrize(
    "lines",
    [
        ("Upgrade: websocket",),
        ("Upgrade: websocket", "Connection: Upgrade"),
        ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"),
        (
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 7000",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        ),
    ],
)
def test_a_malformed_upgrade_gets_an_error_in_the_envelope_and_no_connection(
    log: Log, daemon: Serving, lines: tuple[str, ...]
) -> None:
    headers = dict(line.split(": ") for line in lines)
    reply = daemon.client(key=None).get(f"{HUB}?api_key={KEY}", headers)
    assert reply.status == 400
    assert set(reply.json()) == {"error", "message", "details"}
    assert KEY not in log(daemon)


def test_a_flood_of_parameters_is_a_bad_request(client: Client) -> None:
    assert client.get(f"{HUB}?{'a=1&' * 200}").status == 400


def test_a_record_over_32_kib_ends_the_connection_with_a_reason(dial: Dial) -> None:
    listening = dial()
    listening.greet()
    listening.send({"type": 6, "pad": "x" * 33_000})
    (last,) = list(listening.read_records())
    assert last["type"] == 7
    assert "32768" in last["error"]


@pytest.mark.parametrize("pieces", [1, 6])
def test_a_message_over_256_kib_ends_the_connection_in_one_frame_or_in_many(
    client: Client, dial: Dial, pieces: int
) -> None:
    listening, other = dial(), dial()
    listening.greet()
    other.greet(1, PING)
    size = 300_000 // pieces
    head = bytes([0xFF]) + struct.pack("!Q", size) + bytes(4)
    opcodes = [0x01] + [0x00] * (pieces - 1)
    opcodes[-1] |= 0x80
    with suppress(ConnectionError):
        for opcode in opcodes:
            listening.connection.sendall(bytes([opcode]) + head + b"x" * size)
    assert list(listening.read_records()) == []
    assert listening.code == 1009
    client.create_chat()
    assert other.read_events(1)


def test_records_of_up_to_32_kib_are_taken(dial: Dial) -> None:
    listening = dial()
    listening.greet()
    listening.send({"type": 6, "pad": "x" * 32_000})
    listening.send({"type": 1, "target": "No", "arguments": [], "invocationId": "7"})
    answer = next(listening.read_records())
    assert (answer["type"], answer["invocationId"]) == (3, "7")


def test_an_unknown_method_is_answered_and_the_connection_stays(client: Client, dial: Dial) -> None:
    listening = dial()
    listening.greet()
    listening.send({"type": 1, "target": "Shout", "arguments": ["!"], "invocationId": "1"})
    answer = next(listening.read_records())
    assert answer["error"]
    client.create_chat()
    assert listening.read_events(1)


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", f"{HUB}/negotiate"), ("GET", HUB), ("GET", "/api/events"), ("GET", "/api/no")],
)
@pytest.mark.parametrize("key", [KEY, "wrong"])
def test_an_address_that_may_hold_a_key_is_reported_to_no_other_page(
    daemon: Serving, method: str, path: str, key: str
) -> None:
    connection = HTTPConnection("127.0.0.1", daemon.port, timeout=PATIENCE)
    with closing(connection):
        connection.request(method, f"{path}?api_key={key}", headers={"X-API-Key": key})
        assert connection.getresponse().headers["Referrer-Policy"] == "no-referrer"


def test_the_hubs_address_is_matched_without_case_and_with_a_slash(client: Client) -> None:
    for path in ("/livechathub/negotiate", "/LIVECHATHUB/negotiate/"):
        assert client.send("POST", path).status == 200


def test_neither_key_nor_id_is_in_any_line_of_the_log(
    log: Log, daemon: Serving, client: Client, dial: Dial
) -> None:
    token = negotiate(client)
    listening = dial(f"id={token}")
    listening.send_text("no handshake" + END)
    list(listening.read_records())
    other = dial()
    other.greet()
    other.connection.sendall(b"\xff" * 64)  # no frame
    list(other.read_records())
    dial(f"id=unknown&access_token={quote(KEY)}")
    told = log(daemon)
    assert HUB in told
    assert KEY not in told
    assert token not in told


def test_rule_14_a_client_that_never_reads_is_cut_while_others_hear_all(
    client: Client, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 14."""
    cut = threading.Event()
    close = SocketLink.close

    def close_and_tell(link: SocketLink, last: Record | None) -> None:
        close(link, last)
        cut.set()

    monkeypatch.setattr(SocketLink, "close", close_and_tell)
    stuck = dial()
    stuck.greet(1, PING)
    reading = dial()
    reading.greet(1, PING)
    told = reading.read_records()
    for number in range(50):
        client.messages(client.create_chat(prompt=f"{number}" + "x" * 200_000))
        ends = (record["arguments"][0].get("reason") for record in told if is_chat(record))
        assert "turn.ended" in ends  # which reads only so far
        if cut.is_set():  # what is not read for some seconds after that is lost
            break
    assert cut.is_set()
    said = list(stuck.read_records())
    assert said[-1] == {"type": 7, "allowReconnect": True}
    assert sum(record.get("target") == "messageUpdate" for record in said) < 100


def test_rule_14_who_was_cut_is_shown_what_it_missed(client: Client, dial: Dial) -> None:
    """Rule 14."""
    before = client.create_chat()
    for _ in range(3):
        client.messages(client.create_chat(prompt="missed"))
    back = dial()
    back.greet(1, PING)
    seq = 1
    back.send({"type": 1, "target": "Subscribe", "arguments": ["all", seq], "invocationId": "1"})
    told = []
    for record in back.read_records():
        if record["type"] == 3:
            assert "error" not in record
            break
        told.append(record)
    messages = [one["arguments"] for one in told if one["target"] == "messageUpdate"]
    assert [message["content"] for _, message in messages] == ["missed", "echo: missed"] * 3
    assert before not in [chat for chat, _ in messages]


def test_a_mark_from_the_future_is_a_gap(dial: Dial) -> None:
    listening = dial()
    listening.greet(1, PING)
    call = {"type": 1, "target": "Subscribe", "arguments": ["all", 99], "invocationId": "1"}
    listening.send(call)
    records = listening.read_records()
    assert next(records)["target"] == "gap"
    assert next(records) == {"type": 3, "invocationId": "1"}

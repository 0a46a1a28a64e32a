"""A key that is taken away ends what runs on it (row 12 of the threats): no supplier goes on."""

import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec import structs

from agentd.clock import iso
from agentd.disk.access_key_book import RACY
from agentd.disk.access_keys import AccessKeyFile
from agentd.proxy.channel import ChannelDialect
from agentd.proxy.entry import Entry
from tests.supplier.request import Request
from tests.supplier.steps import Answer, Say, Stall, Tokens
from tests.web.gateway.bare import Bare, bare
from tests.web.gateway.callers import (
    CHANNELS,
    DIALECTS,
    Caller,
    Standing,
    every_dialect,
    hears,
    patient,
    read,
    standing,
)
from tests.web.gateway.test_leaving import BEGUN, every_way, tasks
from tests.web.manage.conftest import HASH, MANAGEMENT_KEY
from tests.web.support import Beats, until

WORDS = "one two three four five six seven eight"
USED = Tokens(input=1000, output=100)

every_supplier = pytest.mark.parametrize("supplier", DIALECTS)

TakeAway = Callable[[Standing, str], None]
"""Takes the key of an id away."""


@pytest.fixture(scope="module")
def odd() -> Iterator[Bare]:
    with bare() as made:
        yield made


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, odd: Bare) -> Iterator[Standing]:
    environ = {"PROXY_APP_HASH": HASH}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agentd.web.desk.PARTING_SECONDS", 60.0)  # the tests take their time to read
        with standing(tmp_path_factory.mktemp("house"), patient(odd), environ=environ) as made:
            yield made


def managed(place: Standing, method: str, path: str) -> int:
    with closing(place.daemon.client(MANAGEMENT_KEY)) as manager:
        return manager.send(method, f"/api/agent/{path}").status


def deleted(place: Standing, key: str) -> None:
    assert managed(place, "DELETE", f"keys/{key}") == 204


def disabled(place: Standing, key: str) -> None:
    assert managed(place, "POST", f"keys/{key}/disable") == 200


def reissued(place: Standing, key: str) -> None:
    with closing(place.daemon.client(MANAGEMENT_KEY)) as manager:
        assert manager.post(f"/api/agent/keys/{key}/reissue", {}).status == 200


def by_command(place: Standing, key: str) -> None:
    AccessKeyFile(place.house.layout).remove(key)


def by_hand(place: Standing, key: str) -> None:
    edited(place, rf"- id: '{key}'\n.*?(?=- id:|\Z)", "")


def disabled_by_hand(place: Standing, key: str) -> None:
    edited(place, rf"(- id: '{key}'\n)", r"\1  enabled: false\n")


def expired(place: Standing, key: str) -> None:
    at = iso(datetime.now(UTC) + timedelta(milliseconds=300))
    AccessKeyFile(place.house.layout).change(key, lambda one: structs.replace(one, expires=at))


def edited(place: Standing, pattern: str, instead: str) -> None:
    """Save the file as an editor does."""
    path = Path(place.house.layout.access_keys)
    text = path.read_text()
    changed = re.sub(pattern, instead, text, flags=re.DOTALL)
    assert changed != text
    saved = path.with_suffix(".new")
    saved.write_text(changed)
    saved.chmod(0o600)
    saved.rename(path)


def last(place: Standing) -> Request:
    """The request that the supplier heard last."""
    return place.supplier.requests[-1]


def stalled(place: Standing, supplier: ChannelDialect, after: int | None = None) -> Stall:
    """The supplier's next answer hangs: in its middle, or after so many events."""
    stall = Stall(BEGUN[supplier] if after is None else after)
    place.supplier.script(Answer((Say(WORDS),), USED, faults=(stall,)))
    return stall


def sent_away(place: Standing, caller: Caller, *, status: int) -> Entry:
    """The entry of the caller's one call, which was ended with his key."""
    (entry,) = place.of(caller, 1)
    assert (entry.outcome, entry.error, entry.status) == ("left", "revoked", status)
    assert entry.estimated and entry.usage.total_input and entry.cost > 0
    return entry


@every_supplier
@every_dialect
def test_a_stream_ends_with_an_error_and_the_supplier_is_cut_off(
    place: Standing, dialect: ChannelDialect, supplier: ChannelDialect
) -> None:
    for kind in ("by", "patient"):
        stall, caller = stalled(place, supplier), place.caller()
        with caller.begin(dialect, f"{kind}-{CHANNELS[supplier]}") as line:
            stall.reached.result(60)
            hears(line, b'"one')
            deleted(place, place.house.keys[-1])
            told = read(line, dialect)
        assert (told.status, told.whole, told.ended) == (200, True, False)
        assert "good no more" in told.error()["message"]
        assert WORDS.startswith(told.text().strip()) and told.text()
        last(place).gone.result(60)
        assert sent_away(place, caller, status=200).usage.output > 0


@every_way
@every_dialect
def test_who_waits_for_an_answer_is_refused_and_the_supplier_is_cut_off(
    place: Standing, dialect: ChannelDialect, stream: bool
) -> None:
    for kind in ("by", "patient"):
        stall, caller = stalled(place, dialect, 0), place.caller()
        with caller.begin(dialect, f"{kind}-{CHANNELS[dialect]}", stream=stream) as line:
            stall.reached.result(60)
            disabled(place, place.house.keys[-1])
            told = read(line, dialect)
            assert (told.status, told.whole) == (401, True)
            assert "good no more" in told.error()["message"]
            last(place).gone.result(60)
            sent_away(place, caller, status=401)


@pytest.mark.parametrize("after", [0, 4], ids=["before the answer", "in the middle"])
def test_what_is_heard_out_for_a_caller_who_left_is_ended_too(place: Standing, after: int) -> None:
    stall, caller = stalled(place, "openai-chat", after), place.caller()
    with caller.begin("openai-chat", "patient-chat") as line:
        stall.reached.result(60)
        if after:
            hears(line, b'"one')
    until(lambda: tasks(place, "_hear_out", "_drained"))
    assert not place.so_far(caller)
    deleted(place, place.house.keys[-1])
    last(place).gone.result(60)
    sent_away(place, caller, status=200 if after else 499)
    assert until(lambda: tasks(place, "_hear_out", "_drained") == 0)


@pytest.mark.parametrize(
    "take_away",
    [deleted, disabled, reissued, by_command, by_hand, disabled_by_hand, expired],
    ids=lambda one: one.__name__,
)
def test_however_the_key_is_taken_away_it_is_so_within_a_second(
    place: Standing, take_away: TakeAway, beats: Beats
) -> None:
    with closing(place.daemon.client(MANAGEMENT_KEY)):  # somebody else calls nobody meanwhile
        stalls, caller = [stalled(place, "openai-chat", after) for after in (4, 0)], place.caller()
        lines = []
        for stall in stalls:
            lines.append(caller.begin("openai-chat", "by-chat"))
            stall.reached.result(60)
        hears(lines[0], b'"one')
        take_away(place, place.house.keys[-1])
        began = beats.seconds
        told = [read(line, "openai-chat") for line in lines]
        spent = beats.seconds - began
    for line in lines:
        line.close()
    assert [one.status for one in told] == [200, 401]
    assert all("good no more" in one.error()["message"] for one in told)
    assert {entry.error for entry in place.of(caller, 2)} == {"revoked"}
    assert spent < 5, spent  # a second, or 1.3 until it expires; the machine may be busy


def test_the_calls_of_other_keys_go_on_and_no_channel_rests(place: Standing) -> None:
    stays, goes = place.caller(), place.caller()
    stalls = [stalled(place, "anthropic") for _ in range(2)]
    with goes.begin("anthropic", "by-messages") as cut:
        stalls[0].reached.result(60)
        with stays.begin("anthropic", "by-messages") as line:
            stalls[1].reached.result(60)
            deleted(place, place.house.keys[-1])
            assert read(cut, "anthropic").error()["type"] == "authentication_error"
            stalls[1].release()
            told = read(line, "anthropic")
    assert told.ended and told.text() == WORDS
    place.supplier.script(Say("well"))
    assert stays.ask("anthropic", "by-messages").text() == "well"


def test_the_supplier_is_cut_off_though_the_caller_takes_nothing(
    place: Standing, odd: Bare
) -> None:
    cut, sent = [], 0
    event = b'data: {"choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % (b"x" * 65000)

    def pour(line: socket.socket) -> None:
        nonlocal sent
        line.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        try:
            while True:
                line.sendall(event)
                sent += 1
        except ConnectionError:
            cut.append(sent)

    odd.behave = pour
    caller = place.caller()
    with caller.begin("openai-chat", "odd") as line:
        hears(line, b'"xxx')
        before = -1
        while before < sent:  # until nothing moves for a while
            before = sent
            until(lambda: tasks(place) is not None)
        deleted(place, place.house.keys[-1])
        assert until(lambda: cut)
        entry = sent_away(place, caller, status=200)
        assert entry.usage.output > 0
        rest = b""
        while piece := line.recv(2**20):
            rest = rest[-1000:] + piece
            if rest.endswith(b"\r\n0\r\n\r\n"):
                break
    assert b"good no more" in rest[-1000:]


def test_a_reply_that_was_booked_already_is_the_callers(place: Standing, odd: Bare) -> None:
    """Only its connection is still open, for a supplier that does not end what it has said."""
    piece = {"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]}
    said = f"data: {json.dumps(piece)}\n\ndata: [DONE]\n\n".encode()

    def linger(line: socket.socket) -> None:
        line.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + said)
        line.recv(1)

    odd.behave = linger
    caller = place.caller()
    with caller.begin("openai-chat", "odd") as line:
        (entry,) = place.of(caller, 1)
        deleted(place, place.house.keys[-1])
        told = read(line, "openai-chat")
    assert told.whole and told.ended and told.text() == "hi"
    assert entry.outcome == "ok"


def test_a_key_that_is_reinstated_by_command_opens_again(place: Standing) -> None:
    file, path = AccessKeyFile(place.house.layout), Path(place.house.layout.access_keys)
    caller, key = place.caller(), place.house.keys[-1]
    older = path.read_text()
    file.remove(key)
    path.write_text(older)
    began = time.monotonic()
    while time.monotonic() < began + 5 * RACY:  # until the file is known for good
        assert caller.ask("openai-chat", "by-chat").status == 401
    file.reinstate(key)
    place.supplier.script(Say("well"))
    until(lambda: caller.ask("openai-chat", "by-chat").status == 200)


def test_the_service_log_tells_why_once_for_each_key(place: Standing) -> None:
    stalls, caller = [stalled(place, "openai-chat", 4) for _ in range(3)], place.caller()
    lines = []
    for stall in stalls:
        lines.append(caller.begin("openai-chat", "by-chat"))
        stall.reached.result(60)
    deleted(place, place.house.keys[-1])
    for line in lines:
        read(line, "openai-chat")
        line.close()
    place.of(caller, 3)
    path = f"/api/agent/service-log?kind=key_gone&key={place.house.keys[-1]}"
    with closing(place.daemon.client(MANAGEMENT_KEY)) as manager:
        (note,) = until(lambda: manager.get(path)["items"])
    assert "was under way is ended" in note["text"]

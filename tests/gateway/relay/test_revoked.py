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

from agentd.core.clock import format_iso
from agentd.gateway.keys.file import AccessKeyFile
from agentd.gateway.ledger.bodies import BodyStore
from agentd.gateway.ledger.record import RequestRecord
from agentd.llm.endpoint import ChannelDialect
from agentd.storage.watched_file import SAME_STAMP_SECONDS
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.gateway.relay.callers import (
    CHANNELS,
    DIALECTS,
    Caller,
    RunningGateway,
    build_drain_setup,
    every_dialect,
    read_answer,
    running_gateway,
    wait_for_bytes,
)
from tests.gateway.relay.raw_supplier import RawSupplier, running_raw_supplier
from tests.gateway.relay.test_leaving import BEGUN, count_tasks, every_way
from tests.supplier.request import Request
from tests.supplier.steps import Answer, Say, Stall, Tokens
from tests.support.daemon import Beats, until

WORDS = "one two three four five six seven eight"
USED = Tokens(input=1000, output=100)

every_supplier = pytest.mark.parametrize("supplier", DIALECTS)

TakeAway = Callable[[RunningGateway, str], None]
"""Takes the key of an id away."""


@pytest.fixture(scope="module")
def raw_supplier() -> Iterator[RawSupplier]:
    with running_raw_supplier() as made:
        yield made


@pytest.fixture(scope="module")
def gateway(
    tmp_path_factory: pytest.TempPathFactory, raw_supplier: RawSupplier
) -> Iterator[RunningGateway]:
    environ = {"PROXY_APP_HASH": HASH}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "agentd.http.context.ABORT_TIMEOUT", 60.0
        )  # the tests take their time to read
        with running_gateway(
            tmp_path_factory.mktemp("gateway"), build_drain_setup(raw_supplier), environ=environ
        ) as made:
            yield made


def send_management_request(gateway: RunningGateway, method: str, path: str) -> int:
    with closing(gateway.daemon.client(MANAGEMENT_KEY)) as manager:
        return manager.send(method, f"/api/agent/{path}").status


def delete_key(gateway: RunningGateway, key: str) -> None:
    assert send_management_request(gateway, "DELETE", f"keys/{key}") == 204


def disable_key(gateway: RunningGateway, key: str) -> None:
    assert send_management_request(gateway, "POST", f"keys/{key}/disable") == 200


def reissue_key(gateway: RunningGateway, key: str) -> None:
    with closing(gateway.daemon.client(MANAGEMENT_KEY)) as manager:
        assert manager.post(f"/api/agent/keys/{key}/reissue", {}).status == 200


def remove_key_by_command(gateway: RunningGateway, key: str) -> None:
    AccessKeyFile(gateway.setup.layout).remove(key)


def remove_key_by_hand(gateway: RunningGateway, key: str) -> None:
    edit_keys_file(gateway, rf"- id: '{key}'\n.*?(?=- id:|\Z)", "")


def disable_key_by_hand(gateway: RunningGateway, key: str) -> None:
    edit_keys_file(gateway, rf"(- id: '{key}'\n)", r"\1  enabled: false\n")


def expire_key(gateway: RunningGateway, key: str) -> None:
    at = format_iso(datetime.now(UTC) + timedelta(milliseconds=300))
    AccessKeyFile(gateway.setup.layout).change(key, lambda one: structs.replace(one, expires=at))


def edit_keys_file(gateway: RunningGateway, pattern: str, instead: str) -> None:
    """Save the file as an editor does."""
    path = Path(gateway.setup.layout.access_keys)
    text = path.read_text()
    changed = re.sub(pattern, instead, text, flags=re.DOTALL)
    assert changed != text
    saved = path.with_suffix(".new")
    saved.write_text(changed)
    saved.chmod(0o600)
    saved.rename(path)


def get_last_request(gateway: RunningGateway) -> Request:
    """Return the request that the supplier received last."""
    return gateway.supplier.requests[-1]


def stall_next_answer(
    gateway: RunningGateway, supplier: ChannelDialect, after: int | None = None
) -> Stall:
    """Stall the supplier's next answer: in its middle, or after so many events."""
    stall = Stall(BEGUN[supplier] if after is None else after)
    gateway.supplier.script(Answer((Say(WORDS),), USED, faults=(stall,)))
    return stall


def wait_for_revoked_record(
    gateway: RunningGateway, caller: Caller, *, status: int
) -> RequestRecord:
    """Wait for the record of the one call that was ended with its key."""
    (entry,) = gateway.wait_for_records_of(caller, 1)
    assert (entry.outcome, entry.error, entry.status) == ("left", "revoked", status)
    assert entry.estimated and entry.usage.total_input and entry.cost > 0
    return entry


@every_supplier
@every_dialect
def test_a_stream_ends_with_an_error_and_the_supplier_is_cut_off(
    gateway: RunningGateway, dialect: ChannelDialect, supplier: ChannelDialect
) -> None:
    for kind in ("by", "patient"):
        stall, caller = stall_next_answer(gateway, supplier), gateway.add_caller()
        with caller.begin_call(dialect, f"{kind}-{CHANNELS[supplier]}") as line:
            stall.reached.result(60)
            wait_for_bytes(line, b'"one')
            delete_key(gateway, gateway.setup.keys[-1])
            reply = read_answer(line, dialect)
        assert (reply.status, reply.whole, reply.ended) == (200, True, False)
        assert "revoked or expired" in reply.error()["message"]
        assert WORDS.startswith(reply.text().strip()) and reply.text()
        get_last_request(gateway).gone.result(60)
        assert wait_for_revoked_record(gateway, caller, status=200).usage.output > 0


@every_way
@every_dialect
def test_a_client_that_waits_for_an_answer_is_refused_and_the_supplier_is_cut_off(
    gateway: RunningGateway, dialect: ChannelDialect, stream: bool
) -> None:
    for kind in ("by", "patient"):
        stall, caller = stall_next_answer(gateway, dialect, 0), gateway.add_caller()
        with caller.begin_call(dialect, f"{kind}-{CHANNELS[dialect]}", stream=stream) as line:
            stall.reached.result(60)
            disable_key(gateway, gateway.setup.keys[-1])
            reply = read_answer(line, dialect)
            assert (reply.status, reply.whole) == (401, True)
            assert "revoked or expired" in reply.error()["message"]
            get_last_request(gateway).gone.result(60)
            wait_for_revoked_record(gateway, caller, status=401)


@pytest.mark.parametrize("after", [0, 4], ids=["before the answer", "in the middle"])
def test_what_is_drained_for_a_caller_who_left_is_ended_too(
    gateway: RunningGateway, after: int
) -> None:
    stall, caller = stall_next_answer(gateway, "openai-chat", after), gateway.add_caller()
    with caller.begin_call("openai-chat", "patient-chat") as line:
        stall.reached.result(60)
        if after:
            wait_for_bytes(line, b'"one')
    until(lambda: count_tasks(gateway, "_drain"))
    assert not gateway.read_records_of(caller)
    delete_key(gateway, gateway.setup.keys[-1])
    get_last_request(gateway).gone.result(60)
    wait_for_revoked_record(gateway, caller, status=200 if after else 499)
    assert until(lambda: count_tasks(gateway, "_drain") == 0)


def test_the_bodies_of_what_was_drained_for_it_are_kept_once(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[str] = []
    monkeypatch.setattr(BodyStore, "store", lambda _, id_, *more: kept.append(id_))
    caller, stall = gateway.add_caller(keep_bodies=True), stall_next_answer(gateway, "openai-chat")
    with caller.begin_call("openai-chat", "patient-chat") as line:
        stall.reached.result(60)
        wait_for_bytes(line, b'"one')
    until(lambda: count_tasks(gateway, "_drain"))
    delete_key(gateway, gateway.setup.keys[-1])
    entry = wait_for_revoked_record(gateway, caller, status=200)
    until(lambda: not count_tasks(gateway, "_drain"))
    assert kept == [entry.id]


@pytest.mark.parametrize(
    "take_away",
    [
        delete_key,
        disable_key,
        reissue_key,
        remove_key_by_command,
        remove_key_by_hand,
        disable_key_by_hand,
        expire_key,
    ],
    ids=lambda one: one.__name__,
)
def test_however_the_key_is_taken_away_it_is_so_within_a_second(
    gateway: RunningGateway, take_away: TakeAway, beats: Beats
) -> None:
    with closing(gateway.daemon.client(MANAGEMENT_KEY)):  # somebody else calls nobody meanwhile
        stalls, caller = (
            [stall_next_answer(gateway, "openai-chat", after) for after in (4, 0)],
            gateway.add_caller(),
        )
        lines = []
        for stall in stalls:
            lines.append(caller.begin_call("openai-chat", "by-chat"))
            stall.reached.result(60)
        wait_for_bytes(lines[0], b'"one')
        take_away(gateway, gateway.setup.keys[-1])
        began = beats.seconds
        reply = [read_answer(line, "openai-chat") for line in lines]
        spent = beats.seconds - began
    for line in lines:
        line.close()
    assert [one.status for one in reply] == [200, 401]
    assert all("revoked or expired" in one.error()["message"] for one in reply)
    assert {entry.error for entry in gateway.wait_for_records_of(caller, 2)} == {"revoked"}
    assert spent < 5, spent  # a second, or 1.3 until it expires; the machine may be busy


def test_the_calls_of_other_keys_go_on_and_no_channel_rests(gateway: RunningGateway) -> None:
    stays, goes = gateway.add_caller(), gateway.add_caller()
    stalls = [stall_next_answer(gateway, "anthropic") for _ in range(2)]
    with goes.begin_call("anthropic", "by-messages") as cut:
        stalls[0].reached.result(60)
        with stays.begin_call("anthropic", "by-messages") as line:
            stalls[1].reached.result(60)
            delete_key(gateway, gateway.setup.keys[-1])
            assert read_answer(cut, "anthropic").error()["type"] == "authentication_error"
            stalls[1].release()
            reply = read_answer(line, "anthropic")
    assert reply.ended and reply.text() == WORDS
    gateway.supplier.script(Say("well"))
    assert stays.ask("anthropic", "by-messages").text() == "well"


def test_the_supplier_is_cut_off_though_the_caller_takes_nothing(
    gateway: RunningGateway, raw_supplier: RawSupplier
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

    raw_supplier.behave = pour
    caller = gateway.add_caller()
    with caller.begin_call("openai-chat", "odd") as line:
        wait_for_bytes(line, b'"xxx')
        before = -1
        while before < sent:  # until nothing moves for a while
            before = sent
            until(lambda: count_tasks(gateway) is not None)
        delete_key(gateway, gateway.setup.keys[-1])
        assert until(lambda: cut)
        entry = wait_for_revoked_record(gateway, caller, status=200)
        assert entry.usage.output > 0
        rest = b""
        while piece := line.recv(2**20):
            rest = rest[-1000:] + piece
            if rest.endswith(b"\r\n0\r\n\r\n"):
                break
    assert b"revoked or expired" in rest[-1000:]


def test_the_caller_is_told_why_though_the_suppliers_reply_ends_with_its_connection(
    gateway: RunningGateway, raw_supplier: RawSupplier
) -> None:
    """Such a reply has no length: cut off, it looks as if the supplier had ended it."""
    piece = {"choices": [{"index": 0, "delta": {"content": "hi"}}]}

    def stall(line: socket.socket) -> None:
        line.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        line.sendall(f"data: {json.dumps(piece)}\n\n".encode())
        line.recv(1)

    raw_supplier.behave = stall
    caller = gateway.add_caller()
    with caller.begin_call("openai-chat", "odd") as line:
        wait_for_bytes(line, b'"hi"')
        delete_key(gateway, gateway.setup.keys[-1])
        reply = read_answer(line, "openai-chat")
    assert (reply.status, reply.whole, reply.ended) == (200, True, False)
    assert "revoked or expired" in reply.error()["message"]
    wait_for_revoked_record(gateway, caller, status=200)


def test_a_reply_that_was_recorded_already_is_the_callers(
    gateway: RunningGateway, raw_supplier: RawSupplier
) -> None:
    """Only its connection is still open, for a supplier that does not end what it has said."""
    piece = {"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]}
    said = f"data: {json.dumps(piece)}\n\ndata: [DONE]\n\n".encode()

    def linger(line: socket.socket) -> None:
        line.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + said)
        line.recv(1)

    raw_supplier.behave = linger
    caller = gateway.add_caller()
    with caller.begin_call("openai-chat", "odd") as line:
        (entry,) = gateway.wait_for_records_of(caller, 1)
        delete_key(gateway, gateway.setup.keys[-1])
        reply = read_answer(line, "openai-chat")
    assert reply.whole and reply.ended and reply.text() == "hi"
    assert entry.outcome == "ok"


def test_a_key_that_is_reinstated_by_command_opens_again(gateway: RunningGateway) -> None:
    file, path = AccessKeyFile(gateway.setup.layout), Path(gateway.setup.layout.access_keys)
    caller, key = gateway.add_caller(), gateway.setup.keys[-1]
    older = path.read_text()
    file.remove(key)
    path.write_text(older)
    began = time.monotonic()
    while time.monotonic() < began + 5 * SAME_STAMP_SECONDS:  # until the file is known for good
        assert caller.ask("openai-chat", "by-chat").status == 401
    file.reinstate(key)
    gateway.supplier.script(Say("well"))
    until(lambda: caller.ask("openai-chat", "by-chat").status == 200)


def test_the_service_log_shows_why_once_for_each_key(gateway: RunningGateway) -> None:
    stalls, caller = (
        [stall_next_answer(gateway, "openai-chat", 4) for _ in range(3)],
        gateway.add_caller(),
    )
    lines = []
    for stall in stalls:
        lines.append(caller.begin_call("openai-chat", "by-chat"))
        stall.reached.result(60)
    delete_key(gateway, gateway.setup.keys[-1])
    for line in lines:
        read_answer(line, "openai-chat")
        line.close()
    gateway.wait_for_records_of(caller, 3)
    path = f"/api/agent/service-log?kind=key_revoked&key={gateway.setup.keys[-1]}"
    with closing(gateway.daemon.client(MANAGEMENT_KEY)) as manager:
        (note,) = until(lambda: manager.get(path)["items"])
    assert "running requests were ended" in note["text"]

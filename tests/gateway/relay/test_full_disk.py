"""A disk that takes no line of the ledger: calls stop or go on as is set, and nothing is silent."""

import errno
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from agentd.gateway.relay.recorder import LEDGER_UNAVAILABLE
from agentd.llm.endpoint import ChannelDialect
from tests.crash.test_faults import mounted
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.gateway.conftest import GatewaySetup
from tests.gateway.relay.callers import (
    CHANNELS,
    Caller,
    CallResult,
    RunningGateway,
    every_dialect,
    read_answer,
    running_gateway,
)
from tests.supplier.request import Request
from tests.supplier.steps import Answer, Break, Say, Tokens
from tests.support.daemon import until

WORDS = "one two three"
USED = Tokens(input=1000, output=100)

every_way = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


class Disk:
    """The process's disk: while it is ``full`` it takes half a line of a ledger, then no more.

    While it is ``scarce``, it takes no more than a line at once. While it is ``broken``, what was
    written to a ledger cannot be synced.
    """

    def __init__(self) -> None:
        self.full = self.scarce = self.broken = False
        self._write, self._sync = os.write, os.fdatasync

    def write(self, fd: int, data: bytes) -> int:
        """Replace ``os.write``."""
        if (self.full or (self.scarce and len(data) > 4096)) and _is_ledger(fd):
            self._write(fd, bytes(data)[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._write(fd, data)

    def fdatasync(self, fd: int) -> None:
        """Replace ``os.fdatasync``."""
        if self.broken and _is_ledger(fd):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._sync(fd)


def _is_ledger(fd: int) -> bool:
    return "/proxy/requests/" in os.readlink(f"/proc/self/fd/{fd}")


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """The disk, which is mended in the end."""
    made = Disk()
    monkeypatch.setattr(os, "write", made.write)
    monkeypatch.setattr(os, "fdatasync", made.fdatasync)
    yield made
    made.full = made.scarce = made.broken = False
    FILLED_WHEN_ASKED.clear()


@pytest.fixture(scope="module")
def stopping(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway that takes no calls which it cannot book."""
    with running_gateway_with_reply(
        tmp_path_factory.mktemp("stopping"), on_ledger_failure="refuse"
    ) as made:
        yield made


@pytest.fixture(scope="module")
def going_on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway that takes them all the same."""
    with running_gateway_with_reply(
        tmp_path_factory.mktemp("going-on"), on_ledger_failure="continue"
    ) as made:
        yield made


def running_gateway_with_reply(
    folder: Path, **settings: Any
) -> AbstractContextManager[RunningGateway]:
    def prepare(setup: GatewaySetup) -> None:
        setup.settings |= settings
        setup.supplier.answer_always(_fill_disk, Answer((Say(WORDS),), USED))

    return running_gateway(folder, prepare, environ={"PROXY_APP_HASH": HASH})


FILLED_WHEN_ASKED: list[Disk] = []
"""Disks that are full from the moment on at which the supplier is asked."""


def _fill_disk(_: Request) -> None:
    for disk in FILLED_WHEN_ASKED:
        disk.full = True


def mend_disk(gateway: RunningGateway, disk: Disk) -> Caller:
    """Mend the disk, and return a caller who was answered since."""
    disk.full = False
    caller = gateway.add_caller()
    assert caller.ask("openai-chat", "by-chat").status == 200
    return caller


def get_ledger_problem(gateway: RunningGateway) -> str:
    """Get the problem of the ledger from the summary."""
    with closing(gateway.daemon.client(MANAGEMENT_KEY)) as manager:
        return str(manager.get("/api/agent/summary")["ledgerProblem"])


def get_notes(gateway: RunningGateway) -> list[dict[str, Any]]:
    """Get the service log, newest first."""
    with closing(gateway.daemon.client(MANAGEMENT_KEY)) as manager:
        found: list[dict[str, Any]] = manager.get("/api/agent/service-log")["items"]
        return found


def is_complete(result: CallResult, *, stream: bool) -> bool:
    """Return whether the answer came up to its end."""
    return result.status == 200 and result.text() == WORDS and (result.ended or not stream)


@every_way
@every_dialect
def test_what_cannot_be_recorded_is_no_answer_where_calls_are_to_stop(
    stopping: RunningGateway, disk: Disk, dialect: ChannelDialect, stream: bool
) -> None:
    mend_disk(stopping, disk)
    caller, model = stopping.add_caller(), f"by-{CHANNELS[dialect]}"
    before = len(stopping.supplier.requests)
    FILLED_WHEN_ASKED.append(disk)
    result = caller.ask(dialect, model, stream=stream)
    FILLED_WHEN_ASKED.clear()
    assert result.error()["message"].startswith(LEDGER_UNAVAILABLE)
    if stream:
        assert (result.status, result.ended) == (200, False)
    else:
        assert result.status >= 500
        assert WORDS not in result.body.decode()
    for _ in range(2):
        again = caller.ask(dialect, model, stream=stream)
        assert again.status >= 500
        assert again.error()["message"].startswith(LEDGER_UNAVAILABLE)
    assert len(stopping.supplier.requests) == before + 1, "a supplier was asked for nothing"
    assert not stopping.read_records_of(caller)
    assert "disk full" in get_ledger_problem(stopping)
    disk.full = False
    assert is_complete(caller.ask(dialect, model, stream=stream), stream=stream)
    assert [one.outcome for one in stopping.wait_for_records_of(caller, 1)] == ["ok"]


@every_way
def test_on_a_full_disk_no_supplier_is_asked_where_calls_are_to_stop(
    stopping: RunningGateway, disk: Disk, stream: bool
) -> None:
    mend_disk(stopping, disk)
    caller, before = stopping.add_caller(), len(stopping.supplier.requests)
    disk.full = True
    for _ in range(3):
        result = caller.ask("anthropic", "by-messages", stream=stream)
        assert result.status >= 500
        assert result.error()["message"].startswith(LEDGER_UNAVAILABLE)
    assert len(stopping.supplier.requests) == before


@every_way
@every_dialect
def test_calls_go_on_unbooked_where_they_are_to_and_the_log_names_each(
    going_on: RunningGateway,
    disk: Disk,
    caplog: pytest.LogCaptureFixture,
    dialect: ChannelDialect,
    stream: bool,
) -> None:
    caller, model = going_on.add_caller(), f"by-{CHANNELS[dialect]}"
    disk.full = True
    result = [caller.ask(dialect, model, stream=stream) for _ in range(3)]
    assert all(is_complete(one, stream=stream) for one in result)
    assert not going_on.read_records_of(caller)
    for one in result:
        assert one.id in caplog.text
    disk.full = False
    last = caller.ask(dialect, model, stream=stream)
    assert [one.id for one in going_on.wait_for_records_of(caller, 1)] == [last.id]


@pytest.mark.parametrize("kind", ["stopping", "going_on"])
def test_the_service_log_shows_when_it_began_and_how_many_are_missing_when_it_is_over(
    kind: str, disk: Disk, request: pytest.FixtureRequest
) -> None:
    gateway: RunningGateway = request.getfixturevalue(kind)
    caller = mend_disk(gateway, disk)
    disk.full = True
    for _ in range(7):  # as nobody else does
        caller.ask("anthropic", "by-messages")
    mend_disk(gateway, disk)
    over, began = until(
        lambda: found if " 7 " in (found := get_notes(gateway)[:2])[0]["text"] else None
    )
    assert (began["kind"], began["level"]) == ("ledger_failed", "error")
    assert gateway.setup.layout.ledger in began["text"]
    assert "disk full" in began["text"]
    assert over["kind"] == "ledger_recovered"
    assert "; 7 earlier ones are missing" in over["text"]


def test_many_who_come_after_the_space_is_back_are_all_answered(
    stopping: RunningGateway, disk: Disk
) -> None:
    disk.full = True
    caller = stopping.add_caller()
    assert caller.ask("openai-chat", "by-chat").status >= 500
    disk.full = False
    with ExitStack() as stack:
        lines = [
            stack.enter_context(caller.begin_call("openai-chat", "by-chat", stream=False))
            for _ in range(20)
        ]
        assert {read_answer(line, "openai-chat").status for line in lines} == {200}
    assert not list(Path(stopping.setup.layout.ledger).glob("probe"))


def test_where_space_is_too_scarce_for_more_than_a_line_calls_stay_stopped(
    stopping: RunningGateway, disk: Disk
) -> None:
    caller, before = stopping.add_caller(), len(stopping.supplier.requests)
    disk.full = disk.scarce = True
    assert caller.ask("openai-chat", "by-chat").status >= 500
    disk.full = False
    for _ in range(2):
        assert caller.ask("openai-chat", "by-chat").status >= 500
    assert len(stopping.supplier.requests) == before
    disk.scarce = False
    assert caller.ask("openai-chat", "by-chat").status == 200


def test_a_limit_counts_what_could_not_be_recorded_as_long_as_the_daemon_lives(
    going_on: RunningGateway, disk: Disk
) -> None:
    caller = going_on.add_caller(limits={"total": "0.02"})
    disk.full = True
    result = [caller.ask("openai-chat", "by-chat") for _ in range(3)]
    assert [one.status for one in result] == [200, 200, 429]  # 0.0045 each, and 0.015 at most
    assert "0.009 USD used" in result[-1].error()["message"]


def test_a_stream_that_broke_and_cannot_be_recorded_ends_with_one_error(
    tmp_path: Path, disk: Disk
) -> None:
    with running_gateway(tmp_path) as gateway:
        gateway.supplier.answer_always(_fill_disk)
        gateway.supplier.script(Answer((Say(WORDS),), USED, faults=(Break(4),)))
        FILLED_WHEN_ASKED.append(disk)
        result = gateway.add_caller().ask("anthropic", "by-messages", stream=True)
    assert not result.ended
    assert result.error()["message"]
    assert result.body.count(b"event: error") == 1


def test_after_a_failed_sync_nothing_is_sent_on_until_a_restart(tmp_path: Path, disk: Disk) -> None:
    with running_gateway_with_reply(
        tmp_path, on_ledger_failure="refuse", sync_ledger=True
    ) as gateway:
        caller = gateway.add_caller(name="one")
        disk.broken = True
        result = caller.ask("openai-chat", "by-chat")
        disk.broken = False
        assert result.status >= 500
        assert WORDS not in result.body.decode()
        for _ in range(3):
            assert caller.ask("openai-chat", "by-chat").status >= 500
        assert len(gateway.supplier.requests) == 1
        (note,) = until(lambda: [one for one in get_notes(gateway) if one["level"] == "error"])
        assert "the disk failed" in note["text"]
        assert "the disk failed" in get_ledger_problem(gateway)
    with running_gateway_with_reply(
        tmp_path, on_ledger_failure="refuse", sync_ledger=True
    ) as gateway:
        assert is_complete(
            gateway.add_caller(name="two").ask("openai-chat", "by-chat"), stream=False
        )


def test_on_a_disk_that_is_wholly_full_calls_stop_and_come_back_with_the_space(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    with mounted(state, "-t", "tmpfs", "-o", "size=512k,mode=700", "tmpfs"):
        with running_gateway_with_reply(tmp_path, on_ledger_failure="refuse") as gateway:
            caller = gateway.add_caller(name="one")
            assert is_complete(caller.ask("openai-chat", "by-chat"), stream=False)
            ballast = state / "ballast"
            fill_space(ballast)
            answered = iter(lambda: caller.ask("anthropic", "by-messages"), None)
            refused = next(one for one in answered if one.status != 200)
            assert refused.error()["message"].startswith(LEDGER_UNAVAILABLE)
            assert "disk full" in caplog.text
            assert caller.ask("anthropic", "by-messages").status != 200
            ballast.unlink()
            assert caller.ask("anthropic", "by-messages").status == 200
            assert not get_ledger_problem(gateway)
        booked = gateway.setup.read_records()
        assert {one.outcome for one in booked} <= {"ok", "refused"}
        with (
            running_gateway_with_reply(tmp_path) as gateway,
            closing(gateway.daemon.client(MANAGEMENT_KEY)) as manager,
        ):
            total = manager.get("/api/agent/reports/totals")["total"]
            # A call whose mark still found room, and whose record did not, is booked by this start.
            booked = gateway.setup.read_records()
        assert total["requests"] == len(booked)
        assert total["ok"] == sum(one.outcome == "ok" for one in booked)


def fill_space(path: Path) -> None:
    """Make a file that takes all the free space."""
    with path.open("wb", buffering=0) as file:
        for size in (65536, 512):
            try:
                while file.write(b"0" * size) == size:
                    pass
            except OSError as error:
                assert error.errno == errno.ENOSPC

"""The service manager hears what it is told, and can never harm the daemon."""

import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentd.system.sd_notify import MAX_STATUS, Notifier

Connect = Callable[..., Notifier]


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[socket.socket]:
    """A listening service manager, on each of the two kinds of socket."""
    abstract = f"\0agentd-test-{os.getpid()}-{os.urandom(8).hex()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "n") if request.param == "path" else abstract)
        listener.settimeout(60)
        yield listener


def format_address(listener: socket.socket) -> str:
    """Return the listener's address as ``NOTIFY_SOCKET`` writes it."""
    name = listener.getsockname()
    return name if isinstance(name, str) else "@" + name[1:].decode()


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Makes notifiers from variables, and closes them."""
    made: list[Notifier] = []

    def _connect(address: str | None, **environ: str) -> Notifier:
        if address is not None:
            environ["NOTIFY_SOCKET"] = address
        made.append(Notifier.from_environment(environ))
        return made[-1]

    yield _connect
    for notifier in made:
        notifier.close()


def test_ready_shows_readiness_and_status_in_one_message(
    manager: socket.socket, connect: Connect
) -> None:
    connect(format_address(manager)).report_ready("listening on 127.0.0.1:8750")
    assert manager.recv(4096) == b"READY=1\nSTATUS=listening on 127.0.0.1:8750"


def test_each_call_is_the_assignment_that_systemd_documents(
    manager: socket.socket, connect: Connect
) -> None:
    notifier = connect(format_address(manager))
    notifier.ping_watchdog()
    assert manager.recv(4096) == b"WATCHDOG=1"
    notifier.report_status("2 turns run")
    assert manager.recv(4096) == b"STATUS=2 turns run"
    notifier.report_stopping("draining")
    assert manager.recv(4096) == b"STOPPING=1\nSTATUS=draining"


def test_without_a_manager_every_call_does_nothing(connect: Connect) -> None:
    notifier = connect(None, WATCHDOG_USEC="60000000")
    notifier.report_ready("x")
    notifier.ping_watchdog()
    notifier.report_status("x")
    notifier.report_stopping()
    assert notifier.get_watchdog_interval() is None


@pytest.mark.parametrize("address", ["", "@", "relative/path", "vsock:2:1234", "/" + "x" * 4000])
def test_an_address_that_cannot_be_used_does_nothing(address: str, connect: Connect) -> None:
    notifier = connect(address)
    notifier.report_ready("x")
    notifier.ping_watchdog()


def test_a_manager_that_has_gone_is_no_error(tmp_path: Path, connect: Connect) -> None:
    path = tmp_path / "n"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
    notifier = connect(str(path))
    notifier.ping_watchdog()
    path.unlink()
    notifier.ping_watchdog()


def test_what_a_gone_manager_missed_is_reported_when_it_is_back(
    tmp_path: Path, connect: Connect
) -> None:
    notifier = connect(str(tmp_path / "n"))
    notifier.report_ready("up")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "n"))
        listener.settimeout(60)
        notifier.ping_watchdog()
        assert set(listener.recv(4096).split(b"\n")) == {b"READY=1", b"STATUS=up", b"WATCHDOG=1"}
        notifier.ping_watchdog()
        assert listener.recv(4096) == b"WATCHDOG=1"


def test_a_manager_that_does_not_read_never_holds_the_daemon_up(
    manager: socket.socket, connect: Connect
) -> None:
    notifier = connect(format_address(manager))
    began = time.monotonic()
    for _ in range(5000):
        notifier.report_status("x" * MAX_STATUS)
    assert time.monotonic() - began < 60
    notifier.report_stopping()
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            assert b"STOPPING" not in manager.recv(4096), "the queue was never full"
    notifier.ping_watchdog()
    assert b"STOPPING=1" in manager.recv(4096)


@given(text=st.text(alphabet=st.characters()) | st.text(min_size=600))
@example(text="\N{GRINNING FACE}" * 5000)
def test_no_status_can_begin_another_assignment_or_outgrow_a_message(text: str) -> None:
    address = f"agentd-test-{os.getpid()}-{os.urandom(8).hex()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0" + address)
        notifier = Notifier.from_environment({"NOTIFY_SOCKET": "@" + address})
        notifier.report_ready(text)
        notifier.close()
        listener.setblocking(False)
        message = listener.recv(65536)
    assert message.startswith(b"READY=1\nSTATUS=")
    assert message.count(b"\n") == 1
    assert b"\0" not in message
    assert len(message) <= 4096


def test_a_status_is_one_printable_line(manager: socket.socket, connect: Connect) -> None:
    connect(format_address(manager)).report_status("ä\r\n\ud800\0WATCHDOG=trigger\u2028b\x1b[31m")
    assert manager.recv(4096) == "STATUS=ä WATCHDOG=trigger b [31m".encode()


def test_a_ping_is_due_after_half_of_what_is_allowed(connect: Connect) -> None:
    notifier = connect("@x", WATCHDOG_USEC="60000000", WATCHDOG_PID=str(os.getpid()))
    assert notifier.get_watchdog_interval() == 30.0
    assert connect("@x", WATCHDOG_USEC="3000000").get_watchdog_interval() == 1.5


@pytest.mark.parametrize("allowed", ["", "0", "-5", "1e6", "1_000_000", " 5", "٣", "9" * 5000])
def test_a_watchdog_time_that_is_none_awaits_no_ping(allowed: str, connect: Connect) -> None:
    assert connect("@x", WATCHDOG_USEC=allowed).get_watchdog_interval() is None


def test_a_watchdog_meant_for_another_process_awaits_no_ping(connect: Connect) -> None:
    notifier = connect("@x", WATCHDOG_USEC="60000000", WATCHDOG_PID=str(os.getpid() + 1))
    assert notifier.get_watchdog_interval() is None


def test_after_close_every_call_does_nothing(manager: socket.socket, connect: Connect) -> None:
    notifier = connect(format_address(manager))
    notifier.close()
    notifier.report_ready("x")
    notifier.close()
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        manager.recv(4096)

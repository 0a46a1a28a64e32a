"""A port is only ours while the very process that we started listens there."""

import os
import socket
import subprocess
import sys

from agentd.system.ports import explain_unusable_host, find_free_port, listens


def test_a_process_listens_where_it_does_and_nowhere_else():
    with socket.socket() as own, subprocess.Popen([sys.executable, "-c", "input()"],
                                                  stdin=subprocess.PIPE) as other:  # fmt: skip
        own.bind(("127.0.0.1", 0))
        port = own.getsockname()[1]
        assert not listens(os.getpid(), port)
        own.listen()
        assert listens(os.getpid(), port)
        assert not listens(other.pid, port)
        assert not listens(os.getpid(), find_free_port())
        other.communicate(b"\n")


def test_a_process_that_is_gone_listens_nowhere():
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        own.listen()
        assert not listens(2**22 + 1, own.getsockname()[1])


def test_a_host_is_usable_if_it_is_a_name_or_an_address_of_this_machine():
    assert not any(map(explain_unusable_host, ("127.0.0.1", "0.0.0.0", "localhost")))  # noqa: S104
    assert explain_unusable_host("192.0.2.7") == "Cannot assign requested address"
    assert explain_unusable_host("no-such-host.invalid")

# ruff: noqa: T201
"""Both units under a real systemd, installed with the commands of ``systemd/README.md``.

``python -m tests.systemd.booted`` (as root, on Linux with systemd, dbus and overlayfs). A systemd
of its own is booted in namespaces, over a copy of this machine's files in memory, with a clone of
the last commit. Nothing of the machine is changed; only the network is shared, so ports 8750 and
8751 must be free. It takes two minutes, one of which waits for the watchdog, and prints what it
checked; the exit code is 1 if something was not as it should be.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.support.paths import REPOSITORY
from tests.support.waiting import until

CHECKOUT = "/srv/agentd"
"""The clone, inside."""
ALICE = "AGENTD_STATE=/var/lib/agentd/alice AGENTD_CONFIG=/etc/agentd/alice"
SETTINGS = "/etc/agentd/alice/agentd.yml"
WATCHDOG_SECONDS = 60

_BOOT = """
set -e
root=$1/root
mkdir -p "$root" "$1/memory"
mount -t tmpfs -o size=3g tmpfs "$1/memory"
mkdir "$1/memory/upper" "$1/memory/work"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/memory/upper,workdir=$1/memory/work" "$root"
git clone --quiet "$2" "$root$3"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mkdir -p "$root/run/systemd/system" "$root/run/bin" "$root/run/old"
printf '%s\\n' '[Unit]' 'Requires=dbus.service systemd-logind.service' 'AllowIsolate=yes' \\
    'After=dbus.service systemd-logind.service' > "$root/run/systemd/system/booted.target"
printf '%s\\n' '#!/bin/sh' 'exec "$@"' > "$root/run/bin/sudo"
chmod +x "$root/run/bin/sudo"
cd "$root"
pivot_root . run/old
umount -l /run/old
exec env container=other /lib/systemd/systemd --system --unit=booted.target --log-target=console
"""

_SANDBOX = """
touch /etc/x 2>/dev/null && echo 'etc is writable'
touch /usr/x 2>/dev/null && echo 'usr is writable'
touch ~/x && rm ~/x || echo 'the home is not writable'
grep -q 'CapEff:.*[1-9a-f]' /proc/self/status && echo 'there are capabilities'
grep -q 'NoNewPrivs:.1' /proc/self/status || echo 'setuid programs work'
[ -d /home/bob ] && echo 'another home is seen'
unshare --user --map-root-user --mount --pid --fork --mount-proc true || echo 'no namespaces'
echo done
"""
"""What an agent's command may do inside the system unit; it prints what is wrong."""


class Machine:
    """A booted systemd."""

    def __init__(self, boot: "subprocess.Popen[bytes]", log: Path) -> None:
        self._boot = boot
        self._log = log
        children = Path(f"/proc/{boot.pid}/task/{boot.pid}/children")
        self._init = until(lambda: boot.poll() is not None or children.read_text().split())
        assert boot.poll() is None, log.read_text()

    def run(self, script: str, user: str = "root", *, check: bool = True) -> str:
        """Return what a shell's commands print there; raise ``CalledProcessError`` with it."""
        (pid,) = self._init
        home = "/root" if user == "root" else f"/home/{user}"
        environ = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        environ |= {
            "PATH": f"{home}/.local/bin:/run/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": home,
            "USER": user,
            "LANG": "C.UTF-8",
        }
        if user != "root":
            environ["XDG_RUNTIME_DIR"] = f"/run/user/{self.run(f'id -u {user}').strip()}"
        inside = ["nsenter", "--target", pid, "--mount", "--uts", "--ipc", "--pid", "--cgroup"]
        shell = f"cd {CHECKOUT if user == 'root' else home}\nset -e\n{script}"
        done = subprocess.run(
            [*inside, "runuser", "-u", user, "--", "bash", "-c", shell],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"{script}\n{done.stdout}")
        return done.stdout

    def show(self, name: str) -> str:
        """Return a property of the system unit."""
        return self.run(f"systemctl show --value --property {name} agentd@alice").strip()

    def wait_for_another(self, pid: str, seconds: float) -> None:
        """Wait until the system unit serves with another process."""
        until(lambda: self.show("MainPID") not in ("0", pid), seconds)
        until(lambda: self.show("ActiveState") == "active")


@contextmanager
def booted_machine() -> Iterator[Machine]:
    """Boot a systemd for the length of the block."""
    with TemporaryDirectory(prefix="agentd-systemd-") as folder:
        log = Path(folder) / "boot.log"
        spaces = ["--mount", "--pid", "--uts", "--ipc", "--cgroup", "--fork", "--kill-child"]
        arguments = [folder, str(REPOSITORY), CHECKOUT]
        with log.open("wb") as output:
            boot = subprocess.Popen(
                ["unshare", *spaces, "bash", "-c", _BOOT, "boot", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        try:
            machine = Machine(boot, log)
            until(lambda: "running" in machine.run("systemctl is-system-running", check=False))
            yield machine
        finally:
            boot.send_signal(signal.SIGKILL)
            boot.wait()


def read_commands(heading: str, number: int = 1) -> str:
    """Return a block of shell commands below a heading of ``systemd/README.md``."""
    text = (REPOSITORY / "systemd" / "README.md").read_text()
    section = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)[number - 1]


class Check(NamedTuple):
    """Something that must be true."""

    what: str
    prove: Callable[[Machine], None]
    """Raises ``AssertionError`` where it is not."""


def main() -> int:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    failed = 0
    with booted_machine() as machine:
        for check in CHECKS:
            began = time.monotonic()
            try:
                check.prove(machine)
                result = "ok"
            except AssertionError as error:
                failed += 1
                result = f"FAILED\n{error}"
            print(f"{check.what}: {result} ({time.monotonic() - began:.0f} s)", flush=True)
    return int(failed > 0)


def install_system_unit(machine: Machine) -> None:
    machine.run("useradd -m -s /bin/bash alice\nuseradd -m -s /bin/bash bob")
    machine.run("git config --global --add safe.directory '*'")
    machine.run(read_commands("As a system unit for one user"))
    assert machine.show("ActiveState") == "active"
    assert machine.show("StatusText").startswith("Serving /var/lib/agentd/alice on ")


def ask_with_a_key(machine: Machine, user: str, *variables: str) -> None:
    """Assert that a prompt gets its reply, with a new key."""
    asked = "AGENTD_KEY=$(agentd keys generate laptop) agentd ask help"
    reply = machine.run("\n".join([*(f"export {one}" for one in variables), asked]), user)
    assert "offline engine" in reply, reply


def answer_with_a_key(machine: Machine) -> None:
    ask_with_a_key(machine, "alice", ALICE)
    told = machine.run(f"{ALICE} agentd check", "alice")
    assert "the running daemon's workspace is /home/alice/agentd\n" in told, told


def confine_what_agents_run(machine: Machine) -> None:
    probe = f"{SETTINGS.removesuffix('agentd.yml')}builds.yml"
    command = json.dumps({"builds": {"probe": {"command": ["bash", "-c", _SANDBOX]}}})
    machine.run(f"echo {quote(command)} > {probe}", "alice")
    key = machine.run(f"{ALICE} agentd keys generate probe 2>/dev/null", "alice").strip()
    call = f"curl -sS -H 'X-API-Key: {key}' http://127.0.0.1:8750/api/build"
    machine.run(f"{call}/trigger/probe -X POST")
    until(lambda: '"running"' not in machine.run(f"{call}/status/probe"))
    assert machine.run(f"{call}/output/probe") == "done\n", machine.run(f"{call}/output/probe")


def restart_what_was_killed(machine: Machine) -> None:
    pid = machine.show("MainPID")
    machine.run("systemctl kill --signal KILL agentd@alice")
    machine.wait_for_another(pid, 30)


def restart_what_hangs(machine: Machine) -> None:
    pid = machine.show("MainPID")
    machine.run("systemctl kill --signal STOP --kill-whom main agentd@alice")
    machine.wait_for_another(pid, 3 * WATCHDOG_SECONDS)


def say_why_a_start_failed(machine: Machine) -> None:
    machine.run(f"echo 'prot: 1' > {SETTINGS}", "alice")
    machine.run("systemctl restart agentd@alice", check=False)
    until(lambda: machine.show("ActiveState") == "failed")
    told = machine.run("systemctl status --no-pager agentd@alice", check=False)
    assert f'Status: "Failed: {SETTINGS}:1: "prot" is not known here' in told, told
    machine.run(f"rm {SETTINGS}", "alice")
    machine.run("systemctl reset-failed agentd@alice && systemctl start agentd@alice")


def upgrade_the_system_unit(machine: Machine) -> None:
    pid = machine.show("MainPID")
    machine.run(read_commands("Upgrading", 2))
    machine.wait_for_another(pid, 10)


def stop_without_a_trace(machine: Machine) -> None:
    machine.run("systemctl stop agentd@alice")
    assert machine.show("Result") == "success"
    assert "daemon.json" not in machine.run("ls /var/lib/agentd/alice")
    assert not machine.run("pgrep --uid alice", check=False)


def install_user_unit(machine: Machine) -> None:
    machine.run("systemctl start agentd@alice && loginctl enable-linger bob")
    until(
        lambda: "running" in machine.run("systemctl --user is-system-running", "bob", check=False)
    )
    machine.run(
        f"cp -r {CHECKOUT} /home/bob/agentd-source && chown -R bob: /home/bob/agentd-source"
    )
    machine.run("install -D -m 600 <(echo AGENTD_PORT=8751) ~/.config/agentd/agentd.env", "bob")
    machine.run(f"cd ~/agentd-source\n{read_commands('As a user unit')}", "bob")
    told = machine.run("systemctl --user status --no-pager agentd", "bob")
    assert "Serving /home/bob/.local/state/agentd on http://127.0.0.1:8751" in told, told
    ask_with_a_key(machine, "bob")


CHECKS = (
    Check("the system unit is installed and serves", install_system_unit),
    Check("a key works, and a check in a shell tells the unit's workspace", answer_with_a_key),
    Check("what agents run is confined, and has its own sandboxes", confine_what_agents_run),
    Check("killed, it is started again", restart_what_was_killed),
    Check("frozen, it is started again by the watchdog", restart_what_hangs),
    Check("status says why a start failed", say_why_a_start_failed),
    Check("the upgrade's commands work", upgrade_the_system_unit),
    Check("stopped, it leaves no process and no address", stop_without_a_trace),
    Check("the user unit is installed and serves beside it", install_user_unit),
)


if __name__ == "__main__":
    sys.exit(main())

"""An agent of the Agent Client Protocol that misbehaves: ``python hostile.py HOW``.

It greets and opens a session as it should; what it does with a prompt is ``HOW``.
"""

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any, NoReturn

WORDS = "panic: the engine's last words"


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def make_chunk(text: str) -> dict[str, Any]:
    content = {"type": "text", "text": text}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    return {"method": "session/update", "params": {"sessionId": "s", "update": update}}


def die(code: int = 3) -> NoReturn:
    sys.stderr.write(WORDS)
    sys.stderr.flush()
    os._exit(code)


def write_out(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def good(reply: str = "Here I am.") -> None:
    say(**make_chunk(reply))
    cost = {"amount": 0.5, "currency": "USD"}
    update = {"sessionUpdate": "usage_update", "used": 1, "size": 10, "cost": cost}
    say(method="session/update", params={"sessionId": "s", "update": update})
    say(id=PROMPT, result={"stopReason": "end_turn"})


def garbage() -> NoReturn:
    write_out(os.urandom(200_000) + b'\n[[[[\n{"jsonrpc": 7}\n"x"\nnull\n' + b"[" * 100_000 + b"\n")
    die()


def long_lines() -> NoReturn:
    for _ in range(2):
        write_out(b"x" * 20_000_000 + b"\n")
    die()


def half_a_line() -> NoReturn:
    say(**make_chunk("I begin"))
    write_out(b'{"jsonrpc":"2.0","method":"session/upd')
    die()


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hangs() -> None:
    time.sleep(600)


def ignores_sigterm() -> None:
    """Ignore the end of input and SIGTERM, as does a child in a session of its own."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    source = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    subprocess.Popen([sys.executable, "-S", "-c", source], start_new_session=True)
    time.sleep(600)


def leaves_a_child() -> NoReturn:
    """The child has fled and holds the pipes open."""
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    die()


def floods() -> NoReturn:
    """Lines without a meaning, for ever."""
    lines = b"junk\n" * 20_000
    while True:
        write_out(lines)


def floods_with_words() -> NoReturn:
    """A reply without an end."""
    lines = json.dumps({"jsonrpc": "2.0", **make_chunk("x" * 10_000)}).encode() + b"\n"
    while True:
        write_out(lines * 10)


def looks_around() -> None:
    """Not hostile so far: it tells what it sees."""
    handles = sorted(os.listdir("/proc/self/fd"), key=int)
    open_files = [f"/proc/self/fd/{handle}" for handle in handles]
    seen = {
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "descriptors": [os.readlink(one) for one in open_files if os.path.exists(one)],
        "arguments": sys.argv[1:],
    }
    good(json.dumps(seen))


def floods_errors() -> NoReturn:
    while True:
        sys.stderr.write("x" * 1_000_000)


def main(how: str) -> None:
    global PROMPT  # noqa: PLW0603
    for line in sys.stdin:
        asked = json.loads(line)
        match asked.get("method"):
            case "initialize":
                say(id=asked["id"], result={"protocolVersion": 1, "agentCapabilities": {}})
            case "session/new":
                say(id=asked["id"], result={"sessionId": "s"})
            case "session/prompt":
                PROMPT = asked["id"]
                globals()[how]()


PROMPT = 0

if __name__ == "__main__":
    main(sys.argv[1])

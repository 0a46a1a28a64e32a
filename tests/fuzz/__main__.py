# ruff: noqa: T201
"""Feeds a parser with bytes that nobody meant, for some time.

python -m tests.fuzz NAME|all [--seconds 60] [--corpus DIR] [--plain]

Guided by coverage where ``atheris`` is installed (``pip install atheris``; Linux), and with
mutations by chance where it is not, or with ``--plain``. Each parser runs in a process of its own.
What it accepts or finds new is kept in ``--corpus``, and the next run begins with it; an input that
breaks a parser is printed.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path

from tests.fuzz.mutating import find_growth, run_for
from tests.fuzz.targets import TARGETS

_ATHERIS = """
import atheris, os, sys
with atheris.instrument_imports(include=["agentd", "yaml", "multipart", "json"]):
    from tests.fuzz.targets import TARGETS
from tests.fuzz.mutating import try_input
target = TARGETS[sys.argv[1]]
def feed(data):
    try_input(target, data)
atheris.Setup(sys.argv[:1] + sys.argv[2:], feed)
atheris.Fuzz()
"""


def main() -> int:
    """Fuzz; 1 when a parser broke."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=["all", *TARGETS])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--corpus", default="", help="keep inputs here, and begin with them")
    parser.add_argument("--plain", action="store_true", help="do without atheris")
    args = parser.parse_args()
    guided = not args.plain and importlib.util.find_spec("atheris") is not None
    corpus = args.corpus or tempfile.mkdtemp(prefix="agentd-fuzz-")
    print(f"{'guided by coverage' if guided else 'by chance'}, corpus in {corpus}", flush=True)
    bad = 0
    for name in TARGETS if args.name == "all" else [args.name]:
        fuzz = fuzz_guided if guided else fuzz_plainly
        bad += not fuzz(name, args.seconds, os.path.join(corpus, name))
    return 1 if bad else 0


def fuzz_plainly(name: str, seconds: int, corpus: str) -> bool:
    """Fuzz by chance; return whether all went well."""
    folder = Path(corpus)
    folder.mkdir(parents=True, exist_ok=True)

    def keep(data: bytes) -> None:
        (folder / sha256(data).hexdigest()[:40]).write_bytes(data)

    known = [path.read_bytes() for path in sorted(folder.iterdir())]
    growth = list(find_growth(TARGETS[name]))
    for one in growth:
        print(f"{name}: more than linear: {one}", flush=True)
    try:
        count = run_for(TARGETS[name], seconds, time.time_ns(), keep, known)
    except Exception as error:
        notes = " ".join(error.__notes__)
        print(f"{name}: {type(error).__name__}: {error} {notes}", flush=True)
        return False
    print(f"{name}: {count} inputs in {seconds} s", flush=True)
    return not growth


def fuzz_guided(name: str, seconds: int, corpus: str) -> bool:
    """Fuzz with coverage in a process of its own; return whether all went well."""
    os.makedirs(corpus, exist_ok=True)
    for number, seed in enumerate(TARGETS[name].seeds):
        with open(os.path.join(corpus, f"seed-{number}"), "wb") as file:
            file.write(seed)
    options = [f"-max_total_time={seconds}", "-max_len=4096", "-timeout=10", "-print_final_stats=1"]
    done = subprocess.run(
        [sys.executable, "-c", _ATHERIS, name, *options, f"-artifact_prefix={corpus}-", corpus],
        capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    lines = done.stderr.splitlines() + done.stdout.splitlines()
    told = [line for line in lines if "number_of_executed_units" in line or " DONE " in line]
    print(f"{name}: {'; '.join(told) or 'it broke'}", flush=True)
    if done.returncode:
        print("\n".join(lines[-40:]), flush=True)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())

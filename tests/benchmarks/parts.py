"""Parts of a request, measured alone in this process: by processor time, so load changes little."""

import json
import os
import random
from collections.abc import Callable, Iterator
from os.path import join
from statistics import median
from time import process_time

from agentd.storage.watched_file import FileContent
from tests.benchmarks.measures import Row, Size, create_scratch_folder
from tests.benchmarks.servers import Gun
from tests.gateway.secrets.bodies import build_body, create_masker

NEW_TEXT = 64 * 1024
"""Bytes of text in a request that no earlier one had."""
LOOKS = 20_000
PROSE = """\
The function returns a list of the files that were changed since the last commit, and the size in
bytes of each, so that we can show them in order when somebody opens this page again:

    def list_changed(self, since: str | None = None) -> list[File]:
        if not self.known:
            raise Error(f"{since} is not known")
        return [line for line in text.split() if line.startswith("M")]
"""


def measure_hiding(size: Size, gun: Gun) -> Iterator[Row]:
    """Measure the search for secrets in text that has none; the fastest of the rounds counts.

    Others on the machine compete for its caches, which processor time includes.
    """
    masker, rates = create_masker(), []
    chance = random.Random(1)  # noqa: S311 - the order of words
    for _ in range(size.rounds + 1):
        body = json.dumps(build_body(_write_prose(chance))).encode()
        began = process_time()
        masker.mask(body, "openai-chat", "k")
        rates.append(len(body) / (process_time() - began) / 1e6)
    what = "secret hiding, 64 KB of new text without secrets, one core"
    yield Row(what, max(rates), 100, at_least=True, unit=" MB/s")


def measure_key_file(size: Size, gun: Gun) -> Iterator[Row]:
    """Measure the look at a key's file before each request, beside a counter that is compared."""
    with create_scratch_folder() as folder:
        path = join(folder, "access-keys.yml")
        with open(path, "w") as file:
            file.write("keys: []\n")
        watched = FileContent(path, lambda: os.path.getsize(path), 0)
        reading = watched.read()
        assert reading and watched.apply(reading)
        counter = _Counter()
        looks, counts = [], []
        for _ in range(size.rounds):
            looks.append(_time(lambda: watched.is_stale))
            counts.append(_time(lambda: counter.is_stale))
        yield Row("look at a key's file before a request", median(looks), 5, unit=" us")
        yield Row("... more than to compare a counter",
                  median(looks) - median(counts), 5, unit=" us")  # fmt: skip


class _Counter:
    """What a watcher would move; it would be late by the moment until it does."""

    def __init__(self) -> None:
        self.seen = self.moved = 1

    @property
    def is_stale(self) -> bool:
        return self.seen != self.moved


def _time(look: Callable[[], object]) -> float:
    """Return the microseconds of processor time that one look takes."""
    began = process_time()
    for _ in range(LOOKS):
        look()
    return (process_time() - began) / LOOKS * 1e6


def _write_prose(chance: random.Random) -> str:
    words = PROSE.split(" ")
    chance.shuffle(words)
    text = " ".join(words)
    return (text * (NEW_TEXT // len(text) + 1))[:NEW_TEXT]

"""The cost of analytics that were never asked for before, with a short and with a long history."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import cycle

from tests.benchmarks import servers
from tests.benchmarks.load import Shot
from tests.benchmarks.measures import Row, Size, create_scratch_folder
from tests.benchmarks.servers import Gun, Server, encode_request, running_server
from tests.benchmarks.states import Maker

OF_A_CHAT = 250
DAYS = 30
"""That are asked about; the short history has no more."""
PART = 100
"""The short history is this part of the long one."""
FIRST_SECONDS = 300.0
"""For the first question, which reads every journal: a million messages take 15 to 40 seconds."""


def measure_analytics(size: Size, gun: Gun) -> Iterator[Row]:
    """Measure a month at the end of a history, and one of a short history with as much a day."""
    few, many = size.added_up // PART, size.added_up
    step = timedelta(days=DAYS) / (few / 3 * 4)  # four records for every three messages
    with create_scratch_folder() as short, create_scratch_folder() as long:
        shots = []
        with (
            running_server(_build_server(short, few, step, shots)),
            running_server(_build_server(long, many, step, shots)),
        ):
            for shot in shots:
                first = Shot(shot.port, shot.requests, connections=1, count=2)
                first.patience = FIRST_SECONDS
                gun.fire(first)
            for number, by in enumerate(("model", "day", "chat")):
                of_short, of_long = (
                    Shot(shot.port, [shot.requests[number]], seconds=size.seconds) for shot in shots
                )
                turns = cycle(((of_short, of_long), (of_long, of_short)))
                ratios = []
                for _ in range(size.rounds):
                    rates = {shot.port: gun.fire(shot).rate for shot in next(turns)}
                    ratios.append(rates[of_short.port] / rates[of_long.port])
                ratio = sorted(ratios)[len(ratios) // 2]
                what = f"GET analytics by {by}, a month: time with {many:,} messages, of {few:,}"
                yield Row(what, ratio, 2)


def _build_server(folder: str, messages: int, step: timedelta, shots: list[Shot]) -> Server:
    """Build a daemon with this history, and append a shot that asks about its last month."""
    maker = Maker(folder, step)
    for said in range(0, messages, OF_A_CHAT):
        maker.add_chat(min(OF_A_CHAT, messages - said))
    key = maker.finish()
    last = maker.moment.date()
    span = f"from={last - timedelta(days=DAYS - 1)}&to={last}"
    asked = [
        encode_request("GET", f"/api/analytics?by={by}&{span}", key)
        for by in ("model", "day", "chat")
    ]
    held = servers.start_held_daemon(maker.layout)
    shots.append(Shot(held.port, asked))
    return held

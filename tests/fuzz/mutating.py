# ruff: noqa: S311
"""Inputs for parsers by chance, and large ones to see how a parser's time grows."""

import random
import time
from collections.abc import Callable, Iterator, Sequence

from tests.fuzz.targets import FuzzTarget
from tests.support.processor import measure_seconds

LONGEST = 4096
MOST_SEEDS = 200
SMALL, LARGE = 32 * 1024, 256 * 1024
"""Bytes of the inputs whose times are compared."""
LINEAR = 3.0
"""A parser's time may grow by this many times what its input does."""
UNNOTICED = 0.5
"""Seconds of processor time below which growth is not looked at."""

_TOKENS = (
    *(b"\0", b"\xff", b"\xef\xbb\xbf", b"\n", b"\r\n", b"\x1e", b"\xed\xa0\x80", b"\\u0000"),
    *(b"-1", b"0", b"9" * 40, b"1e999", b"NaN", b"null", b"true", b"[]", b"{}", b'"', b"'", b"%00"),
    *(b"[" * 2000, b'{"a":' * 500, b"=", b"&", b"#", b":", b": ", b"- ", b"--x", b"://", b"@"),
)


def mutate(seeds: Sequence[bytes], chance: random.Random) -> bytes:
    """Return a seed after some changes."""
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(6):
            case 0 if data:
                data[at % len(data)] ^= 1 << chance.randrange(8)
            case 1:
                data[at:at] = chance.choice(_TOKENS)
            case 2:
                del data[at : at + chance.randrange(1, 9)]
            case 3:
                end = at + chance.randrange(1, 33)
                data[at:at] = data[at:end] * chance.randrange(1, 5)
            case 4:
                other = chance.choice(seeds)
                data[at:] = other[chance.randrange(len(other) + 1) :]
            case _:
                data[at:at] = chance.randbytes(chance.randrange(1, 9))
    return bytes(data[:LONGEST])


def run_for(
    target: FuzzTarget,
    seconds: float,
    seed: int,
    keep: Callable[[bytes], object] = bool,
    known: Sequence[bytes] = (),
) -> int:
    """Feed mutated seeds for so long; return how many. Raises what the target must not raise.

    Inputs that the parser accepts become seeds: they lead deeper. ``keep`` is called with each;
    ``known`` are those of earlier runs, of which some are chosen.
    """
    chance = random.Random(seed)
    chosen = chance.sample(list(known), min(len(known), MOST_SEEDS // 2))
    seeds, count = [*target.seeds, *chosen], 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        data = mutate(seeds, chance)
        count += 1
        if try_input(target, data) and len(seeds) < MOST_SEEDS:
            seeds.append(data)
            keep(data)
    return count


def try_input(target: FuzzTarget, data: bytes) -> bool:
    """Feed one input; return whether it was accepted. Other errors get the input as a note."""
    try:
        target.parse(data)
    except target.raises:
        return False
    except Exception as error:
        error.add_note(f"input: {data[:LONGEST]!r}")
        raise
    return True


def find_growth(target: FuzzTarget) -> Iterator[str]:
    """Yield the large inputs whose time grows faster than they do."""
    for begin, unit, end in target.units:

        def parse(size: int, parts: tuple[bytes, bytes, bytes] = (begin, unit, end)) -> bool:
            data = parts[0] + parts[1] * (size // len(parts[1])) + parts[2]
            return try_input(target, data)

        large = measure_seconds(parse, LARGE)
        if large < UNNOTICED:
            continue
        small = min(measure_seconds(parse, SMALL) for _ in range(3))
        if large > LINEAR * small * LARGE / SMALL:  # or the machine was busy for a moment
            large = min(measure_seconds(parse, LARGE) for _ in range(3))
        if large > LINEAR * small * LARGE / SMALL:
            yield f"{unit[:40]!r} repeated: {small:.3f} s for {SMALL}, {large:.3f} s for {LARGE}"

"""The catalogue is read anew once a day, in a process of its own, and kept when that fails."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from agentd.core.clock import FrozenClock
from agentd.core.errors import Unavailable
from agentd.gateway.catalogue import extraction_child, service
from agentd.gateway.catalogue.service import PriceCatalogueService
from agentd.storage.layout import Layout
from tests.gateway.catalogue.samples import write_catalogue

Script = Callable[[str], Path]


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    found = Layout(str(tmp_path / "state"), str(tmp_path / "config"))
    write_catalogue(found)
    return found


@pytest.fixture
def clock() -> FrozenClock:
    """Begins when the sample was read."""
    return FrozenClock("2026-01-01T00:00:00.000Z")


@pytest.fixture
def prices(layout: Layout, clock: FrozenClock) -> PriceCatalogueService:
    return PriceCatalogueService(layout, clock, dict)


@pytest.fixture
def run_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """A function that has this run instead of the reading of the library, and counts its runs."""

    def replace(code: str) -> Path:
        script, ran = tmp_path / "child.py", tmp_path / "ran"
        script.write_text(f"open({str(ran)!r}, 'a').write('.')\n{code}")
        monkeypatch.setattr(extraction_child, "__file__", str(script))
        monkeypatch.setattr(service, "LIBRARY", "msgspec")  # one that is installed
        return ran

    return replace


def build_code(layout: Layout) -> str:
    """Build a program that prints the sample with the time of its standard input."""
    content = Path(layout.price_catalogue).read_text()
    return (
        f"import json, sys\ntold = json.loads({content!r})\ntold['at'] = sys.stdin.read()\n"
        "print(json.dumps(told))"
    )


def test_it_is_read_again_when_it_is_older_than_a_day(
    layout: Layout, clock: FrozenClock, prices: PriceCatalogueService, run_instead: Script
) -> None:
    ran = run_instead(build_code(layout))

    async def refresh_at(seconds: float) -> str:
        clock.move(seconds)
        await prices.refresh_if_old()
        found = await prices.load()
        assert found
        return found.at

    assert asyncio.run(refresh_at(23 * 3600)) == "2026-01-01T00:00:00.000Z"
    assert not ran.exists()
    assert asyncio.run(refresh_at(2 * 3600)) == "2026-01-02T01:00:00.000Z"
    assert asyncio.run(refresh_at(3600)) == "2026-01-02T01:00:00.000Z"
    assert ran.read_text() == "."
    ahead = asyncio.run(refresh_at(3650 * 86400))
    clock.move(-3650 * 86400)
    assert asyncio.run(refresh_at(0)) == "2026-01-02T02:00:00.000Z" < ahead


@pytest.mark.parametrize(
    "code",
    [
        "print('no JSON')",
        "print('{}')",
        "raise SystemExit('a bug')",
        "import sys; sys.stderr.write('It is not installed\\npip install it\\n'); sys.exit(3)",
        "import sys; sys.stdout.write('x' * 17 * 2**20)",
    ],
)
def test_one_that_cannot_be_read_again_stays_as_it_is(
    layout: Layout,
    clock: FrozenClock,
    prices: PriceCatalogueService,
    run_instead: Script,
    code: str,
) -> None:
    before = Path(layout.price_catalogue).read_bytes()
    ran = run_instead(code)
    clock.move(48 * 3600)
    asyncio.run(prices.refresh_if_old())
    assert ran.exists()
    assert Path(layout.price_catalogue).read_bytes() == before
    with pytest.raises(Unavailable):
        asyncio.run(prices.refresh())


def test_without_the_library_nothing_is_started(
    clock: FrozenClock,
    prices: PriceCatalogueService,
    run_instead: Script,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran = run_instead("print()")
    monkeypatch.setattr(service, "LIBRARY", "a_library_that_is_not_installed")
    clock.move(48 * 3600)
    asyncio.run(prices.refresh_if_old())
    assert not ran.exists()


def test_what_the_process_says_is_what_the_caller_is_told(
    prices: PriceCatalogueService, run_instead: Script
) -> None:
    run_instead("import sys; sys.stderr.write('Not installed\\npip install it\\n'); sys.exit(3)")
    with pytest.raises(Unavailable) as raised:
        asyncio.run(prices.refresh())
    assert (raised.value.message, raised.value.details) == ("Not installed", "pip install it")

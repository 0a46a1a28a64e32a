"""A small price catalogue, and a folder that has it."""

from decimal import Decimal
from pathlib import Path

import msgspec

from agentd.gateway.catalogue.model import (
    CatalogueModel,
    CatalogueSupplier,
    DatedPrices,
    NamePattern,
    PriceCatalogue,
)
from agentd.llm.price import Prices
from agentd.storage.layout import Layout


def build_prices(rate_in: str, rate_out: str, **more: str) -> Prices:
    """Build prices of these rates."""
    given = {name: Decimal(rate) for name, rate in more.items()}
    return Prices(input=Decimal(rate_in), output=Decimal(rate_out), **given)


def build_catalogue(address: str = r"https://api\.acme\.example") -> PriceCatalogue:
    """Build a catalogue whose supplier ``acme`` has addresses that match the pattern."""
    large = CatalogueModel(
        id="scripted-large",
        name="Scripted Large",
        match=NamePattern(starts_with="scripted-large"),
        history=(
            DatedPrices(build_prices("4", "20")),
            DatedPrices(build_prices("2", "10", cache_read="0.2"), since="2026-06-01"),
            DatedPrices(build_prices("1", "5"), since="2999-01-01"),
        ),
        context=200_000,
        note="Without fees for web searches.",
    )
    small = CatalogueModel(
        id="scripted-small",
        match=NamePattern(any_of=(NamePattern(equals="scripted-small"), NamePattern(equals="s"))),
        history=(DatedPrices(build_prices("0.5", "1")),),
    )
    gpt = CatalogueModel(
        id="gpt-5.1",
        match=NamePattern(starts_with="gpt-5.1"),
        history=(DatedPrices(build_prices("1.5", "11")),),
        context=400_000,
    )
    return PriceCatalogue(
        source="samples 1",
        at="2026-01-01T00:00:00.000Z",
        suppliers=(
            CatalogueSupplier(
                id="acme", name="Acme", address=address, resells=("openai",), models=(large, small)
            ),
            CatalogueSupplier(
                id="openai",
                name="OpenAI",
                address=r"https://api\.openai\.com",
                model_names=NamePattern(starts_with="gpt-"),
                models=(gpt,),
            ),
        ),
    )


def write_catalogue(layout: Layout, address: str = r"https://api\.acme\.example") -> None:
    """Write the catalogue into the state folder."""
    path = Path(layout.price_catalogue)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(build_catalogue(address)))
    path.chmod(0o600)

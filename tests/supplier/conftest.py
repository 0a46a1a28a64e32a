"""The scripted supplier, and the vendors' own clients of it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.supplier.supplier import Supplier

if TYPE_CHECKING:  # they take seconds to import, which the tests of the rules need not wait for
    import anthropic
    import openai


@pytest.fixture
def supplier() -> Iterator[Supplier]:
    """A supplier with an empty script."""
    with Supplier() as running:
        yield running


@pytest.fixture
def openai_client(supplier: Supplier) -> Iterator["openai.OpenAI"]:
    """OpenAI's client, which tries once."""
    import openai

    with openai.OpenAI(base_url=supplier.base, api_key="sk-x", max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture
def anthropic_client(supplier: Supplier) -> Iterator["anthropic.Anthropic"]:
    """Anthropic's client, which tries once."""
    import anthropic

    with anthropic.Anthropic(
        base_url=supplier.url, api_key="sk-x", max_retries=0, timeout=60
    ) as client:
        yield client

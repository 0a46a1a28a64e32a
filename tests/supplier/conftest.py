"""The scripted supplier, and the vendors' own clients of it."""

from collections.abc import Iterator

import anthropic
import openai
import pytest

from tests.supplier.supplier import Supplier


@pytest.fixture
def supplier() -> Iterator[Supplier]:
    """A supplier with an empty script."""
    with Supplier() as running:
        yield running


@pytest.fixture
def openai_client(supplier: Supplier) -> Iterator[openai.OpenAI]:
    """OpenAI's client, which tries once."""
    with openai.OpenAI(base_url=supplier.base, api_key="sk-x", max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture
def anthropic_client(supplier: Supplier) -> Iterator[anthropic.Anthropic]:
    """Anthropic's client, which tries once."""
    with anthropic.Anthropic(
        base_url=supplier.url, api_key="sk-x", max_retries=0, timeout=60
    ) as client:
        yield client

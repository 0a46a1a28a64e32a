"""Fixtures that the rules about the code share."""

from collections.abc import Iterator

import pytest

from tests.architecture.support import list_definitions, read_text, read_tree


@pytest.fixture(autouse=True, scope="package")
def _forget_the_code_at_the_end() -> Iterator[None]:
    """The syntax trees are a hundred megabytes, which each test after them would carry along."""
    yield
    for cached in (list_definitions, read_text, read_tree):
        cached.cache_clear()

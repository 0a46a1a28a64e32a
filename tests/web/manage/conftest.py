"""A gateway over a scripted supplier, and a client that manages it."""

import hashlib
from collections.abc import Callable

import pytest

from tests.supplier.conftest import supplier
from tests.web.gateway.conftest import House, house, up
from tests.web.support import Client, Serving

__all__ = ["house", "supplier", "up"]

MANAGEMENT_KEY = "manage-0123456789abcdef"
HASH = hashlib.sha256(MANAGEMENT_KEY.encode()).hexdigest()


@pytest.fixture
def manager(house: House, up: Callable[..., Serving]) -> Client:
    """A client with the management key."""
    return up(environ={"PROXY_APP_HASH": HASH}).client(MANAGEMENT_KEY)

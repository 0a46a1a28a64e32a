"""A gateway over a scripted supplier, and a client that manages it."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from tests.gateway.admin.api.described import Manager
from tests.gateway.conftest import GatewaySetup, setup, start_gateway
from tests.supplier.conftest import supplier
from tests.support.daemon import Client, Serving

__all__ = ["setup", "start_gateway", "supplier"]

MANAGEMENT_KEY = "manage-0123456789abcdef"
HASH = hashlib.sha256(MANAGEMENT_KEY.encode()).hexdigest()


@pytest.fixture
def manager(setup: GatewaySetup, start_gateway: Callable[..., Serving]) -> Iterator[Client]:
    """A client with the management key; whatever it is answered must be described."""
    daemon = start_gateway(environ={"PROXY_APP_HASH": HASH})
    with closing(Manager(daemon.url, MANAGEMENT_KEY)) as client:
        yield client

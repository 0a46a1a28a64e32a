"""Upgrades of a connection from HTTP to another protocol (RFC 9110, section 7.8)."""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeAlias

from tornado.httputil import HTTPHeaders, RequestStartLine


class UpgradedConnection(Protocol):
    """The protocol that has taken over a connection."""

    def data_received(self, data: bytes) -> None:
        """Take received bytes."""
        ...

    def resume_writing(self) -> None:
        """Handle that all that was written has been sent."""
        ...

    def connection_lost(self) -> None:
        """Handle the end of the connection."""
        ...


class UpgradableConnection(Protocol):
    """A connection that can be taken over (``http_connection.HttpConnection``)."""

    remote_ip: str
    is_tls: bool

    @property
    def is_flushed(self) -> bool:
        """True if all that was written is in the hands of the kernel, but for a byte."""
        ...

    def upgrade(self, upgraded: UpgradedConnection) -> asyncio.Transport:
        """Hand the connection over: all that is received from now on goes to ``upgraded``."""
        ...


Upgrade: TypeAlias = Callable[[UpgradableConnection, RequestStartLine, HTTPHeaders], None]
"""Takes over the connection of a request, and answers the request."""

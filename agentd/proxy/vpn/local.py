"""The door on loopback that an engine opens for us alone."""

from msgspec import Struct

LOOPBACK = "127.0.0.1"


class Local(Struct, frozen=True):
    """Where an engine listens for SOCKS5, and for whom, if it can tell callers apart."""

    port: int
    user: str
    password: str

    def __repr__(self) -> str:
        """Without user and password."""
        return f"Local({self.port})"

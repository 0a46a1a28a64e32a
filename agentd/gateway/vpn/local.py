"""The SOCKS5 proxy that a VPN program opens on loopback for agentd."""

from msgspec import Struct

LOOPBACK = "127.0.0.1"


class LocalProxy(Struct, frozen=True):
    """The port, and the login if the program supports one."""

    port: int
    user: str
    password: str

    def __repr__(self) -> str:
        """Return a representation without user and password."""
        return f"LocalProxy({self.port})"

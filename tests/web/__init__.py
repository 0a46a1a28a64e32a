"""The HTTP surface, over real sockets and real files."""

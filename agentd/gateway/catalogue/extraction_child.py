"""Prints the catalogue of the installed library as JSON; run by the daemon in its own process.

The time that it is to carry stands on its standard input.
"""

import sys

import msgspec

from agentd.core.errors import Unavailable
from agentd.gateway.catalogue.extraction import extract_catalogue

NOT_INSTALLED = 3
"""The exit code without the extra ``prices``; the message and a hint are the lines of errors."""


def main() -> int:
    """Print the catalogue."""
    try:
        catalogue = extract_catalogue(sys.stdin.read().strip())
    except Unavailable as error:
        sys.stderr.write(f"{error.message}\n{error.details}\n")
        return NOT_INSTALLED
    sys.stdout.buffer.write(msgspec.json.encode(catalogue))
    return 0


if __name__ == "__main__":
    sys.exit(main())

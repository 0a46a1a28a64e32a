"""Transports of programs, none of which a test may leave open."""

from asyncio.base_subprocess import BaseSubprocessTransport
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def note_transports() -> Iterator[list[BaseSubprocessTransport]]:
    """Note all that are made in the block.

    One that was not closed would be as late as it is collected, with a warning in another test.
    """
    made: list[BaseSubprocessTransport] = []
    make = BaseSubprocessTransport.__init__

    def note_and_make(transport: BaseSubprocessTransport, *given: Any, **more: Any) -> None:
        made.append(transport)
        make(transport, *given, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseSubprocessTransport, "__init__", note_and_make)
        yield made

"""Turns of the event loop, told apart.

Within one nothing else of ours has run. The world may have changed all the same: files, for one.
"""

import asyncio


class LoopTurn:
    """Numbers the turns in which somebody asks: one callback for all who ask in the same one."""

    def __init__(self) -> None:
        self._number = 0
        self._ending = False

    @property
    def number(self) -> int:
        """The present turn's: no other has it, and later ones have higher numbers."""
        if not self._ending:
            self._ending = True
            asyncio.get_running_loop().call_soon(self._end)
        return self._number

    def _end(self) -> None:
        self._ending = False
        self._number += 1

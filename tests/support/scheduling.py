"""How files of tests are given to the processes of pytest-xdist."""

import os
from typing import Any

from xdist.scheduler import LoadFileScheduling

BROWSERS = "tests/ui/"
"""Where the tests with a browser are, which takes a processor of its own."""


class BrowserScheduling(LoadFileScheduling):
    """Whole files in their order, with as many browsers at work as there are processors.

    In the plain order the files of browser tests would come last, together: some processes would
    wait for a processor's turn (``tests/ui/conftest.py``) while the others have nothing to do.
    """

    def __init__(self, config: Any, log: Any = None, browsers: int | None = None) -> None:
        super().__init__(config, log)
        self._browsers = browsers or len(os.sched_getaffinity(0))

    def _assign_work_unit(self, node: Any) -> None:
        """Give the node the next file, of browser tests if fewer of them run than may."""
        begun = [
            name
            for units in self.assigned_work.values()
            for name, unit in units.items()
            if name.startswith(BROWSERS) and not all(unit.values())
        ]
        wants_browser = len(begun) < self._browsers
        for name in self.workqueue:
            if name.startswith(BROWSERS) == wants_browser:
                self.workqueue.move_to_end(name, last=False)
                break
        super()._assign_work_unit(node)

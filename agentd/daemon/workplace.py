"""The workspace as callers have it: its repository, and the folder for what they upload.

A part of the composition root (``daemon``), apart because it is composed of its own.
"""

import os
from collections.abc import Iterable
from typing import Self

from agentd.clock import Clock
from agentd.disk.layout import Layout
from agentd.outside.uploads import UploadFolder
from agentd.outside.working_copy import WorkingCopy
from agentd.web.files import Files
from agentd.web.git import GitDesk
from agentd.web.table import Route
from agentd.web.tables import files, git


class Workplace:
    """For the workspace ``root``; ``generation`` is the state folder's."""

    def __init__(self, root: str, layout: Layout, generation: str, clock: Clock) -> None:
        closed = (layout.state, layout.config, os.path.join(root, ".env"))
        self.uploads = UploadFolder(root, generation)
        """The folder for what is sent in."""
        self.rows: Iterable[Route] = (
            *git.rows(GitDesk(WorkingCopy(root, closed))),
            *files.rows(Files(self.uploads, clock)),
        )
        """What they add to the routes table."""

    async def __aenter__(self) -> Self:
        """Sweep away what uploads left behind that a killed daemon was receiving."""
        await self.uploads.sweep()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing of it needs an end: what is under way ends with its connection."""

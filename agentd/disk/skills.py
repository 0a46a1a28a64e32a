"""The skills of the configuration folder, in the open Agent Skills layout.

A skill is a folder ``skills/<name>`` with a file ``SKILL.md``.
"""

import asyncio
import os
import re

from agentd.disk.layout import Layout

NONE = "none"
"""The skill of a chat that has none."""

_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class SkillFolder:
    """Which skills there are, looked up anew each time: they are few and edited by hand."""

    def __init__(self, layout: Layout) -> None:
        self._folder = layout.skills

    async def known(self, name: str) -> bool:
        """True for ``none`` and for each skill whose file is there."""
        if name == NONE:
            return True
        if not _NAME.fullmatch(name):
            return False
        path = os.path.join(self._folder, name, "SKILL.md")
        return await asyncio.to_thread(os.path.isfile, path)

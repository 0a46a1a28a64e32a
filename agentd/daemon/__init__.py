"""The composition root: who is introduced to whom, started in pairs and stopped in reverse.

``life`` is the whole of it; each other module composes one part: ``door`` (who is let in, what
answers), ``chores`` (what goes on by itself), ``crew`` (the agent), ``written`` (the files that
people write), ``library`` (chats as their owners keep them), ``workplace`` (the workspace),
``workshop`` (builds and deployments), ``desks`` (analytics, speech), ``messaging`` (bots).
"""

from agentd.daemon.life import Running, run, started

__all__ = ["Running", "run", "started"]

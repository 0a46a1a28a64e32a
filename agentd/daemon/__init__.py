"""The composition root: who is introduced to whom, started in pairs and stopped in reverse.

``life`` is the whole of it; each other module composes one part: ``door`` (who is let in, what
answers), ``chores`` (what goes on by itself), ``crew`` (the agent), ``engines`` (what carries out
its turns), ``written`` (the files that people write), ``library`` (chats as their owners keep
them), ``workplace`` (the workspace), ``workshop`` (builds and deployments), ``desks`` (analytics,
speech), ``messaging`` (bots).

What is large and not needed for the first answer is imported where it is used; a test names it.
"""

from agentd.daemon.life import Running, run, started

__all__ = ["Running", "run", "started"]

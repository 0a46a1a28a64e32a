"""agentd: a coding agent and its language models behind one well-kept door.

Imports point inward, and a test asserts it:

- the foundation (``errors``, ``clock``, ``threads``, ``refresh``, ``retries``, ``ids``,
  ``redaction``) imports only itself;
- ``wire`` turns bytes into values and back, and imports only the foundation;
- the product folders (``chats``, ``agent``, ``access``, ``catalog``, ``proxy``,
  ``workspace``, ``bots``) only think: they import the foundation, ``wire`` and each other's
  nouns, and ask for what they need through small protocols declared beside them;
- ``events`` names what may be told to a listener, in the product's nouns;
- the shells touch the world: ``disk`` (our files), ``outside`` (programs and other hosts) and
  ``web`` (HTTP) import product folders, never one another;
- ``daemon`` introduces them all to each other, and ``cli`` is what a person types.
"""

__version__ = "0.1.0"

DISTRIBUTION = "agentd-workstation"
"""The name under which this is installed: the public index has another project called agentd."""

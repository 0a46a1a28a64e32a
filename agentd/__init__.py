"""An HTTP daemon in front of a coding agent and a model gateway.

``README.md`` beside this file has the tree, the import rule, three walks through the code and the
glossary.
"""

__version__ = "0.1.0"

DISTRIBUTION = "agentd-workstation"
"""The name under which this is installed: the public index has another project called agentd."""

"""Management keys: named keys of ``/api/agent``, each with a scope."""

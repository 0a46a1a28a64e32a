"""Our own agent: a loop over any model of any supplier, with the tools of ``agent.tools``."""

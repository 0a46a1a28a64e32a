"""The coding agent: dispatcher, turns, approvals, budgets, tools and engines."""

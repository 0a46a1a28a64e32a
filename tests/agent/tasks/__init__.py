"""Small repository tasks for a coding agent: the work, the moves of a good model, and the check.

``test_tasks.py`` plays the moves with a scripted model, so it proves that our own engine's tools
suffice. ``python -m tests.agent.tasks`` gives the same tasks to a real model (README.md).
"""

"""The tools of the agent that run in this process: files, edits, shell."""

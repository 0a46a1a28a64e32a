"""Codex, driven through ``codex app-server``.

The daemon's approver decides everything. Codex asks before each command and each change of
files (approval policy ``untrusted``), so that nothing runs on Codex's own judgement; what was
allowed still runs in Codex's sandbox (``workspace-write``: no network, writes inside the
workspace), and a command that needs more is asked about anew, with the model's reason. Leave
for the whole chat is remembered by the approver, never by Codex: it can be taken back.

The thread's id is the memory. A thread that is gone is begun anew with the latest messages of
the chat, which the history tells. The chat's instructions are Codex's developer instructions,
at every start and resumption.
"""

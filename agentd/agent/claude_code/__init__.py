"""Claude Code, driven through its command line interface with streams of JSON lines.

The daemon's approver decides what Claude Code's own rules leave open. The person's rules hold
(``~/.claude/settings.json``); those of the workspace do not, nor do its hooks, since a workspace
may come from a stranger. What its CLAUDE.md tells is read. The permission mode is always the
asking one. Leave for the whole chat is remembered by the approver, never by Claude Code: it can
be taken back.

The memory is the session's id. A session that is gone is begun anew, once, with the latest
messages of the chat, which the history tells.

The cost is Claude Code's own figure for the one process of the turn, told at its end and booked
with the last reply; a turn that never came to its end is priced by its last reply's tokens. The
tokens of each call of the model are booked with the next reply, once, however often they are
told.
"""

"""Any agent that speaks the Agent Client Protocol, version 1, over its standard input and output.

The protocol is spoken by ourselves and not by its Python package: a conversation here has no
I/O, so that one driver serves every engine, a line may be as long as a tool's output is, and
nobody who drives Claude Code or Codex has to install pydantic. The package proves it: in the
tests an agent made with it is at the other end.

The client serves no files and no terminals: the agent works in the workspace itself, and its
requests for permission go to the daemon's approver. Leave is given once each time; what holds
for the whole chat is remembered by the approver, where it can be taken back.

The memory is the session's id with the cost told last and a sum of the instructions. A session
is resumed where the agent can (``session/resume``, else ``session/load``, whose replay is not
told again); where it cannot, or the session is gone, a new one begins with the latest messages
of the chat. The protocol knows no system prompt: the chat's instructions stand before the first
prompt of a session, and again when they have changed.
"""

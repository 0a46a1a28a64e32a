"""The query parameters and request headers that routes take, each described once."""

from agentd.web.mark import PATTERN
from agentd.web.remote import WAIT_LIMIT
from agentd.web.table import Parameter

SINCE = Parameter(
    "since",
    "query",
    "Messages from this ISO 8601 moment on, the moment included; an invalid one is ignored.",
    {"type": "string"},
)
WAIT = Parameter(
    "wait",
    "query",
    "Seconds to wait, at most, for the chat to come to rest before answering.",
    {"type": "number", "minimum": 0, "maximum": WAIT_LIMIT},
)
ONCE = Parameter(
    "Idempotency-Key",
    "header",
    "The same key and body within 24 hours answer as the first time, and do nothing again.",
    {"type": "string", "minLength": 1, "maxLength": 255},
)
IF_MATCH = Parameter(
    "If-Match",
    "header",
    "Replace only the version with this ETag; without it the last writer wins.",
    {"type": "string", "pattern": '^("[0-9]{1,16}"|[*])$'},
)

API_KEY = Parameter(
    "api_key", "query", "The access key, where headers cannot be set.", {"type": "string"}
)
CONNECTION = Parameter("id", "query", "The token that negotiating gave.", {"type": "string"})
_MARK: dict[str, object] = {"type": "string", "pattern": f"^{PATTERN}$"}
LAST_EVENT = Parameter(
    "Last-Event-ID",
    "header",
    "The id of the last event that was seen: what came since is told.",
    _MARK,
)
SINCE_MARK = Parameter("since", "query", "As Last-Event-ID, for who cannot set headers.", _MARK)
CHATS = Parameter(
    "chats",
    "query",
    "Only the events of these chats: ids, with commas between them.",
    {"type": "string", "pattern": "^[1-9][0-9]{0,14}(,[1-9][0-9]{0,14})*$"},
)

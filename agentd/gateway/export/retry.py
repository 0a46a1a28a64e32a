"""The errors after which the export retries soon, and those after which late or on request."""

from agentd.core.errors import AgentdError, BadRequest, ConfigError, DatabaseError

FIRST_DELAY = 1.0
MAX_DELAY = 300.0
"""The longest wait for a database that is gone, or busy."""
BUSY_DELAY = 60.0
"""The shortest one where it has too much to do already."""
PERMANENT_DELAY = 3600.0
"""The delay if a person has to act; a change of the settings ends it."""

_TRANSIENT = frozenset(
    {
        75,  # CANNOT_WRITE_TO_FILE_DESCRIPTOR: its disk is full, or over quota
        159,  # TIMEOUT_EXCEEDED
        160,  # TOO_SLOW
        202,  # TOO_MANY_SIMULTANEOUS_QUERIES
        203,  # NO_FREE_CONNECTION
        209,  # SOCKET_TIMEOUT
        210,  # NETWORK_ERROR
        225,  # NO_ZOOKEEPER
        236,  # ABORTED
        241,  # MEMORY_LIMIT_EXCEEDED
        242,  # TABLE_IS_READ_ONLY
        243,  # NOT_ENOUGH_SPACE
        252,  # TOO_MANY_PARTS
        279,  # ALL_CONNECTION_TRIES_FAILED
        285,  # TOO_FEW_LIVE_REPLICAS
        286,  # UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE
        319,  # UNKNOWN_STATUS_OF_INSERT
        425,  # SYSTEM_ERROR
        439,  # CANNOT_SCHEDULE_TASK
        473,  # DEADLOCK_AVOIDED
        999,  # KEEPER_EXCEPTION
    }
)
_BUSY = frozenset({75, 202, 241, 243, 252})
_FULL_DISK = "No space left on device"
"""The system's words where it is another step than a write that meets a full disk: servers have
no code of their own for it then."""


def is_permanent(error: AgentdError) -> bool:
    """Return whether an automatic retry is useless."""
    if isinstance(error, DatabaseError):
        return error.code not in _TRANSIENT and _FULL_DISK not in error.message
    return isinstance(error, ConfigError | BadRequest)


def compute_delay(error: AgentdError, failures: int) -> float:
    """Return the seconds until the next try, which grow with each failure in a row."""
    if is_permanent(error):
        return PERMANENT_DELAY
    busy = isinstance(error, DatabaseError) and (error.code in _BUSY or _FULL_DISK in error.message)
    return min((BUSY_DELAY if busy else FIRST_DELAY) * 2.0 ** min(failures - 1, 20), MAX_DELAY)

"""After which errors the export comes back soon, and after which only late or when it is told."""

from agentd.errors import AgentdError, BadRequest, DatabaseRefused, Misconfigured

SOON = 1.0
OFTEN = 300.0
"""The longest wait for a database that is gone, or busy."""
BUSY = 60.0
"""The shortest one where it has too much to do already."""
LONG = 3600.0
"""For what a person has to mend; a change of the settings ends it."""

_TRANSIENT = frozenset(
    {
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
_BUSY = frozenset({202, 241, 243, 252})


def lasting(error: AgentdError) -> bool:
    """Whether trying again by itself is of no use."""
    if isinstance(error, DatabaseRefused):
        return error.code not in _TRANSIENT
    return isinstance(error, Misconfigured | BadRequest)


def wait(error: AgentdError, failures: int) -> float:
    """Seconds until the next try, after so many failures in a row: longer each time."""
    if lasting(error):
        return LONG
    busy = isinstance(error, DatabaseRefused) and error.code in _BUSY
    return min((BUSY if busy else SOON) * 2.0 ** min(failures - 1, 20), OFTEN)

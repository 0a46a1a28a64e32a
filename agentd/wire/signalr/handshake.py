"""The handshake: a client's first record, always JSON, on every transport."""

from agentd.errors import BadRequest
from agentd.wire.signalr.messages import json_object

VERSIONS = range(3)
"""0 is sent by signalrcore, 1 by everybody, 2 by JavaScript with stateful reconnect."""


def handshake(record: bytes) -> int:
    """The version that the client speaks.

    Raises ``BadRequest`` whose message may be sent: no handshake, another protocol or version.
    """
    request = json_object(record)
    if "protocol" not in request:
        raise BadRequest("The first record must be a handshake: it names a protocol")
    if request["protocol"] != "json":
        raise BadRequest("Only the protocol 'json' is spoken here")
    version = request.get("version")
    if type(version) is not int or version not in VERSIONS:
        raise BadRequest("The version of the protocol must be 0, 1 or 2")
    return version

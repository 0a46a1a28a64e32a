"""The rows of the access keys."""

from agentd.access.gate import Surface
from agentd.access.service import Revoked
from agentd.errors import BadRequest, Conflict, NotFound, Unavailable
from agentd.web import keys as shapes
from agentd.web.keys import KeyDesk
from agentd.web.table import Parameter, Route

_DOOR = Surface.EXTENDED
_KEY = "/api/keys/{name}"
CHILDREN = Parameter(
    "children",
    "query",
    "true revokes the keys that it made, too, and those that they made: as after a leak.",
    {"type": "string", "enum": ["true", "false"]},
)


def rows(desk: KeyDesk) -> tuple[Route, ...]:
    """List, generate, regenerate, revoke."""
    return (
        Route(
            "GET",
            "/api/keys",
            _DOOR,
            desk.list_keys,
            "The named access keys: when each was made and last used; never the keys.",
            gives=shapes.KeysView,
            section="5, rule 3",
        ),
        Route(
            "POST",
            "/api/keys",
            _DOOR,
            desk.generate_key,
            "Make a key for a new name; it is shown this once.",
            takes=shapes.GenerateKey,
            gives=shapes.NewKeyView,
            status=201,
            errors=(BadRequest, Conflict, Unavailable),
            section="5, rule 3",
        ),
        Route(
            "POST",
            f"{_KEY}/regenerate",
            _DOOR,
            desk.regenerate_key,
            "Make another key for a name; the one before opens nothing any more.",
            gives=shapes.NewKeyView,
            errors=(NotFound, Conflict, Unavailable),
            section="5, rule 3",
        ),
        Route(
            "DELETE",
            _KEY,
            _DOOR,
            desk.revoke_key,
            "Revoke a key; what it opened ends within a second. The keys that it made are named.",
            gives=Revoked,
            parameters=(CHILDREN,),
            errors=(NotFound, Conflict, Unavailable),
            section="5, rule 3",
        ),
    )

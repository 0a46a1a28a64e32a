"""The endpoints and routes below ``/api/keys``, for the settings card 'Access keys'.

Source: the remote-control specification, section 5; the paths are our own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from msgspec import Meta, Struct

from agentd.auth.key import NAME_FORM
from agentd.auth.key_service import KeyInfo, KeyService, RevocationResult
from agentd.core.errors import (
    AgentdError,
    BadRequest,
    ConfigError,
    Conflict,
    Forbidden,
    NotFound,
    Unavailable,
)
from agentd.http.access import RouteGroup, require_answers
from agentd.http.parameters import make_choice_parameter
from agentd.http.request import Request, Response
from agentd.http.routing import Route


class KeysView(Struct, frozen=True):
    """The named API keys."""

    keys: list[KeyInfo]
    problem: str
    """Why none of them is accepted; empty if they are."""


class GenerateKey(Struct, frozen=True):
    """The name of the device or program that gets the key, and what it may do."""

    name: Annotated[
        str,
        Meta(
            pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
            extra={"form": NAME_FORM},
        ),
    ]
    answers: bool = True
    """False: the key may not decide what agents ask people (the scope ``answers``)."""


class NewKeyView(Struct, frozen=True):
    """A new key, shown only this once: only a salted hash of it is stored."""

    name: str
    key: str


class KeyEndpoints:
    """List, generate, regenerate and revoke API keys."""

    def __init__(self, keys: KeyService) -> None:
        self._keys = keys

    async def list_keys(self, _: Request) -> Response:
        """Return the names, and when the keys were made and last used; never the keys."""
        return Response(KeysView(await self._keys.list_keys(), self._keys.problem))

    async def generate_key(self, call: Request) -> Response:
        """Make a key for a new name; no key makes one that may do more."""
        payload = call.parse_json(GenerateKey)
        if payload.answers:
            require_answers(call.caller)
        with _report_file_problems():
            key = await self._keys.generate(
                payload.name, call.caller.identity, answers=payload.answers
            )
            try:
                await _confirm_user(call)
            except AgentdError:
                await self._keys.revoke(payload.name)
                raise
        return Response(NewKeyView(payload.name, key), 201)

    async def regenerate_key(self, call: Request) -> Response:
        """Replace the key of a name."""
        name = call.get_name()
        if self._keys.may_answer(name):  # its caller would have such a key
            require_answers(call.caller)
        with _report_file_problems():
            key = await self._keys.regenerate(name, call.caller.identity)
        try:
            await _confirm_user(call)
        except AgentdError:
            self._keys.confirm_delivery(name, key, arrived=False)
            raise
        return Response(
            NewKeyView(name, key),
            on_sent=lambda arrived: self._keys.confirm_delivery(name, key, arrived=arrived),
        )

    async def revoke_key(self, call: Request) -> Response:
        """Revoke a key; its live connections end within a second."""
        with_children = call.get_flag("children")
        with _report_file_problems():
            return Response(await self._keys.revoke(call.get_name(), with_children=with_children))


async def _confirm_user(call: Request) -> None:
    """Raise ``Unauthorized`` for a user whose login ended while a key was made.

    A key that makes another one is looked at where that is stored.
    """
    if call.caller.kind == "user":
        await call.confirm_caller()


@contextmanager
def _report_file_problems() -> Iterator[None]:
    """Raise ``Conflict`` for an invalid ``keys.yml``, which is not edited then."""
    try:
        yield
    except ConfigError as error:
        raise Conflict("keys.yml is not valid; fix it first", error.message) from error


_GROUP = RouteGroup.EXTENDED
_KEY = "/api/keys/{name}"
CHILDREN = make_choice_parameter(
    "children",
    "true, for a leaked key, also revokes all API keys that it made, directly or through others,"
    " and the access keys of the model gateway that any of these made.",
    ("true", "false"),
)


def routes(endpoints: KeyEndpoints) -> tuple[Route, ...]:
    """Return the routes of API keys."""
    return (
        Route(
            "GET",
            "/api/keys",
            _GROUP,
            endpoints.list_keys,
            "List the API keys: when each was made and last used, never the keys themselves.",
            response_type=KeysView,
            section="5, rule 3",
        ),
        Route(
            "POST",
            "/api/keys",
            _GROUP,
            endpoints.generate_key,
            "Make an API key for a new name; it is shown only this once. A key without the scope"
            " answers makes only keys without it.",
            request_type=GenerateKey,
            response_type=NewKeyView,
            status=201,
            errors=(BadRequest, Forbidden, Conflict, Unavailable),
            section="5, rule 3",
        ),
        Route(
            "POST",
            f"{_KEY}/regenerate",
            _GROUP,
            endpoints.regenerate_key,
            "Replace the API key of a name; the old key is no longer valid. The new one may do the"
            " same.",
            response_type=NewKeyView,
            errors=(Forbidden, NotFound, Conflict, Unavailable),
            section="5, rule 3",
        ),
        Route(
            "DELETE",
            _KEY,
            _GROUP,
            endpoints.revoke_key,
            "Revoke an API key; its live connections end within a second. The answer lists the keys"
            " that it made, also those of the model gateway.",
            response_type=RevocationResult,
            parameters=(CHILDREN,),
            errors=(NotFound, Conflict, Unavailable),
            section="5, rule 3",
        ),
    )

"""``/api/me/push``: push notifications for the browser that is signed in."""

from typing import Annotated

from msgspec import Meta, Struct

from agentd.core.errors import BadRequest, Forbidden, LimitReached, Unavailable
from agentd.http.access import Caller, RouteGroup
from agentd.http.request import Request, Response
from agentd.http.routing import Route
from agentd.ui.push.model import MAX_ENDPOINT, Base64Url
from agentd.ui.push.service import PushService

_PATH = "/api/me/push"
_ONLY_LOGINS = "Only logins are notified"
_SIGN_IN = "Sign in instead of sending an API key."


class PushKeys(Struct, frozen=True):
    """The keys of a browser's subscription, as the Push API gives them."""

    p256dh: Base64Url
    """The public key: an uncompressed P-256 point, base64url."""
    auth: Base64Url
    """The authentication secret: 16 bytes, base64url."""


class PushRequest(Struct, frozen=True):
    """A browser's subscription, as the Push API gives it."""

    endpoint: Annotated[str, Meta(min_length=1, max_length=MAX_ENDPOINT)]
    """The https address of the browser's push service."""
    keys: PushKeys


class PushStatusView(Struct, frozen=True, rename="camel"):
    """Push notifications of the login that asks."""

    available: bool
    """False if this agentd cannot send any."""
    problem: str
    """Why it cannot, and what to do; empty if it can."""
    public_key: str
    """The key to subscribe with (applicationServerKey): base64url; empty if unavailable."""
    subscribed: bool
    """True if this login's browser is notified."""


class PushEndpoints:
    """The endpoints."""

    def __init__(self, service: PushService) -> None:
        self._service = service

    async def get_push(self, request: Request) -> Response:
        """Return whether this login is notified, and the key to subscribe with."""
        if not _is_login(request.caller):
            return Response(PushStatusView(False, f"{_ONLY_LOGINS}. {_SIGN_IN}", "", False))
        return Response(await self._show(request.caller))

    async def subscribe_push(self, request: Request) -> Response:
        """Notify this login's browser from now on."""
        wanted = request.parse_json(PushRequest)
        caller = request.caller
        if not _is_login(caller):
            raise Forbidden(_ONLY_LOGINS, _SIGN_IN)
        await self._service.subscribe(caller, wanted.endpoint, wanted.keys.p256dh, wanted.keys.auth)
        return Response(await self._show(caller))

    async def unsubscribe_push(self, request: Request) -> Response:
        """Notify this login's browser no more; of an API key there is none."""
        if _is_login(request.caller):
            await self._service.unsubscribe(request.caller)
        return Response(status=204)

    async def _show(self, caller: Caller) -> PushStatusView:
        if problem := await self._service.find_problem():
            return PushStatusView(False, problem, "", False)
        key = await self._service.get_public_key()
        return PushStatusView(True, "", key, self._service.is_subscribed(caller))


def _is_login(caller: Caller) -> bool:
    return caller.kind == "user" and bool(caller.session_id)


def routes(endpoints: PushEndpoints) -> tuple[Route, ...]:
    """Return the routes; viewers too are notified."""
    return (
        Route(
            "GET",
            _PATH,
            RouteGroup.EXTENDED,
            endpoints.get_push,
            "Get whether this login receives push notifications, and the key to subscribe with.",
            response_type=PushStatusView,
            errors=(Unavailable,),
        ),
        Route(
            "PUT",
            _PATH,
            RouteGroup.EXTENDED,
            endpoints.subscribe_push,
            "Send push notifications of questions and finished work to this login's browser,"
            " until the login ends.",
            request_type=PushRequest,
            example={
                "endpoint": "https://push.example.com/wpush/v2/gAAAA",
                "keys": {
                    "p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4"
                    "bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
                    "auth": "BTBZMqHH6r4Tts7J_aSIgg",
                },
            },
            response_type=PushStatusView,
            errors=(BadRequest, Forbidden, LimitReached, Unavailable),
            role="viewer",
        ),
        Route(
            "DELETE",
            _PATH,
            RouteGroup.EXTENDED,
            endpoints.unsubscribe_push,
            "Send push notifications to this login's browser no more.",
            status=204,
            errors=(Unavailable,),
            role="viewer",
        ),
    )

"""Signing in and out: ``/api/session``.

A browser gets a cookie that no script can read. A program asks for the token itself, with
``"bearer": true``, and sends it as ``Authorization: Bearer``. Source: the remote-control
specification, section 5, rule 7; for one-time codes the proxy specification, section 3.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from agentd.access.gate import Role
from agentd.access.login import LONGEST, LONGEST_BY_CODE, xsrf
from agentd.access.password import LONGEST as LONGEST_PASSWORD
from agentd.access.people import People, SignedIn
from agentd.clock import Timestamp
from agentd.errors import BadRequest, Unauthorized
from agentd.web.call import Answer, Call
from agentd.web.cookies import check_own_page, cookie, login_of
from agentd.web.wrong_keys import WrongKeys, network_of

LONGEST_CODE = 100
"""Characters of a code that is entered, with all blanks and dashes."""


class SignIn(Struct, frozen=True):
    """Who wants in: by name and password, or by a one-time code alone.

    ``bearer`` asks for the token instead of a cookie.
    """

    user: Annotated[str, Meta(max_length=256)] | None = None
    """The name; together with the password."""
    password: Annotated[str, Meta(max_length=LONGEST_PASSWORD)] | None = None
    """The password."""
    code: Annotated[str, Meta(max_length=LONGEST_CODE)] | None = None
    """A one-time code, alone."""
    bearer: bool = False
    """Whether a token is wanted instead of a cookie, as by a program."""


class SignedInView(Struct, frozen=True, rename="camel"):
    """A login: ``xsrf`` is what a page adds as ``X-XSRF-Token``; ``token`` only for a program."""

    user: str
    """Who is signed in; empty: nobody by name."""
    role: Role
    """What may be done."""
    xsrf: str
    """What a page sends as X-XSRF-Token with each change."""
    expires_at: Timestamp
    """Until when the login holds."""
    token: str | None
    """What a program sends as Bearer; null: a cookie was set."""


class SessionView(Struct, frozen=True, rename="camel"):
    """Who is calling: by a key, which has no ``xsrf`` and does not expire, or by a login."""

    kind: Literal["nobody", "key", "user"]
    user: str
    role: Role
    xsrf: str
    expires_at: Timestamp | None


class Sessions:
    """The endpoints."""

    def __init__(self, people: People, wrong_keys: WrongKeys) -> None:
        self._people = people
        self._wrong_keys = wrong_keys

    async def sign_in(self, call: Call) -> Answer:
        """``POST``: a new session; the one that came along in a cookie ends."""
        check_own_page(call.headers)
        wish = call.json(SignIn)
        network = network_of(call.remote_ip)
        try:
            signed = await self._signed_in(wish, network)
        except Unauthorized as error:
            if self._wrong_keys.late(call.remote_ip):
                await self._wrong_keys.refuse(error)
            self._people.tell_failed(wish.user or "", network)
            raise
        await self._end_before(call)
        view = SignedInView(
            signed.caller.name,
            signed.caller.role,
            xsrf(signed.token),
            signed.ends,
            signed.token if wish.bearer else None,
        )
        if wish.bearer:
            return Answer(view)
        lasting = LONGEST if wish.code is None else LONGEST_BY_CODE
        told = cookie(signed.token, call.headers, lasting, by_https=call.by_https)
        return Answer(view, headers={"Set-Cookie": told})

    def who(self, call: Call) -> Answer:
        """``GET``: who is calling."""
        caller = call.caller
        if caller.kind != "user":
            kind: Literal["nobody", "key"] = "key" if caller.kind == "key" else "nobody"
            return Answer(SessionView(kind, caller.name, caller.role, "", None))
        token = login_of(call.headers).token or ""
        ends = self._people.ends(caller)
        return Answer(SessionView("user", caller.name, caller.role, xsrf(token), ends))

    async def sign_out(self, call: Call) -> Answer:
        """``DELETE``: end this login, or with ``?everywhere=true`` every one of its owner."""
        everywhere = call.flag("everywhere")
        await self._people.sign_out(call.caller, everywhere=everywhere)
        by_cookie = login_of(call.headers).by_cookie
        headers = (
            {"Set-Cookie": cookie("", call.headers, by_https=call.by_https)} if by_cookie else {}
        )
        return Answer(status=204, headers=headers)

    async def _signed_in(self, wish: SignIn, network: str) -> SignedIn:
        match wish:
            case SignIn(code=None, user=str(name), password=str(word)):
                return await self._people.sign_in(name, word, network)
            case SignIn(code=str(code), user=None, password=None):
                return await self._people.enter(code, network)
        raise BadRequest("Send user and password, or a one-time code alone")

    async def _end_before(self, call: Call) -> None:
        """The browser forgets its cookie of before, so nobody could end that session any more."""
        login = login_of(call.headers)
        before = self._people.caller(login.token) if login.by_cookie and login.token else None
        if before:
            await self._people.sign_out(before)

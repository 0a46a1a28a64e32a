"""Signing in and out: ``/api/session``.

A browser gets a cookie that no script can read. A program asks for the token itself, with
``"bearer": true``, and sends it as ``Authorization: Bearer``. Source: the remote-control
specification, section 5, rule 7.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from agentd.access.gate import Role
from agentd.access.login import xsrf
from agentd.access.password import LONGEST
from agentd.access.people import People
from agentd.clock import Timestamp
from agentd.errors import Unauthorized
from agentd.web.call import Answer, Call
from agentd.web.cookies import check_own_page, cookie, login_of
from agentd.web.wrong_keys import WrongKeys, network_of


class SignIn(Struct, frozen=True):
    """Who wants in; ``bearer`` asks for the token instead of a cookie."""

    user: Annotated[str, Meta(max_length=256)]
    password: Annotated[str, Meta(max_length=LONGEST)]
    bearer: bool = False


class SignedInView(Struct, frozen=True, rename="camel"):
    """A login: ``xsrf`` is what a page adds as ``X-XSRF-Token``; ``token`` only for a program."""

    user: str
    role: Role
    xsrf: str
    expires_at: Timestamp
    token: str | None


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
            signed = await self._people.sign_in(wish.user, wish.password, network)
        except Unauthorized as error:
            if self._wrong_keys.late(call.remote_ip):
                await self._wrong_keys.refuse(error)
            self._people.tell_failed(wish.user, network)
            raise
        await self._end_before(call)
        view = SignedInView(
            signed.caller.name,
            signed.caller.role,
            xsrf(signed.token),
            signed.ends,
            signed.token if wish.bearer else None,
        )
        headers = {} if wish.bearer else {"Set-Cookie": cookie(signed.token, call.headers)}
        return Answer(view, headers=headers)

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
        everywhere = call.query("everywhere") == "true"
        await self._people.sign_out(call.caller, everywhere=everywhere)
        by_cookie = login_of(call.headers).by_cookie
        headers = {"Set-Cookie": cookie("", call.headers)} if by_cookie else {}
        return Answer(status=204, headers=headers)

    async def _end_before(self, call: Call) -> None:
        """The browser forgets its cookie of before, so nobody could end that session any more."""
        login = login_of(call.headers)
        before = self._people.caller(login.token) if login.by_cookie and login.token else None
        if before:
            await self._people.sign_out(before)

"""Only the word of a known issuer is a licence, and only until it expires."""

import base64

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.errors import BadRequest
from agentd.gateway.licence.licence import (
    Licence,
    create_licence,
    derive_issuer,
    generate_issuer,
    get_status,
    is_issuer,
    sign,
    verify,
)

NOW = "2026-01-31T12:00:00.000Z"
PRIVATE, PUBLIC = generate_issuer()
OTHER_PRIVATE, OTHER = generate_issuer()
LICENCE = create_licence("Ann <ann@example.org>", "team", NOW, 30)
TOKEN = sign(LICENCE, PRIVATE)


def test_what_an_issuer_signed_is_read_back():
    assert TOKEN.startswith("agentd-licence.v1.")
    assert verify(TOKEN, [OTHER, PUBLIC]) == LICENCE
    assert LICENCE.expires == "2026-03-02T12:00:00.000Z"


@pytest.mark.parametrize("issuers", [[], [OTHER]])
def test_the_word_of_nobody_known_is_no_licence(issuers):
    with pytest.raises(BadRequest, match="no issuer that is known"):
        verify(TOKEN, issuers)


@given(at=st.integers(0, len(TOKEN) - 1), put=st.text(max_size=2), cut=st.integers(0, 2))
def test_no_changed_token_is_a_licence(at, put, cut):
    changed = TOKEN[:at] + put + TOKEN[at + cut :]
    if changed == TOKEN:
        return
    with pytest.raises(BadRequest):
        verify(changed, [PUBLIC])


def test_what_a_foreign_issuer_says_with_our_signature_is_no_licence():
    said, _, proof = TOKEN.rpartition(".")
    forged = sign(msgspec.structs.replace(LICENCE, edition="all"), OTHER_PRIVATE)
    with pytest.raises(BadRequest):
        verify(f"{forged.rpartition('.')[0]}.{proof}", [PUBLIC])
    with pytest.raises(BadRequest):
        verify(f"{said}.{forged.rpartition('.')[2]}", [PUBLIC, OTHER])


@pytest.mark.parametrize(
    "text", ["", ".", "agentd-licence.v1.", "agentd-licence.v2.a.b", "é", "x" * 10**6]
)
def test_what_is_no_token_is_informed(text):
    with pytest.raises(BadRequest, match="licence"):
        verify(text, [PUBLIC])


@pytest.mark.parametrize(
    "fields",
    [{"expires": "soon"}, {"expires": 7}, {"holder": ""}, {"edition": "a\x1b[2J"}, {"seats": 3}],
)
def test_a_signed_word_that_is_not_understood_is_no_licence(fields):
    said = msgspec.to_builtins(LICENCE) | fields
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(said, Licence)
    payload = base64.urlsafe_b64encode(msgspec.json.encode(said)).rstrip(b"=").decode()
    token = _sign_unchecked(payload)
    with pytest.raises(BadRequest, match="cannot be understood"):
        verify(token, [PUBLIC])


def _sign_unchecked(payload: str) -> str:
    seed = base64.urlsafe_b64decode(PRIVATE.rpartition(".")[2] + "=")
    said = f"agentd-licence.v1.{payload}"
    proof = Ed25519PrivateKey.from_private_bytes(seed).sign(said.encode())
    return f"{said}.{base64.urlsafe_b64encode(proof).rstrip(b'=').decode()}"


def test_a_licence_ends_at_its_moment():
    assert get_status(LICENCE, "2026-03-02T11:59:59.999Z").state == "valid"
    over = get_status(LICENCE, "2026-03-02T12:00:00.000Z")
    assert over.state == "expired"
    assert over.licence == LICENCE
    assert "2026-03-02" in over.reason
    assert "agentd licence" in over.reason


def test_a_private_key_gives_its_public_one_and_is_never_shown():
    assert derive_issuer(PRIVATE) == PUBLIC
    assert is_issuer(PUBLIC)
    assert not is_issuer(PRIVATE)
    for wrong in (PUBLIC, PRIVATE[:-1], PRIVATE + "A", ""):
        with pytest.raises(BadRequest) as refused:
            derive_issuer(wrong)
        assert PRIVATE[-20:-2] not in str(refused.value)


@pytest.mark.parametrize(("holder", "days"), [("", 1), ("a\nb", 1), ("ann", 10**9)])
def test_there_is_no_licence_for_nobody_or_for_ever(holder, days):
    with pytest.raises(BadRequest, match="no such licence"):
        create_licence(holder, "team", NOW, days)

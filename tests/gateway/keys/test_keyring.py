"""The keyring accepts exactly the keys that are valid now."""

import pytest
from msgspec import structs

from agentd.core.errors import Unauthorized
from agentd.gateway.keys.keyring import Keyring
from agentd.gateway.keys.model import issue, reissue

NOW = "2026-01-31T12:00:00.000Z"


def test_a_key_is_found_among_thousands():
    made = [issue(f"key {number}", NOW) for number in range(3000)]
    ring = Keyring(kept for _, kept in made)
    assert len(ring) == 3000
    for key, kept in made[::500]:
        assert ring.authenticate(key, NOW) is kept
        assert ring.find(kept.id) is kept


def test_what_is_no_key_of_ours_is_refused_without_a_word_about_any():
    key, kept = issue("laptop", NOW)
    other, _ = issue("laptop", NOW)
    ring = Keyring([kept])
    wrong = key[:-1] + ("a" if key[-1] != "a" else "b")
    padded = (f" {key}", f"{key}\n", f"{key}, {key}", key.swapcase(), kept.secret.sha256)
    for presented in ("", "\ud800", "\x00", "k" * 10**6, "ключ", other, wrong, *padded):
        with pytest.raises(Unauthorized, match="not an access key") as refused:
            ring.authenticate(presented, NOW)
        assert "laptop" not in str(refused.value)


def test_a_disabled_key_is_refused_and_only_its_owner_is_reported():
    key, kept = issue("laptop", NOW)
    ring = Keyring([structs.replace(kept, enabled=False)])
    with pytest.raises(Unauthorized, match='"laptop" is disabled'):
        ring.authenticate(key, NOW)
    with pytest.raises(Unauthorized, match="not an access key"):
        ring.authenticate(key[:-32] + key[:-33:-1], NOW)


def test_an_expired_key_is_refused():
    key, kept = issue("laptop", NOW)
    ring = Keyring([structs.replace(kept, expires="2026-02-01T00:00:00.000Z")])
    assert ring.authenticate(key, NOW)
    with pytest.raises(Unauthorized, match="expired at 2026-02-01"):
        ring.authenticate(key, "2026-02-01T00:00:00.000Z")


def test_the_letters_before_open_within_their_grace():
    first, kept = issue("laptop", NOW)
    second, again = reissue(kept, NOW, 10)
    ring = Keyring([again])
    assert ring.authenticate(first, NOW) is ring.authenticate(second, NOW)
    with pytest.raises(Unauthorized):
        ring.authenticate(first, "2026-01-31T12:00:10.000Z")


def test_lost_are_the_keys_that_are_gone_disabled_expired_or_of_other_letters():
    gone, disabled, renewed, graced, same, was_off = (issue(name, NOW)[1] for name in "abcdef")
    was_off = structs.replace(was_off, enabled=False)
    expires, expired, later = (
        structs.replace(issue(at, NOW)[1], expires=f"2026-01-31T12:00:{at}.000Z")
        for at in ("01", "00", "02")
    )
    timed = [expires, expired, later]
    before = Keyring([gone, disabled, renewed, graced, same, was_off, *timed])
    after = Keyring(
        [
            structs.replace(disabled, enabled=False),
            reissue(renewed, NOW, 0)[1],
            reissue(graced, NOW, 10)[1],
            structs.replace(same, name="other"),
            *timed,
        ]
    )
    soon = expires.expires
    assert before.find_revoked(after, NOW, soon) == {gone.id, disabled.id, renewed.id, expires.id}
    assert before.find_next_expiry(NOW) == soon
    assert before.find_next_expiry(soon) == later.expires
    assert Keyring([same, was_off]).find_next_expiry(NOW) is None

"""The list of revoked keys never grows beyond what is read: then no key would be accepted."""

from hashlib import sha256
from pathlib import Path

import pytest
from msgspec import structs

from agentd.auth import revoked_keys
from agentd.auth.revoked_keys import RevokedKey, RevokedKeys
from agentd.core.errors import Conflict
from agentd.storage import document


def make_keys(*numbers: int) -> list[RevokedKey]:
    at = "2026-01-01T00:00:00.000Z"
    return [RevokedKey(f"ci {n}", sha256(b"%d" % n).hexdigest(), at) for n in numbers]


def test_a_full_list_takes_no_more_keys_says_so_and_is_still_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "revoked.json"
    revoked = RevokedKeys(str(path))
    first, second, third = make_keys(1, 2, 3)
    revoked.update(add=[first])
    revoked.update(add=[second])
    monkeypatch.setattr(revoked_keys, "_LIMIT", path.stat().st_size)
    with pytest.raises(Conflict, match="is full: it has 2 revoked keys") as caught:
        revoked.update(add=[third])
    assert "the oldest ones" in caught.value.details
    assert revoked.read() == (second, first)
    assert revoked.update(remove=[first.sha256]) == (first.sha256,)
    revoked.update(add=[third])
    assert revoked.read() == (third, second)


def test_a_key_that_is_revoked_again_keeps_its_first_time_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    revoked = RevokedKeys(str(tmp_path / "revoked.json"))
    (first,) = make_keys(1)
    assert revoked.update(add=[first]) == ()
    written: list[str] = []
    monkeypatch.setattr(document, "replace_document", lambda path, _: written.append(path))
    revoked.update(add=[structs.replace(first, at="2027-01-01T00:00:00.000Z")])
    revoked.update(remove=["0" * 64])
    assert revoked.read() == (first,)
    assert not written


def test_a_hundred_thousand_keys_and_more_are_read(tmp_path: Path) -> None:
    revoked = RevokedKeys(str(tmp_path / "revoked.json"))
    revoked.update(add=make_keys(*range(150_000)))
    (last,) = make_keys(150_000)
    revoked.update(add=[last])
    digests = revoked.read_digests()
    assert len(digests) == 150_001
    assert last.sha256 in digests

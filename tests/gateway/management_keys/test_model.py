"""Matching management keys."""

from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from agentd.core.errors import ConfigError
from agentd.gateway.management_keys.file import ManagementKeyFile
from agentd.gateway.management_keys.model import (
    ManagementKey,
    ManagementKeyRing,
    issue_management_key,
)
from agentd.storage.layout import Layout

AT = "2026-01-01T00:00:00.000Z"
SECRET, KEPT = issue_management_key("monitor", "read", AT, "cli")
OTHER_SECRET, OTHER = issue_management_key("other", "all", AT, "cli")
RING = ManagementKeyRing([KEPT, OTHER])


@given(st.text(max_size=60))
def test_only_the_keys_themselves_are_found(presented: str) -> None:
    assert RING.find(presented) is None
    assert RING.find(SECRET) == KEPT
    assert RING.find(f"{SECRET},{OTHER_SECRET}") is None
    assert RING.find(SECRET + presented[:1]) is (KEPT if not presented else None)


def test_a_disabled_key_is_listed_but_not_found() -> None:
    disabled = structs.replace(KEPT, enabled=False)
    ring = ManagementKeyRing([disabled])
    assert list(ring) == [disabled]
    assert ring.find(SECRET) is None


def test_two_keys_of_one_name_are_told_at_the_line_of_the_second(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path), str(tmp_path))
    file = ManagementKeyFile(layout)
    file.add(KEPT)
    file.add(OTHER)
    path = Path(layout.management_keys)
    path.write_text(path.read_text().replace("other", "monitor"))
    with pytest.raises(ConfigError, match="two keys have the name monitor") as caught:
        file.load()
    lines = path.read_text().splitlines()
    second = [number for number, text in enumerate(lines, 1) if "monitor" in text][1]
    assert [problem.line for problem in caught.value.problems] == [second]


def test_a_hash_without_salt_is_that_of_the_key_alone() -> None:
    digest = sha256(b"by hand").hexdigest()
    key = ManagementKey(name="hand", scope="keys", sha256=digest)
    assert ManagementKeyRing([key]).find("by hand") == key


def test_what_ends_is_a_key_that_is_gone_disabled_replaced_or_of_another_scope() -> None:
    changes = (
        {"enabled": False},
        {"scope": "keys"},
        {"sha256": OTHER.sha256},
    )
    for change in changes:
        after = ManagementKeyRing([structs.replace(KEPT, **change), OTHER])  # type: ignore[arg-type]
        assert RING.find_revoked(after) == {"monitor"}
    assert RING.find_revoked(ManagementKeyRing([OTHER])) == {"monitor"}
    assert RING.find_revoked(ManagementKeyRing([OTHER, KEPT])) == frozenset()
    assert ManagementKeyRing([structs.replace(KEPT, enabled=False)]).find_revoked(RING) == set()

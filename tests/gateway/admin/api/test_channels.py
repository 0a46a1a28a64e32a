"""Channels, managed by a program."""

from pathlib import Path

import pytest

from tests.gateway.conftest import SECRET, GatewaySetup
from tests.support.daemon import Client

ALL = "/api/agent/channels"
NEW = {"name": "other", "dialects": ["anthropic"], "url": "https://api.example.com"}
MASKED = f"****{SECRET[-4:]}"


def read_channels_file(setup: GatewaySetup) -> str:
    return Path(setup.layout.channels).read_text()


def test_channels_are_listed_with_their_models_and_masked_secrets(
    setup: GatewaySetup, manager: Client
) -> None:
    """The proxy specification, section 2: secrets are masked."""
    reply = manager.get(ALL)
    assert [one["name"] for one in reply["items"]] == ["chat", "gemini", "messages", "responses"]
    chat = reply["items"][0]
    assert (chat["models"], chat["key"]) == (["by-chat"], MASKED)
    assert manager.get(f"{ALL}/chat").json() == chat
    assert SECRET.encode() not in reply.body


def test_a_channel_that_does_not_exist_shows_the_nearest_name(manager: Client) -> None:
    """The proxy specification, section 7: what is not found is told as such."""
    for reply in (
        manager.get(f"{ALL}/chatt"),
        manager.patch(f"{ALL}/chatt", {}),
        manager.delete(f"{ALL}/chatt"),
        manager.post(f"{ALL}/chatt/copy", {"name": "x"}),
        manager.send("POST", f"{ALL}/chatt/enable"),
    ):
        assert (reply.status, reply["error"]) == (404, "NotFound")
        assert 'did you mean "chat"?' in reply["message"]


def test_a_list_goes_on_where_the_page_before_ended(manager: Client) -> None:
    names, cursor = [], ""
    while True:
        page = manager.get(f"{ALL}?limit=3&cursor={cursor}").json()
        names.append([one["name"] for one in page["items"]])
        cursor = page["next"]
        if not cursor:
            break
    assert names == [["chat", "gemini", "messages"], ["responses"]]


def test_a_list_is_filtered_by_name_and_by_being_enabled(manager: Client) -> None:
    assert manager.send("POST", f"{ALL}/gemini/disable")["enabled"] is False

    def found(query: str) -> list[str]:
        return [one["name"] for one in manager.get(f"{ALL}?{query}")["items"]]

    assert found("name=ES") == ["messages", "responses"]
    assert found("enabled=false") == ["gemini"]
    assert found("enabled=true&name=ge") == ["messages"]
    assert manager.get(f"{ALL}?enabled=1").status == 400
    assert manager.get(f"{ALL}?limit=201").status == 400
    assert manager.get(f"{ALL}?limit=0").status == 400


def test_a_channel_is_created_and_in_the_file(setup: GatewaySetup, manager: Client) -> None:
    """The proxy specification, sections 1 and 2: channels are created."""
    reply = manager.post(ALL, {**NEW, "key": "sk-0123456789abcdef", "coolDown": 5})
    assert reply.status == 201
    assert reply.headers["Location"] == f"{ALL}/other"
    assert (reply["key"], reply["coolDown"], reply["enabled"]) == ("****cdef", 5.0, True)
    assert manager.get(reply.headers["Location"]).headers["ETag"] == reply.headers["ETag"]
    assert "sk-0123456789abcdef" in read_channels_file(setup)


def test_a_taken_name_is_a_conflict(manager: Client) -> None:
    """The proxy specification, section 7: a taken name is a conflict."""
    for reply in (
        manager.post(ALL, {**NEW, "name": "chat"}),
        manager.patch(f"{ALL}/chat", {"name": "gemini"}),
        manager.post(f"{ALL}/chat/copy", {"name": "gemini"}),
    ):
        assert (reply.status, reply["error"]) == (409, "Conflict")
        assert "already" in reply["message"] or "in use" in reply["message"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"dialects": ["klingon"]},
        {"dialects": []},
        {"url": "ftp://x"},
        {"url": "http://127.0.0.1:1"},
        {"unknown": 1},
        {"coolDown": -1},
        {"name": ""},
        {"transport": {"kind": "http"}},
        {"headers": {"Host": "x"}},
        {"key": "****abcd"},
    ],
)
def test_what_a_channel_cannot_be_is_refused_and_nothing_is_written(
    setup: GatewaySetup, manager: Client, wrong: dict[str, object]
) -> None:
    """The proxy specification, section 7: bad requests."""
    before = read_channels_file(setup)
    assert manager.post(ALL, {**NEW, **wrong}).status == 400
    assert read_channels_file(setup) == before


def test_what_cannot_be_is_informed_of_the_channel_and_not_of_its_place_in_the_file(
    manager: Client,
) -> None:
    details = manager.post(ALL, {**NEW, "name": "a b", "url": "http://10.0.0.1"})["details"]
    assert details.startswith('name: found "a b", expected at most 64 letters')
    details = manager.patch(f"{ALL}/chat", {"local": False})["details"]
    assert (
        details == "url: leads to this machine or its network; allow it with local: true (--local)"
    )


@pytest.mark.parametrize(
    ("wrong", "result"),
    [
        ({"dialect": "anthropic"}, '`dialect`; did you mean "dialects"?'),
        ({"dialects": ["openai"]}, '`$.dialects[0]`; did you mean "openai-chat"?'),
        ({"cool_down": 1}, '`cool_down`; did you mean "coolDown"?'),
        ({"url": "localhost:1"}, "Expected an address such as https://api.example.com/v1"),
    ],
)
def test_a_mistyped_field_is_reported_with_what_would_be_right(
    manager: Client, wrong: dict[str, object], result: str
) -> None:
    for reply in (manager.post(ALL, {**NEW, **wrong}), manager.patch(f"{ALL}/chat", wrong)):
        assert reply.status == 400
        assert result in reply["details"]


def test_a_mistyped_parameter_is_reported_and_nothing_is_done(
    setup: GatewaySetup, manager: Client
) -> None:
    before = Path(setup.layout.channels).read_text()
    reply = manager.patch(f"{ALL}/chat?dryrun=true", {"timeout": 5})
    assert (reply.status, reply["error"]) == (400, "BadRequest")
    assert 'did you mean "dry_run"?' in reply["message"]
    assert Path(setup.layout.channels).read_text() == before
    assert manager.get(f"{ALL}?nme=a").status == 400
    astray = manager.get("/api/agent/channel")
    assert astray["message"].endswith('did you mean "/api/agent/channels"?')
    assert "GET /api/agent " in astray["details"]


def test_a_patch_changes_what_it_names_and_null_is_the_default(manager: Client) -> None:
    """The proxy specification, section 2: channels are edited."""
    wish = {"coolDown": 7, "headers": {"X-Team": "a", "X-Part": "b"}, "timeout": 9}
    assert manager.patch(f"{ALL}/chat", wish)["headers"] == {"X-Team": "a", "X-Part": "b"}
    reply = manager.patch(f"{ALL}/chat", {"coolDown": None, "headers": {"X-Part": None}})
    assert reply.status == 200
    assert (reply["coolDown"], reply["timeout"]) == (30.0, 9.0)
    assert reply["headers"] == {"X-Team": "a"}
    assert manager.patch(f"{ALL}/chat", {"url": None}).status == 400


def test_a_masked_secret_that_is_written_back_keeps_the_secret(
    setup: GatewaySetup, manager: Client
) -> None:
    """The proxy specification, section 2: secrets are written, never read."""
    shown = manager.get(f"{ALL}/chat").json()
    del shown["models"]
    reply = manager.patch(f"{ALL}/chat", shown)
    assert reply.status == 200
    assert (reply["key"], "****" in read_channels_file(setup)) == (MASKED, False)
    assert read_channels_file(setup).count(SECRET) == 4


def test_another_mask_is_refused(setup: GatewaySetup, manager: Client) -> None:
    before = read_channels_file(setup)
    assert manager.patch(f"{ALL}/chat", {"key": "****"}).status == 400
    assert manager.patch(f"{ALL}/chat", {"key": "****zzzz"}).status == 400
    assert read_channels_file(setup) == before


ELSEWHERE = {"url": "https://evil.example.com"}


def test_a_key_does_not_go_to_another_address(setup: GatewaySetup, manager: Client) -> None:
    """A copy, too: whoever may manage does not get to hear a key by that."""
    assert manager.post(f"{ALL}/chat/copy", {"name": "stolen"})["key"] == MASKED
    reply = manager.patch(f"{ALL}/stolen", ELSEWHERE)
    assert (reply.status, reply["key"]) == (200, "")
    assert read_channels_file(setup).count(SECRET) == 4


def test_a_masked_key_at_another_address_is_refused_and_neither_sent_nor_cleared(
    setup: GatewaySetup, manager: Client
) -> None:
    before = read_channels_file(setup)
    reply = manager.patch(f"{ALL}/chat", {**ELSEWHERE, "key": MASKED})
    assert (reply.status, reply["error"]) == (400, "BadRequest")
    assert reply["message"].startswith("key: ")
    assert "not sent to another address" in reply["message"]
    assert "Send the secret itself" in reply["details"]
    assert read_channels_file(setup) == before


def test_a_key_that_is_written_out_goes_to_another_address(
    setup: GatewaySetup, manager: Client
) -> None:
    """Also the same one: a supplier may move. Undone, it is where it was."""
    for key in (SECRET, "sk-another-0123456789", ""):
        reply = manager.patch(f"{ALL}/chat", {**ELSEWHERE, "key": key})
        assert (reply.status, reply["url"]) == (200, ELSEWHERE["url"])
        assert read_channels_file(setup).count(SECRET) == 3 + (key == SECRET)
        assert key in read_channels_file(setup)
        last = manager.get("/api/agent/changes")["items"][0]["number"]
        assert manager.send("POST", f"/api/agent/changes/{last}/undo").status == 200
        assert manager.get(f"{ALL}/chat")["key"] == MASKED
        assert read_channels_file(setup).count(SECRET) == 4


def test_a_place_of_a_secret_cannot_be_named_from_afar(
    setup: GatewaySetup, manager: Client
) -> None:
    """It would read files and variables of ours, and send them to any address."""
    for key in ("env:HOME", "file:/etc/passwd"):
        via = {"transport": {"kind": "http", "url": key}}
        for reply in (
            manager.post(ALL, {**NEW, "key": key}),
            manager.patch(f"{ALL}/chat", {"key": key}),
            manager.patch(f"{ALL}/chat", via),
        ):
            assert reply.status == 400
            assert "by hand" in reply["message"]
        assert key not in read_channels_file(setup)


def test_a_place_that_the_file_names_already_can_be_kept(
    setup: GatewaySetup, start_gateway: object, manager: Client
) -> None:
    Path(setup.layout.channels).write_text(read_channels_file(setup).replace(SECRET, "env:HOME", 1))

    def patched() -> bool:
        return manager.patch(f"{ALL}/chat", {"key": "env:HOME", "timeout": 5}).status == 200

    assert patched()
    assert manager.get(f"{ALL}/chat")["key"] == "env:HOME"


def test_a_channel_in_use_is_neither_deleted_nor_renamed(
    setup: GatewaySetup, manager: Client
) -> None:
    """The proxy specification, section 7: what is in use is a conflict."""
    for reply in (
        manager.delete(f"{ALL}/chat"),
        manager.patch(f"{ALL}/chat", {"name": "chat-2"}),
    ):
        assert (reply.status, reply["error"]) == (409, "Conflict")
        assert 'model "by-chat"' in reply["message"]
    assert manager.post(ALL, NEW).status == 201
    assert manager.patch(f"{ALL}/other", {"name": "new-name"})["name"] == "new-name"
    assert manager.delete(f"{ALL}/new-name").status == 204
    assert manager.get(f"{ALL}/new-name").status == 404


def test_a_dry_run_shows_what_would_be_and_changes_nothing(
    setup: GatewaySetup, manager: Client
) -> None:
    before = read_channels_file(setup)
    assert manager.post(f"{ALL}?dry_run=true", NEW)["name"] == "other"
    assert manager.patch(f"{ALL}/chat?dry_run=true", {"timeout": 3})["timeout"] == 3.0
    assert manager.post(f"{ALL}/chat/copy?dry_run=true", {"name": "c"})["name"] == "c"
    assert manager.send("POST", f"{ALL}/chat/disable?dry_run=true")["enabled"] is False
    manager.post(ALL, NEW)
    assert manager.delete(f"{ALL}/other?dry_run=true").status == 204
    assert manager.get(f"{ALL}/other").status == 200
    assert manager.post(f"{ALL}?dry_run=true", NEW).status == 409
    assert manager.delete(f"{ALL}/chat?dry_run=true").status == 409
    manager.delete(f"{ALL}/other")
    assert read_channels_file(setup) == before
    assert [one["name"] for one in manager.get("/api/agent/changes")["items"]] == ["other"] * 2


def test_only_the_version_that_was_read_is_changed(manager: Client) -> None:
    tag = manager.get(f"{ALL}/chat").headers["ETag"]
    reply = manager.patch(f"{ALL}/chat", {"timeout": 3}, {"If-Match": tag})
    assert reply.status == 200
    assert reply.headers["ETag"] != tag
    for late in (
        manager.patch(f"{ALL}/chat", {"timeout": 4}, {"If-Match": tag}),
        manager.send("DELETE", f"{ALL}/chat", headers={"If-Match": tag}),
        manager.send("POST", f"{ALL}/chat/disable", headers={"If-Match": tag}),
    ):
        assert (late.status, late["error"]) == (412, "PreconditionFailed")
    both = f"{tag}, {reply.headers['ETag']}"
    assert manager.patch(f"{ALL}/chat", {"timeout": 4}, {"If-Match": both}).status == 200
    assert manager.patch(f"{ALL}/chat", {"timeout": 5}, {"If-Match": "*"}).status == 200
    assert manager.patch(f"{ALL}/chat", {"timeout": 5}, {"If-Match": "x"}).status == 400


def test_another_secret_is_another_version_though_it_looks_the_same(manager: Client) -> None:
    def tag(key: str) -> str:
        return str(manager.patch(f"{ALL}/chat", {"key": key}).headers["ETag"])

    assert tag("sk-aaaaaaaaaaaaaaaaa-1234") != tag("sk-bbbbbbbbbbbbbbbbb-1234")


def test_comments_and_the_rest_of_the_file_stay(setup: GatewaySetup, manager: Client) -> None:
    path = Path(setup.layout.channels)
    text = (
        "# ours\nchannels:\n  # the best\n  - name: chat\n    dialects: [openai-chat]"
        "   # only this\n    url: http://127.0.0.1:1\n    local: true\n"
    )
    path.write_text(text)
    path.chmod(0o600)
    assert manager.patch(f"{ALL}/chat", {"url": "http://127.0.0.1:2"}).status == 200
    assert path.read_text() == text.replace("http://127.0.0.1:1", "'http://127.0.0.1:2'")


def test_a_file_with_mistakes_is_not_edited(setup: GatewaySetup, manager: Client) -> None:
    path = Path(setup.layout.channels)
    path.write_text("channels: oops\n")
    reply = manager.patch(f"{ALL}/chat", {"timeout": 3})
    assert (reply.status, path.read_text()) == (409, "channels: oops\n")


@pytest.mark.parametrize(
    "link", ["garbage", "https://", "vless://", "ss://%%%", "ftp://a.example/x"]
)
def test_what_is_no_link_of_a_vpn_is_not_saved(manager: Client, link: str) -> None:
    channel = {**NEW, "name": "through", "transport": {"kind": "vpn", "url": link}}
    reply = manager.post(ALL, channel)
    assert (reply.status, "url" in reply.body.decode()) == (400, True)
    assert manager.get(f"{ALL}/through").status == 404


def test_further_keys_are_written_masked_and_taken_back(
    setup: GatewaySetup, manager: Client
) -> None:
    """The proxy specification, section 2: secrets are masked."""
    keys = ["sk-0123456789abcdef", "sk-0123456789ABCDEF"]
    shown = ["****cdef", "****CDEF"]
    made = manager.patch(f"{ALL}/chat?dry_run=true", {"keys": keys})
    assert (made["key"], made["keys"]) == (MASKED, shown)
    assert manager.get(f"{ALL}/chat")["keys"] == []
    assert manager.patch(f"{ALL}/chat", {"keys": keys})["keys"] == shown
    assert all(key in read_channels_file(setup) for key in keys)
    change = manager.get("/api/agent/changes?limit=1")
    assert change["items"][0]["after"]["keys"] == shown
    assert not any(key.encode() in change.body for key in keys)
    assert manager.patch(f"{ALL}/chat", {"keys": shown[1:]})["keys"] == shown[1:]
    assert keys[0] not in read_channels_file(setup)
    for number in (change["items"][0]["number"] + 1, change["items"][0]["number"]):
        assert manager.send("POST", f"/api/agent/changes/{number}/undo").status < 300
    assert manager.get(f"{ALL}/chat")["keys"] == []
    assert (manager.get(f"{ALL}/chat")["key"], SECRET in read_channels_file(setup)) == (
        MASKED,
        True,
    )


@pytest.mark.parametrize("keys", [["env:HOME"], ["****cdef"], ["two words"], [SECRET], [""]])
def test_what_no_further_key_can_be_is_refused(
    setup: GatewaySetup, manager: Client, keys: list[str]
) -> None:
    before = read_channels_file(setup)
    assert manager.patch(f"{ALL}/chat", {"keys": keys}).status == 400
    assert read_channels_file(setup) == before


def test_a_check_tries_every_key(setup: GatewaySetup, manager: Client) -> None:
    manager.patch(f"{ALL}/chat", {"keys": ["sk-0123456789abcdef"]})
    before = len(setup.supplier.others)
    steps = manager.send("POST", f"{ALL}/chat/check")["steps"]
    first, second = [one for one in steps if one["name"] == "models"]
    assert (first["state"], first["detail"]) == ("passed", "2 models")
    assert (second["state"], second["detail"]) == ("passed", "keys[0]: 2 models")
    asked = [request.headers["authorization"] for request in setup.supplier.others[before:]]
    assert asked == [f"Bearer {SECRET}", "Bearer sk-0123456789abcdef"]


PARAMETERS = {"set": {"temperature": 0.2, "stop": ["a"]}, "default": {}, "remove": ["user"]}


def test_parameters_are_changed_as_a_whole_and_taken_back(
    setup: GatewaySetup, manager: Client
) -> None:
    before = read_channels_file(setup)
    assert (
        manager.patch(f"{ALL}/chat?dry_run=true", {"parameters": PARAMETERS})["parameters"]
        == PARAMETERS
    )
    assert read_channels_file(setup) == before
    assert manager.patch(f"{ALL}/chat", {"parameters": PARAMETERS})["parameters"] == PARAMETERS
    assert manager.get(f"{ALL}/chat")["parameters"] == PARAMETERS
    number = manager.get("/api/agent/changes?limit=1")["items"][0]["number"]
    assert manager.send("POST", f"/api/agent/changes/{number}/undo").status < 300
    assert manager.get(f"{ALL}/chat")["parameters"] is None
    manager.patch(f"{ALL}/chat", {"parameters": PARAMETERS})
    for nothing in ({"set": {}, "default": {}, "remove": []}, None):
        assert manager.patch(f"{ALL}/chat", {"parameters": nothing})["parameters"] is None


@pytest.mark.parametrize(
    "wrong", [{"set": {"max_tokens": 5}}, {"set": {"x": None}}, {"remove": ["model"]}, {"sets": {}}]
)
def test_parameters_that_cannot_be_changed_are_refused(
    setup: GatewaySetup, manager: Client, wrong: dict[str, object]
) -> None:
    before = read_channels_file(setup)
    reply = manager.patch(f"{ALL}/chat", {"parameters": wrong})
    assert reply.status == 400
    assert read_channels_file(setup) == before

"""The rows below ``/api/agent/keys``."""

from msgspec import structs

from agentd.web.manage import keys as shapes
from agentd.web.manage.keys import AccessKeyDesk
from agentd.web.table import Route
from agentd.web.tables import manage_rows

_ALL = "/api/agent/keys"
_ONE = f"{_ALL}/{{id}}"


def rows(desk: AccessKeyDesk) -> tuple[Route, ...]:
    """List, show, create, change, reissue, enable, disable, delete."""
    view = shapes.AccessKeyView
    return (
        manage_rows.many(
            _ALL,
            desk.list_access_keys,
            "The access keys in the order of their names, with what each has spent.",
            shapes.AccessKeyPage,
        ),
        manage_rows.create(
            _ALL,
            desk.issue_access_key,
            "Create an access key; its letters are told this once.",
            shapes.NewAccessKey,
            shapes.IssuedKeyView,
            {"name": "ann", "models": ["large", "gpt-*"], "limits": {"day": 5, "month": 50}},
        ),
        manage_rows.one(
            _ONE,
            desk.one_access_key,
            "One access key, by its id or name; never its letters.",
            view,
            "get_access_key",
        ),
        manage_rows.change(
            _ONE,
            desk.change_access_key,
            "Change a key's limits, lists or name: what is absent stays, null is the default.",
            shapes.AccessKeyPatch,
            view,
            {"limits": {"day": 10}, "expires": "2099-01-01T00:00:00Z"},
        ),
        manage_rows.delete(
            _ONE, desk.remove_access_key, "Delete a key; it opens nothing from then on."
        ),
        structs.replace(
            manage_rows.change(
                f"{_ONE}/reissue",
                desk.reissue_access_key,
                "Give a key other letters, told this once; those before may stay good for a while.",
                shapes.Reissue,
                shapes.IssuedKeyView,
                {"grace": 3600},
            ),
            method="POST",
        ),
        manage_rows.switch(
            f"{_ONE}/enable", desk.enable_access_key, "Let a key open what it opened.", view
        ),
        manage_rows.switch(
            f"{_ONE}/disable",
            desk.disable_access_key,
            "Let a key open nothing from the next request on.",
            view,
        ),
    )

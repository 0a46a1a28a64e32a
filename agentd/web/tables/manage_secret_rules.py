"""The rows below ``/api/agent/secret-rules``."""

from agentd.errors import BadRequest
from agentd.web.manage import secret_rules as shapes
from agentd.web.manage.secret_rules import SecretRuleDesk
from agentd.web.table import Route
from agentd.web.tables import manage_rows

_ALL = "/api/agent/secret-rules"
_ONE = f"{_ALL}/{{id}}"


def rows(desk: SecretRuleDesk) -> tuple[Route, ...]:
    """List, show, create, change, enable, disable, delete, try on a sample."""
    view = shapes.SecretRuleView
    return (
        manage_rows.many(
            _ALL,
            desk.list_secret_rules,
            "The rules by which secrets are hidden, built-in ones too; values are masked.",
            shapes.SecretRulePage,
        ),
        manage_rows.create(
            _ALL,
            desk.add_secret_rule,
            "Create a rule: a regex (RE2), or an exact value; it holds from the next request on.",
            shapes.NewSecretRule,
            view,
            {
                "id": "ticket",
                "description": "Tokens of the ticket system.",
                "regex": "tkt_([a-z0-9]{20})",
                "group": 1,
                "keywords": ["tkt_"],
            },
        ),
        manage_rows.one(
            _ONE, desk.one_secret_rule, "One rule, its value masked.", view, "get_secret_rule"
        ),
        manage_rows.change(
            _ONE,
            desk.change_secret_rule,
            "Change a rule: what is absent stays, null is the default; of a built-in one only mode"
            " and enabled.",
            shapes.SecretRulePatch,
            view,
            {"mode": "block"},
        ),
        manage_rows.delete(
            _ONE, desk.remove_secret_rule, "Delete a rule; a built-in one can only be disabled."
        ),
        manage_rows.switch(
            f"{_ONE}/enable", desk.enable_secret_rule, "Let a rule be looked for again.", view
        ),
        manage_rows.switch(
            f"{_ONE}/disable", desk.disable_secret_rule, "Let a rule not be looked for.", view
        ),
        manage_rows.row(
            "POST",
            f"{_ALL}/test",
            endpoint=desk.test_secret_rules,
            summary="What would be found in a sample, and where; nothing of it is kept or told.",
            takes=shapes.Sample,
            example={"text": "the token is tkt_0123456789abcdefghij"},
            gives=shapes.FindingsView,
            errors=(BadRequest,),
        ),
    )

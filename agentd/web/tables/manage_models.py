"""The rows below ``/api/agent/models``."""

from agentd.errors import BadRequest, Conflict, NotFound, Unavailable
from agentd.web.manage import models as shapes
from agentd.web.manage.checks import PAID, CheckView
from agentd.web.manage.models import ProxyModelDesk
from agentd.web.manage.resource import CopyTo
from agentd.web.table import Route
from agentd.web.tables import manage_rows

_ALL = "/api/agent/models"
_ONE = f"{_ALL}/{{name}}"


def rows(desk: ProxyModelDesk) -> tuple[Route, ...]:
    """List, show, create, change, copy, enable, disable, check, delete."""
    view = shapes.ModelView
    return (
        manage_rows.many(
            _ALL,
            desk.list_proxy_models,
            "The models that callers can name, in the order of their names.",
            shapes.ModelPage,
        ),
        manage_rows.create(
            _ALL,
            desk.add_proxy_model,
            "Create a model; it can be called at once.",
            shapes.NewModel,
            view,
            {
                "name": "large",
                "ways": [{"channel": "openai", "model": "gpt-5.1"}],
                "prices": {"input": 1.25, "cacheRead": 0.125, "output": 10},
                "maxOutput": 32000,
            },
        ),
        manage_rows.one(_ONE, desk.one_proxy_model, "One model.", view, "get_proxy_model"),
        manage_rows.change(
            _ONE,
            desk.change_proxy_model,
            "Change a model: what is absent stays, null is the default; ways are replaced.",
            shapes.ModelPatch,
            view,
            {"prices": {"input": 1.25, "output": 12}, "context": 400000},
        ),
        manage_rows.delete(
            _ONE, desk.remove_proxy_model, "Delete a model, unless an access key names it."
        ),
        manage_rows.row(
            "POST",
            f"{_ONE}/check",
            endpoint=desk.check_proxy_model,
            summary="Try a model's first way step by step, as its channel; with paid=true to the"
            " end.",
            gives=CheckView,
            errors=(BadRequest, NotFound, Conflict, Unavailable),
            parameters=(PAID,),
        ),
        manage_rows.create(
            f"{_ONE}/copy",
            desk.copy_proxy_model,
            "Copy a model under another name.",
            CopyTo,
            view,
            {"name": "large-2"},
        ),
        manage_rows.switch(
            f"{_ONE}/enable", desk.enable_proxy_model, "Let a model be called again.", view
        ),
        manage_rows.switch(
            f"{_ONE}/disable", desk.disable_proxy_model, "Let nobody call a model.", view
        ),
    )

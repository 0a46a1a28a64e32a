"""The endpoints below ``/api/hooks``: an administrator sees what runs, and withdraws decisions."""

from agentd.agent.hooks.directory import HookDirectory
from agentd.agent.hooks.model import list_own_hooks
from agentd.agent.hooks.views import (
    HooksOfWorkspaceView,
    HooksView,
    list_workspace_views,
    make_hook_view,
)
from agentd.core.errors import NotFound, Unavailable
from agentd.http.access import RouteGroup
from agentd.http.request import Request, Response
from agentd.http.routing import Route

_SECTION = "4, extended surface"


class HookEndpoints:
    """The hooks of the configuration and of the ``workspace``."""

    def __init__(self, directory: HookDirectory, workspace: str) -> None:
        self._directory = directory
        self._workspace = workspace

    async def list_hooks(self, _: Request) -> Response:
        """List the hooks of ``hooks.yml`` and of the workspace, with what was decided."""
        file = self._directory.file
        await file.refresh()
        settings = file.current
        files, decisions, problems = await self._directory.list_workspace(self._workspace)
        return Response(
            HooksView(
                list(map(make_hook_view, list_own_hooks(settings))),
                list(map(str, file.problems)),
                HooksOfWorkspaceView(
                    not settings.workspace_hooks,
                    list_workspace_views(files, decisions),
                    list(problems),
                ),
            )
        )

    async def withdraw_hook_decision(self, request: Request) -> Response:
        """Forget a decision about hooks of a workspace; they are asked about again."""
        await self._directory.withdraw(request.path_params["id"])
        return Response(status=204)


def routes(endpoints: HookEndpoints) -> tuple[Route, ...]:
    """Return the routes for administrators: a hook is a program that is run."""
    return (
        Route(
            "GET",
            "/api/hooks",
            RouteGroup.EXTENDED,
            endpoints.list_hooks,
            "The hooks of hooks.yml and of the workspace, with what was decided about these.",
            section=_SECTION,
            role="administrator",
            response_type=HooksView,
        ),
        Route(
            "DELETE",
            "/api/hooks/decisions/{id}",
            RouteGroup.EXTENDED,
            endpoints.withdraw_hook_decision,
            "Withdraw a decision about a workspace's hooks: the next turn asks about them again.",
            section=_SECTION,
            role="administrator",
            status=204,
            errors=(NotFound, Unavailable),
        ),
    )

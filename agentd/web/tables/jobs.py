"""The rows of builds, deployments and autofix."""

from agentd.access.gate import Surface
from agentd.chats.chat import LARGEST_ID
from agentd.errors import BadRequest, NotFound, Unavailable
from agentd.web import jobs as shapes
from agentd.web.job_views import BuildDetailView, BuildView, DeploymentView
from agentd.web.jobs import Jobs
from agentd.web.table import Parameter, Route
from agentd.workspace.fixing import AutofixStatus

_DOOR = Surface.EXTENDED
_RULED = "4, extended surface"
PLAIN = Parameter(
    "plain",
    "query",
    "true leaves colours and other control sequences out.",
    {"type": "string", "enum": ["true", "false"]},
)

TAIL = Parameter(
    "tail",
    "query",
    "Only so many lines of the end.",
    {"type": "integer", "minimum": 1, "maximum": shapes.MOST_LINES},
)
OFFSET = Parameter(
    "offset",
    "query",
    "Only what was said from this offset on, which X-Output-Next of an earlier answer told. When"
    " that is not kept any more, or was never said, all that is kept.",
    {"type": "integer", "minimum": 0, "maximum": LARGEST_ID},
)


def rows(jobs: Jobs) -> tuple[Route, ...]:
    """Build, deploy, fix."""
    return (*_builds(jobs), *_deployments(jobs), *_outputs(jobs), *_autofix(jobs))


def _builds(jobs: Jobs) -> tuple[Route, ...]:
    return (
        Route(
            "POST",
            "/api/build/trigger/{name}",
            _DOOR,
            jobs.trigger_build,
            "Start a build; one that runs is not started again.",
            gives=BuildView,
            errors=(NotFound, Unavailable),
            section=_RULED,
        ),
        Route(
            "POST",
            "/api/build/stop/{name}",
            _DOOR,
            jobs.stop_build,
            "End a running build with all that it started.",
            gives=BuildView,
            errors=(NotFound,),
        ),
        Route(
            "GET",
            "/api/build/status",
            _DOOR,
            jobs.builds,
            "All builds, with the numbers of their errors and warnings.",
            operation="list_builds",
            gives=shapes.BuildsView,
            section=_RULED,
        ),
        Route(
            "GET",
            "/api/build/status/{name}",
            _DOOR,
            jobs.build,
            "A build's last run, with its errors and warnings.",
            operation="get_build",
            gives=BuildDetailView,
            errors=(NotFound,),
            section=_RULED,
        ),
    )


def _deployments(jobs: Jobs) -> tuple[Route, ...]:
    path = "/api/deploy"
    verbs = (
        ("start", jobs.start_deployment, "Start a deployment; one that runs stays as it is."),
        ("stop", jobs.stop_deployment, "Stop a deployment."),
        ("restart", jobs.restart_deployment, "Stop a deployment, and after a pause start it."),
    )
    return (
        *(
            Route(
                "POST",
                f"{path}/{verb}/{{name}}",
                _DOOR,
                endpoint,
                f"{summary} An unknown name changes nothing, and is no error: look at the status.",
                gives=DeploymentView,
                errors=(Unavailable,),
                section=_RULED,
            )
            for verb, endpoint, summary in verbs
        ),
        Route(
            "GET",
            f"{path}/status",
            _DOOR,
            jobs.deployments,
            "All deployments.",
            operation="list_deployments",
            gives=shapes.DeploymentsView,
            section=_RULED,
        ),
        Route(
            "GET",
            f"{path}/status/{{name}}",
            _DOOR,
            jobs.deployment,
            "A deployment: whether it runs, since when, and what went wrong.",
            operation="get_deployment",
            gives=DeploymentView,
            errors=(NotFound,),
            section=_RULED,
        ),
    )


def _outputs(jobs: Jobs) -> tuple[Route, ...]:
    return (
        Route(
            "GET",
            "/api/build/output/{name}",
            _DOOR,
            jobs.build_output,
            "What a build said, as text: its beginning and its end, when it was much.",
            operation="get_build_output",
            also=("text/plain",),
            errors=(BadRequest, NotFound, Unavailable),
            parameters=(PLAIN, TAIL),
            section=_RULED,
        ),
        Route(
            "GET",
            "/api/deploy/output/{name}",
            _DOOR,
            jobs.deployment_output,
            "The end of what a deployment said, as text. X-Output-Offset tells where it begins, in"
            " bytes over all its runs, and X-Output-Next the offset to ask for next.",
            operation="get_deployment_output",
            also=("text/plain",),
            errors=(BadRequest, NotFound, Unavailable),
            parameters=(PLAIN, TAIL, OFFSET),
            section=_RULED,
        ),
    )


def _autofix(jobs: Jobs) -> tuple[Route, ...]:
    path = "/api/autofix"
    return (
        Route(
            "GET",
            f"{path}/status",
            _DOOR,
            jobs.autofix,
            "Which builds are given to the agent when they fail.",
            operation="get_autofix",
            gives=AutofixStatus,
            section=_RULED,
        ),
        Route(
            "POST",
            f"{path}/toggle",
            _DOOR,
            jobs.switch_autofix,
            "Switch autofix over all.",
            takes=shapes.SwitchAutofix,
            gives=AutofixStatus,
            errors=(BadRequest, Unavailable),
            section=_RULED,
        ),
        Route(
            "POST",
            f"{path}/toggle/{{name}}",
            _DOOR,
            jobs.switch_build_fix,
            "Switch autofix for one build.",
            takes=shapes.SwitchBuildFix,
            gives=AutofixStatus,
            errors=(BadRequest, NotFound, Unavailable),
            section=_RULED,
        ),
    )

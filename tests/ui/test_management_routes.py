"""An administrator does everything in the browser that ``/api/agent`` can do."""

import re
from pathlib import Path

from agentd.ui.assets import STATIC_FOLDER
from tests.support.paths import REPOSITORY

OPERATIONS = REPOSITORY / "tests" / "http" / "operations.txt"
"""Every operation of the daemon, which ``tests/http/test_openapi_document.py`` keeps complete."""

NOT_IN_BROWSER = {
    "GET /api/agent": "a description for programs",
    "GET /api/agent/openapi.json": "a description for programs",
    "GET /api/agent/reports": "a list for programs: the pages know the reports",
    "GET /api/agent/metrics": "numbers for Prometheus; the overview shows them",
    "POST /api/agent/import": "for programs; the browser sends the files of other gateways",
    "GET /api/agent/requests/stream": "for programs: the log reads its rows after `gatewayUpdate`",
    "GET /api/agent/settings/daemon": "the pages of the settings read /api/settings/all",
    "PATCH /api/agent/settings/daemon": "the pages of the settings write /api/settings/set",
}
"""Why the browser does without a route."""

SCRIPTS = {path: path.read_text() for path in Path(STATIC_FOLDER).rglob("*.js")}


def list_used_paths() -> set[str]:
    """Return the paths that the modules name, with ``{}`` for what they fill in."""
    every = "\n".join(SCRIPTS.values())
    kinds = set(re.findall(r'\bresource: "([a-z-]+)"', every))
    in_batches = set(re.findall(r'\bresource: "([a-z-]+)"[^\n]*\bbatch: ', every))
    literals = set(re.findall(r"[`\"](/api/agent/(?:[^`\"$?]|\$\{[^}]*\})*)", every))
    paths = {re.sub(r"\$\{[^}]*\}", "{}", one) for one in literals}
    generic = {one for one in paths if one.startswith("/api/agent/{}")}
    assert generic == {"/api/agent/{}", "/api/agent/{}/batch"}
    paths = (paths - generic) | {f"/api/agent/{kind}" for kind in kinds}
    paths |= {f"/api/agent/{kind}/batch" for kind in in_batches}
    paths |= {f"/api/agent/{kind}/{{}}" for kind in kinds}
    verbs = set(re.findall(r"\$\{(?:path|at)\}/([a-z-]+)[`?]", every))
    if '/${enabled ? "disable" : "enable"}`' in every:
        verbs |= {"enable", "disable"}
    return paths | {f"/api/agent/{kind}/{{}}/{verb}" for kind in kinds for verb in verbs}


def test_the_browser_uses_every_route_of_the_management_but_those_with_a_reason() -> None:
    routes = re.findall(r"^manage_\w+ (\S+) (\S+)$", OPERATIONS.read_text(), re.MULTILINE)
    assert len(routes) > 80
    used = list_used_paths()
    every = {f"{method} {path}" for method, path in routes}
    missing = {
        f"{method} {path}"
        for method, path in routes
        if re.sub(r"\{\w+\}", "{}", path) not in used
        and not (path.startswith("/api/agent/reports/") and "/api/agent/reports/{}" in used)
    }
    assert missing - NOT_IN_BROWSER.keys() == set()
    assert (NOT_IN_BROWSER.keys() & every) - missing == set(), "reasons that hold no longer"

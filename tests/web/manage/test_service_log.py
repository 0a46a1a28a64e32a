"""What befell the gateway is told, the newest first."""

import pytest

from tests.web.support import until


def noted(manager, query=""):
    return manager.get(f"/api/agent/service-log{query}")["items"]


def test_a_filter_that_is_none_is_refused(manager):
    assert manager.get("/api/agent/service-log?level=loud").status == 400
    assert manager.get("/api/agent/service-log?limit=0").status == 400
    assert manager.get("/api/agent/service-log?cursor=x").status == 400

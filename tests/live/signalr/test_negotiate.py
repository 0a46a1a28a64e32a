"""Negotiation gives each client the answer that it can use."""

import json

import pytest

from agentd.core.errors import BadRequest
from agentd.live.signalr.negotiate import (
    Terms,
    Transport,
    build_answer,
    encode_answer,
    encode_refusal,
    parse_terms,
)

OFFERED = [
    {"transport": "WebSockets", "transferFormats": ["Text"]},
    {"transport": "ServerSentEvents", "transferFormats": ["Text"]},
    {"transport": "LongPolling", "transferFormats": ["Text"]},
]


def answer(**query):
    return json.loads(encode_answer(build_answer(parse_terms(query), "public", "secret")))


@pytest.mark.parametrize("query", [{}, {"negotiateVersion": "0"}, {"negotiateVersion": "00"}])
def test_rule_1_version_0_has_no_token_its_connection_id_is_one(query):
    assert answer(**query) == {
        "negotiateVersion": 0,
        "connectionId": "public",
        "availableTransports": OFFERED,
    }


@pytest.mark.parametrize("version", ["1", "2", "1000000000000000000000"])
def test_rule_1_a_newer_version_gets_version_1_with_a_token(version):
    assert answer(negotiateVersion=version, id="stale") == {
        "negotiateVersion": 1,
        "connectionId": "public",
        "connectionToken": "secret",
        "availableTransports": OFFERED,
    }


def test_rule_2_only_text_is_listed_in_the_order_in_which_clients_try():
    assert answer()["availableTransports"] == OFFERED


def test_rule_2_stateful_reconnect_is_named_only_when_asked_for():
    assert answer(negotiateVersion="1", useStatefulReconnect="true")["useStatefulReconnect"] is True
    for wish in ("false", "", "1"):
        assert "useStatefulReconnect" not in answer(negotiateVersion="1", useStatefulReconnect=wish)
    assert "useStatefulReconnect" not in answer(useStatefulReconnect="true")


def test_stateful_reconnect_is_not_promised_where_it_is_not_had():
    asked = {"negotiateVersion": "1", "useStatefulReconnect": "true"}
    assert parse_terms(asked, stateful=False) == Terms(1, stateful=False)


def test_names_of_parameters_are_compared_without_case():
    assert parse_terms({"NEGOTIATEVERSION": "1", "UseStatefulReconnect": "TRUE"}) == Terms(
        1, stateful=True
    )


@pytest.mark.parametrize("version", ["", "x", "-1", "1.5", " 1", "１"])
def test_a_version_that_is_no_number_stops_the_client_with_words(version):
    with pytest.raises(BadRequest) as caught:
        parse_terms({"negotiateVersion": version})
    assert json.loads(encode_refusal(caught.value.message)) == {
        "error": "negotiateVersion is not a number"
    }


def test_fewer_transports_can_be_offered():
    offered = build_answer(Terms(1), "public", "secret", [Transport.POLLING])
    assert json.loads(encode_answer(offered))["availableTransports"] == OFFERED[2:]

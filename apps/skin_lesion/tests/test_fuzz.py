"""Requests that nobody thought of: never a 500, and every answer is as described."""

from __future__ import annotations

import warnings
from contextlib import suppress

import pytest

pytest.importorskip("fastapi", reason="the extra 'app' is not installed")
pytest.importorskip("schemathesis", reason="schemathesis is not installed (extra 'test')")

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

pytestmark = pytest.mark.slow

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@pytest.mark.parametrize("mode", schemathesis.GenerationMode)
def test_no_request_makes_the_server_fail(client, mode):
    """Requests as described, and requests that are not."""
    schema = schemathesis.openapi.from_url(f"{client.base_url}/api/openapi.json")
    tried = 0
    for found in schema.get_all_operations():
        operation = found.ok()

        @settings(
            max_examples=12,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
            database=None,
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def attack(case):
            nonlocal tried
            tried += 1
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the tool about itself
                response = case.call()
            case.validate_response(response, checks=CHECKS)

        with suppress(Unsatisfiable):  # nothing is wrong about a request that says nothing
            attack()
    assert tried > 250
    assert client.get("/api/v1/health").json()["status"] == "ok"

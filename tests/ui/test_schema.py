"""Requests generated from the OpenAPI schema: valid, invalid and hostile ones, none a server error."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("fastapi")

from hypothesis import HealthCheck, given, settings, strategies as st
from hypothesis.errors import Unsatisfiable

from assay.ui.app import PREFIX, create_app

TOKEN = "a-token-of-the-schema-tests"
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Host": "localhost"}
APP = create_app(TOKEN)
ENDLESS = ("/live/state",)
"""Streams that end when their listener leaves."""
HEAVY = (
    "/validate",
    "/headlines/{preset}",
    "/lab/graph",
    "/lab/model",
    "/lab/tape",
    "/validate/cases",
)
"""Answers that take seconds and no parameters but a name."""
LONGER = ("/ask", "/atlas", "/root-debt", "/plan/by-limits", "/plan/within")
"""Answers that take a second each: a few of them are tried where time does not matter."""
KNOWN = {
    "preset": ("dense_training_cost_fixture", "pythia_70m_energy_floor"),
    "before": ("dense_training_cost_fixture",),
    "target": ("thermal.dc.pue", "econ.cost.per_token", "gpu.peak_flops"),
    "variable": ("thermal.dc.pue", "econ.cost.per_token", "gpu.peak_flops"),
    "name": ("thermal.dc.pue", "econ.electricity.price", "reference/glossary"),
    "assign": (["gpu.power=600 W/GPU"], ["gpu.power=uniform(1 W/GPU, 2 W/GPU)"]),
    "with": (["accelerators/h100_sxm"],),
    "scope": ("hbm",),
}
"""Values that exist: random names alone would never get past the first check."""


def operations(left_out: tuple[str, ...]) -> list[tuple[str, str]]:
    paths = APP.openapi()["paths"]
    return [
        (path, method.upper())
        for path, methods in paths.items()
        for method in methods
        if path.removeprefix(PREFIX) not in left_out
    ]


@pytest.fixture(scope="module")
def schema() -> Any:
    schemathesis = pytest.importorskip("schemathesis")
    return schemathesis.openapi.from_asgi(f"{PREFIX}/openapi.json", APP, headers=HEADERS)


def try_operation(schema: Any, path: str, method: str, mode: str, examples: int) -> set[int]:
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error

    statuses: set[int] = set()
    cases = schema[path][method].as_strategy(generation_mode=GenerationMode[mode])

    @settings(max_examples=examples, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(case=cases, data=st.data())
    def check(case: Any, data: st.DataObject) -> None:
        for place in (case.path_parameters, case.query):
            for name in place or ():
                if name in KNOWN and data.draw(st.booleans()):
                    place[name] = data.draw(st.sampled_from(KNOWN[name]))
        response = case.call(headers=HEADERS)
        case.validate_response(response, checks=[not_a_server_error])
        statuses.add(response.status_code)

    check()
    return statuses


@pytest.mark.parametrize(("path", "method"), operations((*ENDLESS, *HEAVY, *LONGER)))
def test_few_requests_of_every_operation(schema: Any, path: str, method: str) -> None:
    statuses = try_operation(schema, path, method, "POSITIVE", 3)
    assert statuses <= {200, 400, 404, 422}, statuses


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
@pytest.mark.parametrize(("path", "method"), operations((*ENDLESS, *HEAVY)))
def test_no_request_is_a_server_error(schema: Any, path: str, method: str, mode: str) -> None:
    if mode == "NEGATIVE" and not APP.openapi()["paths"][path][method.lower()].get("parameters"):
        pytest.skip("takes nothing that could be invalid")
    try:
        try_operation(schema, path, method, mode, 10 if path.endswith(LONGER) else 40)
    except Unsatisfiable:
        if mode == "POSITIVE":
            raise
        pytest.skip("takes any text: nothing is invalid by its schema")

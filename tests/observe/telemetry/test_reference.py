"""The reference page matches the table of fields, and the table is sound."""

import pytest

import generate_telemetry_reference
from assay.observe.telemetry.fields import FIELDS
from assay.observe.telemetry.sinks.otlp_metrics import metric_name
from assay.observe.telemetry.sources.servers import SERVERS


def test_page_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate_telemetry_reference.main(["--check"]) == 0, capsys.readouterr().err


def test_no_two_fields_share_a_metric_without_telling_attributes() -> None:
    seen = set()
    for field in FIELDS.values():
        key = (metric_name(field), field.otel_attributes)
        assert key not in seen, field.name
        seen.add(key)
    names = [field.dcgm for field in FIELDS.values() if field.dcgm]
    assert len(names) == len(set(names))


def test_fields_that_share_a_metric_have_one_unit_and_kind() -> None:
    by_metric: dict[str, set[tuple[str, str, type]]] = {}
    for field in FIELDS.values():
        by_metric.setdefault(metric_name(field), set()).add((field.unit, field.kind, field.type))
    assert {name: kinds for name, kinds in by_metric.items() if len(kinds) > 1} == {}


def test_metrics_of_servers_map_to_fields() -> None:
    for fields in SERVERS.values():
        for name in fields:
            assert name in FIELDS or f"engine_{name}_seconds_sum" in FIELDS

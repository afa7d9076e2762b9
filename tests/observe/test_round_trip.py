"""Import -> store -> export -> import loses nothing, for every format that can be read back."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from assay.observe.exporters import formats
from assay.observe.importers.detect import open_trace
from assay.observe.trace import Trace
from random_traces import assert_same, traces


@pytest.mark.parametrize("name", formats.FORMATS)
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    # To shrink a trace of many columns takes minutes; the assertion names the column.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(trace=traces())
def test_a_trace_comes_back_as_it_was(name: str, trace: Trace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stored = Trace.open(trace.save(Path(folder) / "stored"))
        path = Path(folder) / "exported"
        formats.write(stored, path, name)
        again = open_trace(path)
        assert_same(again, trace)
        assert_same(Trace.open(again.save(Path(folder) / "again")), trace)

"""What `assay telemetry watch` draws."""

import io
from collections.abc import Sequence

import pytest
from recorded_nvml import RecordedNvml

from assay.cli.output import Canvas, unstyled
from assay.cli.telemetry_watch import _renderable, _text
from assay.observe.telemetry.gaps import Gaps
from assay.observe.telemetry.sample import Reading, Sample
from assay.observe.telemetry.sources.nvidia import Nvidia
from assay.observe.telemetry.view import PLAIN_BARS, Panel, TelemetryView, spark


def feed(view: TelemetryView, tick: int, readings: Sequence[Reading]) -> None:
    view.add([Sample(tick, tick * 10**9, tick, "r", None, None, "decode", one) for one in readings])


def drawn(view: TelemetryView) -> str:
    return "\n".join(unstyled(line).rstrip() for line in _text(view.panels(), Canvas(), PLAIN_BARS))


def test_a_gpu_is_shown_with_limits_and_throttling_in_words() -> None:
    now = 0.0
    source = Nvidia(RecordedNvml(), Gaps(), lambda: now)
    view = TelemetryView()
    for tick in range(4):
        now = float(tick)
        feed(view, tick, source.read(fast_only=False))
    text = drawn(view)
    source.close()
    assert "GPU 0: NVIDIA H200 (decode)" in text
    assert "652 of 700 W" in text
    assert "1,755 of 1,980 MHz" in text
    assert "51 of 87 C, memory 58 C" in text
    assert "88.0 of 150.8 GB" in text
    assert "75%, 3.69 TB/s" in text
    assert "clocks held by  power cap" in text
    assert "80.0 GB, 95% of the time" in text
    (panel,) = view.panels()
    (held,) = [row for row in panel.rows if row.label == "clocks held by"]
    assert held.is_bad


def test_the_live_view_escapes_names() -> None:
    from rich.console import Console

    class Quiet:
        def cost(self) -> dict[str, float]:
            return {"core_share": 0.002}

        def notes(self) -> list[str]:
            return []

    view = TelemetryView()
    for tick in range(3):
        values = {"gpu_utilization": 0.5}
        processes = [{"pid": 1, "name": "[red]\x1b[2J", "memory_bytes": None, "utilization": None}]
        feed(view, tick, [Reading("nvidia", "GPU-1", 0, "a\nb", dict(values), processes)])
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(_renderable(view.panels(), Quiet()))  # type: ignore[arg-type]
    text = console.export_text()
    assert "\x1b" not in text
    assert "[red]" in text
    assert "costs 0.20% of a core" in text


def test_counters_become_rates() -> None:
    view = TelemetryView()
    for tick, tokens in enumerate((100, 350, 350)):
        values = {
            "endpoint_up": 1,
            "engine_generation_tokens": float(tokens),
            "engine_ttft_seconds_sum": 0.5 * tick,
            "engine_ttft_seconds_count": 2.0 * tick,
        }
        feed(view, tick, [Reading("endpoint", "http://x", 0, "vLLM", dict(values))])
        if tick == 1:
            assert "250 tokens/s" in drawn(view)
            assert "250.0 ms" in drawn(view)
    assert "0 tokens/s" in drawn(view)
    feed(view, 4, [Reading("endpoint", "http://x", 0, "vLLM", {"endpoint_up": 0})])
    assert "does not answer" in drawn(view)


def test_a_device_of_little_shows_little() -> None:
    view = TelemetryView()
    feed(view, 0, [Reading("nvidia", "GPU-1", 0, "old card", {"gpu_temperature_celsius": 40.0})])
    assert view.panels() == [Panel("GPU 0: old card (decode)", view.panels()[0].rows)]
    assert drawn(view).splitlines()[1].split() == ["temperature", "40", "C"]


@pytest.mark.parametrize(
    ("values", "top", "expected"),
    [
        ([], None, ""),
        ([None, None], 1.0, ""),
        ([0.0, 1.0], 1.0, "_#"),
        ([0.0, 0.0], None, "__"),
        ([2.0, 4.0], None, "+#"),
        ([-1.0, 5.0, float("nan")], 1.0, "_# "),
    ],
)
def test_spark_lines(values: list[float | None], top: float | None, expected: str) -> None:
    assert spark(values, top, PLAIN_BARS) == expected

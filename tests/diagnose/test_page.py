"""The page of a diagnosis: complete, self-contained, and nothing of a trace runs in it."""

import base64
import hashlib
import itertools
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from assay.diagnose.page import figures
from assay.diagnose.page.page import render, write_page

HOSTILE = '</style><script>alert(1)</script><img src=x onerror="alert(2)">\x1b[2J'
RECT = "rect"


def diagnosis(**changed: Any) -> dict[str, Any]:
    """A step of 1,000 us: 600 of floor, 300 of inefficiency, 100 of gaps."""
    terms = {"floor": 600e3, "kernel_inefficiency": 300e3, "launch_gaps": 100e3, "unknown": 0.0}
    operation = {
        "operation": "qkv_proj", "layers": 2, "count": 2, "observed_ns": 900e3, "kernel_ns": 900e3,
        "expected_ns": 800e3, "lo_ns": 700e3, "hi_ns": 950e3, "floor_ns": 600e3,
        "residual_ns": 100e3,
    }  # fmt: skip
    cause = {
        "name": "CUDA-graph node gaps", "ns_per_token": 100e3, "lo": 90e3, "hi": 110e3,
        "status": "supported", "fix": "fused kernels", "mechanism": "each node waits",
        "part_of": ["launch_gaps"], "within": None, "beyond_step": False,
        "evidence": [{"statement": "2 gaps", "rows": [1, 2], "source": "trace"}],
    }  # fmt: skip
    step = {
        "step": 3, "rank": 0, "phase": "decode", "batch": 4, "prefill_tokens": 0, "context": 128,
        "start_ns": 0, "observed_ns": 1e6, "expected_ns": 9e5, "lo_ns": 8e5, "hi_ns": 12e5,
        "floor_ns": 6e5,
    }  # fmt: skip
    interval = {"layer": 0, "row": 1, "operation": "qkv_proj"}
    return {
        "trace": "run.json", "model": "llama-3.1-8b", "gpu": "h200_sxm", "engine": "vllm",
        "cuda_graphs": True, "batch": 4, "context": 128, "context_source": "trace",
        "phase": "decode", "step": 3,
        "step_ns": 1e6, "predicted_ns": 9e5, "lo": 8e5, "hi": 12e5, "floor_ns": 6e5,
        "waterfall": [
            {"name": name, "ns": ns, "lo": ns, "hi": ns, "rows": []} for name, ns in terms.items()
        ],
        "causes": [cause],
        "violations": [],
        "changes": [],
        "operations": [operation],
        "kernels": [{"name": "gemm", "operation": "qkv_proj", "count": 2, "ns": 900e3}],
        "critical_path": {"parts": [{"part": "device", "label": "qkv_proj", "count": 2, "ns": 9e5}]},
        "intervals": [
            {"start_ns": 0, "dur_ns": 600_000, "term": "floor", **interval},
            {"start_ns": 600_000, "dur_ns": 300_000, "term": "kernel_inefficiency", **interval},
            {"start_ns": 900_000, "dur_ns": 100_000, "term": "launch_gaps", "layer": None,
             "row": None, "operation": None},
        ],
        "steps": [step],
        "degradations": ["throttling not examined: needs telemetry"],
    } | changed  # fmt: skip


def test_bars_of_the_waterfall_begin_where_the_last_one_ended() -> None:
    drawn = ElementTree.fromstring(figures.waterfall(diagnosis()))
    bars = [
        (float(one.attrib["x"]), float(one.attrib["width"]), one.attrib["class"].split()[-1])
        for one in drawn.iter(RECT)
    ]
    *terms, (left, whole, name) = bars
    assert name == "observed"
    assert [name for *_, name in terms] == ["floor", "kernel_inefficiency", "launch_gaps"]
    for (x, width, _), (after, *_) in itertools.pairwise(terms):
        assert x + width == pytest.approx(after, rel=1e-4)
    assert sum(width for _, width, _ in terms) == pytest.approx(whole, rel=1e-4)
    assert terms[0][0] == left


def test_the_step_is_drawn_to_scale() -> None:
    drawn = ElementTree.fromstring(figures.step(diagnosis()))
    widths = [float(one.attrib["width"]) for one in drawn.iter(RECT) if one.attrib["y"] == "0"]
    assert widths == pytest.approx([600, 300, 100])


def test_many_intervals_are_joined_and_cover_the_same_time() -> None:
    many = [
        {"start_ns": 10 * i, "dur_ns": 10, "term": ("floor", "launch_gaps")[i % 2], "row": i,
         "operation": "qkv_proj", "layer": 0}
        for i in range(3 * figures.MOST_SHAPES)
    ]  # fmt: skip
    found = figures.joined(many, 30 * figures.MOST_SHAPES)
    assert len(found) <= figures.MOST_SHAPES
    assert sum(one["dur_ns"] for one in found) == 30 * figures.MOST_SHAPES
    assert all(a["start_ns"] + a["dur_ns"] == b["start_ns"] for a, b in itertools.pairwise(found))


def test_texts_of_a_trace_are_data() -> None:
    data = diagnosis(trace=HOSTILE, model=HOSTILE, degradations=[HOSTILE])
    data["kernels"][0]["name"] = HOSTILE
    data["operations"][0]["operation"] = HOSTILE
    data["critical_path"]["parts"][0]["label"] = HOSTILE
    data["intervals"][0]["operation"] = HOSTILE
    data["causes"][0]["evidence"][0]["statement"] = HOSTILE
    page = render(data, f"assay diagnose {HOSTILE}")
    assert "<script" not in page
    assert "<img" not in page
    assert "\x1b" not in page
    assert page.count("</style>") == 1


def test_the_page_needs_nothing_else() -> None:
    page = render(diagnosis(), "assay diagnose run.json")
    assert not re.search(r"(?:src|href)\s*=|url\(|@import|https?://", page)
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    allowed = re.search(r"style-src 'sha256-([^']+)'", page)
    assert style is not None
    assert allowed is not None
    assert base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode() == allowed[1]


def test_what_is_absent_is_said() -> None:
    page = render(
        diagnosis(
            model=None, gpu=None, engine=None, cuda_graphs=None, batch=None, context=None,
            predicted_ns=None, lo=None, hi=None, floor_ns=0.0, causes=[], operations=[],
            degradations=[], critical_path={"parts": []},
        ),
        "assay diagnose run.json",
    )  # fmt: skip
    assert "No cause was found" in page
    assert "Nothing was assumed." in page
    assert "predicted" not in page


def test_an_inferred_context_is_marked_beside_the_figure() -> None:
    assert "context 128 (from attention)" in render(diagnosis(context_source="attention"), "")
    assert "(from attention)" not in render(diagnosis(), "")


def test_a_failure_leaves_the_old_page(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    with pytest.raises(KeyError):
        write_page({"waterfall": []}, path, "assay diagnose")
    assert path.read_text() == "old"
    assert write_page(diagnosis(), path, "assay diagnose") == path.stat().st_size
    assert [one.name for one in tmp_path.iterdir()] == ["page.html"]

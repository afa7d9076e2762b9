"""Structure recovery against traces whose structure is known."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from random_engines import Generator, Synthetic

from assay.catalog import models
from assay.observe import operations, schema
from assay.observe.header import TraceHeader
from assay.observe.structure.layout import Layout, from_shapes, read_layout
from assay.observe.structure.recovery import Recovery, recover
from assay.observe.structure.summary import summarize
from assay.observe.trace import Trace


def layout_of(config: dict[str, object]) -> Layout:
    model = models.from_config(config, "synthetic")
    return from_shapes(model.name, model.shapes, model.config)


@dataclass
class Score:
    """Shares of device time, and of kernels, whose operation and layer are right."""

    time: float
    count: float
    step: float


def score(made: Synthetic, found: Recovery) -> Score:
    events = found.trace.events
    ops = events["op"].cast(pl.String).to_list()
    layers = events["layer"].fill_null(-1).to_list()
    steps = events["step"].fill_null(-1).to_list()
    durations = events["dur_ns"].to_list()
    total = right = in_step = count = 0
    for row, step, layer, operation in made.truth:
        same = ops[row] == operation and layers[row] == layer
        total += durations[row]
        right += durations[row] * same
        count += same
        in_step += durations[row] * (steps[row] == step)
    return Score(right / total, count / len(made.truth), in_step / total)


def recovered(seed: int, **options: object) -> tuple[Synthetic, Recovery]:
    made = Generator(seed, **options).generate()  # type: ignore[arg-type]
    return made, recover(made.trace, layout_of(made.config))


@pytest.mark.parametrize("family", ["dense", "moe", "moe_shared", "mla", "hybrid"])
@pytest.mark.parametrize("seed", [1, 2])
def test_named_kernels_are_all_mapped_right(family: str, seed: int) -> None:
    made, found = recovered(seed, family=family, scheme="real")
    result = score(made, found)
    assert result.time > 0.999
    assert result.count > 0.999
    assert result.step == 1.0
    for rank in range(made.ranks):
        assert [step["phase"] for step in found.steps if step["rank"] == rank] == made.phases


@pytest.mark.parametrize("scheme", ["opaque", "shuffled"])
def test_order_and_durations_suffice_where_names_say_nothing_or_lie(scheme: str) -> None:
    scores = []
    for seed in range(400, 405):
        made, found = recovered(seed, family="dense" if seed % 2 else "moe", scheme=scheme, ranks=1)
        assert len(found.steps) == len(made.phases)
        assert all(step["complete"] for step in found.steps)
        scores.append(score(made, found).time)
    # A split-K reduction without a name is no different from the norm after it.
    assert min(scores) > 0.85
    assert sum(scores) / len(scores) > 0.95


def test_every_layer_has_the_same_operations_in_each_decode_step() -> None:
    made, found = recovered(5, family="moe", scheme="real", ranks=1)
    layers = (
        found.trace.events.filter(pl.col("layer").is_not_null() & (pl.col("phase") == "decode"))
        .group_by("step", "layer")
        .agg(pl.col("op").cast(pl.String).sort().str.join(","))
    )
    assert layers["op"].n_unique() == 1
    assert layers.height == made.phases.count("decode") * made.config["num_hidden_layers"]


def test_sums_are_those_of_the_events() -> None:
    made, found = recovered(6, scheme="opaque")
    summary = summarize(found, "trace").to_json()
    device = made.trace.events
    assert summary["device_ns"] == device["dur_ns"].sum()
    assert summary["kernels"] == (device["kind"] == "kernel").sum()
    assert summary["copies"] == (device["kind"] != "kernel").sum()
    mapped = sum(row["ns"] for row in summary["operations"])
    unmapped = sum(row["ns"] for row in summary["unmapped"])
    assert mapped + unmapped == summary["device_ns"]
    assert summary["mapped_share"] == mapped / summary["device_ns"]
    assert all(operations.is_operation(row["name"]) for row in summary["operations"])
    # Only the recovered columns change.
    kept = [name for name in device.columns if name not in ("step", "phase", "layer", "op")]
    assert found.trace.events.select(kept).equals(device.select(kept))


def test_a_stored_trace_keeps_its_structure(tmp_path: Path) -> None:
    _, found = recovered(7, family="dense", scheme="real", ranks=1)
    found.trace.save(tmp_path / "stored")
    again = recover(Trace.open(tmp_path / "stored"))
    assert summarize(again, "trace").to_json() == summarize(found, "trace").to_json() | {
        "graph_replays": 0,
        "degradations": [],
    }


def test_operations_that_events_carry_are_left_alone() -> None:
    made = Generator(8, family="dense", scheme="real", ranks=1).generate()
    tagged = made.trace.events.with_columns(op=pl.lit("sampling").cast(pl.Categorical()))
    found = recover(Trace(made.trace.header, tagged), layout_of(made.config))
    assert found.trace.events.equals(tagged)
    assert not found.degradations


@pytest.mark.parametrize("family", ["dense", "moe"])
def test_without_a_model_names_and_order_count(family: str) -> None:
    made = Generator(9, family=family, scheme="real", ranks=1).generate()
    found = recover(made.trace)
    assert score(made, found).time > 0.95
    assert len(found.steps) == len(made.phases)
    assert "no model given" in found.degradations[0]


def test_another_model_is_not_believed() -> None:
    made = Generator(10, family="dense", scheme="real", ranks=1).generate()
    other = layout_of(made.config | {"num_hidden_layers": made.config["num_hidden_layers"] + 9})
    found = recover(made.trace, other)
    assert any("another model ran" in note for note in found.degradations)
    assert not any(step["complete"] for step in found.steps)


@pytest.mark.parametrize("ranks", [2, 4])
def test_collectives_are_split_into_waiting_and_transfer(ranks: int) -> None:
    made, found = recovered(11, family="dense", scheme="real", ranks=ranks)
    rows = {row["rank"]: row for row in summarize(found, "trace").to_json()["collectives"]}
    assert {rank: row["waiting_ns"] for rank, row in rows.items()} == made.waits
    assert len({row["transfer_ns"] for row in rows.values()}) == 1
    layers = made.config["num_hidden_layers"]
    assert rows[0]["count"] == 2 * layers * len(made.phases)


def test_ranks_whose_clocks_differ_are_not_split() -> None:
    made, _ = recovered(12, family="dense", scheme="real", ranks=2)
    late = pl.when(pl.col("rank") == 1).then(10**9).otherwise(0)
    events = made.trace.events.with_columns(start_ns=pl.col("start_ns") + late)
    summary = summarize(
        recover(Trace(made.trace.header, events), layout_of(made.config)), "trace"
    ).to_json()
    assert summary["collectives"] == []
    assert any("clocks" in note for note in summary["degradations"])


@pytest.mark.parametrize("cut_at", ["first", "last"])
def test_a_trace_may_begin_and_end_inside_a_step(cut_at: str) -> None:
    made = Generator(13, family="dense", scheme="real", ranks=1).generate()
    layers = made.config["num_hidden_layers"]
    steps = len(made.phases)
    step = 0 if cut_at == "first" else steps - 1
    inside = [row for row, at, layer, _ in made.truth if (at, layer) == (step, layers // 3)]
    kept = slice(inside[1], None) if cut_at == "first" else slice(0, inside[1])
    events = made.trace.events[kept]
    found = recover(Trace(made.trace.header, events), layout_of(made.config))
    assert len(found.steps) == steps
    complete = [one["complete"] for one in found.steps]
    assert complete == [number != step for number in range(steps)]
    part = Synthetic(
        found.trace,
        made.config,
        [(row - (kept.start or 0), *rest) for row, *rest in made.truth[kept]],  # type: ignore[misc]
        made.phases,
        made.batches,
        1,
    )
    # Layers of a cut first step are numbered from the last one.
    assert score(part, found).time > 0.999


def annotated(made: Synthetic, names: list[str], category: str) -> Trace:
    """The trace with a range around the layers of each step."""
    spans: dict[int, list[int]] = {}
    starts = made.trace.events["start_ns"].to_list()
    for row, step, layer, _ in made.truth:
        if layer >= 0:
            spans.setdefault(step, []).append(starts[row])
    rows = []
    for step, moments in spans.items():
        row: dict[str, object] = dict.fromkeys(schema.event_columns())
        row |= {"kind": "range", "name": names[step], "category": category,
                "start_ns": min(moments), "dur_ns": max(moments) - min(moments) + 1}  # fmt: skip
        rows.append(row)
    ranges = pl.DataFrame(rows, schema=schema.event_columns())
    return Trace(TraceHeader(source="kineto"), pl.concat([made.trace.events, ranges]))


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_annotations_of_engines_give_phase_and_batch(engine: str) -> None:
    made = Generator(14, family="dense", scheme="opaque", ranks=1).generate()
    names = []
    for phase, batch in zip(made.phases, made.batches, strict=True):
        decoding, prompts = (0, batch) if phase == "prefill" else (batch, int(phase == "mixed"))
        if engine == "vllm":
            names.append(
                f"execute_context_{prompts}({128 * prompts})_generation_{decoding}({decoding})"
            )
        else:
            mode = {"prefill": "EXTEND", "decode": "DECODE", "mixed": "MIXED"}[phase]
            names.append(f"step[{mode} bs={batch} g_sk=512 toks=128]")
    found = recover(annotated(made, names, "gpu_user_annotation"), layout_of(made.config))
    assert [step["phase"] for step in found.steps] == made.phases
    decode = [step["batch"] for step in found.steps if step["phase"] == "decode"]
    expected = [b for p, b in zip(made.phases, made.batches, strict=True) if p == "decode"]
    assert decode == expected
    assert found.annotated == {
        "steps": len(made.phases), "in_range": len(made.phases), "same_phase": len(made.phases),
    }  # fmt: skip


def test_empty_and_unstructured_traces_have_no_steps() -> None:
    empty = Trace(TraceHeader(), pl.DataFrame(schema=schema.event_columns()))
    assert summarize(recover(empty), "trace").to_json()["steps"] == []
    made = Generator(15, family="dense", scheme="real", ranks=1).generate()
    few = Trace(TraceHeader(), made.trace.events.head(9))
    summary = summarize(recover(few, layout_of(made.config)), "trace").to_json()
    assert summary["steps"] == []
    assert summary["mapped_share"] == 0.0
    assert any("no forward pass" in note for note in summary["degradations"])
    assert sum(row["count"] for row in summary["unmapped"]) == 9


def test_layouts_of_the_catalog() -> None:
    deepseek = read_layout("models/deepseek-v3")
    assert Counter(kind.mlp for kind in deepseek.layers) == {"dense": 3, "moe": 58}
    assert {kind.mixer for kind in deepseek.layers} == {"mla"}
    hybrid = read_layout("models/qwen3.5-35b-a3b")
    assert [kind.mixer for kind in hybrid.layers[:4]] == ["linear"] * 3 + ["attention"]
    assert hybrid.period == 4
    llama = read_layout("models/llama-3.1-8b")
    assert llama.parameters["gate_up_proj"] == 2 * 4096 * 14336
    assert llama.period == 1


def test_layout_of_a_configuration_file(tmp_path: Path) -> None:
    config = Generator(16, family="moe").config
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert read_layout(tmp_path).layers == read_layout(tmp_path / "config.json").layers
    assert len(read_layout(tmp_path).layers) == config["num_hidden_layers"]


def kept(made: Synthetic, rows: list[int]) -> Synthetic:
    """The trace with some of its rows only."""
    place = {row: number for number, row in enumerate(rows)}
    truth = [(place[row], *rest) for row, *rest in made.truth if row in place]
    trace = Trace(made.trace.header, made.trace.events[rows])
    return Synthetic(trace, made.config, truth, made.phases, made.batches, made.ranks)  # type: ignore[arg-type]


def test_a_pipeline_stage_has_part_of_the_layers() -> None:
    made = Generator(17, family="dense", scheme="real", ranks=1).generate()
    first = made.config["num_hidden_layers"] * 2 // 5
    rows = [
        row for row, _, layer, op in made.truth
        if 0 <= layer < first or op in ("prepare_inputs", "embedding")
    ]  # fmt: skip
    stage = kept(made, rows)
    found = recover(stage.trace, layout_of(made.config))
    assert [step["layers"] for step in found.steps] == [first] * len(made.phases)
    assert not any(step["complete"] for step in found.steps)
    assert score(stage, found).time > 0.99


def test_branches_of_a_graph_are_put_in_the_order_of_their_nodes() -> None:
    made = Generator(18, family="moe", scheme="real", ranks=1).generate()
    events = made.trace.events
    swapped = events["start_ns"].to_list()
    nodes: list[int | None] = [None] * events.height
    correlation = events["correlation"].to_list()
    for row in range(1, events.height):
        if correlation[row] == correlation[row - 1]:
            nodes[row - 1], nodes[row] = row - 1, row
            # Two branches start in one order or the other.
            if row % 7 == row // 100 % 7:
                swapped[row - 1], swapped[row] = swapped[row], swapped[row - 1]
    events = events.with_columns(start_ns=pl.Series(swapped), node=pl.Series(nodes, dtype=pl.Int64))
    found = recover(Trace(made.trace.header, events), layout_of(made.config))
    assert score(made, found).time > 0.99
    assert len(found.steps) == len(made.phases)


CALLERS = {
    "attention": "vllm::unified_attention_with_output", "input_norm": "_C::fused_add_rms_norm",
    "post_attention_norm": "_C::fused_add_rms_norm", "final_norm": "_C::fused_add_rms_norm",
    "qk_norm": "_C::rms_norm", "rope": "_C::rotary_embedding",
    "kv_cache_write": "vllm::reshape_and_cache_flash", "activation": "_C::silu_and_mul",
    "rope+kv_cache_write": "_C::rotary_embedding",
}  # fmt: skip


def capture_of(made: Synthetic, *, lie: bool = False) -> Trace:
    """A trace of the capture of the replayed graph: launches without kernels, and CPU operations."""
    correlation = made.trace.events["correlation"].to_list()
    replayed = Counter(correlation)
    first = next(one for one, count in replayed.items() if count > 20)
    members = [(row, op) for row, _, _, op in made.truth if correlation[row] == first]
    operations = [op for _, op in members]
    kinds = made.trace.events["kind"].cast(pl.String).to_list()
    calls = ["cudaMemsetAsync" if kinds[row] == "memset" else "cudaLaunchKernel"
             for row, _ in members]  # fmt: skip
    rows: list[dict[str, object]] = []

    def add(kind: str, name: str, start: int, dur: int, number: int | None = None) -> None:
        rows.append({"kind": kind, "name": name, "category": kind, "start_ns": start, "tid": 1,
                     "dur_ns": dur, "correlation": number})  # fmt: skip

    add("api", "cudaStreamBeginCapture", 0, 5)
    for number, operation in enumerate(operations):
        at = 100 * (number + 1)
        # One call of a GEMM launches its split-K reduction, too.
        if not number or operations[number - 1] != operation or operation in CALLERS:
            caller = CALLERS.get(operation, "aten::mm")
            follows = operation not in CALLERS and operations[number + 1 : number + 2] == [
                operation
            ]
            add("host", "aten::mm" if lie else caller, at, 190 if follows else 90)
            add("host", "aten::empty", at + 1, 5)
        add("api", calls[number], at + 50, 10, 10**9 + number)
    add("api", "cudaStreamEndCapture", 100 * (len(operations) + 2), 5)
    events = pl.DataFrame(rows, schema=schema.event_columns())
    return Trace(TraceHeader(source="kineto"), events)


def with_graph(seed: int, scheme: str) -> Synthetic:
    made = Generator(seed, family="dense", scheme=scheme, ranks=1)
    made.style |= {"graph": True, "split_k_o": True, "split_k_down": True}
    return made.generate()


def test_captures_name_the_kernels_of_replays() -> None:
    made = with_graph(19, "opaque")
    layout = layout_of(made.config)
    alone = score(made, recover(made.trace, layout)).count
    found = recover(made.trace, layout, capture_of(made))
    # The callers tell split-K reductions from norms, in replays; prefill is not captured.
    assert score(made, found).count > max(alone, 0.95)
    assert found.captured is not None
    assert 0.8 < found.captured["agreeing"] / found.captured["kernels"] <= 1.0


def test_callers_that_contradict_are_reported() -> None:
    made = with_graph(20, "real")
    layout = layout_of(made.config)
    honest = recover(made.trace, layout, capture_of(made)).captured
    lying = recover(made.trace, layout, capture_of(made, lie=True)).captured
    assert honest is not None
    assert lying is not None
    assert honest["agreeing"] == honest["kernels"]
    assert lying["agreeing"] < 0.7 * lying["kernels"]


@pytest.mark.parametrize(("family", "seed"), [("dense", 2), ("moe", 7)])
def test_norms_of_several_rows_do_not_halve_the_batch(family: str, seed: int) -> None:
    """A norm kernel of two rows a block has half as many blocks as the step has tokens."""
    made = Generator(seed, family=family, scheme="real", ranks=1)
    made.style |= dict.fromkeys(("rope_with_cache", "activation_fused", "extra_copy"), False)
    synthetic = made.generate()
    events = synthetic.trace.events
    grids = events["grid"].to_list()
    for row, _, _, operation in synthetic.truth:
        if grids[row] is not None and operation in ("rope", "activation", "qk_norm"):
            # Parts of rows, as element-wise kernels of a compiler have them.
            grids[row] = [3 * grids[row][0], *grids[row][1:]]
        elif grids[row] is not None and operation.endswith("norm"):
            grids[row] = [(grids[row][0] + 1) // 2, *grids[row][1:]]
    name = pl.col("name").cast(pl.String)
    writes = {row for row, _, _, operation in synthetic.truth if operation == "kv_cache_write"}
    is_write = pl.Series([row in writes for row in range(events.height)])
    events = events.with_columns(
        pl.Series("grid", grids, dtype=events["grid"].dtype),
        # Four bytes a sequence, which eight bytes of half as many could be.
        pl.when(name.str.contains("DtoH")).then(pl.col("bytes") // 2).otherwise("bytes"),
        pl.when(is_write)
        .then(pl.lit("void vllm::reshape_and_cache_flash_kernel<bf16>"))
        .otherwise(name)
        .cast(events["name"].dtype)
        .alias("name"),
    )
    trace = Trace(synthetic.trace.header, events, synthetic.trace.steps)
    found = recover(trace, layout_of(synthetic.config))
    steps = found.trace.steps.with_columns(pl.col("phase").cast(pl.String))
    decode = [
        batch
        for phase, batch in zip(synthetic.phases, synthetic.batches, strict=True)
        if phase == "decode" and batch > 1
    ]
    assert decode
    batches = steps.filter(pl.col("phase") == "decode")["batch"].to_list()
    for batch in set(decode):
        assert batch in batches
    assert any("norms have" in note for note in found.degradations)

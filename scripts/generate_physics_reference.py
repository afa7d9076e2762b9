"""Writes docs/reference/physics.md: the layers below the pins, their equations, and what they move.

python scripts/generate_physics_reference.py          # write it
python scripts/generate_physics_reference.py --check  # exit with 1 if it is out of date
"""

from __future__ import annotations

import importlib
import inspect
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from assay import stack
from assay.model import Registry
from assay.model.comparing.sensitivity import sensitivities
from assay.scenario.question import read_question
from assay.scenario.questions.walking import walk
from equation_checklist import read_items, summary
from generated_pages import write_or_check

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "physics.md"
COMMAND = "python scripts/generate_physics_reference.py"
TRAINING, SERVING = "llama3_8b_8_h100_training", "llama3_8b_h200_serving"

LAYERS = (
    ("Nuclei", "nuclear", ("nuclear",)),
    ("Lithography", "lithography", ("lithography.source", "lithography.plasma", "lithography.optics",
                                    "lithography.scanner",
                                    "lithography.resist")),
    ("Fabs", "fab", ("fab.silicon", "fab.tools", "fab.flow", "fab.wafer", "fab.footprint")),
    ("Transistors", "transistor", ("transistor.channel", "transistor.gate_speed")),
    ("Wires", "wires", ("wires",)),
    ("Metal", "metal", ("metal",)),
    ("Switching", "switching", ("switching",)),
    ("Timing", "timing", ("timing",)),
    ("Memory cells and devices", "dram", ("dram.cell", "dram.device")),
    ("Arithmetic units", "arithmetic", ("arithmetic",)),
    ("Rounding", "precision", ("precision",)),
    ("Multiprocessors and caches", "multiprocessor", ("multiprocessor.residency", "multiprocessor.latency",
                                                      "multiprocessor.caches", "multiprocessor.rooflines")),
    ("Geometry of a process", "geometry", ("geometry",)),
    ("Static memory, repair and yield", "sram", ("sram.cell", "sram.array", "sram.repair")),
    ("Floorplan", "floorplan", ("floorplan",)),
    ("Power delivery and heat", "delivery", ("delivery",)),
    ("Power that a chip draws", "drawing", ("drawing",)),
    ("Regulation, wear and radiation", "regulation", ("regulation",)),
    ("Stacks and packages", "stacking", ("stacking",)),
    ("Links", "links", ("links",)),
    ("Hours of the day", "hours", ("hours",)),
    ("Market", "market", ("market",)),
    ("Updates", "updates", ("updates.rules", "updates.orthogonal", "updates.schedules", "updates.states",
                             "updates.noise")),
    ("Routing, storage and hosts", "routing", ("routing",)),
    ("Scaling laws", "scaling", ("scaling.laws", "scaling.life")),
)  # fmt: skip
"""Title, scope and modules of every layer, from the nucleus up."""


class Asked(NamedTuple):
    """A question, the scenario that answers it, and the figure from outside."""

    question: str
    target: str
    preset: str = TRAINING
    includes: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    assign: tuple[str, ...] = ()
    outside: str = ""

    @property
    def command(self) -> str:
        """How to ask it."""
        words = ["assay", "resolve", self.target, "--preset", self.preset]
        for option, items in (
            ("--with", self.includes),
            ("--variant", self.variants),
            ("--set", self.assign),
        ):
            for item in items:
                words += [option, shlex.quote(item)]
        return " ".join(words)


FLOOR = "packs/h100_floor"
HEADLINES = {
    "cost of a token": "econ.cost.per_token", "time of a step": "training.step_time", "power": "gpu.power",
    "emissions of a token": "carbon.per_token",
}  # fmt: skip
ABOVE = ("hbm", "manufacturing", "gpu", "thermal")
"""Layers above those of this page that the pack reaches too."""
_EUV = ("processes/n5", "scanners/nxe_3600d")
_BY_AREA = ("carbon.gpu.embodied=gpu.embodied_by_area",)
_LAW = ("scaling_laws/besiroglu_2024",)
QUESTIONS = (
    Asked("What does a shrink to 2 nm do to a step?", "training.step_time", includes=("processes/n2",),
          outside="-9.4 %, to 12.45 s"),
    Asked("And to the cost of a token?", "econ.cost.per_token", includes=("processes/n2",), outside="-10.4 %"),
    Asked("What does the clock of dense GEMMs on an H200 come to?", "gpu.throttle", SERVING,
          assign=("gpu.activity=1", "gpu.memory.duty=0.05", "gpu.coolant_temperature=312 K"),
          outside="1,395 MHz at 697 W: 0.762 of 1.83 GHz"),
    Asked("At which power would its temperature bind instead?", "gpu.power.ceiling", SERVING,
          assign=("gpu.power.limit=10000 W/GPU", "gpu.coolant_temperature=312 K"), outside="1,297 W, by hand"),
    Asked("And at which clock its slowest paths, over boost?", "gpu.clock_ceiling", SERVING,
          outside="1,980 MHz of 1.83 GHz: 1.082"),
    Asked("And those of an H100 at 0.55 V instead of 0.75 V?", "gpu.top_clock", includes=("packs/h100_floor",),
          assign=("transistor.supply=0.55 V",),
          outside="0.57 of 1.98 GHz, by the voltage curve fitted on an H200: 1.12 GHz"),
    Asked("How many droplets of tin print a GPU?", "lithography.gpu.droplets", includes=_EUV, outside="4.4e5 by hand"),
    Asked("And a training token?", "lithography.token.droplets", includes=_EUV, outside="3.4e-7 by hand"),
    Asked("How much quartz is in a GPU?", "fab.gpu.sand", includes=(*_EUV, "fabs/n5"),
          outside="9.4 kg of silicon by kg of wafer"),
    Asked("What does a wafer cost, by its parts?", "manufacturing.wafer.price", includes=(*_EUV, "fabs/n5"),
          outside="16,988 USD"),
    Asked("How noisy is the light of a contact?", "lithography.resist.absorbed_noise", includes=_EUV,
          outside="3.8 %, Poisson"),
    Asked("How much of its data sheet's rate can an H200 read?", "dram.efficiency", SERVING, ("memories/hbm3e",),
          outside="4.574 of 4.8 TB/s: 0.953"),
    Asked("And copy?", "dram.efficiency", SERVING, ("memories/hbm3e",), assign=("dram.write_share=0.5",),
          outside="4.257 of 4.8 TB/s: 0.887"),
    Asked("And read, were all banks refreshed at once?", "dram.efficiency", SERVING, ("memories/hbm3",),
          assign=("dram.refresh.mode=all",), outside="1 - 350 ns / 3.9 us: 0.910"),
    Asked("What would HBM4 give an H200?", "gpu.memory.bandwidth", SERVING, ("memories/hbm4",),
          outside="6 stacks of 2,048 pins of 8 Gbit/s, JEDEC JESD270-4: 12.29 TB/s"),
    Asked("How hot are the stacks of an H100?", "dram.temperature", includes=(FLOOR,),
          outside="plate, film and half of eight layers, by hand: 329.8 K"),
    Asked("Operations in a cycle on 16 bits?", "arithmetic.flops.bits_16", outside="989.4 TFLOP/s / 132 / 1.83 GHz"),
    Asked("On 8 bits?", "arithmetic.flops.bits_8", outside="1,978.9 TFLOP/s: 8,192"),
    Asked("In TF32?", "arithmetic.flops.tf32", outside="494.7 TFLOP/s: 2,048"),
    Asked("In FP64?", "arithmetic.flops.fp64", outside="66.9 TFLOP/s at 1.98 GHz: 256"),
    Asked("On lanes of 32 bits?", "arithmetic.flops.vector", outside="66.9 TFLOP/s at 1.98 GHz: 256"),
    Asked("How much of its second-level cache keeps operands of a GEMM?", "kernels.gemm.reach_share",
          includes=("multiprocessors/gh100",), outside="0.502, fitted on measured GEMMs"),
    Asked("What is a GPU made of, in dollars?", "manufacturing.gpu.cost", outside="3,320 USD"),
    Asked("And a B200?", "manufacturing.gpu.cost", includes=("accelerators/b200_sxm",), outside="6,400 USD"),
    Asked("How many dies would be good, were an H100 made of two?", "manufacturing.die.yield", includes=(FLOOR,),
          assign=("manufacturing.package.dies=2 1/GPU", "manufacturing.die.transistors=4e10"),
          outside="76.6 %, negative binomial"),
    Asked("What is embodied in it?", "carbon.gpu.embodied", variants=_BY_AREA, outside="164 kg"),
    Asked("Which size reaches a loss of 1.97?", "scaling.goal.size", includes=_LAW,
          assign=("scaling.goal.loss=1.97",), outside="SciPy agrees"),
    Asked("And if it then serves 1e13 tokens?", "scaling.goal.size", includes=_LAW,
          assign=("scaling.goal.loss=1.97", "scaling.goal.served_tokens=1e13"), outside="smaller"),
    Asked("What does Muon add to the operations?", "training.update.orthogonalization_share",
          includes=("optimizers/muon",), outside="5 m / B"),
    Asked("And of a run of 405 B weights on 16 M tokens a step?", "training.update.orthogonalization_share",
          includes=("optimizers/muon", "models/llama-3.1-405b"), assign=("training.batch=1953",), outside="0.51 %"),
    Asked("And to memory, of 11.2 GiB a GPU?", "parallelism.memory.optimizer", includes=("optimizers/muon",),
          outside="4 bytes a weight fewer: 7.48 GiB"),
)  # fmt: skip


def answer(asked: Asked) -> str:
    """The figure that the command prints, without its interval."""
    question = read_question(
        asked.preset, list(asked.assign), list(asked.variants), list(asked.includes)
    )
    value = question.resolve(asked.target, intervals=False).require_value()
    variable = stack.registry().variables[asked.target]
    return f"{variable.shown(value):.3g} {variable.display.text}".removesuffix(" 1")


def write_page() -> str:
    """The whole page as Markdown."""
    registry = stack.registry()
    lines = [
        "# From sand to token",
        "",
        f"Written by `{COMMAND}` from the equations; do not edit. The layers below the pins of a GPU, from the",
        "nucleus up: what each is about, what it moves, and its relations. A stated quantity has alternatives that",
        "compute it, used where `--variant` or an entry of the catalog chooses one",
        "([which relation defines a variable](../design/choosing-relations.md)). A checklist from process to cost",
        f"(`python scripts/equation_checklist.py`) lists {summary(read_items())}.",
        "",
        "## Questions",
        "",
        "| question | answer | from outside | command |",
        "|---|--:|---|---|",
    ]
    lines += [f"| {q.question} | {answer(q)} | {q.outside} | `{q.command}` |" for q in QUESTIONS]
    lines += _moves()
    lines += _walk("quark", "econ.cost.per_token")
    for title, scope, modules in LAYERS:
        lines += [
            "",
            f"## {title}",
            "",
            *_paragraphs(modules),
            *_attachments(registry, scope),
            *_relations(registry, scope),
        ]
    return "\n".join(lines) + "\n"


def _moves() -> Iterator[str]:
    """What each layer moves, where one pack computes what data sheets state."""
    question = read_question(TRAINING, None, None, [FLOOR])
    strongest: dict[str, dict[str, tuple[float, str]]] = {}
    for title, target in HEADLINES.items():
        effects = sensitivities(question.registry, target, question.inputs, question.variants)
        for item in effects.inputs:
            row = strongest.setdefault(item.variable.scope, {})
            size = abs(item.elasticity or 0.0)
            if size > row.get(title, (0.0, ""))[0]:
                row[title] = (size, item.variable.name)
    yield from ("", "## What moves what", "")
    yield f"With `--with {FLOOR}` a scenario computes what it otherwise states. The greatest per cent by which each"
    yield "headline follows one per cent of an input of the layer, and that input; a dash is less than 1e-6."
    yield f"`assay sensitivity {HEADLINES['cost of a token']} --preset {TRAINING} --with {FLOOR}` lists all inputs."
    yield from (
        "",
        f"| layer | {' | '.join(HEADLINES)} | most by |",
        f"|---|{'--:|' * len(HEADLINES)}---|",
    )
    for scope in (*(scope for _, scope, _ in LAYERS), *ABOVE):
        row = strongest.get(scope, {})
        if not row:
            continue
        cells = [row.get(title, (0.0, ""))[0] for title in HEADLINES]
        shown = " | ".join("-" if size < 1e-6 else f"{size:.2g}" for size in cells)
        yield f"| {scope} | {shown} | `{max(row.values())[1]}` |"


def _walk(start: str, target: str) -> Iterator[str]:
    """One walk from end to end, as `assay walk` prints it."""
    answer = walk(start, target)
    yield from ("", "## From one end to the other", "")
    yield f"`assay walk {start} {target}`: {len(answer.steps) - 1} relations through {', '.join(answer.layers)}. A step"
    yield "passes on the per cent by which a variable follows one per cent of the one before it; the product is what"
    yield f"the walk carries: {answer.steps[-1].carried:.2g}."
    yield from ("", "| variable | value | step | carried | relation |", "|---|--:|--:|--:|---|")
    for step in answer.steps:
        value = "" if step.value is None else step.variable.figure(step.value).text
        passed = "" if step.elasticity is None else f"{step.elasticity:.2g}"
        states = "" if step.relation is None else f"`{step.relation.text.replace('|', 'or')}`"
        yield f"| `{step.variable.name}` | {value} | {passed} | {step.carried:.2g} | {states} |"


def _paragraphs(modules: Sequence[str]) -> Iterator[str]:
    for module in modules:
        text = inspect.getdoc(importlib.import_module(f"assay.stack.{module}")) or ""
        yield from (text, "")


def _attachments(registry: Registry, scope: str) -> Iterator[str]:
    """Quantities of other layers that this one computes where chosen."""
    rows = [
        f"`{relation.variable}` by `--variant {relation.variable}={relation.name}`"
        for relation in registry.relations.values()
        if relation.scope == scope
        and relation.variable
        and not relation.variable.startswith(f"{scope}.")
    ]
    if rows:
        yield f"Moves {', '.join(rows)}."
        yield ""


def _relations(registry: Registry, scope: str) -> Iterator[str]:
    yield "| symbol | meaning | relation | source |"
    yield "|---|---|---|---|"
    for relation in registry.relations.values():
        if relation.scope != scope:
            continue
        variable = registry.variables.get(relation.variable)
        symbol = f"`{variable.symbol}`" if variable is not None else ""
        meaning = relation.meaning or (variable.meaning if variable is not None else "")
        place = ", ".join(
            part for part in (relation.reference.work, relation.reference.where) if part
        )
        text = relation.text.replace("|", "or").replace(f"{scope}.", "")
        yield f"| {symbol} | {meaning} | `{text}` | {place or 'by definition'} |"


def main(arguments: Sequence[str]) -> int:
    """Write or check the page."""
    return write_or_check({PAGE: write_page()}, COMMAND, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Commands that answer questions: what is run, and the line that gives the same number again."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from assay.asking.amounts import with_thousands
from assay.asking.breaking import broken_of, concerning
from assay.asking.text import word_set
from assay.errors import InputError
from assay.model.resolving.resolution import Resolution

if TYPE_CHECKING:
    from assay.scenario import estimate as estimates

SERVING: Final = "llama3_8b_h200_serving"
TRAINING: Final = "llama3_8b_8_h100_training"
_GPUS: Final = "training.gpus"
ASKED_VALUES: Final = word_set(
    """serving.prompt serving.output serving.concurrency serving.slo.time_to_first_token
    serving.slo.time_per_output_token econ.electricity.price econ.rent.price econ.gpu.price
    thermal.dc.pue econ.serving.load econ.utilisation serving.kv_bytes lithography.power transistor.supply
    gpu.coolant_temperature manufacturing.die.yield manufacturing.wafer.price"""
)
"""Values that questions give: where one is not used, there is no answer."""


@dataclass(frozen=True)
class Result:
    """A figure that a command gave: its variable, its value in the unit shown, and its text."""

    command: Command
    target: str
    meaning: str
    value: float | None
    unit: str
    text: str
    lo: float | None = None
    hi: float | None = None
    violated: Sequence[tuple[str, str]] = ()
    """Names and meanings of constraints that do not hold."""
    broken: Mapping[str, str] = field(default_factory=dict)
    """What of those constraints is beyond what, and where the limit comes from, by their names."""
    missing: Sequence[str] = ()
    notes: Sequence[str] = ()
    assumed: Sequence[str] = ()
    """What the command takes by itself and moves the figure most, such as a length of sequences."""


class Command(Protocol):
    """A command with its arguments."""

    @property
    def line(self) -> str:
        """The command line, as a shell takes it."""

    @property
    def includes(self) -> tuple[str, ...]:
        """Catalog entries that it names."""

    @property
    def assign(self) -> tuple[str, ...]:
        """Values that it gives."""

    @property
    def preset(self) -> str:
        """The scenario that it starts from; nothing where it needs none."""

    def run(self) -> Result:
        """Run it."""


@dataclass(frozen=True)
class Resolve:
    """`assay resolve`: one variable in a scenario."""

    target: str
    preset: str = SERVING
    includes: tuple[str, ...] = ()
    assign: tuple[str, ...] = ()
    variant: tuple[str, ...] = ()
    offer: str = ""
    options: tuple[str, ...] = ()
    """Options that say more and change no number, such as --constraints."""
    intervals: bool = True
    explains: bool = False
    """Whether the command is `assay explain`, which prints where the same value comes from."""

    @property
    def line(self) -> str:
        """The command line."""
        verb = "explain" if self.explains else "resolve"
        words = ["assay", verb, self.target, *_scenario(self), *self.options]
        return shlex.join(words if self.intervals else [*words, "--no-interval"])

    def resolution(self) -> Resolution:
        """The value with its constraints."""
        from assay.scenario.questions.resolving import resolve

        answer = resolve(
            self.target, preset=self.preset or None, includes=self.includes, assign=self.assign,
            variant=self.variant, offer=self.offer or None, intervals=self.intervals,
        )  # fmt: skip
        if isinstance(answer.problem, InputError):
            raise answer.problem
        for note in answer.notes:
            name, separator, _ = note.partition(": not used: ")
            if separator and name in ASKED_VALUES:
                raise InputError(note)
        return answer.resolution

    def run(self) -> Result:
        """Resolve it."""
        return of_resolution(self, self.resolution())


@dataclass(frozen=True)
class Minimize:
    """`assay minimize`: the best of the choices that hold every constraint."""

    target: str
    over: tuple[str, ...]
    preset: str = SERVING
    includes: tuple[str, ...] = ()
    assign: tuple[str, ...] = ()
    variant: tuple[str, ...] = ()
    offer: str = ""
    maximize: bool = False

    @property
    def line(self) -> str:
        """The command line."""
        words = ["assay", "minimize", self.target]
        for text in self.over:
            words += ["--over", text]
        return shlex.join([*words, *_scenario(self), *(["--maximize"] if self.maximize else [])])

    def run(self) -> Result:
        """Search, and report the best point."""
        from assay.scenario.questions.minimizing import MinimizeAnswer, minimize
        from assay.scenario.questions.resolving import resolve

        answer = minimize(
            self.target, self.over, preset=self.preset, includes=self.includes, assign=self.assign,
            variant=self.variant, offer=self.offer or None, maximize=self.maximize, alternatives=0,
        )  # fmt: skip
        if not isinstance(answer, MinimizeAnswer):
            raise InputError(f"{self.target}: {answer.problem}")
        if answer.problem is not None:
            raise answer.problem
        optimum = answer.optimum
        chosen = ", ".join(f"{name}={value:g}" for name, value in optimum.choices.items()
                           if not isinstance(value, str))  # fmt: skip
        result = of_resolution(self, optimum.resolution)
        # A search takes points; the interval is that of the best one. Limits are used by the search.
        best = resolve(
            self.target, preset=self.preset, includes=self.includes,
            assign=(*self.assign, *self._chosen(optimum.choices)), variant=self.variant,
            offer=self.offer or None,
        )  # fmt: skip
        ends = of_resolution(self, best.resolution)
        result = replace(result, lo=ends.lo, hi=ends.hi)
        return _with_notes(result, [f"chosen: {chosen}"])

    def _chosen(self, choices: Mapping[str, float | str]) -> list[str]:
        """The choices as values to set, in the units that they were listed in."""
        texts = []
        for text in self.over:
            name, _, values = text.partition("=")
            unit = values.partition(" ")[2]
            texts.append(f"{name}={choices[name]:g} {unit}".rstrip())
        return texts


@dataclass(frozen=True)
class Solve:
    """`assay solve`: the value of one variable at which another takes a given one."""

    target: str
    equal: str
    preset: str = SERVING
    includes: tuple[str, ...] = ()
    assign: tuple[str, ...] = ()
    variant: tuple[str, ...] = ()
    offer: str = ""

    @property
    def line(self) -> str:
        """The command line."""
        words = ["assay", "solve", "--unknown", self.target, "--equal", self.equal]
        return shlex.join([*words, *_scenario(self)])

    def run(self) -> Result:
        """Solve for it."""
        from assay.scenario.questions.solving import SolveAnswer, solve

        answer = solve(
            [self.target], [self.equal], preset=self.preset, includes=self.includes,
            assign=self.assign, variant=self.variant, offer=self.offer or None,
        )  # fmt: skip
        if answer.problem is not None:
            raise answer.problem
        if not isinstance(answer, SolveAnswer):
            raise InputError(f"{self.target} has no solution")
        from assay import stack

        variable = stack.registry().variables[self.target]
        value = answer.solution.values[self.target]
        return Result(
            self, self.target, variable.meaning, variable.shown(value), variable.display.text,
            with_thousands(variable.figure(value).text),
        )  # fmt: skip


@dataclass(frozen=True)
class Estimate:
    """`assay estimate`: a training run from a model, an accelerator, tokens and a place."""

    target: str
    model: str
    accelerator: str
    tokens: str
    where: str
    options: tuple[tuple[str, Any], ...] = ()
    """Options of the command by their names in Python."""
    preset: str = TRAINING

    @property
    def line(self) -> str:
        """The command line."""
        words = ["assay", "estimate", self.model, self.accelerator, self.tokens, self.where]
        for name, value in self.options:
            if name == "assign":
                words += [word for text in value for word in ("--set", text)]
                continue
            words.append(f"--{name.replace('_', '-')}")
            words += (
                [] if value is True else [f"{value:g}" if isinstance(value, float) else str(value)]
            )
        return shlex.join(words)

    @property
    def includes(self) -> tuple[str, ...]:
        """The model and the accelerator."""
        return (f"models/{self.model}", f"accelerators/{self.accelerator}")

    @property
    def assign(self) -> tuple[str, ...]:
        """Nothing beyond its options."""
        return ()

    def run(self) -> Result:
        """Estimate it, and pick the figure."""
        from assay.scenario.questions.estimating import estimate

        answer = estimate(
            self.model, self.accelerator, self.tokens, self.where, **dict(self.options)
        )
        if isinstance(answer.problem, InputError):
            raise answer.problem
        estimated = answer.estimate
        sequence = estimated.preset.exact_inputs.values.get("architecture.sequence")
        assumed = () if sequence is None else (f"sequences of {sequence:,.0f} tokens",)
        gpus = estimated.preset.exact_inputs.values.get("training.gpus")
        if gpus is not None and not {"gpus", "days"} & set(dict(self.options)):
            assumed = (*assumed, f"{gpus:,.0f} GPUs, the fewest that finish in 90 days")
        assumed = (*assumed, *_layout(estimated.preset.exact_inputs.values))
        if self.target == _GPUS and "gpus" not in dict(self.options):
            result = _with_time(of_resolution(self, estimated.preset.resolve(_GPUS)), estimated)
            return replace(result, notes=(*result.notes, *answer.notes), assumed=assumed)
        for target in estimated.report.targets:
            if target.target == self.target and target.resolution is not None:
                result = of_resolution(self, target.resolution)
                break
        else:
            result = of_resolution(self, estimated.preset.resolve(self.target))
        return replace(result, notes=(*result.notes, *answer.notes), assumed=assumed)


def _with_time(result: Result, estimated: estimates.Estimate) -> Result:
    """The fewest GPUs with the interval of their time: as many more as it may take longer."""
    times = next(t.resolution for t in estimated.report.targets if t.target == "econ.run.duration")
    if times is None or not times.value or times.lower is None or times.upper is None:
        return result
    gpus = result.value or math.nan
    ends = (gpus * end / times.value for end in (times.lower, times.upper))
    lo, hi = ends
    return replace(result, lo=lo, hi=hi)


def _layout(values: Mapping[str, float]) -> tuple[str, ...]:
    """The layout of a run that takes more than one GPU, and what its software does."""
    if values.get("training.gpus", 1.0) <= 1:
        return ()
    ranks = (values.get(f"parallelism.{name}", 1.0) for name in ("tensor", "pipeline"))
    tensor, pipeline = ranks
    return (
        f"the fastest layout that fits, tensor {tensor:.0f} and pipeline {pipeline:.0f}, of software that "
        "overlaps what it can",
    )


def of_resolution(command: Command, resolution: Resolution) -> Result:
    """The figure of a resolved variable."""
    variable = resolution.variable
    value = resolution.value
    ends = (resolution.lower, resolution.upper)
    violated = concerning(command.assign, resolution)
    return Result(
        command, variable.name, variable.meaning,
        None if value is None else variable.shown(value), variable.display.text,
        "" if value is None else with_thousands(variable.figure(value, *ends).text),
        None if ends[0] is None else variable.shown(ends[0]),
        None if ends[1] is None else variable.shown(ends[1]),
        tuple((verdict.name, verdict.meaning) for verdict in violated),
        broken_of(command.preset, command.assign, violated),
        missing=tuple(gap.variable.name for gap in resolution.missing),
    )  # fmt: skip


def _with_notes(result: Result, notes: Sequence[str]) -> Result:
    return replace(result, notes=(*result.notes, *notes))


def _scenario(command: Any) -> list[str]:
    """The options of a scenario: preset, entries, values and relations."""
    words = ["--preset", command.preset] if command.preset else []
    for option, texts in (
        ("--with", command.includes),
        ("--set", command.assign),
        ("--variant", command.variant),
    ):
        for text in texts:
            words += [option, text]
    return [*words, "--offer", command.offer] if command.offer else words

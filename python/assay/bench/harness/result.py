"""The result of a suite, and its file format."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from assay import json_records, paths
from assay.answers import data_of, finite
from assay.bench.harness.case import unit_named
from assay.bench.harness.stalls import Stalls, from_data as stalls_from
from assay.bench.harness.statistics import median, median_interval, quantile
from assay.errors import InputError
from assay.improve.journal.chain import digest

SCHEMA: Final = "assay.bench/1"
SEAL: Final = "sha256"
"""The entry of a file that has the hash of all others, as canonical JSON."""
_FIRST_WITH_SEAL: Final = "summary"
"""An entry that files have since they are sealed."""
BUSY: Final = 0.1
"""Background load, as a share of the cores, above which figures may be of other programs too."""
_ONE_OF_MANY: Final = re.compile(r", 1 (frame|structure)s$")


@dataclass(frozen=True, slots=True)
class Series:
    """Samples of one subject, one a round; None where it skipped the round."""

    name: str
    rounds: tuple[float | None, ...]
    calls: int
    """Calls per sample."""

    @property
    def values(self) -> list[float]:
        """The samples of the rounds that it did not skip."""
        return [value for value in self.rounds if value is not None]

    @property
    def median(self) -> float:
        """The figure."""
        return median(self.values)

    def to_data(self) -> dict[str, Any]:
        """As plain data, with summary statistics."""
        values = self.values
        interval = median_interval(values)
        return {
            "name": self.name,
            "value": median(values),
            "interval": None if interval is None else list(interval),
            "p10": quantile(values, 0.1),
            "p90": quantile(values, 0.9),
            "rounds": list(self.rounds),
            "calls": self.calls,
        }


@dataclass(frozen=True, slots=True)
class Verification:
    """Relative error of the timed code against its reference; NaN where nothing was written."""

    against: str
    error: float
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether the error is within the tolerance."""
        return self.error <= self.tolerance


class SeedRounds(NamedTuple):
    """How many of the rounds, in their order, had the inputs of a seed."""

    seed: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Figure:
    """One case as it was measured."""

    name: str
    unit: str
    parameters: Mapping[str, Any]
    own: Series
    ceiling: Series | None
    rivals: tuple[Series, ...]
    absent: Mapping[str, str]
    """Rivals that were not measured, with the reason."""
    check: Verification
    bytes: float | None
    flops: float | None
    working_set_bytes: int | None
    cold: bool | None
    """Whether the inputs rotate through more than the last-level cache; None where unknown."""
    note: str
    seeds: tuple[SeedRounds, ...] = ()
    """Seeds of the rounds; files from before seeds have none."""
    stalls: Stalls | None = None
    """Where the time of our samples went; None in older files."""
    stages: Mapping[str, Mapping[str, Sequence[float]]] = field(default_factory=dict)
    """Seconds of each stage in every run, by subject."""

    @property
    def value(self) -> float:
        """The median over rounds, in the figure's unit."""
        return self.own.median

    @property
    def spread(self) -> float:
        """The width between the 10 and 90 % quantiles, over the median."""
        values = self.own.values
        return (quantile(values, 0.9) - quantile(values, 0.1)) / self.value if self.value else 0.0

    @property
    def share(self) -> float | None:
        """The share of the ceiling, median of the shares round by round."""
        return None if self.ceiling is None else median(self.paired(self.ceiling))

    def paired(self, other: Series) -> list[float]:
        """Ratios to another subject in each round with samples of both.

        Above one our code is better, whether the unit is a rate or a time.
        """
        return [ratio for ratio in self.ratios(other) if ratio is not None]

    def by_seed(self, values: Sequence[float | None]) -> dict[int, list[float]]:
        """Values of rounds, one for each, by their seed."""
        parts: dict[int, list[float]] = {}
        start = 0
        for seed, count in self.seeds:
            known = [value for value in values[start : start + count] if value is not None]
            parts.setdefault(seed, []).extend(known)
            start += count
        return {seed: part for seed, part in parts.items() if part}

    def ratios(self, other: Series) -> list[float | None]:
        """The ratio to another subject in each round; None in one that either skipped."""
        is_rate = unit_named(self.unit).higher_is_better
        return [
            None if own is None or theirs is None else own / theirs if is_rate else theirs / own
            for own, theirs in zip(self.own.rounds, other.rounds, strict=True)
        ]

    def to_data(self) -> dict[str, Any]:
        """As plain data."""
        return {
            **data_of(self, "name unit parameters value spread own"),
            "ceiling": None if self.ceiling is None else self._versus(self.ceiling),
            "rivals": [self._versus(rival) for rival in self.rivals],
            "absent": dict(self.absent),
            "check": {**asdict(self.check), "passed": self.check.passed},
            **data_of(self, "bytes flops working_set_bytes cold note"),
            "seeds": [{"seed": seed, "rounds": count} for seed, count in self.seeds],
            "stalls": None if self.stalls is None else self.stalls.to_data(),
            "stages": {
                stage: {who: list(seconds) for who, seconds in by_subject.items()}
                for stage, by_subject in self.stages.items()
            },
        }

    def _versus(self, other: Series) -> dict[str, Any]:
        ratios = self.paired(other)
        interval = median_interval(ratios)
        return {
            **other.to_data(),
            "ratio": median(ratios),
            "ratio_interval": None if interval is None else list(interval),
        }


@dataclass(frozen=True, slots=True)
class Result:
    """A run of a suite: machine, versions, and every figure."""

    suite: str
    quick: bool
    machine: Mapping[str, Any]
    versions: Mapping[str, str | None]
    commit: str | None
    started: str
    seconds: float
    load_average: tuple[Sequence[float], Sequence[float]]
    """Runnable processes over 1, 5 and 15 minutes, before and after."""
    other_cores: float | None
    """Mean number of cores that other processes used during the run; None where unknown."""
    figures: tuple[Figure, ...]
    claim: Mapping[str, Any] | None = None
    """The claim that was measured, as its file has it; None for a suite alone."""
    options: Mapping[str, Any] | None = None
    """What was asked for, so that it can be asked for again; None in older files."""
    summary: str = ""
    """A line about the figures together, such as their geometric mean."""
    unsealed: str = ""
    """The file that it was read from, where that has no hash of its content: an older one."""

    @property
    def was_busy(self) -> bool:
        """Whether other programs took so many cores that figures may be theirs too."""
        return self.other_cores is not None and self.other_cores > BUSY * int(
            self.machine["usable_cores"]
        )

    def to_data(self) -> dict[str, Any]:
        """As plain data, in the schema of the file."""
        kept = [field.name for field in fields(self) if field.name != "unsealed"]
        about = {name: getattr(self, name) for name in kept}
        return {"schema": SCHEMA, **about, "figures": [figure.to_data() for figure in self.figures]}

    def save(self, path: Path) -> None:
        """Write the whole file or none of it, one figure a line, sealed by the hash of its content."""
        # As it will be read: JSON has no tuples.
        data = json.loads(json.dumps(finite(self.to_data())))
        text = json_records.dumps({**data, SEAL: digest(data)}, depth=2)
        paths.write_atomically(path, f"{text}\n".encode())


def load(path: Path, *, is_judged: bool = False) -> Result:
    """Read a file that `Result.save` wrote; raises `InputError` for anything else.

    One that is judged must have its seal, unless it is from before there were seals: else cutting a
    line out would be all that an edit needs to pass.
    """
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}", "assay bench run CLAIM --save FILE writes one"
        ) from None
    except (ValueError, RecursionError) as error:
        raise _not_a_result(path, f"it is not JSON: {error}") from None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        got = data.get("schema") if isinstance(data, dict) else type(data).__name__
        raise _not_a_result(path, f"expected schema {SCHEMA}, got {got}")
    seal = data.pop(SEAL, None)
    if seal is not None and seal != _digest(data):
        raise InputError(
            f"{path} was changed after it was written: expected the content of sha256 "
            f"{str(seal)[:12]}..., got another",
            "measure again: figures that were edited are none",
        )
    if is_judged and seal is None and _FIRST_WITH_SEAL in data:
        raise InputError(
            f"{path}: expected the {SEAL} of its content, which files of its format have, got none",
            "measure again: nobody can tell whether its figures were edited",
        )
    try:
        return replace(_result(data), unsealed="" if seal else str(path))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise _not_a_result(path, f"{type(error).__name__}: {error}") from None


def _digest(data: Mapping[str, Any]) -> str:
    """The hash of what a file says; none of numbers that no result has."""
    try:
        return digest(data)
    except ValueError:
        return ""


def _not_a_result(path: Path, why: str) -> InputError:
    return InputError(
        f"{path} is no result of assay bench: {why}", "assay bench run CLAIM --save FILE writes one"
    )


def _result(data: Mapping[str, Any]) -> Result:
    before, after = data["load_average"]
    return Result(
        suite=str(data["suite"]),
        quick=bool(data["quick"]),
        machine={**data["machine"], "fingerprint": str(data["machine"]["fingerprint"])},
        versions=dict(data["versions"]),
        commit=data["commit"],
        started=str(data["started"]),
        seconds=float(data["seconds"]),
        load_average=(tuple(before), tuple(after)),
        # Older files have none.
        other_cores=None if data.get("other_cores") is None else float(data["other_cores"]),
        figures=tuple(_figure(figure) for figure in data["figures"]),
        claim=None if data.get("claim") is None else dict(data["claim"]),
        options=None if data.get("options") is None else dict(data["options"]),
        summary=str(data.get("summary", "")),
    )


def _figure(data: Mapping[str, Any]) -> Figure:
    try:
        unit_named(data["unit"])
    except KeyError:
        raise ValueError(f"unknown unit {data['unit']!r}") from None
    check = data["check"]
    own = _series(data["own"])
    others = [other for other in (data["ceiling"], *data["rivals"]) if other is not None]
    if not own.values or any(len(other["rounds"]) != len(own.rounds) for other in others):
        raise ValueError(f"figure {data['name']!r} lacks rounds")
    if any(value == 0.0 for other in others for value in other["rounds"]):
        raise ValueError(f"figure {data['name']!r} is held against nothing")
    return Figure(
        # Older files have names such as "protein, 1 structures".
        name=_ONE_OF_MANY.sub(r", 1 \1", str(data["name"])),
        unit=data["unit"],
        parameters=dict(data["parameters"]),
        own=own,
        ceiling=None if data["ceiling"] is None else _series(data["ceiling"]),
        rivals=tuple(_series(rival) for rival in data["rivals"]),
        absent=dict(data["absent"]),
        check=Verification(
            str(check["against"]),
            math.nan if check["error"] is None else float(check["error"]),
            float(check["tolerance"]),
        ),
        bytes=data["bytes"],
        flops=data["flops"],
        working_set_bytes=data["working_set_bytes"],
        cold=data["cold"],
        note=str(data["note"]),
        seeds=tuple(
            SeedRounds(int(part["seed"]), int(part["rounds"])) for part in data.get("seeds", ())
        ),
        stalls=stalls_from(data["stalls"]) if data.get("stalls") else None,
        stages={
            str(stage): {str(who): [float(value) for value in part] for who, part in parts.items()}
            for stage, parts in data.get("stages", {}).items()
        },
    )


def _series(data: Mapping[str, Any]) -> Series:
    rounds = tuple(None if value is None else float(value) for value in data["rounds"])
    if any(value is not None and not (math.isfinite(value) and value >= 0.0) for value in rounds):
        raise ValueError(f"values of {data['name']!r} are not all positive")
    return Series(str(data["name"]), rounds, int(data["calls"]))

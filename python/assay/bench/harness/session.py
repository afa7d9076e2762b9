"""Runs a suite: describes the machine, measures every case, returns the result."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from assay._native import build_info
from assay.bench.harness import selection
from assay.bench.harness.background_load import BackgroundLoad
from assay.bench.harness.case import Case, Settings, Size, Suite
from assay.bench.harness.merging import merged
from assay.bench.harness.result import Figure, Result, SeedRounds
from assay.bench.harness.runner import FULL, FULL_GPU, QUICK, SamplingPlan, measure
from assay.bench.harness.seeding import seeded
from assay.bench.rivals import elsewhere
from assay.errors import InputError
from assay.runtime import cuda
from assay.runtime.fingerprint import machine
from assay.runtime.hardware import Device

LIBRARIES: Final = (
    *("numpy", "torch", "llama-cpp-python", "transformers", "optuna"),
    *("faster-whisper", "ctranslate2", "pywhispercpp", "onnxruntime"),
)
"""Rivals whose versions a result records, of suites that do not say what theirs are made of."""
ELSEWHERE: Final = ("HolisticTraceAnalysis",)
"""The same of another Python environment."""


def settings(
    chosen: Suite,
    device: str = "cpu",
    *,
    quick: bool = False,
    sizes: str | None = None,
    dtypes: str | None = None,
    model: str | None = None,
    rivals: Sequence[str] = (),
    cases: Sequence[str] = (),
    rival_python: Path | None = None,
) -> Settings:
    """Settings of a run, parsed from command-line options."""
    # A new device object, so that its records, pool and clock are not shared.
    target = Device(device)
    if device.partition(":")[0] not in chosen.devices:
        raise InputError(
            f"the suite {chosen.name} does not run on {device}",
            f"it runs on: {', '.join(chosen.devices)}",
        )
    return Settings(
        device=target,
        quick=quick,
        sizes=selection.sizes(chosen, sizes),
        dtypes=selection.dtypes(chosen, dtypes),
        model=selection.model(chosen, model),
        rivals=selection.rivals(chosen, rivals),
        cases=tuple(cases),
        rival_python=selection.rival_python(chosen, rival_python),
    )


def run(
    chosen: Suite,
    options: Settings,
    progress: Callable[[str], None] | None = None,
    save: Path | None = None,
    *,
    seeds: Sequence[int] = (0,),
    warm_up: int = 1,
    seconds: float | None = None,
    claim: Mapping[str, Any] | None = None,
    required: Sequence[str] = (),
) -> Result:
    """Measure every case of a suite; `progress` receives the name of each.

    `save` is written after each case, so that a run that is ended early keeps what it measured.
    Several seeds share the time of one run, `seconds` of rounds for each case; each prepares its own
    inputs. A case without a rival that is `required` is not measured, nor are those after it.
    """
    report = progress or (lambda _: None)
    facts = machine(options.device)
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    load_before, start, background = os.getloadavg(), time.perf_counter(), BackgroundLoad()
    commit, sources = _commit(), chosen.sources()
    there = (
        None
        if options.rival_python is None
        else elsewhere.about(options.rival_python, _elsewhere(chosen))
    )
    plan = _plan(quick=options.quick, on_gpu=options.device.capabilities.is_gpu)
    plan = replace(plan, warm_up=warm_up)
    plan = plan if seconds is None else plan.lasting(seconds)
    cases = {seed: _cases(chosen, options, seed) for seed in seeds}
    figures: list[Figure] = []

    def so_far() -> Result:
        return Result(
            suite=chosen.name,
            quick=options.quick,
            machine=facts.to_data(),
            versions={**_versions(chosen, options.device, figures, there), **sources},
            commit=commit,
            started=started,
            seconds=time.perf_counter() - start,
            load_average=(load_before, os.getloadavg()),
            other_cores=background.cores(),
            figures=tuple(figures),
            claim=claim,
            options={
                **_asked(options),
                "seeds": list(seeds),
                "warm_up": warm_up,
                "seconds": seconds,
            },
            summary=chosen.summary(figures),
        )

    total = len(cases[seeds[0]])
    for number in range(total):
        by_seed: dict[int, Figure] = {}
        for seed in seeds:
            # A case is let go once it is measured, with the files and servers that it holds.
            case = cases[seed].pop(0)
            which = f", seed {seed}" if len(seeds) > 1 else ""
            report(f"[{number + 1}/{total}] {case.name}{which}")
            with seeded(seed):
                by_seed[seed] = measure(case, plan, facts.cache_bytes, len(seeds), required)
        figures.append(_with_seeds(chosen, merged(by_seed)))
        if save is not None:
            so_far().save(save)
    result = so_far()
    if chosen.finish is not None:
        report(chosen.finish(result, options.device))
    return result


def _plan(*, quick: bool, on_gpu: bool) -> SamplingPlan:
    return QUICK if quick else FULL_GPU if on_gpu else FULL


def seconds_of(result: Result) -> float:
    """How long the rounds of a case of a result were to take."""
    asked = (result.options or {}).get("seconds")
    if isinstance(asked, (int, float)):
        return float(asked)
    return _plan(quick=result.quick, on_gpu=str(result.machine["device"]) != "cpu").seconds


def _cases(chosen: Suite, options: Settings, seed: int) -> list[Case]:
    with seeded(seed):
        return selection.cases(chosen.cases(options), options.cases)


def _asked(options: Settings) -> dict[str, Any]:
    """The options of a run as a file keeps them."""
    kept = kept_options(
        sizes=options.sizes,
        dtypes=options.dtypes,
        model=options.model,
        rivals=options.rivals,
        cases=options.cases,
        settings=options.settings,
    )
    return {"device": options.device.name, **kept}


def kept_options(
    *,
    sizes: Sequence[Size],
    dtypes: Sequence[str],
    model: str | None,
    rivals: Sequence[str],
    cases: Sequence[str],
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """Options as a file has them, whatever device they are of."""
    return {
        "sizes": ",".join("x".join(map(str, size)) for size in sizes) or None,
        "dtypes": ",".join(dtypes) or None,
        "model": model,
        "rivals": list(rivals),
        "cases": list(cases),
        "settings": dict(settings),
    }


def _with_seeds(chosen: Suite, figure: Figure) -> Figure:
    """Rounds that are seeds each, named so."""
    if chosen.seeding != "rounds":
        return figure
    rounds = tuple(SeedRounds(number, 1) for number in range(len(figure.own.rounds)))
    return replace(figure, seeds=rounds)


def _elsewhere(chosen: Suite) -> Sequence[str]:
    """The packages of a suite's rivals in another environment."""
    if chosen.packages is None:
        return ELSEWHERE
    named = (name for packages in chosen.packages.values() for name in _known_to_python(packages))
    return tuple(dict.fromkeys(named))


def _known_to_python(packages: Mapping[str, str | None]) -> list[str]:
    """Those whose version is asked of the environment that has them."""
    return [name for name, version in packages.items() if version is None]


def _versions(
    chosen: Suite, device: Device, figures: Sequence[Figure], there: Mapping[str, str] | None
) -> dict[str, str | None]:
    """Versions that a measurement depends on; `there` has those of the rivals' environment.

    Of a suite that says what its rivals are made of, those of the rivals that were measured.
    """
    packages = chosen.packages
    if packages is None:
        about = versions(device)
        there = there or {}
        return about | {f"rivals' {name}": version for name, version in there.items()}
    ran = dict.fromkeys(rival.name for figure in figures for rival in figure.rivals)
    used = {name: known for rival in ran for name, known in packages.get(rival, {}).items()}
    asked = _known_to_python(used)
    about = versions(device, dict.fromkeys(["numpy", *(asked if there is None else ())]))
    about |= {name: known for name, known in used.items() if known is not None}
    if there is not None and ran:
        # One that ran and has no version there is named all the same, as one here is.
        about |= {f"rivals' {name}": there.get(name) for name in ("python", "numpy", *asked)}
    return about


def versions(device: Device, libraries: Iterable[str] = LIBRARIES) -> dict[str, str | None]:
    """Our version, Python's, those of libraries, and of CUDA."""
    build: Any = build_info()
    checks = " with checks" if build["debug_assertions"] else ""
    versions_by_name: dict[str, str | None] = {
        "assay": f"{build['version']}{checks}",
        "python": platform.python_version(),
    }
    for name in libraries:
        try:
            versions_by_name[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions_by_name[name] = None
    if device.capabilities.is_gpu:
        versions_by_name |= cuda.versions()
    return versions_by_name


def _commit() -> str | None:
    """The commit of the checkout that this file is tracked in, else `ASSAY_COMMIT`."""
    here = Path(__file__).resolve()

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(here.parent), *words], capture_output=True, text=True, timeout=10
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    if git("ls-files", "--error-unmatch", here.name) is None:
        return os.environ.get("ASSAY_COMMIT")
    return git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")

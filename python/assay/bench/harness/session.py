"""Runs a suite: describes the machine, measures every case, returns the result."""

from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from assay._native import build_info
from assay.bench.harness import session
from assay.bench.harness.background_load import BackgroundLoad
from assay.bench.harness.case import Case, Settings, Size, Suite
from assay.bench.harness.result import Figure, Result
from assay.bench.harness.runner import FULL, FULL_GPU, QUICK, measure
from assay.errors import InputError, unknown_name
from assay.runtime import cuda
from assay.runtime.fingerprint import machine
from assay.runtime.hardware import Device

_MULTIPLES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_NUMBER: Final = re.compile(r"([0-9]{1,12})([kmg]?)(?:i?b)?", re.IGNORECASE)
_LARGEST: Final = 1 << 36


def sizes(suite: Suite, text: str | None) -> tuple[Size, ...]:
    """Sizes such as `64k,1m` or `2048x4096`: K, M and G are 1024 to the power of 1, 2 and 3."""
    if text is None:
        return ()
    if not suite.axes:
        raise InputError(f"the suite {suite.name} has no sizes to choose", "leave out --sizes")
    return tuple(dict.fromkeys(_size(suite, word.strip()) for word in text.split(",")))


def _size(suite: Suite, word: str) -> Size:
    numbers = []
    for part in word.lower().split("x"):
        match = _NUMBER.fullmatch(part)
        numbers.append(int(match[1]) * _MULTIPLES[match[2]] if match else 0)
    if len(numbers) not in suite.axes or not all(0 < number <= _LARGEST for number in numbers):
        raise InputError(
            f"the suite {suite.name} takes sizes as {suite.size_meaning}, got {word!r}",
            "separate several with commas; K, M and G multiply by 1024",
        )
    return tuple(numbers)


def dtypes(suite: Suite, text: str | None) -> tuple[str, ...]:
    """Names of element types and block formats of the suite."""
    if text is None:
        return ()
    if not suite.dtypes:
        raise InputError(f"the suite {suite.name} has no dtypes to choose", "leave out --dtypes")
    names = tuple(dict.fromkeys(word.strip().lower() for word in text.split(",")))
    for name in names:
        if name not in suite.dtypes:
            raise unknown_name(f"dtype of the suite {suite.name}", name, suite.dtypes)
    return names


def model(suite: Suite, name: str | None) -> str | None:
    """The model of a suite that takes one."""
    if name is not None and not suite.has_model:
        raise InputError(f"the suite {suite.name} has no model to choose", "leave out --model")
    return name


def rivals(suite: Suite, names: Sequence[str]) -> tuple[str, ...]:
    """Programs to compare with, out of those that the suite knows."""
    if names and not suite.rivals:
        raise InputError(f"the suite {suite.name} has no rivals to choose", "leave out --rival")
    for name in names:
        if name not in suite.rivals:
            raise unknown_name(f"rival of the suite {suite.name}", name, suite.rivals)
    return tuple(names)


def cases(offered: Sequence[Case], parts: Sequence[str]) -> list[Case]:
    """The cases whose name contains one of these parts; all where none is given."""
    names = [case.name for case in offered]
    for part in parts:
        if not any(part in name for name in names):
            raise unknown_name("case", part, names)
    return [case for case in offered if not parts or any(part in case.name for part in parts)]


LIBRARIES: Final = ("numpy", "torch", "llama-cpp-python", "transformers", "optuna")
"""Rivals whose versions a result records."""


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
        sizes=session.sizes(chosen, sizes),
        dtypes=session.dtypes(chosen, dtypes),
        model=session.model(chosen, model),
        rivals=session.rivals(chosen, rivals),
        cases=tuple(cases),
    )


def run(
    chosen: Suite,
    options: Settings,
    progress: Callable[[str], None] | None = None,
    save: Path | None = None,
) -> Result:
    """Measure every case of a suite; `progress` receives the name of each.

    `save` is written after each case, so that a run that is ended early keeps what it measured.
    """
    report = progress or (lambda _: None)
    facts = machine(options.device)
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    load_before, start, background = os.getloadavg(), time.perf_counter(), BackgroundLoad()
    about, commit = versions(options.device), _commit()
    plan = QUICK if options.quick else FULL_GPU if options.device.capabilities.is_gpu else FULL
    cases = session.cases(chosen.cases(options), options.cases)
    figures: list[Figure] = []

    def so_far() -> Result:
        return Result(
            suite=chosen.name,
            quick=options.quick,
            machine=facts.to_data(),
            versions=about,
            commit=commit,
            started=started,
            seconds=time.perf_counter() - start,
            load_average=(load_before, os.getloadavg()),
            other_cores=background.cores(),
            figures=tuple(figures),
        )

    for number, case in enumerate(cases, 1):
        report(f"[{number}/{len(cases)}] {case.name}")
        figures.append(measure(case, plan, facts.cache_bytes))
        if save is not None:
            so_far().save(save)
    result = so_far()
    if chosen.finish is not None:
        report(chosen.finish(result, options.device))
    return result


def versions(device: Device) -> dict[str, str | None]:
    """Versions that a measurement depends on: ours, those of the rivals, and of CUDA."""
    build: Any = build_info()
    checks = " with checks" if build["debug_assertions"] else ""
    versions_by_name: dict[str, str | None] = {
        "assay": f"{build['version']}{checks}",
        "python": platform.python_version(),
    }
    for name in LIBRARIES:
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

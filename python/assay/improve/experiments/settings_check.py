"""The settings that were asked for are the settings that were measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from assay.improve.experiments.result import Arm, Block, GateResult
from assay.load.workloads.measurement import Setting

GATE = "settings read back"


def mismatches(
    asked: Mapping[str, Setting], reported: Mapping[str, Setting]
) -> dict[str, tuple[Setting, Setting]]:
    """Knobs whose value is not the one asked for: name to asked, found."""
    return {
        name: (value, reported.get(name))
        for name, value in asked.items()
        if name not in reported or not same(value, reported[name])
    }


def same(asked: Setting, reported: Setting) -> bool:
    """Whether two values of a knob are the same setting.

    >>> same(1, 1.0), same(True, 1), same("on", "off"), same(None, 0)
    (True, False, False, False)
    """
    if isinstance(asked, bool) or isinstance(reported, bool):
        return asked is reported
    if isinstance(asked, int | float) and isinstance(reported, int | float):
        return abs(asked - reported) <= 1e-9 * max(abs(asked), abs(reported))
    return asked == reported


def settings_gate(
    blocks: Iterable[Block], asked: Mapping[Arm, Mapping[str, Setting]]
) -> GateResult:
    """Compare every block with what was asked of its arm.

    Knobs that nobody asked for must not change within an arm. Where they differ between the arms,
    the engine made them follow: the statement names them, because they are part of what was tested.
    """
    first: dict[Arm, Block] = {}
    count = 0
    for block in blocks:
        count += 1
        reference = first.setdefault(block.arm, block)
        wrong = mismatches({**reference.settings, **asked[block.arm]}, block.settings)
        if wrong:
            name, (wanted, reported) = next(iter(wrong.items()))
            return GateResult(
                GATE,
                False,
                f"block {block.index} ({block.arm}): {name} should be {wanted!r}, "
                f"the engine reports {reported!r}",
                {"block": block.index, "knob": name, "asked": wanted, "found": reported},
            )
    followed: dict[str, tuple[Setting, Setting]] = {}
    if len(first) == 2:
        both = mismatches(first["control"].settings, first["treatment"].settings)
        followed = {name: pair for name, pair in both.items() if name not in asked["treatment"]}
    statement = f"all {count} blocks ran with the settings asked for"
    if followed:
        names = ", ".join(f"{name} {old!r} to {new!r}" for name, (old, new) in followed.items())
        statement += f"; the engine changed with them: {names}"
    return GateResult(GATE, True, statement, {"blocks": count, "followed": list(followed)})

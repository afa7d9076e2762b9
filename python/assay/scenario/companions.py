"""Companions of an accelerator: the price, node, network and manufacturing that belong to it.

An accelerator's entry names them under `companions`. When a scenario takes another accelerator,
its companions replace those of the old one. Where the catalog knows none, the old accelerator's
price, rent and die are left out, which makes them missing inputs; other values are kept with a note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from assay.catalog.sourced_value import SourcedValue
from assay.model.language.quantity import parse_quantity
from assay.scenario.includes import PACKS, Include

ACCELERATORS = "accelerators"
JUDGED = ("prices", "nodes", "rents", "manufacturing")
"""Groups whose entries belong to one accelerator or another; packs do where they name theirs."""
PRICED = (
    "econ.gpu.price", "econ.rent.price", "carbon.gpu.embodied", "manufacturing.die.area",
    "manufacturing.die.transistors", "manufacturing.package.dies",
)  # fmt: skip
"""Values of one accelerator, never kept for another."""
LINE_RATE = "interconnect.nic.line_rate"
RACK_LIMIT = "cluster.rack.power_limit"

Find = Callable[[str], Include]


class Followed(NamedTuple):
    """Includes after an accelerator brought its companions, and notes on what that changed.

    `stale` are values of the scenario's own that were stated for the accelerator it had before.
    """

    includes: tuple[Include, ...]
    notes: tuple[str, ...] = ()
    stale: frozenset[str] = frozenset()


def accelerator_of(includes: Iterable[Include]) -> Include | None:
    """The accelerator among includes; of several the last holds."""
    accelerators = [part for part in includes if part.group == ACCELERATORS]
    return accelerators[-1] if accelerators else None


def follow(
    present: Sequence[Include], added: Sequence[Include], own: Iterable[str], find: Find
) -> Followed:
    """Add includes to a scenario's; a new accelerator brings its companions along.

    Each include replaces the present ones of its group. What `added` names is never replaced.
    """
    groups = {part.group for part in added}
    kept = [part for part in present if part.group not in groups]
    new, old = accelerator_of(added), accelerator_of(present)
    if new is None or old is None or old.path == new.path:
        return Followed((*kept, *added))
    brought: dict[str, str] = {}
    left: list[Include] = []
    companions: list[Include] = []
    notes: list[str] = []
    for part in kept:
        name = _companions(new).get(part.group)
        if name is not None and f"{part.group}/{name}" != part.path:
            companions.append(find(f"{part.group}/{name}"))
            brought[part.path] = companions[-1].path
        elif name is None and (stale := _priced(part, new)):
            notes.append(f"{', '.join(stale)}: {part.path} does not fit {new.path} and is left out")
            left.append(replace(part, values=_without(part.values, stale)))
        else:
            left.append(part)
    if brought:
        replaced = ", ".join(f"{after} replaces {before}" for before, after in brought.items())
        notes.append(f"{replaced}: with {new.path}")
    given = {name for part in (*added, *companions) for name in part.values}
    stale_own = frozenset(name for name in own if name in PRICED and name not in given)
    notes += [
        f"{name}: the scenario states it for {old.path}, so it is left out"
        for name in sorted(stale_own)
    ]
    # What is named itself holds over what an accelerator brings.
    return Followed((*left, *companions, *added), tuple(notes), stale_own)


def misfits(includes: Sequence[Include]) -> list[str]:
    """One note for each included entry that belongs to another accelerator."""
    accelerator = accelerator_of(includes)
    if accelerator is None:
        return []
    notes = []
    for part in includes:
        is_judged = part.group in JUDGED or (part.group == PACKS and "accelerators" in part.facts)
        if is_judged and not _fits(part, accelerator):
            notes.append(f"{part.path} is used although it is not known to fit {accelerator.path}")
    return notes


def slower_network(
    includes: Sequence[Include], values: Mapping[str, SourcedValue]
) -> tuple[SourcedValue, str] | None:
    """The line rate of a network that is slower than the adapters, and a note on it."""
    for part in includes:
        stated = part.facts.get("line_rate")
        if stated is None or LINE_RATE not in values:
            continue
        adapter = values[LINE_RATE]
        if parse_quantity(str(stated)).value < parse_quantity(adapter.text).value:
            slower = replace(adapter, text=str(stated), source=f"line rate of {part.path}")
            return slower, (
                f"{LINE_RATE}: adapters of {adapter.text} run at the {stated} of {part.path}"
            )
    return None


def rack_supply(includes: Sequence[Include]) -> SourcedValue | None:
    """The supply of a rack that a node brings along, which no site's usual rack replaces."""
    nodes = [part for part in includes if part.group == "nodes"]
    return nodes[-1].values.get(RACK_LIMIT) if nodes else None


def _companions(accelerator: Include) -> Mapping[str, str]:
    return dict(accelerator.facts.get("companions", {}))


def _fits(part: Include, accelerator: Include) -> bool:
    named = part.facts.get("accelerators")
    if named is not None:
        return accelerator.path.rpartition("/")[2] in named
    return f"{part.group}/{_companions(accelerator).get(part.group)}" == part.path


def _priced(part: Include, accelerator: Include) -> list[str]:
    """Values of an entry that hold for another accelerator only."""
    if _fits(part, accelerator):
        return []
    return [name for name in PRICED if name in part.values]


def _without(values: Mapping[str, SourcedValue], names: Sequence[str]) -> dict[str, SourcedValue]:
    return {name: value for name, value in values.items() if name not in names}

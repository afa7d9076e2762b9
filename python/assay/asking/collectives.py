"""Answers about a collective by itself: its time, algorithm bandwidth and bus bandwidth."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from assay.asking.amounts import rounded
from assay.asking.case import Case, number
from assay.asking.cases import with_node_as_gpus
from assay.asking.collective_patterns import OPERATION, OPERATIONS
from assay.asking.commands import Result, of_resolution
from assay.asking.outcome import Outcome
from assay.asking.reading import Reading
from assay.catalog import constants, entries
from assay.errors import InputError
from assay.model.resolving.resolution import Resolution
from assay.stack.collectives.constants import FITTED_NODES, LEAST_ACROSS

_OPERATION: Final = re.compile(OPERATION)
_NODE_RANKS: Final = "interconnect.node_ranks"
_LINKS: Final = re.compile(
    r"\bnvlinks?\b|\bnvswitch\b|\b(?:with)?in (?:a|one|the same) (?:node|server|box|machine)\b"
)
_ADAPTERS: Final = re.compile(
    r"\binfiniband\b|\bib\b|\broce\b|\befa\b|\brdma\b|\bndr\b|\bhdr\b|\b(?:between|across|over) (?:the )?nodes\b"
)
_PER_NODE: Final = re.compile(r"\b(?:per|each|in each|a) (?:node|server|machine|box)\b|\beach\b")
_ALGORITHM: Final = re.compile(r"\balg(?:orithm)?(?:ic)?[ -]?(?:bw|bandwidth)\b")
_LEAST_SHOWN: Final = 1.0
"""Bus bandwidth in GB/s from which it is said beside a time."""
_THOUSAND: Final = 1000.0


@dataclass(frozen=True)
class _Shape:
    """The ranks of a collective, and how many each node has."""

    ranks: int
    per_node: int
    is_stated: bool
    """Whether the question says how many ranks a node has."""

    @property
    def nodes(self) -> int:
        """Nodes with ranks."""
        return self.ranks // self.per_node


def figure(name: str) -> Callable[[Reading], Outcome]:
    """The answer that is a figure of the operation that the question names: `time`, or a bandwidth of nccl-tests."""
    return lambda reading: _answer(reading, name)


def bandwidth(reading: Reading) -> Outcome:
    """Bus bandwidth, or algorithm bandwidth where it is asked for."""
    is_algorithm = _ALGORITHM.search(reading.rest) is not None
    return _answer(reading, "algorithm_bandwidth" if is_algorithm else "bus_bandwidth")


def _answer(reading: Reading, figure: str) -> Outcome:
    reading = with_node_as_gpus(reading)
    words = _operation(reading)
    operation, size = OPERATIONS[words], _size(reading)
    accelerator = _accelerator(reading)
    shape = _shape(reading, accelerator)
    _check_medium(reading, shape)
    _check_size(shape, size)
    case = Case("", (f"accelerators/{accelerator}",)).given(
        collectives__size=f"{number(size)} byte", collectives__ranks=shape.ranks
    )
    if shape.is_stated:
        case = case.given(interconnect__node_ranks=shape.per_node)
    results: dict[str, Result] = {}
    resolutions: dict[str, Resolution] = {}
    for name in dict.fromkeys((figure, "time", "algorithm_bandwidth", "bus_bandwidth")):
        command = case.resolve(f"collectives.{operation}.{name}", intervals=name == figure)
        resolutions[name] = command.resolution()
        results[name] = of_resolution(command, resolutions[name])
    result = results[figure]
    if result.value is None:
        raise InputError(f"{result.target} needs more inputs: {', '.join(result.missing[:4])}")
    times, unit = _unit_of(results["time"].value or 0.0)
    texts = {"time": f"{rounded(times * (results['time'].value or 0.0), 3)} {unit}"}
    if figure != "time" or (results["bus_bandwidth"].value or 0.0) >= _LEAST_SHOWN:
        # Of a message of a few bytes only the time says something.
        for name in ("bus_bandwidth", "algorithm_bandwidth"):
            value = results[name].value or 0.0
            texts[name] = f"{rounded(value, 3)} GB/s {name.replace('_', ' ')}"
    first, *others = (texts[name] for name in dict.fromkeys((figure, *texts)))
    article = "an" if words.startswith("a") else "a"
    what = f"{article} {words} of {_bytes_text(size)} on {shape.ranks} x {accelerator}"
    return Outcome(
        "; ".join(filter(None, (f"{first}: {what}", ", ".join(others)))), result, (result.command,),
        _assumed(reading, shape, accelerator, resolutions[figure]), _notes(resolutions[figure], shape),
        written=(times, unit) if figure == "time" else None,
    )  # fmt: skip


def _unit_of(microseconds: float) -> tuple[float, str]:
    """The unit that a time is written in, and how many of it a microsecond is."""
    if microseconds < _THOUSAND:
        return 1.0, "us"
    return (1e-3, "ms") if microseconds < _THOUSAND**2 else (1e-6, "s")


def _operation(reading: Reading) -> str:
    found: list[str] = list(dict.fromkeys(_OPERATION.findall(reading.rest)))
    if len(found) != 1:
        raise InputError(f"more than one collective: {', '.join(found)}", "ask for one at a time")
    return found[0]


def _size(reading: Reading) -> float:
    size = reading.get("message")
    if size is None:
        raise InputError(
            "a collective of how many bytes?", 'say so: "all-reduce of 1 GB on 8 H100"'
        )
    if size <= 0:
        raise InputError("a message of no bytes", "say how many bytes")
    return float(size)


def _accelerator(reading: Reading) -> str:
    """The accelerator, where collectives were measured on its links."""
    accelerator = reading.get("accelerator")
    if accelerator is None:
        raise InputError("a collective on which GPUs?", 'say so: "all-reduce of 1 GB on 8 H100"')
    system = str(entries.read("accelerators", accelerator).facts.get("calibration", ""))
    known = [name for name in constants.calibrated() if _is_measured(name)]
    # The A100 with 40 GB has the board of the one with 80 GB.
    if system not in known or not str(accelerator).startswith(system):
        raise InputError(
            f"no collectives were measured on {accelerator}", f"measured: {', '.join(known)}"
        )
    return str(accelerator)


def _is_measured(system: str) -> bool:
    """Whether constants of collectives were fitted on an accelerator's own tables."""
    return "collectives" not in constants.find(system).borrowed


def _shape(reading: Reading, accelerator: str) -> _Shape:
    """Ranks and nodes: GPUs before nodes are all of them, GPUs after nodes those of each."""
    whole = round(entries.read("accelerators", accelerator).given.get(_NODE_RANKS, 1.0))
    gpus, nodes = reading.get("gpus"), reading.get("nodes")
    if gpus is None and nodes is None:
        raise InputError(
            "a collective over how many GPUs?", 'say so: "all-reduce of 1 GB on 8 H100"'
        )
    if nodes is None:
        ranks, per_node = int(gpus), min(int(gpus), whole)
    elif gpus is None:
        ranks, per_node = int(nodes) * whole, whole
    else:
        slots = [part.slot for part in reading.mentions]
        each = (
            "per_replica" in slots
            or _PER_NODE.search(reading.rest)
            or slots.index("nodes") < slots.index("gpus")
        )
        ranks = int(gpus) * (int(nodes) if each else 1)
        per_node = ranks // int(nodes)
        if per_node * int(nodes) != ranks:
            raise InputError(
                f"{ranks} GPUs do not divide into {nodes} nodes", "say GPUs of each node"
            )
    if ranks < 2:
        raise InputError("one rank has nothing to send", "ask for two GPUs or more")
    if per_node > whole:
        raise InputError(
            f"{per_node} GPUs in a node: one of {accelerator} has {whole}", "say how many nodes"
        )
    if ranks % per_node:
        raise InputError(
            f"{ranks} GPUs fill no nodes of {per_node}",
            f'say how many nodes: "{ranks} GPUs in 2 nodes"',
        )
    return _Shape(ranks, per_node, nodes is not None and per_node != whole)


def _check_size(shape: _Shape, size: float) -> None:
    """Refuse ranks and messages of which no published run tells anything."""
    if shape.nodes > FITTED_NODES:
        raise InputError(
            f"{shape.nodes} nodes: published runs of collectives have at most {FITTED_NODES}",
            "ask for fewer GPUs",
        )
    if shape.nodes > 2 and size < LEAST_ACROSS.value:
        raise InputError(
            f"{_bytes_text(size)} on {shape.nodes} nodes: published runs on more than two nodes "
            f"begin at {_bytes_text(LEAST_ACROSS.value)}",
            "ask for a larger message, or for two nodes",
        )


def _check_medium(reading: Reading, shape: _Shape) -> None:
    """Refuse what cannot be: links between nodes, or adapters inside one."""
    links, adapters = _LINKS.search(reading.rest), _ADAPTERS.search(reading.rest)
    if links and shape.nodes > 1:
        raise InputError(
            f'"{links[0]}": {shape.ranks} GPUs are {shape.nodes} nodes of {shape.per_node}',
            "leave it out, or ask for the GPUs of one node",
        )
    if adapters and shape.nodes == 1:
        raise InputError(
            f'"{adapters[0]}": {shape.ranks} GPUs of one node talk over their links',
            f'say how many nodes: "{shape.ranks} GPUs in 2 nodes"',
        )


def _assumed(
    reading: Reading, shape: _Shape, accelerator: str, resolution: Resolution
) -> tuple[str, ...]:
    """What the question leaves open."""
    values = {step.variable.name: step for step in resolution.trace}

    def text(name: str) -> str:
        step = values.get(name)
        return "" if step is None else step.variable.figure(step.value).text

    mention = next(
        part for part in reading.mentions if part.slot == "accelerator" or part.slot == "node"
    )
    lines = [f'"{mention.words}" is {accelerator}'] if mention.is_short else []
    if shape.nodes == 1:
        lines += [f"one node, links of {text('gpu.link.bandwidth')} one way"]
    else:
        adapters, rate = text("interconnect.nic.count"), text("interconnect.nic.line_rate")
        lines += [
            f"{shape.nodes} nodes of {shape.per_node} GPUs",
            f"{adapters.partition(' ')[0]} adapter of {rate} for each GPU, with RDMA (InfiniBand, RoCE or EFA)",
            f"a network with oversubscription {text('interconnect.oversubscription')}",
        ]
    return (*lines, "NCCL, numbers of 16 or 32 bits, nothing else on the network")


def _notes(resolution: Resolution, shape: _Shape) -> tuple[str, ...]:
    """That the message or the ranks are beyond those of the fit."""
    if not any(verdict.status == "false" for verdict in resolution.validity):
        return ()
    if shape.nodes == 1:
        return (
            "beyond what the constants were fitted on: messages of 512 bytes to 1 GiB, up to 8 ranks of a node",
        )
    return ("beyond the published runs: messages of up to 16 GiB between nodes",)


def _bytes_text(size: float) -> str:
    """Bytes as people write them, in powers of two where they are such."""
    for unit, scale in (("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10)):
        if size >= scale and (size / scale).is_integer() and not (size / 1e3).is_integer():
            return f"{size / scale:g} {unit}"
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:g} {unit}"
    return f"{size:g} bytes"

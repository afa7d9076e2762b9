"""Layouts that a question leaves open: of those that hold a model, the one of the fewest GPUs in total."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from assay.asking.case import GPUS_OF_A_NODE, Case
from assay.asking.cases import gpus_of
from assay.asking.reading import Reading
from assay.asking.splitting import FEWEST, GROUPS, is_held, laid_out, memory
from assay.plurals import count


def without_copies(case: Case) -> Case | None:
    """The case with data-parallel attention, where its tensor ranks hold copies of the KV cache.

    Engines divide the requests of mixtures of experts over the ranks then (DeepSeek-V3, sec. 3.4); of
    dense models they do not. None: there is nothing to gain.
    """
    copies, experts = case.values("serving.kv.copies", "architecture.experts")
    if not experts or copies is None or copies <= 1:
        return None
    replicas = round(copies)
    note = f"data-parallel attention, {replicas} replicas: no GPU copies another's KV cache"
    case = case.given(serving__attention_replicas=replicas)
    return replace(case, assumed=(*case.assumed, note))


def dividing_requests(case: Case) -> Case:
    """The case without copies of the KV cache, where it holds more requests so."""
    divided = without_copies(case)
    if divided is None or not _is_possible(divided):
        return case
    return divided if requests_held(divided) > requests_held(case) else case


def requests_held(case: Case) -> int:
    """Whole requests that the KV cache holds: each is in that of one attention replica."""
    held, replicas = case.values("serving.kv.max_concurrency", "serving.attention_replicas")
    return math.floor((held or 0) / (replicas or 1)) * round(replicas or 1)


def fewest_for_requests(case: Case, requests: int, reading: Reading) -> tuple[Case, int]:
    """The case whose instances hold so many requests on the fewest GPUs, and what one holds.

    `case` has the smallest layout that holds the model, or the one of the question.
    """
    best, held, fewest = case, max(requests_held(case), 1), math.inf
    layouts = [group for group in GROUPS if group >= case.layout]
    for layout in [case.layout] if "tensor" in reading.slots else layouts:
        each = layout[0] * layout[1]
        if each >= fewest:
            break
        copied = _wider(case, layout)
        for candidate in (copied, without_copies(copied)):
            if candidate is None or not _is_possible(candidate):
                continue
            own = requests_held(candidate)
            gpus = math.ceil(requests / own) * each if own else math.inf
            if gpus < fewest:
                best, held, fewest = candidate, own, gpus
    return best, held


def within_a_node(case: Case, reading: Reading) -> Iterator[Case]:
    """The case in every layout that a replica may have: its own, and wider ones up to a node.

    One whose GPUs the question states has that layout only.
    """
    yield case
    if gpus_of(reading) is not None or "tensor" in reading.slots:
        return
    for layout in GROUPS:
        if case.layout[0] < layout[0] <= GPUS_OF_A_NODE and layout[1] == case.layout[1]:
            wider = _wider(case, layout)
            if _is_possible(wider):
                gpus = count(layout[0] * layout[1], "GPU")
                note = f"replicas of {gpus}, of which it takes the fewest"
                yield replace(wider, assumed=(*wider.assumed, note))


def _wider(case: Case, layout: tuple[int, int]) -> Case:
    """The case in another layout, which is not the smallest that holds the model."""
    if layout == case.layout:
        return case
    said = tuple(line for line in case.assumed if FEWEST not in line)
    return replace(laid_out(case, layout), assumed=said)


def _is_possible(case: Case) -> bool:
    """Whether the weights and a request fit, and tensor ranks divide the heads."""
    sizes = memory(case)
    return is_held(sizes) and sizes["architecture.heads"] % case.layout[0] == 0

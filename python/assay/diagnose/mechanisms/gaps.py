"""The device waits: gaps between kernels, copies, and what does not overlap."""

from __future__ import annotations

from assay.diagnose.mechanisms.classes import COLLECTIVE
from assay.diagnose.mechanisms.findings import Finding, MechanismClaim
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import MechanismView
from assay.lazy_import import pl


def _find_graph_gaps(view: MechanismView) -> Finding:
    """Launch gaps inside a replay."""
    inside = view.of_terms("launch_gaps") & view.in_replay
    return view.gaps_claim(inside, "between nodes of one replay")


GRAPH_GAPS = Mechanism(
    "CUDA-graph node gaps",
    "each node of a graph waits for the last block of the one before it to drain",
    "gaps between kernels of one graph replay",
    "programmatic dependent launch, fused kernels, or a megakernel: fewer nodes",
    _find_graph_gaps,
)


def _find_stream_gaps(view: MechanismView) -> Finding:
    """Launch gaps before kernels whose launch had returned, in no replay."""
    if view.is_launch_bound:
        return None
    queued = view.of_terms("launch_gaps") & ~view.in_replay & ~view.is_late
    return view.gaps_claim(queued, "before kernels queued ahead")


STREAM_GAPS = Mechanism(
    "stream dispatch gaps",
    "a kernel that was queued ahead begins only after the one before it has drained",
    "gaps before kernels whose launch call had returned",
    "take these kernels into the CUDA graph, or programmatic dependent launch",
    _find_stream_gaps,
)


def _find_copies(view: MechanismView) -> Finding:
    """Copies that ran alone."""
    kind = view.intervals["kind"].cast(pl.String)
    alone = (
        view.of_terms("lost_overlap") & kind.is_in(["memcpy", "memset"]).fill_null(False).to_numpy()
    )
    if not alone.any():
        return None
    shown = view.intervals.filter(alone & view.in_shown_step)
    return MechanismClaim(alone, (f"{shown['row'].n_unique():,} copies ran while no kernel did",))


COPIES = Mechanism(
    "copy on the critical path",
    "a copy between host and device, or a fill, runs while no kernel does and the next one waits",
    "copies and fills that no kernel overlaps",
    "copy on a stream of its own from pinned memory, a step ahead, or keep the data on the device",
    _find_copies,
)


def _find_overlap(view: MechanismView) -> Finding:
    """Kernels in lost overlap, collectives left out."""
    kind = view.intervals["kind"].cast(pl.String)
    alone = view.of_terms("lost_overlap") & (kind == "kernel").fill_null(False).to_numpy()
    alone &= ~view.with_operation(COLLECTIVE)
    if not alone.any():
        return None
    return MechanismClaim(alone, ("kernels of a second stream ran while the main stream idled",))


OVERLAP = Mechanism(
    "missing overlap",
    "work of another stream that was to hide behind the main one runs by itself",
    "kernels that the prediction has on another stream, and that nothing overlaps",
    "launch the second stream earlier, give it fewer SMs, or drop the dependency between them",
    _find_overlap,
)


def _find_collective_wait(view: MechanismView) -> Finding:
    """Collectives above their floor, or alone where they were to overlap."""
    collective = view.with_operation(COLLECTIVE)
    chosen = collective & view.of_terms("kernel_inefficiency", "lost_overlap")
    if not chosen.any():
        return None
    ranks = view.residuals.trace.events["rank"].drop_nulls().n_unique()
    alone = "" if ranks > 1 else "; a trace of one rank does not say whom it waits for"
    return MechanismClaim(
        chosen, (f"collectives above the time of their bytes on the links{alone}",)
    )


COLLECTIVE_WAIT = Mechanism(
    "collective wait",
    "a collective begins with the first rank and moves data when the last one arrives",
    "kernels of collectives, and the floor from their bytes and links",
    "balance the ranks, overlap the collective with compute, or use a one-shot all-reduce for small "
    "messages",
    _find_collective_wait,
)

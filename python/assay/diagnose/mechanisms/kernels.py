"""Kernels above the time of their bytes and FLOPs."""

from __future__ import annotations

import dataclasses

from assay.diagnose.mechanisms.attention_time import share_of_reads
from assay.diagnose.mechanisms.classes import (
    ATTENTION,
    EXPERTS,
    GEMMS,
    HEAVY,
    SAMPLING,
    SMALL_KERNEL_NS,
)
from assay.diagnose.mechanisms.findings import Finding
from assay.diagnose.mechanisms.mechanism import Mechanism
from assay.diagnose.mechanisms.view import MechanismView


def _find_small_gemm(view: MechanismView) -> Finding:
    """Time of linear layers above their floor, those that are bound by compute left out."""
    gemms = view.with_operation(GEMMS) & ~view.with_operation(EXPERTS)
    return view.above_floor(gemms & ~view.bound_by("compute"), "GEMMs")


SMALL_GEMM = Mechanism(
    "small-batch GEMM inefficiency",
    "with few rows a GEMM is a stream of weights, and tiles, split-K and tails keep it below the "
    "bandwidth that memory can deliver",
    "kernels of linear layers, and the floor of each from its bytes and FLOPs",
    "GEMV or small-M kernels tuned for this batch, a larger batch for the same weights, or fewer "
    "bytes: fp8 or 4-bit weights",
    _find_small_gemm,
)


def _find_compute_gemm(view: MechanismView) -> Finding:
    """Time above the floor of linear layers that the prediction has as bound by compute."""
    gemms = view.with_operation(GEMMS) & ~view.with_operation(EXPERTS)
    return view.above_floor(gemms & view.bound_by("compute"), "compute-bound GEMMs")


COMPUTE_GEMM = Mechanism(
    "compute-bound GEMM inefficiency",
    "with many rows a GEMM is bound by tensor cores, and tiles that do not fill the last wave, "
    "epilogues and the clock under load keep it below their peak",
    "kernels of linear layers whose floor is the time of their FLOPs",
    "tile shapes and stream-K for this batch, wgmma with deeper TMA pipelines, or fp8 GEMMs",
    _find_compute_gemm,
)


def _find_grouped_gemm(view: MechanismView) -> Finding:
    """Time of the experts' GEMMs above their floor."""
    return view.above_floor(view.with_operation(EXPERTS), "grouped GEMMs")


GROUPED_GEMM = Mechanism(
    "grouped GEMM inefficiency",
    "each chosen expert gets few rows, so its tiles are mostly padding and its weights arrive "
    "below the bandwidth of memory",
    "kernels of the experts, and the floor from the weights that the batch touches",
    "grouped GEMM kernels with small tiles, tuned for this number of tokens an expert; fp8 experts",
    _find_grouped_gemm,
)


def _find_kv_reads(view: MechanismView) -> Finding:
    """The part of attention above its floor that grows with the KV cache."""
    claim = view.above_floor(view.with_operation(ATTENTION), "attention kernels")
    share = share_of_reads(view)
    if claim is None or not share:
        return None
    return dataclasses.replace(
        claim,
        share=share,
        statements=(
            *claim.statements,
            f"{100 * share:.0f} % of the time above it follows the bytes of the KV cache",
        ),
    )


KV_READS = Mechanism(
    "KV cache reads",
    "attention reads keys and values in pages, below the bandwidth that memory can deliver",
    "attention kernels, their floor from the bytes of the KV cache at this context, and the share "
    "of the ceiling that the GEMMs of the step reach",
    "fewer bytes (fp8 KV cache, shorter or sliding context), or larger KV blocks",
    _find_kv_reads,
)


def _find_attention_latency(view: MechanismView) -> Finding:
    """The part of attention above its floor that does not grow with the KV cache."""
    claim = view.above_floor(view.with_operation(ATTENTION), "attention kernels")
    share = 1.0 - share_of_reads(view)
    if claim is None or share <= 0.0:
        return None
    return dataclasses.replace(claim, share=share)


ATTENTION_LATENCY = Mechanism(
    "attention kernel latency",
    "launch, prologue, split scheduling and combine of attention take the same time at any context",
    "attention kernels beyond the time to read the KV cache",
    "fewer kernels for attention: a fused combine, no scheduler kernel, another number of splits, "
    "RoPE and cache write in the same kernel",
    _find_attention_latency,
)


def _find_small_kernels(view: MechanismView) -> Finding:
    """Time above the floor of short kernels with no mechanism of their own."""
    short = (view.intervals["event_ns"].fill_null(0) < SMALL_KERNEL_NS).to_numpy()
    light = view.is_mapped & ~view.with_operation(HEAVY)
    return view.above_floor(light & short, f"kernels below {SMALL_KERNEL_NS / 1e3:.0f} us")


SMALL_KERNELS = Mechanism(
    "small kernels",
    "norms, RoPE, cache writes and activations move so few bytes that starting and draining a "
    "kernel is most of its time",
    "kernels shorter than 5 us outside GEMMs, attention, experts, sampling and collectives",
    "fuse them into their neighbors: norm and RoPE into the projections, activation into the GEMM",
    _find_small_kernels,
)


def _find_elementwise(view: MechanismView) -> Finding:
    """Time above the floor of longer kernels with no mechanism of their own."""
    long = (view.intervals["event_ns"].fill_null(0) >= SMALL_KERNEL_NS).to_numpy()
    light = view.is_mapped & ~view.with_operation(HEAVY)
    return view.above_floor(light & long, f"kernels of {SMALL_KERNEL_NS / 1e3:.0f} us or more")


ELEMENTWISE = Mechanism(
    "element-wise kernels",
    "norms, activations and routing read and write memory several times where one pass would do",
    "kernels of 5 us or more outside GEMMs, attention, experts, sampling and collectives",
    "fuse them, or vectorize their loads",
    _find_elementwise,
)


def _find_sampling(view: MechanismView) -> Finding:
    """Kernels of sampling above their floor; their copies count as copies."""
    return view.above_floor(view.with_operation(SAMPLING), "kernels of sampling")


SAMPLING_CHAIN = Mechanism(
    "sampling",
    "penalties, softmax, sorting and the choice of tokens run as a chain of kernels over the "
    "vocabulary",
    "kernels after the projection to the vocabulary",
    "a fused sampling kernel (FlashInfer), greedy or temperature-only sampling, no log-probabilities",
    _find_sampling,
)

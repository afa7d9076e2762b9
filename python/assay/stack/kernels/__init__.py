"""Kernels: FLOPs, bytes and time of every operation, one module per family."""

from assay.stack.kernels import attention_decode, attention_prefill, device, experts, gemm, passes

SCOPES = (device.scope, gemm.scope, attention_prefill.scope, attention_decode.scope, passes.scope, experts.scope)
"""The scopes of this package in the order of loading; they refer to `gpu` below them."""

__all__ = ["SCOPES", "gemm"]

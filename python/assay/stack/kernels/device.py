"""What kernels see of the GPU they run on."""

from __future__ import annotations

from assay.model import POSITIVE, Scope, by_definition, cited, number
from assay.stack import gpu

scope = Scope("kernels.device", "The GPU as its kernels see it")

_CUDA = cited("NVIDIA CUDA C++ Programming Guide", "sec. Device Memory L2 Access Management")

multiprocessors = scope.variable(
    "multiprocessors", "n_SM", "1", "multiprocessors that a kernel's blocks are spread over",
    equals=gpu.multiprocessors * number("1 GPU"), bounds=POSITIVE,
    reference=by_definition("a kernel runs on one GPU"),
)  # fmt: skip
cache_capacity = scope.variable(
    "cache_capacity", "C_L2", "byte", "capacity of the cache between multiprocessors and memory",
    display="MB", bounds=POSITIVE, reference=_CUDA, boundary="primitive",
)  # fmt: skip

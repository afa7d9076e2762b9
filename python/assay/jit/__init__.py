"""User kernels: CUDA C++ compiled when it is first launched.

add = assay.jit.kernel(source)
add(a, b, out, out.size)
"""

from assay.jit.kernel import Kernel, kernel

__all__ = ["Kernel", "kernel"]

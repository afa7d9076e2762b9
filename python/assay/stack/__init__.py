"""The equations of the stack, from device physics to cost per token.

One module or folder per layer, listed in order in `loading.SCOPE_MODULES`. Those below the pins of a GPU
(`nuclear.py` to `regulation.py`) give stated quantities alternatives (docs/reference/physics.md).
`kernels/` and `collectives/` hold templates: training and serving declare an instance for each GEMM,
attention and collective, and FLOPs and bytes are counted there only.
"""

from assay.stack.loading import SCOPE_MODULES, load_registry, registry

__all__ = ["SCOPE_MODULES", "load_registry", "registry"]

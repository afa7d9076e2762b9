"""Every kernel compiles for the host, but for those that the design page names."""

import pytest
from emulator import Kernel
from host_sources import KERNELS, UnsupportedKernelError

from kernel_variants import variants

REFUSED = ("attention_prefill_hopper.cu", "grouped_gemm_hopper.cu")
"""Kernels with inline PTX in their own body."""
TIMED = ("delay.cu", "trace_clock.cu", "trace_flush.cu")
"""Kernels that read the GPU's global timer, which a host does not have."""
NAMES = sorted({path.name for path in KERNELS.rglob("*.cu")} - {*TIMED})


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_kernel_compiles_for_the_host(name: str) -> None:
    architecture = next(
        one for one in ("sm_90a", "sm_80") if any(True for _ in variants(name, one))
    )
    options = next(iter(variants(name, architecture)))
    if name in REFUSED:
        with pytest.raises(UnsupportedKernelError, match="inline PTX of its own"):
            Kernel(name, **options)
        return
    Kernel(name, **options)

"""A user-defined CUDA kernel: running sums of squares, checked against array operations.

Runs on the first usable GPU, else on the CPU through the given Python function.
"""

import numpy as np

import assay
from assay import xp
from assay.runtime import device

SOURCE = """
extern "C" __global__ void squares(const float* x, float* out, int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0;
    for (int i = 0; i < columns; i++) {
        sum += x[row * columns + i] * x[row * columns + i];
        out[row * columns + i] = sum;
    }
}
"""


def squares_here(x, out, rows, columns):
    """The CPU implementation."""
    np.cumsum(np.square(x), axis=1, out=out)


def main() -> None:
    """Compute both ways and compare."""
    here = device("auto")
    x = xp.asarray(np.random.default_rng(0).normal(size=(1000, 64)), dtype=xp.float32, device=here)
    out = xp.empty(x.shape, dtype=xp.float32, device=here)

    squares = assay.jit.kernel(
        SOURCE, cpu=squares_here, shapes={"x": ["rows", "columns"], "out": ["rows", "columns"]}
    )
    squares(x, out, *x.shape, grid=-(-x.shape[0] // 256))

    difference = xp.max(xp.abs(out - xp.cumulative_sum(x * x, axis=1)))
    print(f"on {here.name}: largest difference {float(difference):.1e}")


if __name__ == "__main__":
    main()

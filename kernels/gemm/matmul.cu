// out = epilogue(a b + addend + bias) for operands of any strides: the GEMM that is used without cuBLASLt.
//
// Algorithm: the textbook blocked GEMM with shared-memory tiles and register blocking [Volkov & Demmel 2008].
// Tiling: a CTA computes a 64 x 64 tile of out, k-steps of 16 through shared memory; each of 256 threads holds 4 x 4
//   accumulators in registers. Single buffering, no tensor cores.
// Departures: correctness over speed, since cuBLASLt is the fast path. Accumulators are float and every sum has one
//   order, so that equal inputs give equal bits.
//
// Options: TYPE (of a, b and bias: float, bf16, fp16), OUTPUT (of out and addend), EPILOGUE (0 none, 1 relu,
//   2 gelu_tanh).
// Launch: grid (ceil(n / 64), ceil(m / 64), batch), CTA of 256 threads.
// Arguments: a, b, addend, bias (the last two may be null), out, m, n, k; then strides in elements: a's row, column and
//   batch, b's row, column and batch, out's row and batch (64 bits each).
#include "prelude.cuh"

constexpr int TILE = 64, TILE_K = 16, ITEMS = 4, PAD = 4;  // a thread's outputs are ITEMS x ITEMS

DEVICE float epilogue(float v) {
    if (EPILOGUE == 1)
        return v < 0.0f ? 0.0f : v;
    if (EPILOGUE == 2)
        return 0.5f * v * (1.0f + tanhf(0.79788456080286536f * (v + 0.044715f * v * v * v)));
    return v;
}

// Loads a tile into shared memory, transposed to TILE_K x TILE. Adjacent threads load adjacent addresses whichever
// dimension is contiguous.
DEVICE void load(float (&to)[TILE_K][TILE + PAD], const TYPE* from, int first, int rows, int k_begin, int k, i64 row,
                 i64 column) {
#pragma unroll
    for (int i = threadIdx.x; i < TILE * TILE_K; i += 256) {
        const int d = column == 1 ? i % TILE_K : i / TILE, r = column == 1 ? i / TILE_K : i % TILE;
        const bool valid = first + r < rows && k_begin + d < k;
        to[d][r] = valid ? to_float(from[(first + r) * row + (k_begin + d) * column]) : 0.0f;
    }
}

KERNEL __launch_bounds__(256) matmul(const TYPE* a, const TYPE* b, const OUTPUT* addend, const TYPE* bias, OUTPUT* out,
                                     int m, int n, int k, i64 a_row, i64 a_column, i64 a_batch, i64 b_row,
                                     i64 b_column, i64 b_batch, i64 out_row, i64 out_batch TRACE_PARAMETER) {
    TRACE_SPAN(0);
    __shared__ float a_tile[TILE_K][TILE + PAD], b_tile[TILE_K][TILE + PAD];
    const int first_row = blockIdx.y * TILE, first_column = blockIdx.x * TILE;
    const int x = threadIdx.x % 16 * ITEMS, y = threadIdx.x / 16 * ITEMS;
    launch_dependents();
    wait_on_dependency();
    a += blockIdx.z * a_batch;
    b += blockIdx.z * b_batch;
    float sums[ITEMS][ITEMS] = {};
    for (int k_begin = 0; k_begin < k; k_begin += TILE_K) {
        load(a_tile, a, first_row, m, k_begin, k, a_row, a_column);
        load(b_tile, b, first_column, n, k_begin, k, b_column, b_row);
        __syncthreads();
#pragma unroll
        for (int d = 0; d < TILE_K; d++)
#pragma unroll
            for (int i = 0; i < ITEMS; i++)
#pragma unroll
                for (int j = 0; j < ITEMS; j++)
                    sums[i][j] = fmaf(a_tile[d][y + i], b_tile[d][x + j], sums[i][j]);
        __syncthreads();
    }
    for (int i = 0; i < ITEMS; i++)
        for (int j = 0; j < ITEMS; j++) {
            const int row = first_row + y + i, column = first_column + x + j;
            if (row >= m || column >= n)
                continue;
            const i64 index = blockIdx.z * out_batch + row * out_row + column;
            float v = sums[i][j] + (addend ? to_float(addend[index]) : 0.0f);
            v += bias ? to_float(bias[column]) : 0.0f;
            out[index] = from_float<OUTPUT>(epilogue(v));
        }
}

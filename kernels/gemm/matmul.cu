// out = epilogue(a b + added + bias) for any layout: what is used where there is no cuBLASLt.
//
// Options: TYPE (of a, b and bias: float, bf16, fp16), OUTPUT (of out and added), EPILOGUE (0 none, 1 relu,
//   2 gelu_tanh).
// Launch: grid (ceil(n / 64), ceil(m / 64), batch), block 256.
// Arguments: a, b, added, bias (both may be null), out, m, n, k, then in elements: a's strides of rows, columns and
//   batch, b's, and out's of rows and batch (64 bits each). Sums are of single precision, each in one order.
#include "prelude.cuh"

constexpr int TILE = 64, DEPTH = 16, EACH = 4, PAD = 4;

DEVICE float finish(float v) {
    if (EPILOGUE == 1)
        return v < 0.0f ? 0.0f : v;
    if (EPILOGUE == 2)
        return 0.5f * v * (1.0f + tanhf(0.79788456080286536f * (v + 0.044715f * v * v * v)));
    return v;
}

// A tile of a matrix into shared memory, a column of it in each row there; neighbors in memory by neighbors.
DEVICE void load(float (&to)[DEPTH][TILE + PAD], const TYPE* from, int first, int rows, int at, int depth, i64 row,
                 i64 column) {
#pragma unroll
    for (int i = threadIdx.x; i < TILE * DEPTH; i += 256) {
        const int d = column == 1 ? i % DEPTH : i / TILE, r = column == 1 ? i / DEPTH : i % TILE;
        const bool valid = first + r < rows && at + d < depth;
        to[d][r] = valid ? to_float(from[(first + r) * row + (at + d) * column]) : 0.0f;
    }
}

KERNEL __launch_bounds__(256) matmul(const TYPE* a, const TYPE* b, const OUTPUT* added, const TYPE* bias, OUTPUT* out,
                                     int m, int n, int k, i64 a_row, i64 a_column, i64 a_batch, i64 b_row,
                                     i64 b_column, i64 b_batch, i64 out_row, i64 out_batch) {
    __shared__ float left[DEPTH][TILE + PAD], right[DEPTH][TILE + PAD];
    const int first_row = blockIdx.y * TILE, first_column = blockIdx.x * TILE;
    const int x = threadIdx.x % 16 * EACH, y = threadIdx.x / 16 * EACH;
    start_next_kernel();
    wait_for_previous_kernel();
    a += blockIdx.z * a_batch;
    b += blockIdx.z * b_batch;
    float sums[EACH][EACH] = {};
    for (int at = 0; at < k; at += DEPTH) {
        load(left, a, first_row, m, at, k, a_row, a_column);
        load(right, b, first_column, n, at, k, b_column, b_row);
        __syncthreads();
#pragma unroll
        for (int d = 0; d < DEPTH; d++)
#pragma unroll
            for (int i = 0; i < EACH; i++)
#pragma unroll
                for (int j = 0; j < EACH; j++)
                    sums[i][j] = fmaf(left[d][y + i], right[d][x + j], sums[i][j]);
        __syncthreads();
    }
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++) {
            const int row = first_row + y + i, column = first_column + x + j;
            if (row >= m || column >= n)
                continue;
            const i64 place = blockIdx.z * out_batch + row * out_row + column;
            float v = sums[i][j] + (added ? to_float(added[place]) : 0.0f);
            v += bias ? to_float(bias[column]) : 0.0f;
            out[place] = from_float<OUTPUT>(finish(v));
        }
}

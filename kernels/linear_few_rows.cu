// y = activate(norm(x) W^T + bias) + residual for few rows of x: one pass over the weights.
//
// Options: ACTIVATION (bf16, fp16: the type of x, gain, bias and residual), OUTPUT (type of y),
//   WEIGHT (16: as ACTIVATION; 8: signed integers; 80: e4m3; 4: unsigned integers of 4 bits),
//   GROUP (0: one float scale per row for WEIGHT 8 and 80; 32, 64, 128: for WEIGHT 8 (32, 64) and 4 a scale
//   and a minimum, as a pair of fp16, for so many weights of a row), NORM (1: RMS norm of x by gain and
//   epsilon), PAIRED (1: outputs n and n + outputs / 2 are gate and up: y = silu(gate) * up),
//   ACTIVATE (0 none, 1 silu, 2 gelu, 3 gelu_tanh, 4 relu), ROWS (1, 2, 4, 8: the most rows of x),
//   INPUTS (a multiple of 8, for WEIGHT 8 and 80 of 16, with GROUP of 32), TAKEN (1, 2, 4, 8: weight rows a block takes
//   at once; at least 2 for PAIRED; ROWS * TAKEN <= 32), THREADS,
//   CHUNKS (16-byte chunks of a weight row per thread: THREADS * CHUNKS of them hold a row),
//   BLOCKS (per multiprocessor).
// Launch: grid at most ceil(outputs / TAKEN), block THREADS, no dynamic shared memory.
// Arguments: weights, scales, x (rows x INPUTS), gain, bias, residual, y, rows, outputs, epsilon.
//   gain, bias, residual and scales may be null where unused; residual may be y. PAIRED outputs are even. Rows of x, y
//   and residual are dense.
//
// Weights without groups are outputs x INPUTS, row-major. Those with groups lie in rows of pieces of 128
// bytes, the last one filled up; within a piece, 16-byte chunk 4 i + t holds the weights 32 s + 8 t + 0..7 of
// spans s: of 8 bits, s = 2 i and then 2 i + 1; of 4 bits, s = 4 i + word, the lower half of a byte first.
// Scales: outputs x ceil(INPUTS / GROUP).
//
// A block reads whole rows, the next ones while it works on these; a warp's load is 512 bytes in a row,
// which memory serves best. Lanes keep x at the places of their weights in registers. The matrix unit
// multiplies: its left rows are rows of x at the places of each four lanes, its right columns the weights of
// each four lanes, so that the products of like with like stand on the diagonal. For weights of fewer bits x is
// counted in units that four lanes share, of 64 or 128 numbers: e4m3 meets fp16; integers meet integers of 16
// bits, upper and lower byte in a row of their own, with an error of 2^-16 of the largest number.
#include "few_rows.cuh"

KERNEL __launch_bounds__(THREADS, BLOCKS)
linear_few_rows(const u8* __restrict__ weights, const void* __restrict__ scales, const Number* x,
                const Number* __restrict__ gain, const Number* __restrict__ bias, const Number* residual, OUTPUT* y,
                int rows, int outputs, float epsilon) {
    __shared__ float parts[2][WARPS][VALUES];
    __shared__ float squares[WARPS][ROWS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const bool diagonal = lane % 4 == lane / 4 / 2;
    const int made = PAIRED ? outputs / 2 : outputs;
    const int turns = ceil_divide(made, MADE);
    constexpr int row_chunks = GROUP ? ceil_divide(INPUTS, HELD * 8) * 8 : INPUTS / HELD;
    constexpr int row_groups = GROUP ? ceil_divide(INPUTS, GROUP ? GROUP : 1) : 0;

    uint4 w[2][TAKEN][CHUNKS];
    u32 by[2][TAKEN][CHUNKS][GROUP ? GROUPS : 1];
    // Row r of a turn; those beyond the last are read as the last and not written.
    auto row_of = [&](int turn, int r) {
        const int output = min(turn * MADE + (PAIRED ? r / 2 : r), made - 1);
        return i64(PAIRED && r % 2 ? made + output : output);
    };
    auto fetch = [&](int buffer, int turn) {
#pragma unroll
        for (int r = 0; r < TAKEN; r++)
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                const int chunk = c * THREADS + int(threadIdx.x);
                const i64 row = row_of(turn, r);
                w[buffer][r][c] =
                    chunk < row_chunks ? load16_once(weights + (row * row_chunks + chunk) * 16) : zero16();
                if constexpr (GROUP != 0) {
#pragma unroll
                    for (int i = 0; i < GROUPS; i++) {
                        const int of = chunk / 4 * (HELD * 4) / (GROUP ? GROUP : 1) + i;
                        const u32* pair = static_cast<const u32*>(scales) + row * row_groups + of;
                        by[buffer][r][c][i] = diagonal && of < row_groups ? __ldg(pair) : 0;
                    }
                }
            }
    };

    start_next_kernel();
    int current = blockIdx.x;
    if (current < turns)
        fetch(0, current);
    wait_for_previous_kernel();

    Places places[CHUNKS];
    float square[ROWS];
    place_rows(places, square, x, gain, rows);
    // Thread e finishes output e % MADE of row e / MADE.
    const int finish_row = threadIdx.x / MADE, finish_output = threadIdx.x % MADE;
    const bool finishes = finish_row < min(rows, ROWS);
    float scale = 1.0f;
    if constexpr (NORM) {
#pragma unroll
        for (int m = 0; m < ROWS; m++) {
            const float sum = reduce_warp<Sum>(square[m]);
            if (lane == 0)
                squares[warp][m] = sum;
        }
        __syncthreads();
        float mean = 0.0f;
#pragma unroll
        for (int i = 0; i < WARPS; i++)
            mean += squares[i][finishes ? finish_row : 0];
        scale = rsqrtf(mean / INPUTS + epsilon);
    }

    auto work = [&](int now, int next) {
        if (current + gridDim.x < turns)
            fetch(next, current + gridDim.x);
        const int output = current * MADE + finish_output;
        const bool writes = finishes && output < made;
        const i64 at = i64(finish_row) * made + output;
        // What the end of a turn needs of memory is on its way while weights are multiplied.
        const float added = writes && residual ? to_float(residual[at]) : 0.0f;
        float times[2] = {1.0f, 1.0f};
        if (BITS == 8 && GROUP == 0 && writes) {
            times[0] = __ldg(static_cast<const float*>(scales) + output);
            if (PAIRED)
                times[1] = __ldg(static_cast<const float*>(scales) + made + output);
        }
        float values[VALUES];
#pragma unroll
        for (int r = 0; r < TAKEN; r++)
            multiply_row(
                values + r * ROWS, places, [&](int c) { return w[now][r][c]; },
                [&](int c, int i) { return by[now][r][c][i]; });
        reduce_values<VALUES>(values);
        if (lane % (32 / VALUES) == 0)
            parts[now][warp][lane / (32 / VALUES)] = values[0];
        __syncthreads();
        if (writes) {
            auto finished = [&](int r, int half) {
                const int of = half ? made + output : output;
                float v = 0.0f;
#pragma unroll
                for (int i = 0; i < WARPS; i++)
                    v += parts[now][i][r * ROWS + finish_row];
                v *= scale * times[half];
                return bias ? v + to_float(bias[of]) : v;
            };
            float v = finished(PAIRED ? finish_output * 2 : finish_output, 0);
            v = PAIRED ? silu(v) * finished(finish_output * 2 + 1, 1) : activate(v);
            y[at] = from_float<OUTPUT>(v + added);
        }
        current += gridDim.x;
    };
    while (current < turns) {
        work(0, 1);
        if (current >= turns)
            break;
        work(1, 0);
    }
}

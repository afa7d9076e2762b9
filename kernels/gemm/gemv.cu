// y = activate(norm(x) W^T + bias) + residual for few rows of x: one pass over the weights.
//
// Options: ACTIVATION (bf16, fp16: the type of x, gain, bias and residual), OUTPUT (type of y),
//   WEIGHT (16: as ACTIVATION; 8: signed integers; 80: e4m3; 4: unsigned integers of 4 bits),
//   GROUP (0: one float scale per row for WEIGHT 8 and 80; 32, 64, 128: for WEIGHT 8 (32, 64) and 4 a scale
//   and a minimum, as a pair of fp16, for so many weights of a row), NORM (1: RMS norm of x by gain and
//   epsilon), PAIRED (1: outputs n and n + outputs / 2 are gate and up: y = silu(gate) * up),
//   ACTIVATE (0 none, 1 silu, 2 gelu, 3 gelu_tanh, 4 relu), ROWS (1, 2, 4, 8: the most rows of x),
//   INPUTS (a multiple of 8, for WEIGHT 8 and 80 of 16, with GROUP of 32), TAKEN (1, 2, 4, 8, 16: weight rows a block
//   takes at once; at least 2 for PAIRED; ROWS * TAKEN <= 32), EVEN (1: outputs is a multiple of TAKEN), THREADS (at
//   least ROWS * TAKEN), CHUNKS (16-byte chunks of a weight row per thread: THREADS * CHUNKS of them hold a row),
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
// A block reads whole rows; a warp's load is 512 bytes in a row, which memory serves best. As soon as a lane has
// multiplied its weights of a turn it asks for those of the next, into the same registers. Weights in two sets of
// registers by turns do not help: the assembler waits for both at once. Nor do warps wait for each other at every turn:
// what they found is kept, and outputs are finished for a batch of turns.
//
// Lanes keep x at the places of their weights in registers. The matrix unit multiplies: its left rows are rows of x at
// the places of each four lanes, its right columns the weights of each four lanes, so that the products of like with
// like stand on the diagonal. For weights of fewer bits x is counted in units that four lanes share, of 64 or 128
// numbers: e4m3 meets fp16; integers meet integers of 16 bits, upper and lower byte in a row of their own, with an
// error of 2^-16 of the largest number.
#include "gemv.cuh"

KERNEL __launch_bounds__(THREADS, BLOCKS)
gemv(const u8* __restrict__ weights, const void* __restrict__ scales, const Number* x,
                const Number* __restrict__ gain, const Number* __restrict__ bias, const Number* residual, OUTPUT* y,
                int rows, int outputs, float epsilon) {
    // A batch of turns: each thread finishes at most one of its outputs.
    constexpr int FINISHED = MADE * ROWS, KEPT = THREADS / FINISHED < 16 ? THREADS / FINISHED : 16;
    __shared__ float parts[KEPT][WARPS][VALUES];
    __shared__ float squares[WARPS][ROWS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const bool diagonal = lane % 4 == lane / 4 / 2;
    const int made = PAIRED ? outputs / 2 : outputs;
    const int turns = ceil_divide(made, MADE);
    constexpr int row_chunks = GROUP ? ceil_divide(INPUTS, HELD * 8) * 8 : INPUTS / HELD;
    constexpr int row_groups = GROUP ? ceil_divide(INPUTS, GROUP ? GROUP : 1) : 0;
    constexpr i64 ROW_BYTES = i64(row_chunks) * 16;

    uint4 w[TAKEN][CHUNKS];
    u32 by[TAKEN][CHUNKS][GROUP ? GROUPS : 1];
    int asked = blockIdx.x;  // the turn whose weights are asked for next
    const u8* from = weights + i64(asked) * MADE * ROW_BYTES + threadIdx.x * 16;
    const i64 step = i64(gridDim.x) * MADE * ROW_BYTES, upper = made * ROW_BYTES;
    auto fetch = [&] {
        if (asked >= turns)
            return;
#pragma unroll
        for (int r = 0; r < TAKEN; r++) {
            const int output = asked * MADE + (PAIRED ? r / 2 : r);
            const u8* row = from + (PAIRED ? r / 2 : r) * ROW_BYTES + (PAIRED && r % 2 ? upper : 0);
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                const int chunk = c * THREADS + int(threadIdx.x);
                const bool valid = (EVEN || output < made) && (CHUNKS * THREADS == row_chunks || chunk < row_chunks);
                w[r][c] = valid ? load16_once(row + c * THREADS * 16) : zero16();
                if constexpr (GROUP != 0) {
#pragma unroll
                    for (int i = 0; i < GROUPS; i++) {
                        const int of = chunk / 4 * (HELD * 4) / (GROUP ? GROUP : 1) + i;
                        const i64 at = PAIRED && r % 2 ? made + output : output;
                        const u32* pair = static_cast<const u32*>(scales) + at * row_groups + of;
                        by[r][c][i] = (EVEN || output < made) && diagonal && of < row_groups ? __ldg(pair) : 0;
                    }
                }
            }
        }
        from += step;
        asked += gridDim.x;
    };

    start_next_kernel();
    fetch();
    // Loaded here, the gains would be waited for together with the weights.
    if (NORM)
        for (int c = 0; c < CHUNKS; c++)
            if (place_of(c, 0) < INPUTS)
                prefetch(gain + place_of(c, 0));
    wait_for_previous_kernel();

    Places places[CHUNKS];
    float square[ROWS];
    place_rows(places, square, x, gain, rows);
    if constexpr (NORM) {
#pragma unroll
        for (int m = 0; m < ROWS; m++) {
            const float sum = reduce_warp<Sum>(square[m]);
            if (lane == 0)
                squares[warp][m] = sum;
        }
    }
    // Thread e finishes output e % MADE of row e / MADE % ROWS of turn e / FINISHED of a batch.
    const int finish_turn = threadIdx.x / FINISHED, finish_row = threadIdx.x / MADE % ROWS,
              finish_output = threadIdx.x % MADE;

    int current = blockIdx.x;
    while (current < turns) {
        const int output = (current + finish_turn * int(gridDim.x)) * MADE + finish_output;
        const bool writes = finish_turn < KEPT && finish_row < rows && output < made;
        const i64 at = i64(finish_row) * made + output;
        // What the end needs of memory is on its way while weights are multiplied.
        const float added = writes && residual ? to_float(residual[at]) : 0.0f;
        float times[2] = {1.0f, 1.0f};
        if (BITS == 8 && GROUP == 0 && writes) {
            times[0] = __ldg(static_cast<const float*>(scales) + output);
            if (PAIRED)
                times[1] = __ldg(static_cast<const float*>(scales) + made + output);
        }
#pragma unroll 1
        for (int turn = 0; turn < KEPT && current < turns; turn++, current += gridDim.x) {
            float values[VALUES];
#pragma unroll
            for (int r = 0; r < TAKEN; r++)
                multiply_row(
                    values + r * ROWS, places, [&](int c) { return w[r][c]; },
                    [&](int c, int i) { return by[r][c][i]; });
            fetch();
            reduce_values<VALUES>(values);
            if (lane % (32 / VALUES) == 0)
                parts[turn][warp][lane / (32 / VALUES)] = values[0];
        }
        __syncthreads();
        if (writes) {
            float scale = 1.0f;
            if constexpr (NORM) {
                float mean = 0.0f;
#pragma unroll
                for (int i = 0; i < WARPS; i++)
                    mean += squares[i][finish_row];
                scale = rsqrtf(mean / INPUTS + epsilon);
            }
            auto finished = [&](int r, int half) {
                float v = 0.0f;
#pragma unroll
                for (int i = 0; i < WARPS; i++)
                    v += parts[finish_turn][i][r * ROWS + finish_row];
                v *= scale * times[half];
                return bias ? v + to_float(bias[half ? made + output : output]) : v;
            };
            float v = finished(PAIRED ? finish_output * 2 : finish_output, 0);
            v = PAIRED ? silu(v) * finished(finish_output * 2 + 1, 1) : activate(v);
            y[at] = from_float<OUTPUT>(v + added);
        }
        if (current < turns)
            __syncthreads();
    }
}

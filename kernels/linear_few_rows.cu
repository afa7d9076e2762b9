// y = activate(norm(x) W^T + bias) + residual for few rows of x: one pass over the weights.
//
// Options: ACTIVATION (bf16, fp16: the type of x, gain, bias and residual), OUTPUT (type of y),
//   WEIGHT (16: as ACTIVATION; 8: signed integers; 80: e4m3; 4: unsigned integers of 4 bits),
//   GROUP (0: one float scale per row for WEIGHT 8 and 80; 32, 64, 128: for WEIGHT 8 (32, 64) and 4 a scale
//   and a minimum, as a pair of fp16, for so many weights of a row), NORM (1: RMS norm of x by gain and
//   epsilon), PAIRED (1: outputs n and n + outputs / 2 are gate and up: y = silu(gate) * up),
//   ACTIVATE (0 none, 1 silu, 2 gelu, 3 gelu_tanh, 4 relu), ROWS (1, 2, 4, 8: the most rows of x),
//   TAKEN (1, 2, 4, 8: weight rows a block takes at once; at least 2 for PAIRED; ROWS * TAKEN <= 32), THREADS,
//   CHUNKS (16-byte chunks of a weight row per thread: THREADS * CHUNKS of them hold a row),
//   BLOCKS (per multiprocessor).
// Launch: grid at most ceil(outputs / TAKEN), block THREADS, no dynamic shared memory.
//   Quickest on an H200 for one or two rows, as TAKEN, THREADS, BLOCKS, grid: 16 bits 4, 256, 2, 528, for rows of more
//   than 512 chunks 1, 256, 2, 2112; 8 bits 4, 256, 3, 396, for more than 256 chunks 2, 448, 2, 264; 4 bits 8, 128, 4,
//   528, for more than 128 chunks 8, 448, 1, 132.
// Arguments: weights, scales, x (rows x inputs), gain, bias, residual, y, rows, outputs, inputs, epsilon.
//   gain, bias, residual and scales may be null where unused; residual may be y. inputs is a multiple of 8,
//   for WEIGHT 8 and 80 of 16, with GROUP of 32; PAIRED outputs are even. Rows of x, y and residual are dense.
//
// Weights without groups are outputs x inputs, row-major. Those with groups lie in rows of pieces of 128
// bytes, the last one filled up; within a piece, 16-byte chunk 4 i + t holds the weights 32 s + 8 t + 0..7 of
// spans s: of 8 bits, s = 2 i and then 2 i + 1; of 4 bits, s = 4 i + word, the lower half of a byte first.
// Scales: outputs x ceil(inputs / GROUP).
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
                int rows, int outputs, int inputs, float epsilon) {
    __shared__ float parts[2][WARPS][VALUES];
    __shared__ float squares[WARPS][ROWS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4;
    const bool diagonal = lane % 4 == g / 2, odd = g % 2;
    const int made = PAIRED ? outputs / 2 : outputs;
    const int turns = ceil_divide(made, MADE);
    const int row_chunks = GROUP ? ceil_divide(inputs, HELD * 8) * 8 : inputs / HELD;
    const int row_groups = GROUP ? ceil_divide(inputs, GROUP ? GROUP : 1) : 0;

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
    float square[ROWS] = {};
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int chunk = c * THREADS + int(threadIdx.x);
        uint4 loaded[ROWS][SPANS], times[SPANS];
#pragma unroll
        for (int s = 0; s < SPANS; s++) {
            // Without groups a chunk's weights are in a row; with them four lanes share spans of 32.
            const int k = GROUP ? chunk / 4 * (HELD * 4) + s * 32 + chunk % 4 * 8 : chunk * HELD + s * 8;
            const bool valid = k < inputs;
            times[s] = NORM && valid ? load16(gain + k) : zero16();
#pragma unroll
            for (int m = 0; m < ROWS; m++)
                loaded[m][s] = valid && m < rows ? load16(x + i64(m) * inputs + k) : zero16();
        }
#pragma unroll
        for (int m = 0; m < ROWS; m++) {
            float v[SPANS][8];
#pragma unroll
            for (int s = 0; s < SPANS; s++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const float2 pair = unpack<Number>(word(loaded[m][s], i));
                    const float2 by = unpack<Number>(word(times[s], i));
                    square[m] = fmaf(pair.x, pair.x, fmaf(pair.y, pair.y, square[m]));
                    v[s][i * 2] = NORM ? pair.x * by.x : pair.x;
                    v[s][i * 2 + 1] = NORM ? pair.y * by.y : pair.y;
                }
            place(places[c], m, v);
        }
    }
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
        scale = rsqrtf(mean / inputs + epsilon);
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
        for (int r = 0; r < TAKEN; r++) {
            Sums sums;
            sums.clear();
            float total[ROWS] = {};
#pragma unroll
            for (int c = 0; c < CHUNKS; c++)
#pragma unroll
                for (int s = 0; s < SPANS; s++) {
                    sums.multiply_span(w[now][r][c], s, places[c]);
                    if (!UNITS || s % GROUP_SPANS != GROUP_SPANS - 1)
                        continue;
                    const float2 pair =
                        GROUP ? unpack<fp16>(by[now][r][c][s / GROUP_SPANS]) : make_float2(1.0f, 0.0f);
#pragma unroll
                    for (int m = 0; m < ROWS; m++) {
                        if (GROUP)
                            total[m] = fmaf(pair.y, places[c].plain[m][s / GROUP_SPANS], total[m]);
                        total[m] = fmaf(pair.x * places[c].unit[m], sums.value(m, odd), total[m]);
                    }
                    sums.clear();
                }
#pragma unroll
            for (int m = 0; m < ROWS; m++)
                values[r * ROWS + m] = diagonal ? (UNITS ? total[m] : sums.value(m, odd)) : 0.0f;
        }
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

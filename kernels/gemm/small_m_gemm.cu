// y = activate(norm(x) W^T + bias) + residual for up to 8 TILES rows of x and weights of 16 bits.
//
// Options: ACTIVATION (bf16, fp16: the type of x, weights, gain, bias and residual), OUTPUT (type of y), NORM, PAIRED,
//   ACTIVATE (as gemv.cu), TILES (1, 2: of 8 rows of x), INPUTS, SLICE (inputs of a weight row that a warp
//   takes at once: 128, 256), SLICES (that a warp takes in a pass: INPUTS is a multiple of WARPS * SLICES * SLICE),
//   STAGES (slices of 16 rows in the ring of each warp), TURNS (the most that a block does), WARPS (at least 4 TILES),
//   BLOCKS (per multiprocessor).
// Launch: grid at most ceil(outputs / 16), block WARPS * 32, shared WARPS * STAGES * 16 * (2 SLICE + 64) bytes.
// Arguments: weights (outputs x INPUTS), x (rows x INPUTS), gain, bias, residual, y, rows, outputs, epsilon.
//   gain, bias and residual may be null where unused; residual may be y. PAIRED outputs are even.
//
// A turn is 16 rows of weights (PAIRED: 8 gates and their ups), the left operand of the matrix unit; x is the right one
// and stays in registers, a pass of it at a time. A warp copies whole pieces of rows to a ring of its own, which memory
// serves best, and takes them from there as the matrix unit wants them. The order of inputs is free as long as both
// operands follow it: lane 4 g + t holds inputs 32 j + 8 t to 7 more of row g, one load of 16 bytes. Rows in the ring are
// 64 bytes further apart than they are long, so that loads of two rows meet no bank twice.
#include "epilogue.cuh"

typedef ACTIVATION Number;
constexpr int STEPS = SLICE / 32;  // of 32 inputs
constexpr int PASSES = INPUTS / (WARPS * SLICES * SLICE);
constexpr int MADE = PAIRED ? 8 : 16;  // outputs of a turn
constexpr int COLUMNS = 8 * TILES;
constexpr int ROW_BYTES = SLICE * 2 + 64, STAGE_BYTES = 16 * ROW_BYTES;
constexpr int ROW_LANES = SLICE / 8;        // that copy one row
constexpr int TOGETHER = 32 / ROW_LANES;    // rows that a warp copies at once
static_assert(PASSES * WARPS * SLICES * SLICE == INPUTS && WARPS * 32 >= MADE * COLUMNS, "");

KERNEL __launch_bounds__(WARPS * 32, BLOCKS)
small_m_gemm(const Number* __restrict__ weights, const Number* x, const Number* __restrict__ gain,
                 const Number* __restrict__ bias, const Number* residual, OUTPUT* y, int rows, int outputs,
                 float epsilon) {
    extern __shared__ u8 rings[];
    __shared__ float parts[2][WARPS][16 * COLUMNS];
    __shared__ float squares[PASSES][WARPS][COLUMNS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int made = PAIRED ? outputs / 2 : outputs;
    const int turns = ceil_divide(made, MADE), step = gridDim.x;
    const int own_turns = ceil_divide(turns - int(blockIdx.x), step);
    const int own_slices = own_turns * SLICES * PASSES;
    u8* ring = rings + warp * STAGES * STAGE_BYTES;

    // The slice of this number: a pass over all turns comes before the next pass.
    int fetched = 0, fetch_stage = 0, fetch_slice = 0, fetch_turn = 0, fetch_pass = 0;
    auto fetch = [&] {
        if (fetched < own_slices) {
            const int first = (fetch_turn * step + int(blockIdx.x)) * MADE;
            const int k = ((fetch_pass * SLICES + fetch_slice) * WARPS + warp) * SLICE + lane % ROW_LANES * 8;
            const u32 to = shared_address(ring) + fetch_stage * STAGE_BYTES + lane % ROW_LANES * 16;
#pragma unroll
            for (int i = 0; i < 16; i += TOGETHER) {
                const int r = i + lane / ROW_LANES;
                // Rows beyond the last are read as the last and not written.
                const int row = r / MADE * made + min(first + r % MADE, made - 1);
                copy16_async(to + r * ROW_BYTES, weights + i64(row) * INPUTS + k, true);
            }
            fetched++;
            fetch_stage = fetch_stage + 1 == STAGES ? 0 : fetch_stage + 1;
            fetch_slice = fetch_slice + 1 == SLICES ? 0 : fetch_slice + 1;
            fetch_turn += fetch_slice == 0;
            if (fetch_turn == own_turns) {
                fetch_turn = 0;
                fetch_pass++;
            }
        }
        commit_copies();
    };

    start_next_kernel();
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; stage++)
        fetch();
    for (int p = 0; NORM && p < SLICES; p++)
        if (lane < SLICE / 64)
            prefetch(gain + (p * WARPS + warp) * SLICE + lane * 64);
    wait_for_previous_kernel();

    // Thread e finishes row e % 8 of tile e / 8 / MADE of x, output e / 8 % MADE.
    const int e = threadIdx.x, m = e / 8 / MADE * 8 + e % 8;
    float sums[PASSES > 1 ? TURNS : 1][1 + PAIRED];
    int stage = 0, slot = 0;
#pragma unroll 1
    for (int pass = 0; pass < PASSES; pass++) {
        uint4 right[TILES][SLICES][STEPS];
        float square[TILES] = {};
#pragma unroll
        for (int p = 0; p < SLICES; p++)
#pragma unroll
            for (int s = 0; s < STEPS; s++) {
                const int k = ((pass * SLICES + p) * WARPS + warp) * SLICE + s * 32 + t * 8;
                const uint4 times = NORM ? load16(gain + k) : zero16();
#pragma unroll
                for (int n = 0; n < TILES; n++) {
                    uint4 v = n * 8 + g < rows ? load16(x + i64(n * 8 + g) * INPUTS + k) : zero16();
                    if constexpr (NORM) {
                        u32 words[4];
#pragma unroll
                        for (int i = 0; i < 4; i++) {
                            const float2 pair = unpack<Number>(word(v, i)), by = unpack<Number>(word(times, i));
                            square[n] = fmaf(pair.x, pair.x, fmaf(pair.y, pair.y, square[n]));
                            words[i] = pack<Number>(pair.x * by.x, pair.y * by.y);
                        }
                        v = make_uint4(words[0], words[1], words[2], words[3]);
                    }
                    right[n][p][s] = v;
                }
            }
#pragma unroll
        for (int n = 0; NORM && n < TILES; n++) {
            square[n] += __shfl_xor_sync(~0u, square[n], 1);
            square[n] += __shfl_xor_sync(~0u, square[n], 2);
            if (t == 0)
                squares[pass][warp][n * 8 + g] = square[n];
        }
#pragma unroll(PASSES > 1 ? TURNS : 1)
        for (int turn = 0; turn < (PASSES > 1 ? TURNS : own_turns); turn++) {
            if (PASSES > 1 && turn >= own_turns)
                break;
            const int output = (turn * step + int(blockIdx.x)) * MADE + e / 8 % MADE;
            const bool writes = pass == PASSES - 1 && e < MADE * COLUMNS && m < rows && output < made;
            // What the end of a turn needs of memory is on its way while weights are multiplied.
            const float added = writes && residual ? to_float(residual[i64(m) * made + output]) : 0.0f;
            float c[2][TILES][4] = {};
#pragma unroll
            for (int p = 0; p < SLICES; p++) {
                fetch();
                wait_for_copies<STAGES - 1>();
                __syncwarp();
                const u8* from = ring + stage * STAGE_BYTES + g * ROW_BYTES + t * 16;
#pragma unroll
                for (int s = 0; s < STEPS; s++) {
                    const uint4 a = load16(from + s * 64), b = load16(from + 8 * ROW_BYTES + s * 64);
#pragma unroll
                    for (int n = 0; n < TILES; n++) {
                        const uint4 v = right[n][p][s];
                        multiply_16x8x16<Number>(c[0][n], a.x, b.x, a.y, b.y, v.x, v.y);
                        multiply_16x8x16<Number>(c[1][n], a.z, b.z, a.w, b.w, v.z, v.w);
                    }
                }
                __syncwarp();  // all lanes have read what the next copies overwrite
                stage = stage + 1 == STAGES ? 0 : stage + 1;
            }
#pragma unroll
            for (int n = 0; n < TILES; n++)
#pragma unroll
                for (int h = 0; h < 2; h++)
                    *reinterpret_cast<float2*>(&parts[slot][warp][(n * 16 + h * 8 + g) * 8 + t * 2]) =
                        make_float2(c[0][n][h * 2] + c[1][n][h * 2], c[0][n][h * 2 + 1] + c[1][n][h * 2 + 1]);
            __syncthreads();
            float v[1 + PAIRED];
#pragma unroll
            for (int half = 0; half <= PAIRED; half++) {
                const int at = (e / 8 / MADE * 16 + half * 8 + e / 8 % MADE) * 8 + e % 8;
                float sum = 0.0f;
#pragma unroll
                for (int w = 0; w < WARPS; w++)
                    sum += parts[slot][w][e < MADE * COLUMNS ? at : 0];
                if constexpr (PASSES > 1) {
                    sum += pass > 0 ? sums[turn][half] : 0.0f;
                    sums[turn][half] = sum;
                }
                v[half] = sum;
            }
            slot ^= 1;
            if (!writes)
                continue;
            float scale = 1.0f;
            if constexpr (NORM) {
                float mean = 0.0f;
#pragma unroll
                for (int w = 0; w < WARPS * PASSES; w++)
                    mean += squares[w / WARPS][w % WARPS][m];
                scale = rsqrtf(mean / INPUTS + epsilon);
            }
#pragma unroll
            for (int half = 0; half <= PAIRED; half++) {
                v[half] *= scale;
                if (bias)
                    v[half] += to_float(bias[half * made + output]);
            }
            const float result = PAIRED ? silu(v[0]) * v[PAIRED] : activate(v[0]);
            y[i64(m) * made + output] = from_float<OUTPUT>(result + added);
        }
    }
}

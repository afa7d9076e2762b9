// y = activation(norm(x) W^T + bias) + residual for up to 8 M_TILES rows of x and 16-bit weights: small-M GEMM.
//
// Algorithm: none published as a whole: a multistage cp.async GEMM as in CUTLASS for Ampere, with split-K over the
//   warps of a CTA instead of over CTAs. Fused: RMS norm [Zhang & Sennrich 2019] and SwiGLU [Shazeer 2020].
// Tiling: a tile is 16 weight rows (GATED: 8 gates and their ups), the A operand of mma.sync m16n8k16; x is the B
//   operand and stays in registers, one pass of K at a time. Each warp owns slices of K and a private circular buffer
//   of STAGES stages in shared memory, so that the loop over K has no CTA barrier; warp partials are summed per tile in
//   shared memory, double-buffered, with one barrier a tile.
// Departures: fragments are loaded without ldmatrix. The order of k is free as long as both operands agree: lane
//   4 g + t takes inputs 32 j + 8 t to 7 more of row g, one 16-byte load. Rows in the buffer are padded by 64 bytes,
//   so that the loads of two rows are free of bank conflicts. Where x does not fit the registers, K takes several
//   passes over the tiles and sums stay in registers from pass to pass.
//
// Options: ELEMENT (bf16, fp16: the type of x, weights, gain, bias and residual), OUTPUT (type of y), NORM, GATED,
//   ACTIVATION (as gemv.cu), M_TILES (1, 2: of 8 rows of x), INPUTS (K), SLICE_K (inputs of a stage of a warp:
//   128, 256), SLICES_PER_PASS (of a warp: INPUTS is a multiple of WARPS * SLICES_PER_PASS * SLICE_K), STAGES,
//   MAX_TILES (of a CTA), WARPS (at least 4 M_TILES), CTAS_PER_SM.
// Launch: grid at most ceil(outputs / 16), CTA of WARPS * 32, shared WARPS * STAGES * 16 * (2 SLICE_K + 64) bytes.
// Arguments: weights (outputs x INPUTS), x (rows x INPUTS), gain, bias, residual, y, rows, outputs, epsilon.
//   gain, bias and residual may be null where unused; residual may be y. GATED outputs are even. With LORA_RANK
//   (lora_delta.cuh) last low, b and adapters, which the preceding kernel does not write.
#include "epilogue.cuh"
#include "lora_delta.cuh"

typedef ELEMENT Element;
constexpr int K_STEPS = SLICE_K / 32;  // of 32 inputs: two mma instructions
constexpr int PASSES = INPUTS / (WARPS * SLICES_PER_PASS * SLICE_K);
constexpr int OUTPUTS_PER_TILE = GATED ? 8 : 16;  // a tile is 16 weight rows
constexpr int MAX_ROWS = 8 * M_TILES;
constexpr int ROW_BYTES = SLICE_K * 2 + 64, STAGE_BYTES = 16 * ROW_BYTES;
constexpr int LANES_PER_ROW = SLICE_K / 8;         // that copy one row
constexpr int ROWS_PER_COPY = 32 / LANES_PER_ROW;  // that a warp copies with one instruction
static_assert(PASSES * WARPS * SLICES_PER_PASS * SLICE_K == INPUTS && WARPS * 32 >= OUTPUTS_PER_TILE * MAX_ROWS, "");

KERNEL __launch_bounds__(WARPS * 32, CTAS_PER_SM)
small_m_gemm(const Element* __restrict__ weights, const Element* x, const Element* __restrict__ gain,
             const Element* __restrict__ bias, const Element* residual, OUTPUT* y, int rows, int outputs,
             float epsilon LORA_PARAMETERS TRACE_PARAMETER) {
    TRACE_SPAN(0);
    extern __shared__ u8 rings[];
    __shared__ alignas(16) float warp_partials[2][WARPS][16 * MAX_ROWS];  // stored two at once
    __shared__ float squares[PASSES][WARPS][MAX_ROWS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int columns = GATED ? outputs / 2 : outputs;
    const int tiles = ceil_divide(columns, OUTPUTS_PER_TILE), tile_stride = gridDim.x;
    const int own_tiles = ceil_divide(tiles - int(blockIdx.x), tile_stride);
    const int own_slices = own_tiles * SLICES_PER_PASS * PASSES;
    u8* ring = rings + warp * STAGES * STAGE_BYTES;

    // The producer's position: all tiles of a pass come before the next pass.
    int loaded = 0, load_stage = 0, load_slice = 0, load_tile = 0, load_pass = 0;
    auto load_next_slice = [&] {
        if (loaded < own_slices) {
            const int first = (load_tile * tile_stride + int(blockIdx.x)) * OUTPUTS_PER_TILE;
            const int slice = (load_pass * SLICES_PER_PASS + load_slice) * WARPS + warp;
            const int k = slice * SLICE_K + lane % LANES_PER_ROW * 8;
            const u32 to = shared_address(ring) + load_stage * STAGE_BYTES + lane % LANES_PER_ROW * 16;
#pragma unroll
            for (int i = 0; i < 16; i += ROWS_PER_COPY) {
                const int r = i + lane / LANES_PER_ROW;
                // Rows past the end load the last row; their outputs are not stored.
                const int row = r / OUTPUTS_PER_TILE * columns + min(first + r % OUTPUTS_PER_TILE, columns - 1);
                cp_async_16(to + r * ROW_BYTES, weights + i64(row) * INPUTS + k, true);
            }
            loaded++;
            load_stage = load_stage + 1 == STAGES ? 0 : load_stage + 1;
            load_slice = load_slice + 1 == SLICES_PER_PASS ? 0 : load_slice + 1;
            load_tile += load_slice == 0;
            if (load_tile == own_tiles) {
                load_tile = 0;
                load_pass++;
            }
        }
        cp_async_commit();
    };

    launch_dependents();
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; stage++)
        load_next_slice();
    for (int p = 0; NORM && p < SLICES_PER_PASS; p++)
        if (lane < SLICE_K / 64)
            prefetch_l2(gain + (p * WARPS + warp) * SLICE_K + lane * 64);
    wait_on_dependency();

    // In the epilogue, thread e computes row e % 8 of M-tile e / 8 / OUTPUTS_PER_TILE, output e / 8 % OUTPUTS_PER_TILE.
    const int e = threadIdx.x, m = e / 8 / OUTPUTS_PER_TILE * 8 + e % 8;
    float sums[PASSES > 1 ? MAX_TILES : 1][1 + GATED];
    int stage = 0, buffer = 0;
#pragma unroll 1
    for (int pass = 0; pass < PASSES; pass++) {
        uint4 x_fragments[M_TILES][SLICES_PER_PASS][K_STEPS];
        float square[M_TILES] = {};
#pragma unroll
        for (int p = 0; p < SLICES_PER_PASS; p++)
#pragma unroll
            for (int s = 0; s < K_STEPS; s++) {
                const int k = ((pass * SLICES_PER_PASS + p) * WARPS + warp) * SLICE_K + s * 32 + t * 8;
                const uint4 gains = NORM ? load16(gain + k) : zero16();
#pragma unroll
                for (int n = 0; n < M_TILES; n++) {
                    uint4 v = n * 8 + g < rows ? load16(x + i64(n * 8 + g) * INPUTS + k) : zero16();
                    if constexpr (NORM) {
                        u32 words[4];
#pragma unroll
                        for (int i = 0; i < 4; i++) {
                            const float2 pair = unpack<Element>(word(v, i)), factor = unpack<Element>(word(gains, i));
                            square[n] = fmaf(pair.x, pair.x, fmaf(pair.y, pair.y, square[n]));
                            words[i] = pack<Element>(pair.x * factor.x, pair.y * factor.y);
                        }
                        v = make_uint4(words[0], words[1], words[2], words[3]);
                    }
                    x_fragments[n][p][s] = v;
                }
            }
#pragma unroll
        for (int n = 0; NORM && n < M_TILES; n++) {
            square[n] += __shfl_xor_sync(~0u, square[n], 1);
            square[n] += __shfl_xor_sync(~0u, square[n], 2);
            if (t == 0)
                squares[pass][warp][n * 8 + g] = square[n];
        }
#pragma unroll(PASSES > 1 ? MAX_TILES : 1)
        for (int tile = 0; tile < (PASSES > 1 ? MAX_TILES : own_tiles); tile++) {
            if (PASSES > 1 && tile >= own_tiles)
                break;
            const int output = (tile * tile_stride + int(blockIdx.x)) * OUTPUTS_PER_TILE + e / 8 % OUTPUTS_PER_TILE;
            const bool writes = pass == PASSES - 1 && e < OUTPUTS_PER_TILE * MAX_ROWS && m < rows && output < columns;
            // The epilogue's operand is loaded before the main loop, which hides its latency.
            const float addend = writes && residual ? to_float(residual[i64(m) * columns + output]) : 0.0f;
            float delta[1 + GATED] = {};
#if LORA_RANK
            for (int half = 0; half <= GATED && writes; half++)
                delta[half] = lora_delta(low, lora_b, adapters[m], m, half * columns + output, outputs);
#endif
            float c[2][M_TILES][4] = {};
#pragma unroll
            for (int p = 0; p < SLICES_PER_PASS; p++) {
                load_next_slice();
                cp_async_wait<STAGES - 1>();
                __syncwarp();
                const u8* slice_rows = ring + stage * STAGE_BYTES + g * ROW_BYTES + t * 16;
#pragma unroll
                for (int s = 0; s < K_STEPS; s++) {
                    const uint4 a = load16(slice_rows + s * 64), b = load16(slice_rows + 8 * ROW_BYTES + s * 64);
#pragma unroll
                    for (int n = 0; n < M_TILES; n++) {
                        const uint4 v = x_fragments[n][p][s];
                        mma_16x8x16<Element>(c[0][n], a.x, b.x, a.y, b.y, v.x, v.y);
                        mma_16x8x16<Element>(c[1][n], a.z, b.z, a.w, b.w, v.z, v.w);
                    }
                }
                __syncwarp();  // all lanes have read the stage that the next copies overwrite
                stage = stage + 1 == STAGES ? 0 : stage + 1;
            }
#pragma unroll
            for (int n = 0; n < M_TILES; n++)
#pragma unroll
                for (int h = 0; h < 2; h++)
                    *reinterpret_cast<float2*>(&warp_partials[buffer][warp][(n * 16 + h * 8 + g) * 8 + t * 2]) =
                        make_float2(c[0][n][h * 2] + c[1][n][h * 2], c[0][n][h * 2 + 1] + c[1][n][h * 2 + 1]);
            __syncthreads();
            float v[1 + GATED];
#pragma unroll
            for (int half = 0; half <= GATED; half++) {
                const int index = (e / 8 / OUTPUTS_PER_TILE * 16 + half * 8 + e / 8 % OUTPUTS_PER_TILE) * 8 + e % 8;
                float sum = 0.0f;
#pragma unroll
                for (int w = 0; w < WARPS; w++)
                    sum += warp_partials[buffer][w][e < OUTPUTS_PER_TILE * MAX_ROWS ? index : 0];
                if constexpr (PASSES > 1) {
                    sum += pass > 0 ? sums[tile][half] : 0.0f;
                    sums[tile][half] = sum;
                }
                v[half] = sum;
            }
            buffer ^= 1;
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
            for (int half = 0; half <= GATED; half++) {
                v[half] *= scale;
                if constexpr (LORA_RANK != 0)
                    v[half] += delta[half];
                if (bias)
                    v[half] += to_float(bias[half * columns + output]);
            }
            const float result = GATED ? gated_product(v[0], v[GATED]) : activate(v[0]);
            y[i64(m) * columns + output] = from_float<OUTPUT>(result + addend);
        }
    }
}

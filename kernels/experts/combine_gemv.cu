// y = residual + sum over a token's experts of weight * (x W^T + bias) + sigmoid(gate) * shared, for few tokens: the
// down projection of a mixture of experts and its weighted sum in one pass over the weights.
//
// Algorithm: the weighted sum of a mixture of experts [Shazeer et al. 2017] as one GEMV: the inputs of a token's
//   experts follow each other, and a weight row is that of every expert in turn. No partial sum leaves the CTA.
// Tiling: as gemv.cu. A tile is ROWS_PER_CTA rows of all TOP_K experts, WARPS_PER_EXPERT warps an expert; each thread
//   streams CHUNKS_PER_THREAD 16-byte chunks of a row to registers, and reloads them with the next tile as soon as they
//   are consumed.
// Departures: the weight of an expert multiplies the partial sums of its warps, not inputs, so that inputs are not
//   rounded again. The tensor core computes dot products on its diagonal, as in gemv.cuh.
//
// Options: ELEMENT (bf16, fp16: of everything but weights of experts and gates), INPUTS (of one expert: a multiple of
//   8), TOP_K, ROWS_PER_CTA (2, 4, 8, 16), WARPS_PER_EXPERT, CHUNKS_PER_THREAD (WARPS_PER_EXPERT * 32 *
//   CHUNKS_PER_THREAD cover INPUTS / 8), CTAS_PER_SM, EXPERTS_READY (1: the kernel that wrote the experts has completed
//   when this one begins, as the preceding kernel waited for it before it let this one launch).
// Launch: grid (at most outputs / ROWS_PER_CTA, rows), CTA of 32 * TOP_K * WARPS_PER_EXPERT, no dynamic shared memory.
// Arguments: weights (experts x outputs x INPUTS), x (rows x TOP_K x INPUTS), bias (experts x outputs, may be null),
//   experts (rows x TOP_K, int32), factors (rows x TOP_K, float), residual, shared, gates (as combine_experts.cu), y,
//   outputs (a multiple of ROWS_PER_CTA).
#include "gemv_combine.cuh"

typedef ELEMENT Element;
constexpr int WARPS = TOP_K * WARPS_PER_EXPERT, THREADS = WARPS * 32, EXPERT_CHUNKS = INPUTS / 8;
constexpr int CHUNK_STRIDE = WARPS_PER_EXPERT * 32;  // between the chunks of a thread
constexpr int EPILOGUE_TILES = THREADS / ROWS_PER_CTA < 16 ? THREADS / ROWS_PER_CTA : 16;
static_assert(INPUTS % 8 == 0 && CHUNK_STRIDE * CHUNKS_PER_THREAD >= EXPERT_CHUNKS, "");

KERNEL __launch_bounds__(THREADS, CTAS_PER_SM)
combine_gemv(const Element* __restrict__ weights, const Element* x, const Element* __restrict__ bias,
             const int* experts, const float* factors, const Element* residual, const Element* shared,
             const float* gates, Element* y, int outputs TRACE_PARAMETER) {
    TRACE_SPAN(0);
    __shared__ float warp_partials[EPILOGUE_TILES][WARPS][ROWS_PER_CTA];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4;
    const bool diagonal = lane % 4 == g / 2, odd = g % 2;
    const int tiles = outputs / ROWS_PER_CTA;
    const i64 row = blockIdx.y;
    experts += row * TOP_K;
    factors += row * TOP_K;
    const int slot = warp / WARPS_PER_EXPERT;  // of this warp's expert among those of the token
    const int first_chunk = warp % WARPS_PER_EXPERT * 32 + lane;
    x += (row * TOP_K + slot) * INPUTS + first_chunk * 8;
    auto is_valid = [&](int c) {
        return CHUNK_STRIDE * CHUNKS_PER_THREAD == EXPERT_CHUNKS || first_chunk + c * CHUNK_STRIDE < EXPERT_CHUNKS;
    };

    if (!EXPERTS_READY)
        wait_on_dependency();
    // Padding has no expert, -1: any serves, as its factor is 0, and what it multiplies is not added.
    weights += i64(max(__ldcg(experts + slot), 0)) * outputs * INPUTS + first_chunk * 8;
    uint4 w[ROWS_PER_CTA][CHUNKS_PER_THREAD];
    int next_tile = blockIdx.x;  // the tile whose weights are loaded next
    auto load_next_tile = [&] {
        if (next_tile >= tiles)
            return;
        const Element* tile_weights = weights + i64(next_tile) * ROWS_PER_CTA * INPUTS;
#pragma unroll
        for (int r = 0; r < ROWS_PER_CTA; r++)
#pragma unroll
            for (int c = 0; c < CHUNKS_PER_THREAD; c++) {
                const Element* at = tile_weights + r * INPUTS + c * CHUNK_STRIDE * 8;
                w[r][c] = is_valid(c) ? load16_read_only(at) : zero16();
            }
        next_tile += gridDim.x;
    };
    launch_dependents();
    load_next_tile();
    wait_on_dependency();

    uint4 fragments[CHUNKS_PER_THREAD];
#pragma unroll
    for (int c = 0; c < CHUNKS_PER_THREAD; c++)
        fragments[c] = is_valid(c) ? load16(x + c * CHUNK_STRIDE * 8) : zero16();
    const float factor = factors[slot];
    // In the epilogue, thread e computes output e % ROWS_PER_CTA of tile e / ROWS_PER_CTA.
    const int epilogue_tile = threadIdx.x / ROWS_PER_CTA, epilogue_row = threadIdx.x % ROWS_PER_CTA;
    const float gate = shared && gates ? 1.0f / (1.0f + expf(-gates[row])) : 1.0f;
    int current = blockIdx.x;
    while (current < tiles) {
        const int output = (current + epilogue_tile * int(gridDim.x)) * ROWS_PER_CTA + epilogue_row;
        const bool writes = epilogue_tile < EPILOGUE_TILES && output < outputs;
        const i64 index = row * outputs + output;
        // The epilogue's operands are loaded before the main loop, which hides their latency.
        float addend = writes && residual ? to_float(residual[index]) : 0.0f;
        if (writes && shared)
            addend = fmaf(gate, to_float(shared[index]), addend);
        for (int k = 0; writes && bias && k < TOP_K; k++)
            addend = fmaf(factors[k], to_float(bias[i64(max(experts[k], 0)) * outputs + output]), addend);
#pragma unroll 1
        for (int tile = 0; tile < EPILOGUE_TILES && current < tiles; tile++, current += gridDim.x) {
            float partials[ROWS_PER_CTA];
#pragma unroll
            for (int r = 0; r < ROWS_PER_CTA; r++) {
                float sums[4] = {};
#pragma unroll
                for (int c = 0; c < CHUNKS_PER_THREAD; c++) {
                    mma_16x8x16<Element>(sums, fragments[c].x, 0, fragments[c].y, 0, w[r][c].x, w[r][c].y);
                    mma_16x8x16<Element>(sums, fragments[c].z, 0, fragments[c].w, 0, w[r][c].z, w[r][c].w);
                }
                partials[r] = diagonal ? (odd ? sums[1] : sums[0]) : 0.0f;
            }
            load_next_tile();
            reduce_partials<ROWS_PER_CTA>(partials);
            if (lane % (32 / ROWS_PER_CTA) == 0)
                warp_partials[tile][warp][lane / (32 / ROWS_PER_CTA)] = factor == 0.0f ? 0.0f : partials[0] * factor;
        }
        __syncthreads();
        if (writes) {
            float v = addend;
#pragma unroll
            for (int i = 0; i < WARPS; i++)
                v += warp_partials[epilogue_tile][i][epilogue_row];
            y[index] = from_float<Element>(v);
        }
        if (current < tiles)
            __syncthreads();
    }
}

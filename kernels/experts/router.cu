// The router of a mixture of experts in one kernel: RMS norm, logits, and the experts of each token.
//
// Algorithm: RMS norm [Zhang & Sennrich 2019], a small-M GEMM, and top-k routing as route.cuh.
// Tiling: a thread block cluster takes 8 tokens. Each of its CTAs multiplies them by the weights of 16 experts, the A
//   operand of mma.sync m16n8k16, with split-K over its warps; the weights stay in registers, loaded before the
//   preceding kernel ends. Logits are exchanged through distributed shared memory; then a warp routes each token.
// Departures: the order of k is free as long as both operands agree: lane 4 g + t takes inputs 32 j + 8 t to 7 more of
//   row g, one 16-byte load (as in small_m_gemm.cu). The norm's scale multiplies the logits.
//
// Options: ELEMENT (bf16, fp16: of x, gain, weights and normed), INPUTS (K: a multiple of 32 WARPS), WARPS (at least
//   8), CLUSTER_SIZE (1, 2, 4, 8: sixteenths of the experts), SIGMOID, NORMALIZE, TOP_TWO_GROUPS (as route.cuh).
// Launch: grid CLUSTER_SIZE * ceil(rows / 8) in clusters of CLUSTER_SIZE, CTA of 32 WARPS.
// Arguments: x (rows x INPUTS), gain (INPUTS), weights (experts_count x INPUTS), router_bias (experts_count, added to
//   the logits, may be null), choice_bias (experts_count, float, may be null), slots (as route.cu), normed (rows x
//   INPUTS), experts, expert_weights (as route.cu), rows, experts_count (more than 16 (CLUSTER_SIZE - 1), at most 16
//   CLUSTER_SIZE), epsilon, top_k, groups, top_groups, factor.
#define CLUSTER (CLUSTER_SIZE > 1)
#include "cluster.cuh"
#include "route.cuh"

typedef ELEMENT Element;
constexpr int MAX_ROWS = 8, THREADS = WARPS * 32;
constexpr int CTA_EXPERTS = 16, MAX_EXPERTS = CTA_EXPERTS * CLUSTER_SIZE;
constexpr int WARP_K = INPUTS / WARPS, K_STEPS = WARP_K / 32;
constexpr int ROWS_PER_CTA = (MAX_ROWS + CLUSTER_SIZE - 1) / CLUSTER_SIZE;  // that a CTA routes
static_assert(K_STEPS * 32 * WARPS == INPUTS && WARPS >= ROWS_PER_CTA && THREADS >= CTA_EXPERTS * MAX_ROWS, "");

KERNEL __launch_bounds__(THREADS, 1)
router(const Element* x, const Element* __restrict__ gain, const Element* __restrict__ weights,
       const Element* __restrict__ router_bias, const float* __restrict__ choice_bias, const int* slots,
       Element* normed, int* experts, float* expert_weights, int rows, int experts_count, float epsilon, int top_k,
       int groups, int top_groups, float factor TRACE_PARAMETER) {
    TRACE_SPAN(0);
    __shared__ float warp_partials[WARPS][CTA_EXPERTS * MAX_ROWS];
    __shared__ float squares[WARPS][MAX_ROWS];
    __shared__ float logits[MAX_ROWS][CTA_EXPERTS];
    __shared__ float scores[ROWS_PER_CTA][MAX_EXPERTS];
    __shared__ u32 keys[ROWS_PER_CTA][MAX_EXPERTS], group_keys[ROWS_PER_CTA][MAX_EXPERTS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int rank = blockIdx.x % CLUSTER_SIZE, first_row = blockIdx.x / CLUSTER_SIZE * MAX_ROWS;
    const int first_expert = rank * CTA_EXPERTS;

    launch_dependents();
    uint4 w[K_STEPS][2];
#pragma unroll
    for (int s = 0; s < K_STEPS; s++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int expert = first_expert + h * 8 + g, k = warp * WARP_K + s * 32 + t * 8;
            w[s][h] = expert < experts_count ? load16_read_only(weights + i64(expert) * INPUTS + k) : zero16();
        }
    if (lane < K_STEPS)
        prefetch_l2(gain + warp * WARP_K + lane * 32);
    wait_on_dependency();

    const bool valid = first_row + g < rows;
    const Element* row = x + i64(first_row + g) * INPUTS + warp * WARP_K + t * 8;
    uint4 loaded[K_STEPS];
#pragma unroll
    for (int s = 0; s < K_STEPS; s++)
        loaded[s] = valid ? load16(row + s * 32) : zero16();
    float c[2][4] = {}, square = 0.0f;
#pragma unroll
    for (int s = 0; s < K_STEPS; s++) {
        const uint4 gains = load16(gain + warp * WARP_K + s * 32 + t * 8);
        u32 v[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float2 pair = unpack<Element>(word(loaded[s], i)), factors = unpack<Element>(word(gains, i));
            square = fmaf(pair.x, pair.x, fmaf(pair.y, pair.y, square));
            v[i] = pack<Element>(pair.x * factors.x, pair.y * factors.y);
        }
        mma_16x8x16<Element>(c[0], w[s][0].x, w[s][1].x, w[s][0].y, w[s][1].y, v[0], v[1]);
        mma_16x8x16<Element>(c[1], w[s][0].z, w[s][1].z, w[s][0].w, w[s][1].w, v[2], v[3]);
    }
    // Rows of c are experts, columns tokens; a square is of token g.
    square += __shfl_xor_sync(~0u, square, 1);
    square += __shfl_xor_sync(~0u, square, 2);
    if (t == 0)
        squares[warp][g] = square;
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int i = 0; i < 2; i++)
            warp_partials[warp][(h * 8 + g) * MAX_ROWS + t * 2 + i] = c[0][h * 2 + i] + c[1][h * 2 + i];
    __syncthreads();
    if (threadIdx.x < CTA_EXPERTS * MAX_ROWS) {
        const int m = threadIdx.x % MAX_ROWS, expert = threadIdx.x / MAX_ROWS;
        float sum = 0.0f, mean = 0.0f;
#pragma unroll
        for (int i = 0; i < WARPS; i++) {
            sum += warp_partials[i][threadIdx.x];
            mean += squares[i][m];
        }
        const float scale = rsqrtf(mean / INPUTS + epsilon);
        const bool known = first_expert + expert < experts_count;
        const float bias = router_bias && known ? to_float(router_bias[first_expert + expert]) : 0.0f;
        logits[m][expert] = fmaf(sum, scale, bias);
    }
    // The normed row of a token is written from the registers of the lanes that hold it.
    if (valid && g % CLUSTER_SIZE == rank) {
        float mean = 0.0f;
#pragma unroll
        for (int i = 0; i < WARPS; i++)
            mean += squares[i][g];
        const float scale = rsqrtf(mean / INPUTS + epsilon);
        Element* out = normed + i64(first_row + g) * INPUTS + warp * WARP_K + t * 8;
#pragma unroll
        for (int s = 0; s < K_STEPS; s++) {
            const uint4 gains = load16(gain + warp * WARP_K + s * 32 + t * 8);
            u32 words[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float2 pair = unpack<Element>(word(loaded[s], i)), factors = unpack<Element>(word(gains, i));
                words[i] = pack<Element>(pair.x * scale * factors.x, pair.y * scale * factors.y);
            }
            store16(out + s * 32, make_uint4(words[0], words[1], words[2], words[3]));
        }
    }
    __syncwarp();
    cluster_sync();

    // Token r of the cluster is routed by warp r / CLUSTER_SIZE of CTA r % CLUSTER_SIZE.
    const int m = warp * CLUSTER_SIZE + rank, token = first_row + m;
    if (warp < ROWS_PER_CTA && m < MAX_ROWS && token < rows) {
        for (int i = lane; i < experts_count; i += 32)
            scores[warp][i] = load_dsmem(&logits[m][i % CTA_EXPERTS], i / CTA_EXPERTS);
        __syncwarp();
        if (slots && slots[token] < 0)
            route_nowhere(experts + i64(token) * top_k, expert_weights + i64(token) * top_k, top_k);
        else
            route_token(scores[warp], keys[warp], group_keys[warp], choice_bias, experts + i64(token) * top_k,
                        expert_weights + i64(token) * top_k, experts_count, top_k, groups, top_groups, factor);
    }
    __syncwarp();
    cluster_sync();  // a CTA's shared memory stays while others read it
}

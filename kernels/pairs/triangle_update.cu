// The end of triangle multiplication: from sums channel by channel to the update of pairs, place by place.
//
// Algorithm: triangle multiplication [Jumper et al. 2021, algorithms 11 and 12], lines 3 and 4, fused: LayerNorm of the
//   sums over channels, gates from the LayerNorm of the pairs, and the output projection.
// Tiling: a CTA is TILE_PLACES pairs. Their sums arrive by cp.async as rows of channels and are transposed while they
//   are normalized; norms of the pairs are the A operand of the gates' product, gated sums that of the last one. Both
//   products take 128 outputs at a time, weights by cp.async in slices of 64 inputs; a warp has 32 pairs.
// Departures: gates are computed here, from pairs that are read for the residual anyway, and never written to memory.
//
// Options: ELEMENT (bf16, fp16), HIDDEN and CHANNELS (multiples of 128), TILE_PLACES (64, 128), STAGES (2 or more),
//   RESIDUAL (0, 1), CTAS_PER_SM.
// Launch: grid (ceil(places / TILE_PLACES), batch), CTA of 256 threads, shared bytes TILE_PLACES * (2 CHANNELS + 2
//   HIDDEN + 32) + max(STAGES * 128 * 144, HIDDEN * (2 TILE_PLACES + 16)).
// Arguments: sums (batch x HIDDEN x places), pairs (batch x places x CHANNELS), sum_weight, sum_bias (HIDDEN),
//   pair_weight, pair_bias (CHANNELS), gates (HIDDEN x CHANNELS), weights (CHANNELS x HIDDEN), out (as pairs), places
//   (a multiple of 8), epsilon.
#include "pair_tiles.cuh"

constexpr int STEP_OUTPUTS = 128;
constexpr int PAIR_BYTES = row_bytes(CHANNELS), SUM_BYTES = row_bytes(HIDDEN);
constexpr int SLICE_BYTES = row_bytes(SLICE_K), STAGE_BYTES = STEP_OUTPUTS * SLICE_BYTES;
constexpr int OUT_BYTES = row_bytes(STEP_OUTPUTS);
constexpr int GATE_SLICES = CHANNELS / SLICE_K, GATE_STEPS = HIDDEN / STEP_OUTPUTS * GATE_SLICES;
constexpr int OUT_SLICES = HIDDEN / SLICE_K, STEPS = GATE_STEPS + CHANNELS / STEP_OUTPUTS * OUT_SLICES;
constexpr int M_WARPS = TILE_PLACES / 32, N_WARPS = WARPS / M_WARPS;
constexpr int WARP_OUTPUTS = STEP_OUTPUTS / N_WARPS, N_TILES = WARP_OUTPUTS / 8;

KERNEL __launch_bounds__(THREADS, CTAS_PER_SM)
triangle_update(const ELEMENT* sums, const ELEMENT* pairs, const ELEMENT* sum_weight, const ELEMENT* sum_bias,
                const ELEMENT* pair_weight, const ELEMENT* pair_bias, const ELEMENT* gates, const ELEMENT* weights,
                ELEMENT* out, int places, float epsilon TRACE_PARAMETER) {
    TRACE_SPAN(0);
    extern __shared__ uint4 dynamic[];
    __shared__ float partial[THREADS];
    const int first_place = blockIdx.x * TILE_PLACES, count = min(TILE_PLACES, places - first_place);
    const i64 first = i64(blockIdx.y) * places + first_place;
    const u32 pair_tile = shared_address(dynamic), sum_tile = pair_tile + TILE_PLACES * PAIR_BYTES;
    const u32 ring = sum_tile + TILE_PLACES * SUM_BYTES;
    const u8* bytes = reinterpret_cast<const u8*>(dynamic);
    const u8* raw = bytes + (ring - pair_tile);
    launch_dependents();
    wait_on_dependency();
    copy_sums<ELEMENT, HIDDEN, TILE_PLACES>(ring, sums + i64(blockIdx.y) * HIDDEN * places, first_place, count, places);
    cp_async_commit();
    normalize_rows<ELEMENT, CHANNELS>(pair_tile, TILE_PLACES, count, pairs, pair_weight, pair_bias, epsilon,
                                      [&](int place) { return first + place; });
    cp_async_wait<0>();
    __syncthreads();
    normalize_sums<ELEMENT, HIDDEN, TILE_PLACES, PaddedTile<HIDDEN>>(sum_tile, raw, partial, sum_weight, sum_bias,
                                                                      epsilon);
    __syncthreads();  // all sums were read: weights may take their place

    auto load_step = [&](int step) {
        const u32 to = ring + step % STAGES * STAGE_BYTES;
        const int other = step - GATE_STEPS;
        if (step < GATE_STEPS)
            copy_slice<ELEMENT, STEP_OUTPUTS, CHANNELS>(
                to, gates + i64(step / GATE_SLICES * STEP_OUTPUTS) * CHANNELS, step % GATE_SLICES);
        else if (step < STEPS)
            copy_slice<ELEMENT, STEP_OUTPUTS, HIDDEN>(to, weights + i64(other / OUT_SLICES * STEP_OUTPUTS) * HIDDEN,
                                                      other % OUT_SLICES);
        cp_async_commit();
    };
    for (int step = 0; step < STAGES - 1; step++)
        load_step(step);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int warp_place = warp % M_WARPS * 32, warp_output = warp / M_WARPS * WARP_OUTPUTS;
    float products[2][N_TILES][4] = {};
    for (int step = 0; step < STEPS; step++) {
        cp_async_wait<STAGES - 2>();
        __syncthreads();  // the slice has arrived, and all warps are done with the one before
        load_step(step + STAGES - 1);
        const u32 slice = ring + step % STAGES * STAGE_BYTES;
        const bool gating = step < GATE_STEPS;
        const int own = gating ? step : step - GATE_STEPS, slices = gating ? GATE_SLICES : OUT_SLICES;
        const int k_begin = own % slices * SLICE_K, first_output = own / slices * STEP_OUTPUTS;
#pragma unroll
        for (int k = 0; k < SLICE_K; k += 16) {
            u32 a[2][4];
#pragma unroll
            for (int m = 0; m < 2; m++)
                if (gating)
                    load_a<PAIR_BYTES>(a[m], pair_tile, warp_place + m * 16, k_begin + k);
                else
                    load_a<SUM_BYTES>(a[m], sum_tile, warp_place + m * 16, k_begin + k);
#pragma unroll
            for (int n = 0; n < N_TILES / 2; n++) {
                u32 b[4];
                load_b<SLICE_BYTES>(b, slice, warp_output + n * 16, k);
#pragma unroll
                for (int m = 0; m < 2; m++)
#pragma unroll
                    for (int half = 0; half < 2; half++)
                        mma_16x8x16<ELEMENT>(products[m][2 * n + half], a[m][0], a[m][1], a[m][2], a[m][3],
                                             b[2 * half], b[2 * half + 1]);
            }
        }
        if (own % slices != slices - 1)
            continue;
        // Gated sums take the place of sums; outputs that of the pairs, whose gates are all computed.
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int n = 0; n < N_TILES; n++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const int place = warp_place + m * 16 + h * 8 + g, output = warp_output + n * 8 + t * 2;
                    float* v = products[m][n] + 2 * h;
                    if (gating) {
                        const u32 at = sum_tile + place * SUM_BYTES + (first_output + output) * 2;
                        const float2 sum = unpack<ELEMENT>(load4_shared(at));
                        store4_shared(at, pack<ELEMENT>(sum.x * logistic(v[0]), sum.y * logistic(v[1])));
                    } else {
                        store4_shared(pair_tile + place * OUT_BYTES + output * 2, pack<ELEMENT>(v[0], v[1]));
                    }
                    v[0] = v[1] = 0.0f;
                }
        if (gating)
            continue;
        __syncthreads();
        for (int i = threadIdx.x; i < count * STEP_OUTPUTS / 8; i += THREADS) {
            const int place = i / (STEP_OUTPUTS / 8), output = i % (STEP_OUTPUTS / 8) * 8;
            const i64 at = (first + place) * CHANNELS + first_output + output;
            uint4 update = load16(bytes + place * OUT_BYTES + output * 2);
            if (RESIDUAL)
                update = add_elements<ELEMENT>(update, load16(pairs + at));
            store16(out + at, update);
        }
    }
}

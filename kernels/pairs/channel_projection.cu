// LayerNorm of every place of a plane, its projections times the logistic function of their gates, channel by channel:
// the beginning of triangle multiplication.
//
// Algorithm: triangle multiplication [Jumper et al. 2021, algorithms 11 and 12], lines 1 and 2, fused; the norm is the
//   two-pass LayerNorm [Ba et al. 2016].
// Tiling: a CTA is TILE_PLACES places: their norms stay in shared memory, and the weights of 64 channels with those of
//   their gates come by cp.async in slices of 64 inputs. Weights are the A operand of mma.sync m16n8k16 and places the
//   B operand, so that accumulators are rows of channels; a warp has 32 channels, both factors, of TILE_PLACES / 4
//   places. Results are staged in shared memory: a channel's places are written 16 bytes at a time.
// Departures: none published has this layout. Places of the output are in order; their inputs are gathered where rows
//   and columns are swapped, whole rows of x at a time, so that the product which follows needs no transposition.
//
// Options: ELEMENT (bf16, fp16), INPUTS (a multiple of 64), TILE_PLACES (64, 128), STAGES (2 or more), GATED (0, 1),
//   TRANSPOSED (0, 1), CTAS_PER_SM.
// Launch: grid (ceil(rows * columns / TILE_PLACES), batch), CTA of 256 threads, shared bytes TILE_PLACES * (2 INPUTS +
//   16) + STAGES * (1 + GATED) * 64 * 144 + 64 * (2 TILE_PLACES + 16).
// Arguments: x (batch x rows x columns x INPUTS), norm_weight, norm_bias, weights, gates (outputs x INPUTS each), mask
//   (batch x rows x columns; may be null), out (batch x outputs x rows * columns), rows, columns, outputs (a multiple
//   of 64), epsilon. rows * columns is a multiple of 8.
#include "pair_tiles.cuh"

constexpr int STEP_CHANNELS = 64, FACTORS = 1 + GATED;
constexpr int X_BYTES = row_bytes(INPUTS), SLICE_BYTES = row_bytes(SLICE_K), OUT_BYTES = row_bytes(TILE_PLACES);
constexpr int SLICES = INPUTS / SLICE_K, STAGE_BYTES = FACTORS * STEP_CHANNELS * SLICE_BYTES;
constexpr int WARP_PLACES = TILE_PLACES / 4, N_TILES = WARP_PLACES / 8;

KERNEL __launch_bounds__(THREADS, CTAS_PER_SM)
channel_projection(const ELEMENT* x, const ELEMENT* norm_weight, const ELEMENT* norm_bias, const ELEMENT* weights,
                   const ELEMENT* gates, const ELEMENT* mask, ELEMENT* out, int rows, int columns, int outputs,
                   float epsilon TRACE_PARAMETER) {
    TRACE_SPAN(0);
    extern __shared__ uint4 dynamic[];
    __shared__ float factors[TILE_PLACES];
    const int places = rows * columns, first_place = blockIdx.x * TILE_PLACES;
    const int count = min(TILE_PLACES, places - first_place);
    const u32 x_tile = shared_address(dynamic), ring = x_tile + TILE_PLACES * X_BYTES;
    const u32 out_tile = ring + STAGES * STAGE_BYTES;
    const u8* staged = reinterpret_cast<const u8*>(dynamic) + (out_tile - x_tile);
    const int steps = outputs / STEP_CHANNELS * SLICES;
    auto load_step = [&](int step) {
        if (step < steps) {
            const u32 to = ring + step % STAGES * STAGE_BYTES;
            const i64 channel = step / SLICES * STEP_CHANNELS;
            copy_slice<ELEMENT, STEP_CHANNELS, INPUTS>(to, weights + channel * INPUTS, step % SLICES);
            if (GATED)
                copy_slice<ELEMENT, STEP_CHANNELS, INPUTS>(to + STEP_CHANNELS * SLICE_BYTES, gates + channel * INPUTS,
                                                           step % SLICES);
        }
        cp_async_commit();
    };
    launch_dependents();
    wait_on_dependency();
    for (int step = 0; step < STAGES - 1; step++)
        load_step(step);
    const i64 sample = i64(blockIdx.y) * places;
    auto source = [&](int place) {
        const int at = first_place + place;
        return sample + (TRANSPOSED ? at % rows * columns + at / rows : at);
    };
    for (int i = threadIdx.x; i < TILE_PLACES; i += THREADS)
        factors[i] = mask && i < count ? to_float(mask[source(i)]) : 1.0f;
    normalize_rows<ELEMENT, INPUTS>(x_tile, TILE_PLACES, count, x, norm_weight, norm_bias, epsilon, source);

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int warp_channel = warp % 2 * 32, warp_place = warp / 2 * WARP_PLACES;
    float sums[FACTORS][2][N_TILES][4] = {};
    for (int step = 0; step < steps; step++) {
        cp_async_wait<STAGES - 2>();
        __syncthreads();  // the slice has arrived, and all warps are done with the one before
        load_step(step + STAGES - 1);
        const u32 slice = ring + step % STAGES * STAGE_BYTES;
        const int k_begin = step % SLICES * SLICE_K;
#pragma unroll
        for (int k = 0; k < SLICE_K; k += 16) {
            u32 b[N_TILES / 2][4];
#pragma unroll
            for (int n = 0; n < N_TILES / 2; n++)
                load_b<X_BYTES>(b[n], x_tile, warp_place + n * 16, k_begin + k);
#pragma unroll
            for (int f = 0; f < FACTORS; f++)
#pragma unroll
                for (int m = 0; m < 2; m++) {
                    u32 a[4];
                    load_a<SLICE_BYTES>(a, slice, f * STEP_CHANNELS + warp_channel + m * 16, k);
#pragma unroll
                    for (int n = 0; n < N_TILES; n++)
                        mma_16x8x16<ELEMENT>(sums[f][m][n], a[0], a[1], a[2], a[3], b[n / 2][n % 2 * 2],
                                             b[n / 2][n % 2 * 2 + 1]);
                }
        }
        if (step % SLICES != SLICES - 1)
            continue;
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int n = 0; n < N_TILES; n++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const int channel = warp_channel + m * 16 + h * 8 + g, place = warp_place + n * 8 + t * 2;
                    float v[2];
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        v[i] = sums[0][m][n][2 * h + i] * factors[place + i];
                        if (GATED)
                            v[i] *= logistic(sums[FACTORS - 1][m][n][2 * h + i]);
#pragma unroll
                        for (int f = 0; f < FACTORS; f++)
                            sums[f][m][n][2 * h + i] = 0.0f;
                    }
                    store4_shared(out_tile + channel * OUT_BYTES + place * 2, pack<ELEMENT>(v[0], v[1]));
                }
        __syncthreads();
        const i64 base = sample * outputs + i64(step / SLICES * STEP_CHANNELS) * places + first_place;
        for (int i = threadIdx.x; i < STEP_CHANNELS * TILE_PLACES / 8; i += THREADS) {
            const int channel = i / (TILE_PLACES / 8), place = i % (TILE_PLACES / 8) * 8;
            if (place < count)
                store16(out + base + i64(channel) * places + place, load16(staged + channel * OUT_BYTES + place * 2));
        }
    }
}

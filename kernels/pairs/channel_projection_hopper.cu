// channel_projection.cu on Hopper (sm_90a): the same by warpgroup tensor cores.
//
// Algorithm: as channel_projection.cu.
// Tiling: a CTA is TILE_PLACES places, whose norms stay in shared memory as 128-byte swizzled blocks of 64 inputs.
//   Weights are the A operand of wgmma m64nNk16 and places the B operand, both in shared memory: with GROUPS 2 a
//   warpgroup has half of the places and a step is 64 channels, with 1 all places of half of a step of 128.
//   Weights come by cp.async in slices of 64 inputs, and the products of a slice run beside those of the next
//   where there are three stages. Each lane of a quad writes eight places of a channel, so that nothing is staged.
// Departures: none published has this layout. cp.async and the norms write by the generic proxy: a fence before
//   the barrier of each slice makes them visible to wgmma.
//
// Options: ELEMENT (bf16, fp16), INPUTS (a multiple of 64), TILE_PLACES (64, 128), GROUPS (1, or 2 with 128
//   places), STAGES (2 or more), GATED (0, 1), TRANSPOSED (0, 1), CTAS_PER_SM.
// Launch: grid (ceil(rows * columns / TILE_PLACES), batch), CTA of 256 threads, shared bytes TILE_PLACES * 2
//   INPUTS + STAGES * (1 + GATED) * 128 / GROUPS * 128 + 1024.
// Arguments: as channel_projection.cu; outputs are a multiple of 128 / GROUPS.
#include "hopper.cuh"
#include "pair_tiles.cuh"

constexpr int FACTORS = 1 + GATED, GROUP_PLACES = TILE_PLACES / GROUPS, STEP_CHANNELS = 128 / GROUPS;
constexpr int SLICES = INPUTS / SLICE_K, BLOCK_BYTES = TILE_PLACES * 128;
constexpr int FACTOR_BYTES = STEP_CHANNELS * 128, STAGE_BYTES = FACTORS * FACTOR_BYTES;
// Slices whose products may still run when the next slice is multiplied, and slices that are copied ahead.
constexpr int RUNNING = STAGES > 2, AHEAD = STAGES - 1 - RUNNING;

KERNEL __launch_bounds__(THREADS, CTAS_PER_SM)
channel_projection_hopper(const ELEMENT* x, const ELEMENT* norm_weight, const ELEMENT* norm_bias,
                          const ELEMENT* weights, const ELEMENT* gates, const ELEMENT* mask, ELEMENT* out, int rows,
                          int columns, int outputs, float epsilon TRACE_PARAMETER) {
    TRACE_SPAN(0);
    extern __shared__ u8 dynamic[];
    __shared__ float factors[TILE_PLACES];
    const int places = rows * columns, first_place = blockIdx.x * TILE_PLACES;
    const int count = min(TILE_PLACES, places - first_place);
    const u32 x_tile = (shared_address(dynamic) + 1023) & ~1023u, ring = x_tile + SLICES * BLOCK_BYTES;
    const int steps = outputs / STEP_CHANNELS * SLICES;
    auto load_step = [&](int step) {
        if (step < steps) {
            const u32 to = ring + step % STAGES * STAGE_BYTES;
            const i64 first = i64(step / SLICES * STEP_CHANNELS) * INPUTS;
            using Tile = SwizzledTile<STEP_CHANNELS>;
            copy_slice<ELEMENT, STEP_CHANNELS, INPUTS, Tile>(to, weights + first, step % SLICES);
            if (GATED)
                copy_slice<ELEMENT, STEP_CHANNELS, INPUTS, Tile>(to + FACTOR_BYTES, gates + first, step % SLICES);
        }
        cp_async_commit();
    };
    launch_dependents();
    wait_on_dependency();
    for (int step = 0; step < AHEAD; step++)
        load_step(step);
    const i64 sample = i64(blockIdx.y) * places;
    auto source = [&](int place) {
        const int at = first_place + place;
        return sample + (TRANSPOSED ? at % rows * columns + at / rows : at);
    };
    for (int i = threadIdx.x; i < TILE_PLACES; i += THREADS)
        factors[i] = mask && i < count ? to_float(mask[source(i)]) : 1.0f;
    normalize_rows<ELEMENT, INPUTS, SwizzledTile<TILE_PLACES>>(x_tile, TILE_PLACES, count, x, norm_weight, norm_bias,
                                                               epsilon, source);

    const int warpgroup = threadIdx.x / 128, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const int group_channel = GROUPS == 1 ? warpgroup * 64 : 0, group_place = GROUPS == 1 ? 0 : warpgroup * 64;
    const int warp_channel = group_channel + threadIdx.x / 32 % 4 * 16;
    float sums[FACTORS][GROUP_PLACES / 2];
    for (int step = 0; step < steps;) {
        const int first_channel = step / SLICES * STEP_CHANNELS;
#pragma unroll 1
        for (int k = 0; k < SLICES; k++, step++) {
            cp_async_wait<AHEAD - 1>();
            fence_proxy_async();
            __syncthreads();  // the slice has arrived, and all warpgroups are done with the one that is replaced
            load_step(step + AHEAD);
            const u32 slice = ring + step % STAGES * STAGE_BYTES + group_channel * 128;
            const u32 block = x_tile + k * BLOCK_BYTES + group_place * 128;
            wgmma_fence();
#pragma unroll
            for (int s = 0; s < SLICE_K / 16; s++)
#pragma unroll
                for (int f = 0; f < FACTORS; f++)
                    wgmma_ss(sums[f], smem_descriptor(slice + f * FACTOR_BYTES + s * 32, 16),
                             smem_descriptor(block + s * 32, 16), k > 0 || s > 0, ELEMENT());
            wgmma_commit();
            if (k < SLICES - 1)
                wgmma_wait<RUNNING>();
        }
        wgmma_wait<0>();
        // Lane t of a quad stores a block of eight places, 16 bytes.
#pragma unroll
        for (int h = 0; h < 2; h++) {
            ELEMENT* to = out + sample * outputs + i64(first_channel + warp_channel + h * 8 + g) * places + first_place;
#pragma unroll
            for (int block = 0; block < GROUP_PLACES / 8; block += 4) {
                u32 words[4];
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    float v[2];
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        const int at = (block + j) * 4 + h * 2 + i;
                        v[i] = sums[0][at] * factors[group_place + (block + j) * 8 + t * 2 + i];
                        if (GATED)
                            v[i] *= logistic(sums[FACTORS - 1][at]);
                    }
                    words[j] = pack<ELEMENT>(v[0], v[1]);
                }
                transpose_quad(words, t);
                const int place = group_place + (block + t) * 8;
                if (place < count)
                    store16(to + place, make_uint4(words[0], words[1], words[2], words[3]));
            }
        }
    }
}

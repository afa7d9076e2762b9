// triangle_update.cu on Hopper (sm_90a): the same by warpgroup tensor cores.
//
// Algorithm: as triangle_update.cu.
// Tiling: a CTA is TILE_PLACES pairs. Norms of the pairs, and of their sums, are 128-byte swizzled blocks of 64
//   channels in shared memory: the A operands of wgmma m64nNk16 for the gates and for the outputs, 128 at a time.
//   A warpgroup has 64 pairs, with 64 in a CTA half of the outputs. Weights, the B operand, come by cp.async in
//   slices of 64 inputs, and the products of a slice run beside those of the next where there are three stages.
//   Each lane of a quad writes eight outputs of a pair, so that nothing is staged.
// Departures: as triangle_update.cu. cp.async and norms write by the generic proxy: a fence before the barrier of
//   each slice makes them visible to wgmma.
//
// Options: as triangle_update.cu.
// Launch: grid (ceil(places / TILE_PLACES), batch), CTA of 256 threads, shared bytes TILE_PLACES * 2 * (CHANNELS +
//   HIDDEN) + max(STAGES * 128 * 128, HIDDEN * (2 TILE_PLACES + 16)) + 1024.
// Arguments: as triangle_update.cu.
#include "hopper.cuh"
#include "pair_tiles.cuh"

constexpr int STEP_OUTPUTS = 128, STAGE_BYTES = STEP_OUTPUTS * 128, BLOCK_BYTES = TILE_PLACES * 128;
constexpr int GATE_SLICES = CHANNELS / SLICE_K, OUT_SLICES = HIDDEN / SLICE_K;
constexpr int GATE_PASSES = HIDDEN / STEP_OUTPUTS, PASSES = GATE_PASSES + CHANNELS / STEP_OUTPUTS;
constexpr int GATE_STEPS = GATE_PASSES * GATE_SLICES, STEPS = GATE_STEPS + CHANNELS / STEP_OUTPUTS * OUT_SLICES;
constexpr int GROUP_OUTPUTS = TILE_PLACES == 128 ? STEP_OUTPUTS : STEP_OUTPUTS / 2;
// Slices whose products may still run when the next slice is multiplied, and slices that are copied ahead.
constexpr int RUNNING = STAGES > 2, AHEAD = STAGES - 1 - RUNNING;

KERNEL __launch_bounds__(THREADS, CTAS_PER_SM)
triangle_update_hopper(const ELEMENT* sums, const ELEMENT* pairs, const ELEMENT* sum_weight, const ELEMENT* sum_bias,
                       const ELEMENT* pair_weight, const ELEMENT* pair_bias, const ELEMENT* gates,
                       const ELEMENT* weights, ELEMENT* out, int places, float epsilon TRACE_PARAMETER) {
    TRACE_SPAN(0);
    using Tile = SwizzledTile<TILE_PLACES>;
    extern __shared__ u8 dynamic[];
    __shared__ float partial[THREADS];
    const int first_place = blockIdx.x * TILE_PLACES, count = min(TILE_PLACES, places - first_place);
    const i64 first = i64(blockIdx.y) * places + first_place;
    const u32 begin = shared_address(dynamic), pair_tile = (begin + 1023) & ~1023u;
    const u32 sum_tile = pair_tile + GATE_SLICES * BLOCK_BYTES, ring = sum_tile + OUT_SLICES * BLOCK_BYTES;
    launch_dependents();
    wait_on_dependency();
    copy_sums<ELEMENT, HIDDEN, TILE_PLACES>(ring, sums + i64(blockIdx.y) * HIDDEN * places, first_place, count, places);
    cp_async_commit();
    normalize_rows<ELEMENT, CHANNELS, Tile>(pair_tile, TILE_PLACES, count, pairs, pair_weight, pair_bias, epsilon,
                                            [&](int place) { return first + place; });
    cp_async_wait<0>();
    __syncthreads();
    const u8* raw = dynamic + (ring - begin);
    normalize_sums<ELEMENT, HIDDEN, TILE_PLACES, Tile>(sum_tile, raw, partial, sum_weight, sum_bias, epsilon);
    __syncthreads();  // all sums were read: weights may take their place

    auto load_step = [&](int step) {
        const u32 to = ring + step % STAGES * STAGE_BYTES;
        const int other = step - GATE_STEPS;
        using Slice = SwizzledTile<STEP_OUTPUTS>;
        if (step < GATE_STEPS)
            copy_slice<ELEMENT, STEP_OUTPUTS, CHANNELS, Slice>(
                to, gates + i64(step / GATE_SLICES * STEP_OUTPUTS) * CHANNELS, step % GATE_SLICES);
        else if (step < STEPS)
            copy_slice<ELEMENT, STEP_OUTPUTS, HIDDEN, Slice>(
                to, weights + i64(other / OUT_SLICES * STEP_OUTPUTS) * HIDDEN, other % OUT_SLICES);
        cp_async_commit();
    };
    for (int step = 0; step < AHEAD; step++)
        load_step(step);
    const int warpgroup = threadIdx.x / 128, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const int group_place = TILE_PLACES == 128 ? warpgroup * 64 : 0;
    const int group_output = TILE_PLACES == 128 ? 0 : warpgroup * GROUP_OUTPUTS;
    const int warp_place = group_place + threadIdx.x / 32 % 4 * 16;
    float products[GROUP_OUTPUTS / 2];
    int step = 0;
#pragma unroll 1
    for (int pass = 0; pass < PASSES; pass++) {
        const bool gating = pass < GATE_PASSES;
        const int slices = gating ? GATE_SLICES : OUT_SLICES;
        const u32 tile = (gating ? pair_tile : sum_tile) + group_place * 128;
        const int first_output = (gating ? pass : pass - GATE_PASSES) * STEP_OUTPUTS + group_output;
#pragma unroll 1
        for (int k = 0; k < slices; k++, step++) {
            cp_async_wait<AHEAD - 1>();
            fence_proxy_async();
            __syncthreads();  // the slice has arrived, and all warpgroups are done with the one that is replaced
            load_step(step + AHEAD);
            const u32 slice = ring + step % STAGES * STAGE_BYTES + group_output * 128, block = tile + k * BLOCK_BYTES;
            wgmma_fence();
#pragma unroll
            for (int s = 0; s < SLICE_K / 16; s++)
                wgmma_ss(products, smem_descriptor(block + s * 32, 16), smem_descriptor(slice + s * 32, 16),
                         k > 0 || s > 0, ELEMENT());
            wgmma_commit();
            if (k < slices - 1)
                wgmma_wait<RUNNING>();
        }
        wgmma_wait<0>();
        if (gating) {
            // Gated sums take the place of sums.
#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int n = 0; n < GROUP_OUTPUTS / 8; n++) {
                    const u32 at = sum_tile + Tile::at(warp_place + h * 8 + g, first_output / 8 + n) + t * 4;
                    const float* v = products + n * 4 + h * 2;
                    const float2 sum = unpack<ELEMENT>(load4_shared(at));
                    store4_shared(at, pack<ELEMENT>(sum.x * logistic(v[0]), sum.y * logistic(v[1])));
                }
            continue;
        }
        // Lane t of a quad stores a block of eight outputs, 16 bytes.
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int place = warp_place + h * 8 + g;
            const i64 row = (first + place) * CHANNELS + first_output;
#pragma unroll
            for (int n = 0; n < GROUP_OUTPUTS / 8; n += 4) {
                u32 words[4];
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    const float* v = products + (n + j) * 4 + h * 2;
                    words[j] = pack<ELEMENT>(v[0], v[1]);
                }
                transpose_quad(words, t);
                const i64 at = row + (n + t) * 8;
                if (place < count) {
                    const uint4 update = make_uint4(words[0], words[1], words[2], words[3]);
                    store16(out + at, RESIDUAL ? add_elements<ELEMENT>(update, load16(pairs + at)) : update);
                }
            }
        }
    }
}

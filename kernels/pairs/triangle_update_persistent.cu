// triangle_update.cu on Hopper (sm_90a) for 128 channels and as many sums: persistent and warp-specialized.
//
// Algorithm: as triangle_update.cu.
// Tiling: a CTA an SM keeps all weights in shared memory, and goes through tiles of 128 pairs. Its first warpgroup
//   reads the rows of the next tile into registers, and writes their norms where there is room, two tiles ahead; bulk
//   copies bring the sums, channel by channel. Each of the other two has 64 pairs: their gates are a product by wgmma
//   m64n128k16; while it runs, ldmatrix brings their sums, transposed, to where the product puts their gates. Norms
//   of sums are of registers then, and so is the A operand of the second product. Each lane of a quad
//   writes eight outputs of a pair.
// Departures: as triangle_update.cu. A rounding less: gated sums are rounded once, norms of sums are not.
//
// Options: ELEMENT (bf16, fp16), RESIDUAL (0, 1).
// Launch: grid of a CTA an SM, CTA of 384 threads, shared bytes 65536 + 2 * (32768 + 128 * 272) + 1024.
// Arguments: as triangle_update.cu, and of how many samples; channels and sums are 128.
#include "hopper.cuh"
#include "pair_rows.cuh"

constexpr int TILE_PLACES = 128, CONSUMERS = 2, STAGES = 2, CTA_THREADS = 128 * (1 + CONSUMERS);
constexpr int WIDTH = 128, SLICES = WIDTH / SLICE_K, MATRIX_BYTES = SLICES * WIDTH * 128;
constexpr int TILE_BYTES = SLICES * TILE_PLACES * 128, SUM_BYTES = row_bytes(TILE_PLACES);
constexpr int STAGE_BYTES = TILE_BYTES + WIDTH * SUM_BYTES;
// Of 65,536: rows of a tile wait in the registers of the first warpgroup, sums in those of the others.
constexpr int PRODUCER_REGISTERS = 152, CONSUMER_REGISTERS = 176;

KERNEL __launch_bounds__(CTA_THREADS, 1)
triangle_update_persistent(const ELEMENT* sums, const ELEMENT* pairs, const ELEMENT* sum_weight,
                           const ELEMENT* sum_bias, const ELEMENT* pair_weight, const ELEMENT* pair_bias,
                           const ELEMENT* gates, const ELEMENT* weights, ELEMENT* out, int places, int batch,
                           float epsilon TRACE_PARAMETER) {
    TRACE_SPAN(128);  // the first warpgroup leaves before its tiles are multiplied
    extern __shared__ u8 dynamic[];
    __shared__ __align__(16) float norm[2][WIDTH];
    __shared__ u64 barriers[3][STAGES];
    const u32 gate_tile = (shared_address(dynamic) + 1023) & ~1023u, weight_tile = gate_tile + MATRIX_BYTES;
    const u32 stages = weight_tile + MATRIX_BYTES;
    auto pairs_full = [&](int stage) { return shared_address(&barriers[0][stage]); };
    auto sums_full = [&](int stage) { return shared_address(&barriers[1][stage]); };
    auto empty = [&](int stage) { return shared_address(&barriers[2][stage]); };
    const int warpgroup = threadIdx.x / 128;
    const int sample_tiles = ceil_divide(places, TILE_PLACES), tiles = batch * sample_tiles;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            mbarrier_init(pairs_full(stage), 128);
            mbarrier_init(sums_full(stage), WIDTH);
            mbarrier_init(empty(stage), 128 * CONSUMERS);
        }
        fence_mbarrier_init();
    }
    launch_dependents();
    wait_on_dependency();
    TileRows<ELEMENT, WIDTH, TILE_PLACES> tile_rows;
    auto read = [&](int tile) {
        if (tile >= tiles)
            return;
        const int first = tile % sample_tiles * TILE_PLACES;
        const ELEMENT* from = pairs + (i64(tile / sample_tiles) * places + first) * WIDTH;
        tile_rows.load(from, min(TILE_PLACES, places - first), [](int place) { return place; });
    };
    if (warpgroup == 0)
        read(blockIdx.x);
    copy_matrix<ELEMENT, WIDTH, WIDTH>(gate_tile, gates);
    copy_matrix<ELEMENT, WIDTH, WIDTH>(weight_tile, weights);
    cp_async_commit();
    for (int i = threadIdx.x; i < WIDTH; i += CTA_THREADS) {
        norm[0][i] = to_float(sum_weight[i]);
        norm[1][i] = to_float(sum_bias[i]);
    }
    cp_async_wait<0>();
    fence_proxy_async();
    __syncthreads();

    PipelineState<STAGES> state;
    if (warpgroup == 0) {
        decrease_registers<PRODUCER_REGISTERS>();
        tile_rows.load_norm(pair_weight, pair_bias);
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const int first = tile % sample_tiles * TILE_PLACES, bytes = 2 * min(TILE_PLACES, places - first);
            const u32 pair_tile = stages + state.index * STAGE_BYTES, sum_tile = pair_tile + TILE_BYTES;
            mbarrier_wait(empty(state.index), state.phase ^ 1);
            const i64 channel = i64(tile / sample_tiles) * WIDTH + threadIdx.x;
            mbarrier_arrive_expect_tx(sums_full(state.index), bytes);
            bulk_load(sum_tile + threadIdx.x * SUM_BYTES, sums + channel * places + first, bytes,
                      sums_full(state.index));
            tile_rows.template normalize<SwizzledTile<TILE_PLACES>>(pair_tile, epsilon);
            fence_proxy_async();
            mbarrier_arrive(pairs_full(state.index));
            state.advance();
            read(tile + gridDim.x);
        }
    } else {
        increase_registers<CONSUMER_REGISTERS>();
        const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        const int group_place = (warpgroup - 1) * 64, warp_place = group_place + threadIdx.x / 32 % 4 * 16;
        // The row of a matrix of ldmatrix that this lane tells: pairs along it, eight channels one below the other.
        const u32 sum_row = (lane / 16 * 8 + lane % 8) * SUM_BYTES + (warp_place + lane / 8 % 2 * 8) * 2;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const int first_place = tile % sample_tiles * TILE_PLACES, count = min(TILE_PLACES, places - first_place);
            const u32 pair_tile = stages + state.index * STAGE_BYTES, sum_tile = pair_tile + TILE_BYTES;
            float products[64];
            mbarrier_wait(pairs_full(state.index), state.phase);
            wgmma_fence();
#pragma unroll
            for (int s = 0; s < WIDTH / 16; s++) {
                const u32 block = pair_tile + s / 4 * TILE_PLACES * 128 + group_place * 128 + s % 4 * 32;
                const u32 slice = gate_tile + s / 4 * WIDTH * 128 + s % 4 * 32;
                wgmma_ss(products, smem_descriptor(block, 16), smem_descriptor(slice, 16), s > 0, ELEMENT());
            }
            wgmma_commit();
            mbarrier_wait(sums_full(state.index), state.phase);
            // Words 2 h' + h of a step of 16 channels are those of pair g + 8 h, from channel 8 h' + 2 t on.
            u32 gated[WIDTH / 16][4];
            float mean[2] = {}, factor[2] = {};
#pragma unroll
            for (int s = 0; s < WIDTH / 16; s++) {
                ldmatrix_x4_trans(gated[s], sum_tile + sum_row + s * 16 * SUM_BYTES);
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const float2 sum = unpack<ELEMENT>(gated[s][i]);
                    mean[i % 2] += sum.x + sum.y;
                }
            }
#pragma unroll
            for (int h = 0; h < 2; h++)
                mean[h] = over_quad(mean[h]) / WIDTH;
#pragma unroll
            for (int s = 0; s < WIDTH / 16; s++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const float2 sum = unpack<ELEMENT>(gated[s][i]);
                    const float low = sum.x - mean[i % 2], high = sum.y - mean[i % 2];
                    factor[i % 2] = fmaf(low, low, fmaf(high, high, factor[i % 2]));
                }
#pragma unroll
            for (int h = 0; h < 2; h++)
                factor[h] = rsqrtf(over_quad(factor[h]) / WIDTH + epsilon);
            // Over already: its branch keeps ptxas from moving these statistics behind the wait for products.
            mbarrier_wait(sums_full(state.index), state.phase);
            wgmma_wait<0>();
#pragma unroll
            for (int s = 0; s < WIDTH / 16; s++)
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const int channel = s * 16 + half * 8 + t * 2;
                    const float2 gain = *reinterpret_cast<const float2*>(&norm[0][channel]);
                    const float2 shift = *reinterpret_cast<const float2*>(&norm[1][channel]);
#pragma unroll
                    for (int h = 0; h < 2; h++) {
                        const float* gate = products + (2 * s + half) * 4 + h * 2;
                        const float2 sum = unpack<ELEMENT>(gated[s][2 * half + h]);
                        const float low = (sum.x - mean[h]) * factor[h] * gain.x + shift.x;
                        const float high = (sum.y - mean[h]) * factor[h] * gain.y + shift.y;
                        gated[s][2 * half + h] = pack<ELEMENT>(low * logistic(gate[0]), high * logistic(gate[1]));
                    }
                }
            // Norms of pairs and sums were read: their room is that of another tile.
            mbarrier_arrive(empty(state.index));
            state.advance();
            wgmma_fence();
#pragma unroll
            for (int s = 0; s < WIDTH / 16; s++)
                wgmma_rs(products, gated[s], smem_descriptor(weight_tile + s / 4 * WIDTH * 128 + s % 4 * 32, 16), s > 0,
                         ELEMENT());
            wgmma_commit();
            // Pairs that are added are loaded at once: `out` may be theirs, so that behind a store each load would wait
            // for the one before it.
            const i64 first = i64(tile / sample_tiles) * places + first_place;
            uint4 residuals[2][WIDTH / 32];
#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int n = 0; n < WIDTH / 32; n++)
                    if (RESIDUAL)
                        residuals[h][n] = load16(pairs + (first + min(warp_place + h * 8 + g, count - 1)) * WIDTH +
                                                 (n * 4 + t) * 8);
            wgmma_wait<0>();
            // Lane t of a quad stores a block of eight outputs, 16 bytes.
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int place = warp_place + h * 8 + g;
#pragma unroll
                for (int n = 0; n < WIDTH / 32; n++) {
                    u32 words[4];
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        const float* product = products + (n * 4 + j) * 4 + h * 2;
                        words[j] = pack<ELEMENT>(product[0], product[1]);
                    }
                    transpose_quad(words, t);
                    if (place < count) {
                        const uint4 update = make_uint4(words[0], words[1], words[2], words[3]);
                        store16(out + (first + place) * WIDTH + (n * 4 + t) * 8,
                                RESIDUAL ? add_elements<ELEMENT>(update, residuals[h][n]) : update);
                    }
                }
            }
        }
    }
}

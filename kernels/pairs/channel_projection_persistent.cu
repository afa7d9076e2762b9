// channel_projection.cu on Hopper (sm_90a) where all weights fit into shared memory: persistent and warp-specialized.
//
// Algorithm: as channel_projection.cu.
// Tiling: a CTA an SM keeps all weights in shared memory, and goes through tiles of 128 places. Its first warpgroup
//   reads the rows of the next tile into registers, and writes their norms where there is room, two tiles ahead. Each
//   of the other two has every other block of 64 channels: the A operand of wgmma m64n128k16, whose B operand are the
//   places. They take turns to multiply, as those of FlashAttention-3 do: while one multiplies, the other writes, eight
//   places of a channel by a lane.
// Departures: none published has this layout. Weights are read once an SM, not once a tile, from L2.
//
// Options: ELEMENT (bf16, fp16), INPUTS (64, 128; of 256, rows spill), OUTPUTS (a multiple of 128), GATED (0, 1),
//   TRANSPOSED (0, 1).
// Launch: grid of a CTA an SM, CTA of 384 threads, shared bytes 2 INPUTS * ((1 + GATED) * OUTPUTS + 256) + 1024.
// Arguments: as channel_projection.cu, and of how many samples.
#include "hopper.cuh"
#include "pair_rows.cuh"

constexpr int TILE_PLACES = 128, CONSUMERS = 2, STAGES = 2, CTA_THREADS = 128 * (1 + CONSUMERS);
constexpr int FACTORS = 1 + GATED, SLICES = INPUTS / SLICE_K, CHANNELS = 64;
static_assert(OUTPUTS % (CONSUMERS * CHANNELS) == 0, "as many turns for each consumer");
constexpr int FACTOR_BYTES = SLICES * OUTPUTS * 128, TILE_BYTES = SLICES * TILE_PLACES * 128;
// Of 65,536: rows of a tile wait in the registers of the first warpgroup, sums in those of the others.
constexpr int PRODUCER_REGISTERS = 152, CONSUMER_REGISTERS = 176;

KERNEL __launch_bounds__(CTA_THREADS, 1)
channel_projection_persistent(const ELEMENT* x, const ELEMENT* norm_weight, const ELEMENT* norm_bias,
                              const ELEMENT* weights, const ELEMENT* gates, const ELEMENT* mask, ELEMENT* out,
                              int rows, int columns, int batch, float epsilon TRACE_PARAMETER) {
    TRACE_SPAN(128);  // the first warpgroup leaves before its tiles are multiplied
    extern __shared__ u8 dynamic[];
    __shared__ __align__(16) float factors[STAGES][TILE_PLACES];
    __shared__ u64 barriers[2][STAGES], turns[CONSUMERS];
    const u32 weight_tile = (shared_address(dynamic) + 1023) & ~1023u, x_tiles = weight_tile + FACTORS * FACTOR_BYTES;
    auto full = [&](int stage) { return shared_address(&barriers[0][stage]); };
    auto empty = [&](int stage) { return shared_address(&barriers[1][stage]); };
    auto turn = [&](int consumer) { return shared_address(&turns[consumer]); };
    const int warpgroup = threadIdx.x / 128, places = rows * columns;
    const int sample_tiles = ceil_divide(places, TILE_PLACES), tiles = batch * sample_tiles;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            mbarrier_init(full(stage), 128);
            mbarrier_init(empty(stage), 128 * CONSUMERS);
        }
        for (int consumer = 0; consumer < CONSUMERS; consumer++)
            mbarrier_init(turn(consumer), 128);
        fence_mbarrier_init();
    }
    launch_dependents();
    wait_on_dependency();
    TileRows<ELEMENT, INPUTS, TILE_PLACES> tile_rows;
    float factor = 1.0f;
    // Reads a tile's rows, and the factor of the place that this thread is of.
    auto read = [&](int tile) {
        if (tile >= tiles)
            return;
        const int first = tile % sample_tiles * TILE_PLACES, count = min(TILE_PLACES, places - first);
        const i64 sample = i64(tile / sample_tiles) * places;
        auto source = [&](int place) {
            const int at = first + place;
            return sample + (TRANSPOSED ? at % rows * columns + at / rows : at);
        };
        tile_rows.load(x, count, source);
        if (mask)
            factor = to_float(mask[source(min(int(threadIdx.x), count - 1))]);
    };
    if (warpgroup == 0)
        read(blockIdx.x);
    copy_matrix<ELEMENT, OUTPUTS, INPUTS>(weight_tile, weights);
    if (GATED)
        copy_matrix<ELEMENT, OUTPUTS, INPUTS>(weight_tile + FACTOR_BYTES, gates);
    cp_async_commit();
    cp_async_wait<0>();
    fence_proxy_async();
    __syncthreads();

    PipelineState<STAGES> state;
    if (warpgroup == 0) {
        decrease_registers<PRODUCER_REGISTERS>();
        tile_rows.load_norm(norm_weight, norm_bias);
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            mbarrier_wait(empty(state.index), state.phase ^ 1);
            tile_rows.template normalize<SwizzledTile<TILE_PLACES>>(x_tiles + state.index * TILE_BYTES, epsilon);
            factors[state.index][threadIdx.x] = factor;
            fence_proxy_async();
            mbarrier_arrive(full(state.index));
            state.advance();
            read(tile + gridDim.x);
        }
    } else {
        increase_registers<CONSUMER_REGISTERS>();
        const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp_channel = threadIdx.x / 32 % 4 * 16;
        const int consumer = warpgroup - 1;
        u32 turn_phase = consumer ^ 1;  // consumer 0 has the first turn
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const int first_place = tile % sample_tiles * TILE_PLACES, count = min(TILE_PLACES, places - first_place);
            const u32 x_tile = x_tiles + state.index * TILE_BYTES;
            ELEMENT* sample = out + i64(tile / sample_tiles) * OUTPUTS * places + first_place;
            mbarrier_wait(full(state.index), state.phase);
#pragma unroll 1
            for (int channel = consumer * CHANNELS; channel < OUTPUTS; channel += CONSUMERS * CHANNELS) {
                float sums[FACTORS][64];
                mbarrier_wait(turn(consumer), turn_phase);
                turn_phase ^= 1;
                wgmma_fence();
#pragma unroll
                for (int s = 0; s < INPUTS / 16; s++) {
                    const u32 slice = weight_tile + s / 4 * OUTPUTS * 128 + channel * 128 + s % 4 * 32;
                    const u64 block = smem_descriptor(x_tile + s / 4 * TILE_PLACES * 128 + s % 4 * 32, 16);
#pragma unroll
                    for (int f = 0; f < FACTORS; f++)
                        wgmma_ss(sums[f], smem_descriptor(slice + f * FACTOR_BYTES, 16), block, s > 0, ELEMENT());
                }
                wgmma_commit();
                mbarrier_arrive(turn(consumer ^ 1));
                wgmma_wait<0>();
                // Lane t of a quad stores a block of eight places, 16 bytes.
#pragma unroll
                for (int block = 0; block < TILE_PLACES / 8; block += 4) {
                    float2 scales[4];
#pragma unroll
                    for (int j = 0; j < 4; j++)
                        scales[j] = *reinterpret_cast<const float2*>(&factors[state.index][(block + j) * 8 + t * 2]);
#pragma unroll
                    for (int h = 0; h < 2; h++) {
                        u32 words[4];
#pragma unroll
                        for (int j = 0; j < 4; j++) {
                            const int at = (block + j) * 4 + h * 2;
                            float low = sums[0][at] * scales[j].x, high = sums[0][at + 1] * scales[j].y;
                            if (GATED) {
                                low *= logistic(sums[FACTORS - 1][at]);
                                high *= logistic(sums[FACTORS - 1][at + 1]);
                            }
                            words[j] = pack<ELEMENT>(low, high);
                        }
                        transpose_quad(words, t);
                        const int place = (block + t) * 8;
                        if (place < count)
                            store16(sample + i64(channel + warp_channel + h * 8 + g) * places + place,
                                    make_uint4(words[0], words[1], words[2], words[3]));
                    }
                }
            }
            mbarrier_arrive(empty(state.index));
            state.advance();
        }
    }
}

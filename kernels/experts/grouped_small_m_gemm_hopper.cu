// Grouped GEMM of a mixture of experts for few tokens of each expert, on Hopper: a weight stream that never drains.
//
// Algorithm: none published as a whole: a warp-specialized persistent GEMM as in CUTLASS for Hopper (a producer warp
//   issues bulk copies to a circular buffer with mbarriers), with split-K over the consumer warps of a CTA.
// Tiling: an item is 16 ROW_BLOCKS weight rows (GATED: half gates, half their ups), the A operand of mma.sync
//   m16n8k16, times up to 8 M_TILES assignments of one expert; a stage of the buffer is one of the PARTS of K of an
//   item. CTAs take CHUNK consecutive items in turn, so that all of them read neighboring memory; what remains after
//   whole rounds is cut into equal ranges. The producer runs ahead over the borders of items and experts. Consumers
//   hold x in registers and load that of the next item while they multiply; warp partials are summed per item,
//   double-buffered, with one barrier an item.
// Departures: the order of k is free as long as both operands agree: lane 4 g + t takes inputs 32 j + 8 t to 7 more of
//   row g, one 16-byte load (as in small_m_gemm.cu). With PARTS 1 the rows of an item are one copy (GATED:
//   two), otherwise each part of a row is one, padded against bank conflicts. A copy a row is faster where rows are
//   long (2048 inputs, 3 stages of 64 KB, on an H200: 191 us against 235).
//
// Options: ELEMENT (bf16, fp16: of everything), GATED, ACTIVATION (as epilogue.cuh), M_TILES (1, 2), ROW_BLOCKS
//   (1, 2, 4), INPUTS (K: a multiple of 32 PARTS WARPS), PARTS, STAGES, WARPS (consumers), CTAS_PER_SM, CHUNK, EXPERTS,
//   MAX_ASSIGNMENTS, EXPERTS_READY (1: the kernel that wrote the experts has completed when this one begins, as the
//   preceding kernel waited for it before it let this one launch).
// Launch: grid of any size, at best CTAS_PER_SM on every SM, CTA of 32 (WARPS + 1), shared bytes STAGES * 16 ROW_BLOCKS
//   rows of 2 INPUTS / PARTS bytes; with PARTS > 1 each padded to 64 more than a multiple of 128.
// Arguments: weights (EXPERTS x outputs x INPUTS), x, bias (EXPERTS x outputs, may be null), experts (assignments,
//   int32; a negative one is no expert), y (assignments x columns), assignments (at most MAX_ASSIGNMENTS), fan_out
//   (assignments of a row of x), outputs (GATED: even).
#include "epilogue.cuh"
#include "grouping.cuh"
#include "hopper.cuh"

typedef ELEMENT Element;
constexpr int CONSUMERS = WARPS * 32, THREADS = CONSUMERS + 32;
constexpr int MAX_ROWS = 8 * M_TILES, ITEM_ROWS = 16 * ROW_BLOCKS, OUTPUTS_PER_BLOCK = GATED ? 8 : 16;
constexpr int OUTPUTS_PER_ITEM = OUTPUTS_PER_BLOCK * ROW_BLOCKS, RESULTS = OUTPUTS_PER_ITEM * MAX_ROWS;
constexpr int PART_K = INPUTS / PARTS, SLICE_K = PART_K / WARPS, K_STEPS = SLICE_K / 32;
// Whole rows of an item are contiguous (GATED: its gates are, and its ups).
constexpr bool WHOLE_ROWS = PARTS == 1;
constexpr int COPY_BYTES = PART_K * 2;
constexpr int PITCH = WHOLE_ROWS ? COPY_BYTES : COPY_BYTES + (192 - COPY_BYTES % 128) % 128;
// From the first eight rows of a block to its second, and to the next block.
constexpr bool HALVES = WHOLE_ROWS && GATED;
constexpr int SECOND_ROWS = (HALVES ? 8 * ROW_BLOCKS : 8) * PITCH, BLOCK_STRIDE = (HALVES ? 8 : 16) * PITCH;
constexpr int STAGE_BYTES = ITEM_ROWS * PITCH, LANE_ROWS = (ITEM_ROWS + 31) / 32;
static_assert(K_STEPS * 32 * WARPS * PARTS == INPUTS, "");

// The items of a CTA, by their number in the CTA.
struct Schedule {
    int in_rounds, rest, count;
    DEVICE explicit Schedule(int items) {
        const int grid = gridDim.x, rounds = items / (CHUNK * grid), left = items - rounds * CHUNK * grid;
        const int begin = int(i64(left) * blockIdx.x / grid), end = int(i64(left) * (blockIdx.x + 1) / grid);
        in_rounds = rounds * CHUNK;
        rest = in_rounds * grid + begin - in_rounds;
        count = in_rounds + end - begin;
    }
    DEVICE int item(int i) const {
        return i < in_rounds ? (i / CHUNK * int(gridDim.x) + int(blockIdx.x)) * CHUNK + i % CHUNK : rest + i;
    }
};

KERNEL __launch_bounds__(THREADS, CTAS_PER_SM)
grouped_small_m_gemm_hopper(const Element* __restrict__ weights, const Element* x, const Element* __restrict__ bias,
                            const int* experts, Element* y, int assignments, int fan_out,
                            int outputs TRACE_PARAMETER) {
    TRACE_SPAN(0);
    extern __shared__ uint4 dynamic[];  // the circular buffer
    __shared__ alignas(16) float warp_partials[2][WARPS][ITEM_ROWS * MAX_ROWS];  // stored two at once
    __shared__ Grouping<MAX_ROWS, THREADS> grouping;
    __shared__ u64 full[STAGES], empty[STAGES];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int columns = GATED ? outputs / 2 : outputs;
    const u8* ring = reinterpret_cast<const u8*>(dynamic);
    const int expert_items = ceil_divide(columns, OUTPUTS_PER_ITEM);

    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            mbarrier_init(shared_address(full + i), 1);
            mbarrier_init(shared_address(empty + i), WARPS);
        }
        fence_proxy_async();
    }
    if (!EXPERTS_READY)
        wait_on_dependency();
    launch_dependents();
    grouping.build(experts, assignments);
    const Schedule schedule(grouping.num_tiles * expert_items);

    PipelineState<STAGES> stage;
    if (warp == WARPS) {
        // The producer: a lane copies a row of two blocks.
        const int block = lane / 16, r = lane % 16;
        for (int i = 0; i < schedule.count; i++) {
            const int item = schedule.item(i), tile = item / expert_items;
            const int first = (item - tile * expert_items) * OUTPUTS_PER_ITEM + block * OUTPUTS_PER_BLOCK;
            const Element* expert = weights + i64(grouping.tiles[tile].expert) * outputs * INPUTS;
            if (WHOLE_ROWS) {
                const int begin = (item - tile * expert_items) * OUTPUTS_PER_ITEM;
                const u32 bytes = min(OUTPUTS_PER_ITEM, columns - begin) * COPY_BYTES;
                mbarrier_wait(shared_address(empty + stage.index), stage.phase ^ 1);
                if (lane == 0) {
                    const u32 barrier = shared_address(full + stage.index);
                    mbarrier_arrive_expect_tx(barrier, (1 + GATED) * bytes);
                    for (int half = 0; half <= GATED; half++)
                        bulk_load(shared_address(ring) + stage.index * STAGE_BYTES + half * (STAGE_BYTES / 2),
                                  expert + i64(half * columns + begin) * INPUTS, bytes, barrier);
                }
                __syncwarp();
                stage.advance();
                continue;
            }
            const Element* from[LANE_ROWS];
#pragma unroll
            for (int j = 0; j < LANE_ROWS; j++) {
                // Rows past the end load the last row; their outputs are not stored.
                const int output = min(first + j * 2 * OUTPUTS_PER_BLOCK + r % OUTPUTS_PER_BLOCK, columns - 1);
                from[j] = expert + i64(r / OUTPUTS_PER_BLOCK * columns + output) * INPUTS;
            }
#pragma unroll 1
            for (int part = 0; part < PARTS; part++) {
                const u32 barrier = shared_address(full + stage.index);
                mbarrier_wait(shared_address(empty + stage.index), stage.phase ^ 1);
                if (lane == 0)
                    mbarrier_arrive_expect_tx(barrier, ITEM_ROWS * COPY_BYTES);
                __syncwarp();
                if (lane < ITEM_ROWS)
#pragma unroll
                    for (int j = 0; j < LANE_ROWS; j++)
                        bulk_load(shared_address(ring) + stage.index * STAGE_BYTES + (j * 32 + lane) * PITCH,
                                  from[j] + part * PART_K, COPY_BYTES, barrier);
                stage.advance();
            }
        }
        return;
    }
    if (EXPERTS_READY)
        wait_on_dependency();

    uint4 x_next[M_TILES][PARTS][K_STEPS];
    auto load_x = [&](const RowTile& tile) {
#pragma unroll
        for (int n = 0; n < M_TILES; n++) {
            const bool valid = n * 8 + g < tile.rows;
            const int assignment = grouping.order[tile.first + (valid ? n * 8 + g : 0)];
            const Element* row = x + i64(assignment / fan_out) * INPUTS + warp * SLICE_K + t * 8;
#pragma unroll
            for (int p = 0; p < PARTS; p++)
#pragma unroll
                for (int s = 0; s < K_STEPS; s++)
                    x_next[n][p][s] = valid ? load16(row + p * PART_K + s * 32) : zero16();
        }
    };
    int tile_index = schedule.count > 0 ? schedule.item(0) / expert_items : 0, buffer = 0;
    if (schedule.count > 0)
        load_x(grouping.tiles[tile_index]);
#pragma unroll 1
    for (int i = 0; i < schedule.count; i++) {
        const RowTile tile = grouping.tiles[tile_index];
        const int first = (schedule.item(i) - tile_index * expert_items) * OUTPUTS_PER_ITEM;
        uint4 x_fragments[M_TILES][PARTS][K_STEPS];
#pragma unroll
        for (int n = 0; n < M_TILES; n++)
#pragma unroll
            for (int p = 0; p < PARTS; p++)
#pragma unroll
                for (int s = 0; s < K_STEPS; s++)
                    x_fragments[n][p][s] = x_next[n][p][s];
        const int next_index = i + 1 < schedule.count ? schedule.item(i + 1) / expert_items : tile_index;
        if (next_index != tile_index)
            load_x(grouping.tiles[next_index]);
        tile_index = next_index;

        float c[ROW_BLOCKS][2][M_TILES][4] = {};
#pragma unroll
        for (int p = 0; p < PARTS; p++) {
            mbarrier_wait(shared_address(full + stage.index), stage.phase);
            const u8* rows = ring + stage.index * STAGE_BYTES + g * PITCH + warp * SLICE_K * 2 + t * 16;
            // Rows of a pitch of whole 128 bytes share banks: of two k-steps, odd rows load the second one first.
            constexpr bool SWAPPED = WHOLE_ROWS && PITCH % 128 == 0 && K_STEPS % 2 == 0;
            uint4 next_a[ROW_BLOCKS], next_b[ROW_BLOCKS];
#pragma unroll
            for (int s = 0; s < K_STEPS; s++)
#pragma unroll
                for (int block = 0; block < ROW_BLOCKS; block++) {
                    const u8* at = rows + block * BLOCK_STRIDE;
                    uint4 a, b;
                    if (!SWAPPED) {
                        a = load16(at + s * 64);
                        b = load16(at + s * 64 + SECOND_ROWS);
                    } else if (s % 2 == 0) {
                        const bool odd = g % 2;
                        const u8* early = at + (s + odd) * 64;
                        const u8* late = at + (s + 1 - odd) * 64;
                        const uint4 first_a = load16(early), first_b = load16(early + SECOND_ROWS);
                        const uint4 second_a = load16(late), second_b = load16(late + SECOND_ROWS);
                        a = odd ? second_a : first_a;
                        b = odd ? second_b : first_b;
                        next_a[block] = odd ? first_a : second_a;
                        next_b[block] = odd ? first_b : second_b;
                    } else {
                        a = next_a[block];
                        b = next_b[block];
                    }
#pragma unroll
                    for (int n = 0; n < M_TILES; n++) {
                        const uint4 v = x_fragments[n][p][s];
                        mma_16x8x16<Element>(c[block][0][n], a.x, b.x, a.y, b.y, v.x, v.y);
                        mma_16x8x16<Element>(c[block][1][n], a.z, b.z, a.w, b.w, v.z, v.w);
                    }
                }
            // The copy that overwrites the stage belongs to the async proxy: without a fence it is not ordered after
            // these reads. On an H200, 63 to 100 of 100 runs with PARTS 2 then had wrong values.
            fence_proxy_async();
            __syncwarp();
            if (lane == 0)
                mbarrier_arrive(shared_address(empty + stage.index));
            stage.advance();
        }
        // Partials are [block][half][n][8 rows g][8 assignments].
#pragma unroll
        for (int block = 0; block < ROW_BLOCKS; block++)
#pragma unroll
            for (int n = 0; n < M_TILES; n++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const float* low = c[block][0][n] + h * 2;
                    const float* high = c[block][1][n] + h * 2;
                    *reinterpret_cast<float2*>(
                        &warp_partials[buffer][warp][((block * 2 + h) * M_TILES + n) * 64 + g * 8 + t * 2]) =
                        make_float2(low[0] + high[0], low[1] + high[1]);
                }
        named_barrier_sync(1, CONSUMERS);
        // Consecutive threads compute consecutive outputs of a row.
        for (int e = threadIdx.x; e < RESULTS; e += CONSUMERS) {
            const int m = e / OUTPUTS_PER_ITEM, r = e % OUTPUTS_PER_ITEM, output = first + r;
            if (m >= tile.rows || output >= columns)
                continue;
            float v[1 + GATED];
#pragma unroll
            for (int half = 0; half <= GATED; half++) {
                const int eight = GATED ? r / 8 * 2 + half : r / 8;
                v[half] = 0.0f;
#pragma unroll
                for (int w = 0; w < WARPS; w++)
                    v[half] += warp_partials[buffer][w][(eight * M_TILES + m / 8) * 64 + r % 8 * 8 + m % 8];
                if (bias)
                    v[half] += to_float(bias[i64(tile.expert) * outputs + half * columns + output]);
            }
            const float result = GATED ? gated_product(v[0], v[GATED]) : activate(v[0]);
            y[i64(grouping.order[tile.first + m]) * columns + output] = from_float<Element>(result);
        }
        buffer ^= 1;
    }
}

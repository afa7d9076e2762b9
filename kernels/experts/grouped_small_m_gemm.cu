// Grouped GEMM of a mixture of experts for few tokens of each expert: every touched expert's weights are read once.
//
// Algorithm: none published as a whole: small_m_gemm.cu over the tiles of all touched experts. A multistage cp.async
//   GEMM as in CUTLASS for Ampere, with split-K over the warps of a CTA; assignments are grouped as in grouping.cuh.
// Tiling: an item is 16 weight rows (GATED: 8 gates and their ups), the A operand of mma.sync m16n8k16, times up to
//   8 assignments of one expert. Items are numbered expert by expert; every CTA takes a contiguous range of
//   them, equal to one item, so that it loads x for one or two experts only. Each warp owns slices of K and a private
//   circular buffer of STAGES stages in shared memory, which runs ahead over the boundaries of items and experts; warp
//   partials are summed per item, double-buffered, with one barrier an item.
// Departures: as small_m_gemm.cu.
//
// Options: ELEMENT (bf16, fp16: of everything), GATED, ACTIVATION (as epilogue.cuh), INPUTS (K), SLICE_K (inputs
//   of a stage of a warp: 64, 128, 256), SLICES (of a warp: INPUTS = WARPS * SLICES * SLICE_K), STAGES, WARPS, EXPERTS,
//   MAX_ASSIGNMENTS.
// Launch: grid of any size, at best one CTA per SM, CTA of WARPS * 32, shared WARPS * STAGES * 16 * (2 SLICE_K + 64)
//   bytes.
// Arguments: weights (EXPERTS x outputs x INPUTS), x, bias (EXPERTS x outputs, may be null), experts (assignments,
//   int32; -1: none), y (assignments x columns), assignments (at most MAX_ASSIGNMENTS), fan_out (assignments of a row
//   of x), outputs (GATED: even).
#include "epilogue.cuh"
#include "grouping.cuh"

typedef ELEMENT Element;
constexpr int THREADS = WARPS * 32, MAX_ROWS = 8, K_STEPS = SLICE_K / 32;
constexpr int OUTPUTS_PER_ITEM = GATED ? 8 : 16, RESULTS = OUTPUTS_PER_ITEM * MAX_ROWS;
constexpr int ROW_BYTES = SLICE_K * 2 + 64, STAGE_BYTES = 16 * ROW_BYTES;
constexpr int LANES_PER_ROW = SLICE_K / 8;         // that copy one row
constexpr int ROWS_PER_COPY = 32 / LANES_PER_ROW;  // that a warp copies with one instruction
static_assert(WARPS * SLICES * SLICE_K == INPUTS, "");

KERNEL __launch_bounds__(THREADS, 1)
grouped_small_m_gemm(const Element* __restrict__ weights, const Element* x, const Element* __restrict__ bias,
                     const int* experts, Element* y, int assignments, int fan_out, int outputs TRACE_PARAMETER) {
    TRACE_SPAN(0);
    extern __shared__ u8 rings[];
    __shared__ alignas(16) float warp_partials[2][WARPS][16 * MAX_ROWS];  // stored two at once
    __shared__ Grouping<MAX_ROWS, THREADS> grouping;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int columns = GATED ? outputs / 2 : outputs;
    const int expert_items = ceil_divide(columns, OUTPUTS_PER_ITEM);
    u8* ring = rings + warp * STAGES * STAGE_BYTES;

    wait_on_dependency();
    launch_dependents();
    grouping.build(experts, assignments);
    const int items = grouping.num_tiles * expert_items;
    const int begin = int(i64(items) * blockIdx.x / gridDim.x), end = int(i64(items) * (blockIdx.x + 1) / gridDim.x);

    // The producer's position.
    int load_left = (end - begin) * SLICES, load_stage = 0, load_slice = 0;
    int load_tile = begin / expert_items, load_item = begin % expert_items;
    const Element* load_weights = weights;
    auto set_load_weights = [&] {
        if (load_left > 0)
            load_weights = weights + i64(grouping.tiles[load_tile].expert) * outputs * INPUTS;
    };
    set_load_weights();
    auto load_next_slice = [&] {
        if (load_left > 0) {
            const int first = load_item * OUTPUTS_PER_ITEM;
            const int k = (load_slice * WARPS + warp) * SLICE_K + lane % LANES_PER_ROW * 8;
            const u32 to = shared_address(ring) + load_stage * STAGE_BYTES + lane % LANES_PER_ROW * 16;
#pragma unroll
            for (int i = 0; i < 16; i += ROWS_PER_COPY) {
                const int r = i + lane / LANES_PER_ROW;
                // Rows past the end load the last row; their outputs are not stored.
                const int row = r / OUTPUTS_PER_ITEM * columns + min(first + r % OUTPUTS_PER_ITEM, columns - 1);
                cp_async_16(to + r * ROW_BYTES, load_weights + i64(row) * INPUTS + k, true);
            }
            load_left--;
            load_stage = load_stage + 1 == STAGES ? 0 : load_stage + 1;
            if (++load_slice == SLICES) {
                load_slice = 0;
                if (++load_item == expert_items) {
                    load_item = 0;
                    load_tile++;
                    set_load_weights();
                }
            }
        }
        cp_async_commit();
    };
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; stage++)
        load_next_slice();

    uint4 x_fragments[SLICES][K_STEPS];
    RowTile tile = {};
    int tile_index = -1, stage = 0, buffer = 0;
#pragma unroll 1
    for (int item = begin; item < end; item++) {
        if (item / expert_items != tile_index) {
            tile_index = item / expert_items;
            tile = grouping.tiles[tile_index];
            const bool valid = g < tile.rows;
            const int assignment = grouping.order[tile.first + (valid ? g : 0)];
            const Element* row = x + i64(assignment / fan_out) * INPUTS + warp * SLICE_K + t * 8;
#pragma unroll
            for (int p = 0; p < SLICES; p++)
#pragma unroll
                for (int s = 0; s < K_STEPS; s++)
                    x_fragments[p][s] = valid ? load16(row + p * WARPS * SLICE_K + s * 32) : zero16();
        }
        float c[2][4] = {};
#pragma unroll
        for (int p = 0; p < SLICES; p++) {
            load_next_slice();
            cp_async_wait<STAGES - 1>();
            __syncwarp();
            const u8* slice_rows = ring + stage * STAGE_BYTES + g * ROW_BYTES + t * 16;
#pragma unroll
            for (int s = 0; s < K_STEPS; s++) {
                const uint4 a = load16(slice_rows + s * 64), b = load16(slice_rows + 8 * ROW_BYTES + s * 64);
                const uint4 v = x_fragments[p][s];
                mma_16x8x16<Element>(c[0], a.x, b.x, a.y, b.y, v.x, v.y);
                mma_16x8x16<Element>(c[1], a.z, b.z, a.w, b.w, v.z, v.w);
            }
            __syncwarp();  // all lanes have read the stage that the next copies overwrite
            stage = stage + 1 == STAGES ? 0 : stage + 1;
        }
#pragma unroll
        for (int h = 0; h < 2; h++)
            *reinterpret_cast<float2*>(&warp_partials[buffer][warp][(h * 8 + g) * 8 + t * 2]) =
                make_float2(c[0][h * 2] + c[1][h * 2], c[0][h * 2 + 1] + c[1][h * 2 + 1]);
        __syncthreads();
        // Consecutive threads compute consecutive outputs of a row.
        for (int e = threadIdx.x; e < RESULTS; e += THREADS) {
            const int m = e / OUTPUTS_PER_ITEM, r = e % OUTPUTS_PER_ITEM;
            const int output = item % expert_items * OUTPUTS_PER_ITEM + r;
            if (m >= tile.rows || output >= columns)
                continue;
            float v[1 + GATED];
#pragma unroll
            for (int half = 0; half <= GATED; half++) {
                v[half] = 0.0f;
#pragma unroll
                for (int w = 0; w < WARPS; w++)
                    v[half] += warp_partials[buffer][w][(half * 8 + r) * 8 + m];
                if (bias)
                    v[half] += to_float(bias[i64(tile.expert) * outputs + half * columns + output]);
            }
            const float result = GATED ? gated_product(v[0], v[GATED]) : activate(v[0]);
            y[i64(grouping.order[tile.first + m]) * columns + output] = from_float<Element>(result);
        }
        buffer ^= 1;
    }
}

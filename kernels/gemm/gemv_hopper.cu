// y = activation(norm(x) W^T + bias) + residual for one row of x and weights of nested scales, on Hopper: GEMV through
// a circular buffer in shared memory.
//
// Algorithm: gemv.cu, warp-specialized as GEMMs in CUTLASS for Hopper: a producer warp issues bulk copies to a circular
//   buffer with mbarriers, the other warps multiply.
// Tiling: as gemv.cu. A stage of the buffer is a tile: ROWS_PER_CTA whole weight rows, then their rows of scales. GATED
//   tiles have all gates before all ups.
// Departures: gemv.cu loads a tile into registers, multiplies, and loads the next: the latency is hidden by other CTAs
//   only, and these formats take so many instructions that memory idles. Here copies run ahead of the multiplication,
//   and weights take no registers.
//
// Options: as gemv.cu without GROUPED; MAX_ROWS is 1, GROUP_SIZE not 0, and rows of scales are multiples of 16 bytes;
//   STAGES (at least 2).
// Launch: grid at most ceil(outputs / ROWS_PER_CTA), CTA of THREADS + 32, shared bytes STAGES * ROWS_PER_CTA * (bytes
//   of a row of weights + of a row of scales).
// Arguments: as gemv.cu. Weights and scales are aligned to 16 bytes.
#include "gemv_epilogue.cuh"
#include "hopper.cuh"

constexpr i64 ROW_BYTES = row_bytes(INPUTS), SCALE_ROW_BYTES = scale_row_bytes(INPUTS);
constexpr int STAGE_BYTES = int(ROWS_PER_CTA * (ROW_BYTES + SCALE_ROW_BYTES));
constexpr int CTA_THREADS = THREADS + 32;  // the last warp is the producer
static_assert(MAX_ROWS == 1 && STAGES >= 2 && ROW_BYTES % 16 == 0 && SCALE_ROW_BYTES % 16 == 0, "");

// The producer: copies the tiles of this CTA, each as soon as its stage is empty.
DEVICE void copy_tiles(u32 buffer, const u64* full, const u64* empty, const u8* weights, const u8* scales,
                       int columns) {
    const int tiles = ceil_divide(columns, OUTPUTS_PER_CTA);
    PipelineState<STAGES> state;
    int copied = 0;
#pragma unroll 1
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, copied++) {
        if (copied >= STAGES)
            mbarrier_wait(shared_address(empty + state.index), state.phase ^ 1);
        const i64 first = i64(tile) * OUTPUTS_PER_CTA;
        const u32 count = NO_TAIL ? OUTPUTS_PER_CTA : min(OUTPUTS_PER_CTA, int(columns - first));
        const u32 barrier = shared_address(full + state.index), to = buffer + state.index * STAGE_BYTES;
        mbarrier_arrive_expect_tx(barrier, count * (1 + GATED) * u32(ROW_BYTES + SCALE_ROW_BYTES));
#pragma unroll
        for (int half = 0; half <= GATED; half++) {
            const i64 row = first + half * columns;
            bulk_load(to + half * OUTPUTS_PER_CTA * ROW_BYTES, weights + row * ROW_BYTES, count * ROW_BYTES, barrier);
            bulk_load(to + ROWS_PER_CTA * ROW_BYTES + half * OUTPUTS_PER_CTA * SCALE_ROW_BYTES,
                      scales + row * SCALE_ROW_BYTES, count * SCALE_ROW_BYTES, barrier);
        }
        state.advance();
    }
}

KERNEL __launch_bounds__(CTA_THREADS, CTAS_PER_SM)
gemv_hopper(const u8* __restrict__ weights, const u8* __restrict__ scales, const Element* x,
            const Element* __restrict__ gain, const Element* __restrict__ bias, const Element* residual, OUTPUT* y,
            int rows, int outputs, float epsilon TRACE_PARAMETER) {
    TRACE_SPAN(0);
    extern __shared__ __align__(128) u8 buffer[];
    __shared__ WarpPartials warp_partials;
    __shared__ Squares squares;
    __shared__ u64 full[STAGES], empty[STAGES];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int columns = GATED ? outputs / 2 : outputs;
    const int tiles = ceil_divide(columns, OUTPUTS_PER_CTA);
    constexpr int row_chunks = padded_chunks(INPUTS);

    if (threadIdx.x == 0) {
#pragma unroll
        for (int i = 0; i < STAGES; i++) {
            mbarrier_init(shared_address(full + i), 1);
            mbarrier_init(shared_address(empty + i), WARPS);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    launch_dependents();
    if (warp == WARPS) {
        // No kernel writes weights: the producer need not wait for the preceding one.
        if (lane == 0)
            copy_tiles(shared_address(buffer), full, empty, weights, scales, columns);
        return;
    }
    if (NORM)
        for (int c = 0; c < CHUNKS_PER_THREAD; c++)
            if (input_index(c, 0) < INPUTS)
                prefetch_l2(gain + input_index(c, 0));
    wait_on_dependency();

    XFragments fragments[CHUNKS_PER_THREAD];
    float square[MAX_ROWS];
    load_fragments(fragments, square, x, gain, rows);
    store_squares(squares, square);
    Epilogue epilogue(columns);
    PipelineState<STAGES> state;
    int current = blockIdx.x;
    while (current < tiles) {
        epilogue.load(current, rows, residual, scales);
#pragma unroll 1
        for (int tile = 0; tile < EPILOGUE_TILES && current < tiles; tile++, current += gridDim.x) {
            float partials[PARTIALS];
            const u8* stage = buffer + state.index * STAGE_BYTES;
            mbarrier_wait(shared_address(full + state.index), state.phase);
#pragma unroll
            for (int r = 0; r < ROWS_PER_CTA; r++) {
                const int place = GATED ? r % 2 * OUTPUTS_PER_CTA + r / 2 : r;
                const u8* row = stage + place * ROW_BYTES;
                const u8* scale_row = stage + ROWS_PER_CTA * ROW_BYTES + place * SCALE_ROW_BYTES;
                auto chunk_at = [&](int c) {
                    const int chunk = c * THREADS + int(threadIdx.x);
                    const bool valid = CHUNKS_PER_THREAD * THREADS == row_chunks || chunk < row_chunks;
                    WeightChunk w;
                    w.codes = valid ? load16(row + chunk * 16) : zero16();
                    if constexpr (UPPER_BITS != 0) {
                        const u8* upper = row + row_chunks * 16 + chunk * UPPER_BYTES;
                        const uint2 words = valid ? load_upper(upper) : make_uint2(0, 0);
                        w.upper[0] = words.x;
                        w.upper[UPPER_BITS - 1] = UPPER_BITS == 2 ? words.y : words.x;
                    }
                    return w;
                };
                auto scales_at = [&](int c) {
                    const int chunk = c * THREADS + int(threadIdx.x);
                    const bool valid = CHUNKS_PER_THREAD * THREADS == row_chunks || chunk < row_chunks;
                    GroupScales group_scales;
                    group_scales.load(scale_row, chunk, valid);
                    return group_scales;
                };
                dot_row(partials + r * MAX_ROWS, fragments, chunk_at, scales_at);
            }
            // The copy that overwrites the stage is another proxy's: without a fence it may overtake these reads.
            fence_proxy_async();
            __syncwarp();
            if (lane == 0)
                mbarrier_arrive(shared_address(empty + state.index));
            state.advance();
            reduce_partials<PARTIALS>(partials);
            if (lane % (32 / PARTIALS) == 0)
                warp_partials[tile][warp][lane / (32 / PARTIALS)] = partials[0];
        }
        named_barrier_sync(1, THREADS);
        epilogue.store(warp_partials, squares, bias, epsilon, y);
        if (current < tiles)
            named_barrier_sync(1, THREADS);
    }
}

// y = activation(norm(x) W^T + bias) + residual for 1 to 8 rows of x: GEMV, one pass over the weights.
//
// Algorithm: none published as a whole. The main loop is a memory-bound GEMV with split-K over the threads of a CTA;
//   partial sums are combined through shared memory. Fused around it: RMS norm [Zhang & Sennrich 2019], SwiGLU
//   [Shazeer 2020], and dequantization of group-quantized weights: GGML's Q4_1, k-quants and others, and MXFP4.
// Tiling: a tile is ROWS_PER_CTA whole weight rows; a CTA loops over tiles by grid stride. Each thread streams
//   CHUNKS_PER_THREAD 16-byte chunks of every row from global memory to registers, so that a warp's load is 512
//   contiguous bytes, and reloads the registers with the next tile as soon as they are consumed. There is no barrier in
//   the main loop: warp partials of EPILOGUE_TILES tiles accumulate in shared memory, and one epilogue finishes them.
// Departures: double buffering in registers does not help, as ptxas waits for both buffers on one scoreboard.
//   The tensor core (mma.sync) computes the dot products on its diagonal: a row of the A operand is x at the inputs of
//   four lanes, a column of the B operand the weights of four lanes, so that lanes multiply weights in the layout in
//   which they were loaded. The off-diagonal products are wasted; unpacking weights for FMA would cost more. Beside
//   quantized weights x is quantized too, with one scale for 64 or 128 inputs: to fp16 beside e4m3, and beside integers
//   to 16 bits whose high and low bytes are two rows of A, with an error of 2^-16 of the largest magnitude.
//
// Options: ELEMENT (bf16, fp16: the type of x, gain, bias and residual), OUTPUT (type of y), WEIGHT_FORMAT, GROUP_SIZE,
//   SCALE_FORMAT, ZERO_POINT (as packed_layout.cuh; Float16 is as ELEMENT; groups of int8 have 32 or 64 weights, and
//   only nested scales have groups of 16), NORM (1: RMS norm of x by gain and epsilon), GATED (1: outputs n and n +
//   outputs / 2 are gate and up, as SwiGLU: y = silu(gate) * up), ACTIVATION (as epilogue.cuh), MAX_ROWS (1, 2, 4, 8:
//   the largest M, rows of x), INPUTS (K: a multiple of 8, for int8 and e4m3 of 16, with GROUP_SIZE of 32, with nested
//   scales of 256), ROWS_PER_CTA (1, 2, 4, 8, 16: weight rows of a tile; at least 2 for GATED; MAX_ROWS * ROWS_PER_CTA
//   <= 32), NO_TAIL (1: outputs is a multiple of ROWS_PER_CTA), THREADS (at least MAX_ROWS * ROWS_PER_CTA),
//   CHUNKS_PER_THREAD (16-byte chunks of a weight row: THREADS * CHUNKS_PER_THREAD cover a row), CTAS_PER_SM,
//   RELOAD_ROWS (0: the registers of a tile are loaded again when all its rows are multiplied; else those of so many
//   rows at a time, a divisor of ROWS_PER_CTA), GROUPED (1: row blockIdx.y of y is row blockIdx.y / fan_out of x times
//   the weights of one of several experts; MAX_ROWS is 1).
// Launch: grid at most ceil(outputs / ROWS_PER_CTA), with GROUPED by the number of assignments, CTA of THREADS, no
//   dynamic shared memory.
// Arguments: weights, scales, x (rows x INPUTS), gain, bias, residual, y, rows, outputs, epsilon.
//   gain, bias, residual and scales may be null where unused; residual may be y. GATED outputs are even. Rows of x, y
//   and residual are contiguous. With GROUPED last experts (int32, one for each row of y; -1: none) and fan_out; the
//   weights, scales and biases of the experts follow each other. packed_layout.cuh documents rows of weights and of
//   scales. With LORA_RANK (lora_delta.cuh) last low, b and adapters, which the preceding kernel does not write: B low
//   is added before the activation.
#include "gemv_epilogue.cuh"

KERNEL __launch_bounds__(THREADS, CTAS_PER_SM)
gemv(const u8* __restrict__ weights, const u8* __restrict__ scales, const Element* x, const Element* __restrict__ gain,
     const Element* __restrict__ bias, const Element* residual, OUTPUT* y, int rows, int outputs, float epsilon
#if GROUPED
     , const int* experts, int fan_out
#endif
     LORA_PARAMETERS TRACE_PARAMETER) {
    TRACE_SPAN(0);
    __shared__ WarpPartials warp_partials;
    __shared__ Squares squares;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const bool diagonal = lane % 4 == lane / 4 / 2;
    const int columns = GATED ? outputs / 2 : outputs;
    const int tiles = ceil_divide(columns, OUTPUTS_PER_CTA);
    constexpr int row_chunks = GROUP_SIZE ? padded_chunks(INPUTS) : INPUTS / WEIGHTS_PER_CHUNK;
    constexpr i64 ROW_BYTES = row_bytes(INPUTS), SCALE_ROW_BYTES = scale_row_bytes(INPUTS);

#if GROUPED
    // The experts may be what the preceding kernel writes.
    wait_on_dependency();
    const i64 expert = experts[blockIdx.y];
    if (expert < 0)
        return;
    weights += expert * outputs * ROW_BYTES;
    scales = scales ? scales + expert * outputs * SCALE_ROW_BYTES : scales;
    bias = bias ? bias + expert * outputs : bias;
    x += i64(blockIdx.y / fan_out) * INPUTS;
    y += i64(blockIdx.y) * columns;
#endif
    WeightChunk w[ROWS_PER_CTA][CHUNKS_PER_THREAD];
    GroupScales group_scales[ROWS_PER_CTA][CHUNKS_PER_THREAD];
    int next_tile = blockIdx.x;  // the tile whose weights are loaded next
    const u8* next_row = weights + i64(next_tile) * OUTPUTS_PER_CTA * ROW_BYTES + threadIdx.x * 16;
    const i64 step = i64(gridDim.x) * OUTPUTS_PER_CTA * ROW_BYTES, up_offset = columns * ROW_BYTES;
    auto load_row = [&](int r, bool has_tile) {
        const int output = next_tile * OUTPUTS_PER_CTA + (GATED ? r / 2 : r);
        const u8* row = next_row + (GATED ? r / 2 : r) * ROW_BYTES + (GATED && r % 2 ? up_offset : 0);
#pragma unroll
        for (int c = 0; c < CHUNKS_PER_THREAD; c++) {
            const int chunk = c * THREADS + int(threadIdx.x);
            const bool valid = has_tile && (NO_TAIL || output < columns) &&
                               (CHUNKS_PER_THREAD * THREADS == row_chunks || chunk < row_chunks);
            if constexpr (RELOAD_ROWS != 0)
                w[r][c].codes = load16_read_only(row + c * THREADS * 16, valid);
            else
                w[r][c].codes = valid ? load16_read_only(row + c * THREADS * 16) : zero16();
            if constexpr (UPPER_BITS != 0) {
                const u8* upper = row + (row_chunks - int(threadIdx.x)) * 16 + chunk * UPPER_BYTES;
                const uint2 words = valid ? load_upper(upper) : make_uint2(0, 0);
                w[r][c].upper[0] = words.x;
                w[r][c].upper[UPPER_BITS - 1] = UPPER_BITS == 2 ? words.y : words.x;
            }
            if constexpr (GROUP_SIZE != 0) {
                const i64 index = GATED && r % 2 ? columns + output : output;
                group_scales[r][c].load(scales + index * SCALE_ROW_BYTES, chunk, valid && diagonal);
            }
        }
    };
    auto load_next_tile = [&] {
        if (next_tile >= tiles)
            return;
#pragma unroll
        for (int r = 0; r < ROWS_PER_CTA; r++)
            load_row(r, true);
        next_row += step;
        next_tile += gridDim.x;
    };

    launch_dependents();
    load_next_tile();
    // A load here would share a scoreboard with the weights', and wait for them too.
    if (NORM)
        for (int c = 0; c < CHUNKS_PER_THREAD; c++)
            if (input_index(c, 0) < INPUTS)
                prefetch_l2(gain + input_index(c, 0));
#if LORA_RANK
    Epilogue(columns).prefetch_adapters(rows, lora_b, adapters);
#endif
    wait_on_dependency();

    XFragments fragments[CHUNKS_PER_THREAD];
    float square[MAX_ROWS];
    load_fragments(fragments, square, x, gain, rows);
    store_squares(squares, square);
    Epilogue epilogue(columns);
    int current = blockIdx.x;
    while (current < tiles) {
        epilogue.load(current, rows, residual, scales);
#if LORA_RANK
        epilogue.load_adapters(low, lora_b, adapters);
#endif
#pragma unroll 1
        for (int tile = 0; tile < EPILOGUE_TILES && current < tiles; tile++, current += gridDim.x) {
            float partials[PARTIALS];
#pragma unroll
            for (int r = 0; r < ROWS_PER_CTA; r++) {
                dot_row(
                    partials + r * MAX_ROWS, fragments, [&](int c) -> const WeightChunk& { return w[r][c]; },
                    [&](int c) -> const GroupScales& { return group_scales[r][c]; });
                if constexpr (RELOAD_ROWS != 0)
                    if (r % RELOAD_ROWS == RELOAD_ROWS - 1)
#pragma unroll
                        for (int i = r - RELOAD_ROWS + 1; i <= r; i++)
                            load_row(i, next_tile < tiles);
            }
            if constexpr (RELOAD_ROWS != 0) {
                next_row += step;
                next_tile += gridDim.x;
            } else {
                load_next_tile();
            }
            reduce_partials<PARTIALS>(partials);
            if (lane % (32 / PARTIALS) == 0)
                warp_partials[tile][warp][lane / (32 / PARTIALS)] = partials[0];
        }
        __syncthreads();
        epilogue.store(warp_partials, squares, bias, epsilon, y);
        if (current < tiles)
            __syncthreads();
    }
}

// out = activation(product + B low) with the B of each row's LoRA adapter; nothing is added for adapter 0, none.
//
// Algorithm: the second of two products (BGMV expand [Chen et al. 2023, Punica]), and the epilogue of the layer.
// Tiling: a thread computes one column of up to ROWS_PER_CTA rows. It holds the column's row of B in registers: that of
//   the first row's adapter is loaded before the preceding kernel has ended, and again where the adapter changes.
//
// Options: ELEMENT (bf16, fp16: of everything), RANK (a multiple of 8), ROWS_PER_CTA, THREADS, GATED and ACTIVATION
//   (epilogue.cuh), ADAPTERS_READY (1: the preceding kernel does not write adapters).
// Launch: grid (ceil(columns / THREADS), ceil(rows / ROWS_PER_CTA)), CTA of THREADS; no dynamic shared memory.
// Arguments: product (rows x outputs; where GATED outputs is 2 columns, gates first, else columns),
//   low (rows x RANK), b (adapters x outputs x RANK), adapters (rows), out (rows x columns; may be product where not
//   GATED), rows, columns.
#include "epilogue.cuh"

constexpr int PIECES = RANK / 8, PARTS = GATED ? 2 : 1;

// The rows of B of a column, or of its gate and its up.
struct Factors {
    uint4 words[PARTS][PIECES];

    DEVICE void load(const ELEMENT* b, int adapter, int column, int columns) {
#pragma unroll
        for (int p = 0; p < PARTS; p++) {
            const ELEMENT* row = b + (i64(adapter) * PARTS * columns + p * columns + column) * RANK;
#pragma unroll
            for (int i = 0; i < PIECES; i++)
                words[p][i] = load16_read_only(row + 8 * i);
        }
    }

    DEVICE float dot(int part, const float* low) const {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < PIECES; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float2 pair = unpack<ELEMENT>(word(words[part][i], j));
                sum = fmaf(pair.x, low[8 * i + 2 * j], sum);
                sum = fmaf(pair.y, low[8 * i + 2 * j + 1], sum);
            }
        return sum;
    }
};

KERNEL __launch_bounds__(THREADS)
lora_expand(const ELEMENT* product, const ELEMENT* low, const ELEMENT* __restrict__ b, const int* adapters,
            ELEMENT* out, int rows, int columns TRACE_PARAMETER) {
    TRACE_SPAN(0);
    __shared__ __align__(16) float lows[ROWS_PER_CTA * RANK];
    const int column = blockIdx.x * THREADS + threadIdx.x, first = blockIdx.y * ROWS_PER_CTA;
    const int count = rows - first < ROWS_PER_CTA ? rows - first : ROWS_PER_CTA;
    const bool valid = column < columns;
    launch_dependents();
    if (!ADAPTERS_READY)
        wait_on_dependency();
    Factors factors;
    int loaded = adapters[first];
    if (valid && loaded > 0)
        factors.load(b, loaded, column, columns);
    if (ADAPTERS_READY)
        wait_on_dependency();
    for (int i = threadIdx.x; i < count * PIECES; i += THREADS) {
        const uint4 words = load16(low + i64(first) * RANK + 8 * i);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float2 pair = unpack<ELEMENT>(word(words, j));
            lows[8 * i + 2 * j] = pair.x, lows[8 * i + 2 * j + 1] = pair.y;
        }
    }
    float before[ROWS_PER_CTA][PARTS];
#pragma unroll
    for (int r = 0; r < ROWS_PER_CTA; r++)
#pragma unroll
        for (int p = 0; p < PARTS; p++)
            before[r][p] = valid && r < count
                               ? to_float(product[i64(first + r) * PARTS * columns + p * columns + column])
                               : 0.0f;
    __syncthreads();
    if (!valid)
        return;
#pragma unroll
    for (int r = 0; r < ROWS_PER_CTA; r++) {
        if (r >= count)
            break;
        const int adapter = adapters[first + r];
        if (adapter > 0) {
            if (adapter != loaded)
                factors.load(b, adapter, column, columns);
            loaded = adapter;
#pragma unroll
            for (int p = 0; p < PARTS; p++)
                before[r][p] += factors.dot(p, lows + r * RANK);
        }
        const float v = GATED ? gated_product(before[r][0], before[r][PARTS - 1]) : activate(before[r][0]);
        out[i64(first + r) * columns + column] = from_float<ELEMENT>(v);
    }
}

// The ends of gemv.cu and gemv_hopper.cu: warp partials of several tiles become results.
#pragma once
#include "gemv.cuh"
#include "lora_delta.cuh"

// One epilogue serves EPILOGUE_TILES tiles, so that each thread computes at most one result in it.
constexpr int RESULTS_PER_TILE = OUTPUTS_PER_CTA * MAX_ROWS;
constexpr int EPILOGUE_TILES = THREADS / RESULTS_PER_TILE < 16 ? THREADS / RESULTS_PER_TILE : 16;
typedef float WarpPartials[EPILOGUE_TILES][WARPS][PARTIALS];
typedef float Squares[WARPS][MAX_ROWS];  // sums of squares of x, for the norm

// A warp's part of the sums of squares of x.
DEVICE void store_squares(Squares& squares, const float (&square)[MAX_ROWS]) {
    if constexpr (NORM) {
#pragma unroll
        for (int m = 0; m < MAX_ROWS; m++) {
            const float sum = reduce_warp<Sum>(square[m]);
            if (threadIdx.x % 32 == 0)
                squares[threadIdx.x / 32][m] = sum;
        }
    }
}

// Thread e computes output e % OUTPUTS_PER_CTA of row e / OUTPUTS_PER_CTA % MAX_ROWS of tile e / RESULTS_PER_TILE.
struct Epilogue {
    int tile, row, column;  // of this thread
    int columns, output;
    bool writes;
    i64 index;
    float addend, row_scales[2], delta[2] = {};

    DEVICE explicit Epilogue(int columns)
        : tile(threadIdx.x / RESULTS_PER_TILE), row(threadIdx.x / OUTPUTS_PER_CTA % MAX_ROWS),
          column(threadIdx.x % OUTPUTS_PER_CTA), columns(columns) {}

    // Loads the operands of the tiles from `current` on, before their main loop, which hides the latency.
    DEVICE void load(int current, int rows, const Element* residual, const u8* scales) {
        output = (current + tile * int(gridDim.x)) * OUTPUTS_PER_CTA + column;
        writes = tile < EPILOGUE_TILES && row < rows && output < columns;
        index = i64(row) * columns + output;
        addend = writes && residual ? to_float(residual[index]) : 0.0f;
        row_scales[0] = row_scales[1] = 1.0f;
        if (BITS == 8 && GROUP_SIZE == 0 && writes) {
            row_scales[0] = __ldg(reinterpret_cast<const float*>(scales) + output);
            if (GATED)
                row_scales[1] = __ldg(reinterpret_cast<const float*>(scales) + columns + output);
        }
    }

#if LORA_RANK
    // Before the preceding kernel has ended.
    DEVICE void prefetch_adapters(int rows, const Element* b, const int* adapters) const {
        const int first = (int(blockIdx.x) + tile * int(gridDim.x)) * OUTPUTS_PER_CTA + column;
        if (tile >= EPILOGUE_TILES || row >= rows || first >= columns)
            return;
        prefetch_delta(b, adapters[row], first, GATED ? 2 * columns : columns);
        if (GATED)
            prefetch_delta(b, adapters[row], columns + first, 2 * columns);
    }

    // What the rows' adapters add, behind `load`.
    DEVICE void load_adapters(const Element* low, const Element* b, const int* adapters) {
        const int adapter = writes ? adapters[row] : 0, outputs = GATED ? 2 * columns : columns;
        delta[0] = lora_delta(low, b, adapter, row, output, outputs);
        if (GATED)
            delta[1] = lora_delta(low, b, adapter, row, columns + output, outputs);
    }
#endif

    DEVICE void store(const WarpPartials& warp_partials, const Squares& squares, const Element* bias, float epsilon,
                      OUTPUT* y) const {
        if (!writes)
            return;
        float scale = 1.0f;
        if constexpr (NORM) {
            float mean = 0.0f;
#pragma unroll
            for (int i = 0; i < WARPS; i++)
                mean += squares[i][row];
            scale = rsqrtf(mean / INPUTS + epsilon);
        }
        auto output_of = [&](int r, int half) {
            float v = 0.0f;
#pragma unroll
            for (int i = 0; i < WARPS; i++)
                v += warp_partials[tile][i][r * MAX_ROWS + row];
            v *= scale * row_scales[half];
            if constexpr (LORA_RANK != 0)
                v += delta[half];
            return bias ? v + to_float(bias[half ? columns + output : output]) : v;
        };
        float v = output_of(GATED ? column * 2 : column, 0);
        v = GATED ? gated_product(v, output_of(column * 2 + 1, 1)) : activate(v);
        y[index] = from_float<OUTPUT>(v + addend);
    }
};

// What persistent kernels over pairs share: a warpgroup that normalizes rows for others, whose loads are all under way
// before the first is used.
#pragma once
#include "pair_tiles.cuh"

// The rows of a tile, of WIDTH elements each, that a thread of a warpgroup has a part of: LANES of them share a row.
template <class T, int WIDTH, int ROWS> struct TileRows {
    static constexpr int LANES = WIDTH / 8, AT_ONCE = 128 / LANES, COUNT = ROWS / AT_ONCE, TOGETHER = 4;
    static_assert(LANES <= 32 && COUNT * AT_ONCE == ROWS, "rows that lanes of a warp share");
    static_assert(COUNT % TOGETHER == 0, "rows that a thread reduces together");
    uint4 words[COUNT], gains, shifts;

    DEVICE void load_norm(const T* weight, const T* bias) {
        gains = load16(weight + lane() * 8);
        shifts = load16(bias + lane() * 8);
    }
    // Row r is that of `source(r)` of x; from `count` on it is that of the last one.
    template <class Source> DEVICE void load(const T* x, int count, Source source) {
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            words[i] = load16(x + i64(source(min(row(i), count - 1))) * WIDTH + lane() * 8);
    }
    // Writes LayerNorm of the rows to shared memory; the variance is the two-pass one, in single precision. Rows are
    // reduced four at a time: shuffles of a row wait for each other, and ptxas interleaves no rows of a loop by itself.
    template <class Tile> DEVICE void normalize(u32 tile, float epsilon) const {
#pragma unroll
        for (int first = 0; first < COUNT; first += TOGETHER) {
            float v[TOGETHER][8], sums[TOGETHER] = {}, squares[TOGETHER] = {};
#pragma unroll
            for (int r = 0; r < TOGETHER; r++)
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    const float2 pair = unpack<T>(word(words[first + r], j));
                    v[r][2 * j] = pair.x;
                    v[r][2 * j + 1] = pair.y;
                    sums[r] += pair.x + pair.y;
                }
            over_rows(sums);
#pragma unroll
            for (int r = 0; r < TOGETHER; r++)
#pragma unroll
                for (int j = 0; j < 8; j++) {
                    v[r][j] -= sums[r] / WIDTH;
                    squares[r] = fmaf(v[r][j], v[r][j], squares[r]);
                }
            over_rows(squares);
#pragma unroll
            for (int r = 0; r < TOGETHER; r++) {
                const float factor = rsqrtf(squares[r] / WIDTH + epsilon);
                u32 out[4];
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    const float2 gain = unpack<T>(word(gains, j)), shift = unpack<T>(word(shifts, j));
                    out[j] = pack<T>(v[r][2 * j] * factor * gain.x + shift.x,
                                     v[r][2 * j + 1] * factor * gain.y + shift.y);
                }
                store16_shared(tile + Tile::at(row(first + r), lane()), make_uint4(out[0], out[1], out[2], out[3]));
            }
        }
    }

  private:
    DEVICE static int lane() { return threadIdx.x % LANES; }
    DEVICE static int row(int i) { return i * AT_ONCE + threadIdx.x % 128 / LANES; }
    DEVICE static void over_rows(float (&v)[TOGETHER]) {
#pragma unroll
        for (int offset = LANES / 2; offset; offset >>= 1)
#pragma unroll
            for (int r = 0; r < TOGETHER; r++)
                v[r] += __shfl_xor_sync(~0u, v[r], offset);
    }
};

// A sum over the four lanes of a quad.
DEVICE float over_quad(float v) {
    v += __shfl_xor_sync(~0u, v, 1);
    return v + __shfl_xor_sync(~0u, v, 2);
}

// Copies a matrix of ROWS rows of WIDTH elements to shared memory as blocks of 64 columns, by all threads of a CTA;
// the caller commits.
template <class T, int ROWS, int WIDTH> DEVICE void copy_matrix(u32 to, const T* matrix) {
    for (int i = threadIdx.x; i < ROWS * WIDTH / 8; i += blockDim.x) {
        const int row = i / (WIDTH / 8), chunk = i % (WIDTH / 8);
        cp_async_16(to + SwizzledTile<ROWS>::at(row, chunk), matrix + i64(i) * 8, true);
    }
}

// A convolution of floats as a matrix product on tensor cores: filters x (channels, taps) times (channels, taps) x
// positions.
//
// Algorithm: implicit GEMM [Chetlur et al. 2014], as convolution.cu. With PRODUCTS 3 a float is the sum of two of TF32,
//   and a product that of the three largest of theirs (3xTF32, as in CUTLASS) [Ootomo and Yokota 2022]: single
//   precision at more than the rate of its own units.
// Tiling: a warp has 32 x 32 results, a CTA of four warps a tile of TILE_FILTERS x 4096 / TILE_FILTERS. Tiles of 32
//   steps come by cp.async, STAGES - 1 ahead, with one barrier each: weights 16 bytes at a time, x an element at a
//   time, with zeros where it is padded. A thread gathers for one position, whose taps inside of x are the bits of a
//   mask: an element takes half a load of its step from shared memory, one comparison and one addition.
// Departures: tensor cores truncate their sums. Those of upper parts begin anew with every tile and are added to the
//   others by FMA units, which round; those with a lower part are 2^-11 of them and stay in the accumulators.
//
// Options: PRODUCTS (1: floats are rounded to TF32; 3: single precision), TILE_FILTERS (32, 64), STAGES, CTAS_PER_SM,
//   ACTIVATION (codes.cuh).
// Launch: grid (ceil(batch * positions / tile's positions), ceil(filters of a group / TILE_FILTERS), groups), CTA of
//   128, shared bytes STAGES * (TILE_FILTERS * 144 + (4096 / TILE_FILTERS + 8) * 128). At most 32 taps, steps in
//   multiples of 4, weights aligned to 16 bytes, batch * positions below 2^31, a sample of x below 2^32 bytes.
// Arguments: x, weight, bias, residual (null: none), out, the shape.
#define TRANSPOSED 0
#include "convolution_index.cuh"
#include "epilogue.cuh"

constexpr int CTA = 128, WARP_TILE = 32, TILE_STEPS = 32;
constexpr int TILE_POSITIONS = CTA / 32 * WARP_TILE * WARP_TILE / TILE_FILTERS;
constexpr int M_TILES = WARP_TILE / 16, N_TILES = WARP_TILE / 8, PARTS = PRODUCTS == 3 ? 2 : 1;
// Of shared memory: weights are [filter][step], x is [step][position]; no two lanes of a load share a bank.
constexpr int WEIGHT_PITCH = TILE_STEPS + 4, X_PITCH = TILE_POSITIONS + 8;
constexpr int WEIGHT_ELEMENTS = TILE_FILTERS * WEIGHT_PITCH, STAGE_ELEMENTS = WEIGHT_ELEMENTS + TILE_STEPS * X_PITCH;
// Chunks of 16 bytes in a filter's steps, filters that a CTA copies at once, and steps that a thread gathers.
constexpr int CHUNKS = TILE_STEPS / 4, FILTERS_AT_ONCE = CTA / CHUNKS;
constexpr int STEPS_OF_THREAD = TILE_STEPS * TILE_POSITIONS / CTA;

// A step of the sum: how many bytes its element of x is behind the position's, and the bit of its tap; none behind the
// last.
struct Step {
    u32 x_bytes, tap;
};

// Copies a float asynchronously, or zero where not valid: that reads nothing.
DEVICE void cp_async_4(u32 to, const void* from, bool valid) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(valid ? 4 : 0));
}

// What TF32 keeps of a float, and what it leaves. Tensor cores ignore the last 13 bits of either: truncated, a quiet
// NaN stays one and no number becomes an infinity. The lower part has two bits too many at most. Sums come out 1e-7
// smaller, which is less than what a chain of FMAs rounds: rounding here would take an addition for each.
DEVICE void split(u32 (&parts)[PARTS], u32 bits) {
    parts[0] = PARTS == 2 ? bits & 0xffffe000u : to_tf32(__uint_as_float(bits));
    if (PARTS == 2)
        parts[PARTS - 1] = __float_as_uint(__uint_as_float(bits) - __uint_as_float(parts[0]));
}

// The results of a warp.
struct WarpTile {
    float sums[PARTS][M_TILES][N_TILES][4];  // of products of upper parts, and of those with a lower one

    // Adds a tile's products to them; pointers to its weights and x in shared memory.
    DEVICE void multiply(const float* weights, const float* x) {
        const int lane = int(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
        float fresh[M_TILES][N_TILES][4] = {};
#pragma unroll
        for (int k = 0; k < TILE_STEPS; k += 8) {
            u32 a[M_TILES][4][PARTS], b[N_TILES][2][PARTS];
#pragma unroll
            for (int m = 0; m < M_TILES; m++) {
                // Rows of four floats are matrices of 8 x 8 halves: rows 0 and 8 of steps k, then of k + 4.
                u32 whole[4];
                ldmatrix_x4(whole, shared_address(weights + (m * 16 + lane % 16) * WEIGHT_PITCH + k + lane / 16 * 4));
#pragma unroll
                for (int i = 0; i < 4; i++)
                    split(a[m][i], whole[i]);
            }
#pragma unroll
            for (int n = 0; n < N_TILES; n++)
#pragma unroll
                for (int half = 0; half < 2; half++)
                    split(b[n][half], __float_as_uint(x[(k + t + 4 * half) * X_PITCH + n * 8 + g]));
#pragma unroll
            for (int of_a = PARTS - 1; of_a >= 0; of_a--)
#pragma unroll
                for (int of_b = PARTS - 1 - of_a; of_b >= 0; of_b--)
#pragma unroll
                    for (int m = 0; m < M_TILES; m++)
#pragma unroll
                        for (int n = 0; n < N_TILES; n++) {
                            const int lower = of_a + of_b;
                            mma_16x8x8_tf32(PARTS == 2 && lower == 0 ? fresh[m][n] : sums[lower][m][n], a[m][0][of_a],
                                            a[m][1][of_a], a[m][2][of_a], a[m][3][of_a], b[n][0][of_b], b[n][1][of_b]);
                        }
        }
        if (PARTS == 2)
#pragma unroll
            for (int i = 0; i < M_TILES * N_TILES * 4; i++)
                sums[0][i / 4 / N_TILES][i / 4 % N_TILES][i % 4] += fresh[i / 4 / N_TILES][i / 4 % N_TILES][i % 4];
    }

    DEVICE float result(int m, int n, int i) const {
        if (PARTS == 1)
            return sums[0][m][n][i];
        // An infinity leaves NaN, and two large numbers an infinity of either sign: the sum of products of upper parts
        // is then infinite or NaN as that of single precision is.
        const float lower = sums[PARTS - 1][m][n][i];
        const bool finite = (__float_as_uint(lower) & 0x7f800000u) != 0x7f800000u;
        return sums[0][m][n][i] + (finite ? lower : 0.0f);
    }
};

KERNEL __launch_bounds__(128, CTAS_PER_SM)
convolution_tf32(const float* x, const float* weight, const float* bias, const float* residual, float* out,
                 const __grid_constant__ ConvolutionShape shape) {
    extern __shared__ __align__(16) float stages[];
    __shared__ __align__(16) Step steps[STAGES][TILE_STEPS];
    __shared__ u32 bytes_of_taps[32];
    launch_dependents();
    const int thread = int(threadIdx.x), warp = thread / 32, lane = thread % 32;
    const ConvolutionIndex index(shape, int(blockIdx.z), 0);
    const u32 first_position = blockIdx.x * TILE_POSITIONS;
    const int first_filter = int(blockIdx.y) * TILE_FILTERS;
    const int tiles = ceil_divide(index.steps, TILE_STEPS);

    if (thread < index.taps)
        bytes_of_taps[thread] = u32(index.tap(thread).x_offset) * 4;
    __syncthreads();
    // Warps take turns: a lane's next step is CTA steps later, and found without a division.
    int channel = thread / index.taps, tap = thread % index.taps;
    const int channels_later = CTA / index.taps, taps_later = CTA % index.taps;
    const u32 bytes_of_channel = u32(shape.height * shape.width) * 4;
    auto find_steps = [&](int tile) {
        if (warp != tile % (CTA / 32))
            return;
        steps[tile % STAGES][lane] =
            channel < index.channels ? Step{channel * bytes_of_channel + bytes_of_taps[tap], 1u << tap} : Step{0, 0};
        channel += channels_later, tap += taps_later;
        if (tap >= index.taps)
            channel++, tap -= index.taps;
    };
    for (int tile = 0; tile < STAGES; tile++)
        find_steps(tile);

    Position position = {};
    u32 inside = 0;
    if (index.position(first_position + thread % TILE_POSITIONS, position))
        for (int down = 0, bit = 0; down < shape.kernel_height; down++)
            for (int right = 0; right < shape.kernel_width; right++, bit++) {
                const Tap at = {0, down * shape.dilation_height, right * shape.dilation_width, 0};
                inside |= u32(index.has(position, at)) << bit;
            }
    const u8* const x_of_position = reinterpret_cast<const u8*>(x + position.x_base);
    const int filter_of_chunk = thread / CHUNKS, step_of_chunk = thread % CHUNKS * 4;
    const float* const weights =
        weight + index.first_weight() + i64(first_filter + filter_of_chunk) * index.steps + step_of_chunk;
    const u32 shared = shared_address(stages);
    const u32 to_weights = shared + (filter_of_chunk * WEIGHT_PITCH + step_of_chunk) * 4;
    const int first_step = thread / TILE_POSITIONS * STEPS_OF_THREAD;
    const u32 to_x = shared + (WEIGHT_ELEMENTS + first_step * X_PITCH + thread % TILE_POSITIONS) * 4;
    auto load = [&](int tile) {
        if (tile < tiles) {
            const u32 stage = tile % STAGES * STAGE_ELEMENTS * 4;
            const bool has_steps = tile * TILE_STEPS + step_of_chunk < index.steps;
#pragma unroll
            for (int i = 0; i < TILE_FILTERS; i += FILTERS_AT_ONCE)
                cp_async_16(to_weights + stage + i * WEIGHT_PITCH * 4,
                            weights + i64(i) * index.steps + tile * TILE_STEPS,
                            has_steps && first_filter + filter_of_chunk + i < index.filters);
#pragma unroll
            for (int i = 0; i < STEPS_OF_THREAD; i += 4) {
                // Two steps a load, and four before their copies: ptxas separates copies from loads by instructions
                // that do nothing.
                const uint4* const from = reinterpret_cast<const uint4*>(steps[tile % STAGES] + first_step + i);
                const uint4 pairs[2] = {from[0], from[1]};
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    const u32 bytes = word(pairs[j / 2], j % 2 * 2), bit = word(pairs[j / 2], j % 2 * 2 + 1);
                    cp_async_4(to_x + stage + (i + j) * X_PITCH * 4, x_of_position + bytes, inside & bit);
                }
            }
        }
        cp_async_commit();
    };

    const int warp_filter = warp % (TILE_FILTERS / WARP_TILE) * WARP_TILE;
    const int warp_position = warp / (TILE_FILTERS / WARP_TILE) * WARP_TILE;
    WarpTile results = {};
    __syncthreads();
    wait_on_dependency();
#pragma unroll
    for (int tile = 0; tile < STAGES - 1; tile++)
        load(tile);
#pragma unroll 1
    for (int tile = 0; tile < tiles; tile++) {
        cp_async_wait<STAGES - 2>();
        __syncthreads();  // the tile has arrived, and all warps are done with the one before
        load(tile + STAGES - 1);
        find_steps(tile + STAGES);
        const float* const stage = stages + tile % STAGES * STAGE_ELEMENTS;
        results.multiply(stage + warp_filter * WEIGHT_PITCH, stage + WEIGHT_ELEMENTS + warp_position);
    }

    // Where the first filter's result of each of the lane's positions is; below zero where there is no such position.
    const u32 positions = index.positions;
    i64 places[N_TILES][2];
#pragma unroll
    for (int i = 0; i < N_TILES * 2; i++) {
        const u32 place = first_position + warp_position + i / 2 * 8 + lane % 4 * 2 + i % 2;
        const i64 sample = shape.batch == 1 ? 0 : place / positions;
        places[i / 2][i % 2] = place < shape.batch * positions ? sample * (shape.filters - 1) * positions + place : -1;
    }
    // Neighbors are of one sample: they are stored together.
    const bool in_pairs = positions % 2 == 0 && (reinterpret_cast<u64>(out) | reinterpret_cast<u64>(residual)) % 8 == 0;
#pragma unroll
    for (int row = 0; row < 2 * M_TILES; row++) {
        const int filter = first_filter + warp_filter + row * 8 + lane / 4;
        if (filter >= index.filters)
            continue;
        const int of_all = index.group * index.filters + filter;
        const float shift = bias ? bias[of_all] : 0.0f;
        float* const results_of_filter = out + i64(of_all) * positions;
        const float* const residual_of_filter = residual + i64(of_all) * positions;
#pragma unroll
        for (int n = 0; n < N_TILES; n++) {
            const i64 first = places[n][0], second = places[n][1];
            const float2 v = make_float2(activate(results.result(row / 2, n, row % 2 * 2) + shift),
                                         activate(results.result(row / 2, n, row % 2 * 2 + 1) + shift));
            if (in_pairs && first >= 0) {
                const float2 before =
                    residual ? *reinterpret_cast<const float2*>(residual_of_filter + first) : make_float2(0.0f, 0.0f);
                *reinterpret_cast<float2*>(results_of_filter + first) = make_float2(v.x + before.x, v.y + before.y);
            }
            if (!in_pairs && first >= 0)
                results_of_filter[first] = v.x + (residual ? residual_of_filter[first] : 0.0f);
            if (!in_pairs && second >= 0)
                results_of_filter[second] = v.y + (residual ? residual_of_filter[second] : 0.0f);
        }
    }
}

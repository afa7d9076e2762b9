// A convolution, or a transposed one, as a matrix product: filters x (channels, taps) times (channels, taps) x
// positions. Floats of most convolutions take convolution_tf32.cu.
//
// Algorithm: implicit GEMM [Chetlur et al. 2014]: elements of x are gathered into shared memory tile by tile, and the
//   matrix that they would make is never stored. Where each step of the sum finds its element is computed once a tile,
//   by some threads, for all positions.
// Tiling: a CTA a tile of TILE_FILTERS x TILE_POSITIONS, 256 threads. Without tensor cores a thread has 4 x 4 results
//   in each quarter of 64 x 64; with them a warp has half of the filters and a quarter of the positions. Tiles of x and
//   weights are double-buffered, and loaded into registers while the ones before are multiplied.
//
// Departures: with TENSOR_CORES 3 a float is the sum of two of TF32, and a product that of the three largest of theirs
//   (3xTF32, as in CUTLASS), summed outside of tensor cores [Ootomo and Yokota 2022]: single precision at more than the
//   rate of its own units.
//
// Options: ELEMENT (bf16, fp16, float: of everything), TENSOR_CORES (0: float only, in single precision; 1: floats are
//   rounded to TF32; 3: floats by three products), TILE_FILTERS, TILE_POSITIONS (64, 128), TRANSPOSED
//   (convolution_index.cuh), ACTIVATION (codes.cuh).
// Launch: grid (ceil(batch * positions / TILE_POSITIONS), ceil(filters of a group / TILE_FILTERS), groups * phases, of
//   which a transposed convolution has stride_width), CTA of 256.
// Arguments: x, weight, bias, residual (null: none), out, the shape.
#include "convolution_index.cuh"
#include "epilogue.cuh"

template <class T> struct TileElement {
    typedef T Type;
    DEVICE static T convert(T v) { return v; }
};
template <> struct TileElement<float> {
    typedef float Type;
    DEVICE static float convert(float v) { return TENSOR_CORES == 1 ? __uint_as_float(to_tf32(v)) : v; }
};
typedef TileElement<ELEMENT> Converted;

constexpr bool IS_FLOAT = sizeof(ELEMENT) == 4;
constexpr int CTA = 256, TILE_STEPS = IS_FLOAT ? 16 : 32;
// Of shared memory: weights are [filter][step] for tensor cores, else [step][filter]; x is [step][position].
constexpr int WEIGHT_PITCH = TENSOR_CORES ? TILE_STEPS + 16 / int(sizeof(ELEMENT)) : TILE_FILTERS + 4;
constexpr int WEIGHT_ELEMENTS = (TENSOR_CORES ? TILE_FILTERS : TILE_STEPS) * WEIGHT_PITCH;
constexpr int X_PITCH = TILE_POSITIONS + 8;
constexpr int WEIGHT_LOADS = TILE_FILTERS * TILE_STEPS / CTA, X_LOADS = TILE_POSITIONS * TILE_STEPS / CTA;
constexpr int X_STEPS = CTA / TILE_POSITIONS;  // steps that are loaded at once

// The results of a thread, and which of the tile's they are.
struct FmaTile {
    static constexpr int FILTERS = TILE_FILTERS / 16, POSITIONS = TILE_POSITIONS / 16;
    float sums[FILTERS][POSITIONS];

    DEVICE static int filter(int i) { return i / 4 * 64 + int(threadIdx.x) / 16 * 4 + i % 4; }
    DEVICE static int position(int j) { return j / 4 * 64 + int(threadIdx.x) % 16 * 4 + j % 4; }
    DEVICE void multiply(const float* weights, const float* x) {
#pragma unroll
        for (int k = 0; k < TILE_STEPS; k++) {
            float a[FILTERS], b[POSITIONS];
#pragma unroll
            for (int i = 0; i < FILTERS; i += 4) {
                const float4 four = *reinterpret_cast<const float4*>(weights + k * WEIGHT_PITCH + filter(i));
                a[i] = four.x, a[i + 1] = four.y, a[i + 2] = four.z, a[i + 3] = four.w;
            }
#pragma unroll
            for (int j = 0; j < POSITIONS; j += 4) {
                const float4 four = *reinterpret_cast<const float4*>(x + k * X_PITCH + position(j));
                b[j] = four.x, b[j + 1] = four.y, b[j + 2] = four.z, b[j + 3] = four.w;
            }
#pragma unroll
            for (int i = 0; i < FILTERS; i++)
#pragma unroll
                for (int j = 0; j < POSITIONS; j++)
                    sums[i][j] = fmaf(a[i], b[j], sums[i][j]);
        }
    }
};

struct MmaTile {
    static constexpr int M_TILES = TILE_FILTERS / 32, N_TILES = TILE_POSITIONS / 32;
    static constexpr int FILTERS = 2 * M_TILES, POSITIONS = 2 * N_TILES;
    float c[M_TILES][N_TILES][4];

    DEVICE static int warp_filter() { return int(threadIdx.x) / 128 * (TILE_FILTERS / 2); }
    DEVICE static int warp_position() { return int(threadIdx.x) / 32 % 4 * (TILE_POSITIONS / 4); }
    DEVICE static int filter(int i) { return warp_filter() + i / 2 * 16 + i % 2 * 8 + int(threadIdx.x) % 32 / 4; }
    DEVICE static int position(int j) { return warp_position() + j / 2 * 8 + int(threadIdx.x) % 4 * 2 + j % 2; }

    // What TF32 keeps of a float, and of what it leaves.
    static constexpr int PARTS = TENSOR_CORES == 3 ? 2 : 1;
    DEVICE static void split(u32 (&parts)[PARTS], float v) {
        parts[0] = TENSOR_CORES == 3 ? to_tf32(v) : __float_as_uint(v);
        if (PARTS == 2)
            parts[PARTS - 1] = to_tf32(v - __uint_as_float(parts[0]));
    }
    DEVICE void multiply(const float* weights, const float* x) {
        const int g = int(threadIdx.x) % 32 / 4, t = int(threadIdx.x) % 4;
        u32 b[TILE_STEPS / 8][N_TILES][2][PARTS];
#pragma unroll
        for (int k = 0; k < TILE_STEPS; k += 8)
#pragma unroll
            for (int n = 0; n < N_TILES; n++)
#pragma unroll
                for (int half = 0; half < 2; half++)
                    split(b[k / 8][n][half], x[(k + t + 4 * half) * X_PITCH + warp_position() + n * 8 + g]);
#pragma unroll
        for (int m = 0; m < M_TILES; m++) {
            // Tensor cores truncate their sums: those of a tile are added to the others by FMA units, which round. Sums
            // of products of upper parts are the first, and those of products with a lower part the second.
            float fresh[PARTS][N_TILES][4] = {};
#pragma unroll
            for (int k = 0; k < TILE_STEPS; k += 8) {
                const float* rows = weights + (warp_filter() + m * 16 + g) * WEIGHT_PITCH + k + t;
                u32 a[4][PARTS];
#pragma unroll
                for (int i = 0; i < 4; i++)
                    split(a[i], rows[i % 2 * 8 * WEIGHT_PITCH + i / 2 * 4]);
#pragma unroll
                for (int of_a = PARTS - 1; of_a >= 0; of_a--)
#pragma unroll
                    for (int of_b = PARTS - 1 - of_a; of_b >= 0; of_b--)
#pragma unroll
                        for (int n = 0; n < N_TILES; n++)
                            mma_16x8x8_tf32(PARTS == 2 ? fresh[of_a + of_b][n] : c[m][n], a[0][of_a], a[1][of_a],
                                            a[2][of_a], a[3][of_a], b[k / 8][n][0][of_b], b[k / 8][n][1][of_b]);
            }
            if (PARTS == 1)
                continue;
#pragma unroll
            for (int n = 0; n < N_TILES; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    // An infinity leaves NaN, and two large numbers an infinity of either sign: the product of upper
                    // parts is then infinite or NaN as that of single precision is.
                    const float lower = fresh[PARTS - 1][n][i];
                    const bool finite = (__float_as_uint(lower) & 0x7f800000u) != 0x7f800000u;
                    c[m][n][i] += fresh[0][n][i] + (finite ? lower : 0.0f);
                }
        }
    }
    template <class T> DEVICE void multiply(const T* weights, const T* x) {
        const int lane = int(threadIdx.x) % 32;
#pragma unroll
        for (int k = 0; k < TILE_STEPS; k += 16) {
            u32 b[N_TILES / 2][4];
            // Matrices of 8 x 8: steps k and k + 8 of eight positions, then of the next eight.
#pragma unroll
            for (int n = 0; n < N_TILES / 2; n++)
                ldmatrix_x4_trans(b[n], shared_address(x + (k + lane % 16) * X_PITCH + warp_position() + n * 16 +
                                                       lane / 16 * 8));
#pragma unroll
            for (int m = 0; m < M_TILES; m++) {
                u32 a[4];
                ldmatrix_x4(a, shared_address(weights + (warp_filter() + m * 16 + lane % 16) * WEIGHT_PITCH + k +
                                              lane / 16 * 8));
#pragma unroll
                for (int n = 0; n < N_TILES; n++)
                    mma_16x8x16<T>(c[m][n], a[0], a[1], a[2], a[3], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
            }
        }
    }
};

DEVICE float& result(FmaTile& tile, int i, int j) { return tile.sums[i][j]; }
DEVICE float& result(MmaTile& tile, int i, int j) { return tile.c[i / 2][j / 2][i % 2 * 2 + j % 2]; }

template <bool> struct TileChoice {
    typedef FmaTile Type;
};
template <> struct TileChoice<true> {
    typedef MmaTile Type;
};
typedef TileChoice<TENSOR_CORES != 0>::Type ResultTile;

KERNEL __launch_bounds__(256)
convolution(const ELEMENT* x, const ELEMENT* weight, const ELEMENT* bias, const ELEMENT* residual, ELEMENT* out,
            const __grid_constant__ ConvolutionShape shape) {
    __shared__ __align__(16) ELEMENT weight_tiles[2][WEIGHT_ELEMENTS];
    __shared__ __align__(16) ELEMENT x_tiles[2][TILE_STEPS * X_PITCH];
    __shared__ Tap taps[2][TILE_STEPS];
    launch_dependents();
    wait_on_dependency();
    const int thread = int(threadIdx.x);
    const ConvolutionIndex index(shape, int(blockIdx.z) % shape.groups, int(blockIdx.z) / shape.groups);
    const i64 first_position = i64(blockIdx.x) * TILE_POSITIONS;
    const int first_filter = int(blockIdx.y) * TILE_FILTERS;
    const int tiles = ceil_divide(index.steps, TILE_STEPS);
    const ELEMENT* weights = weight + index.first_weight();

    // Each thread gathers elements of one position, and weights of one step.
    Position position = {};
    const bool has_position = index.position(first_position + thread % TILE_POSITIONS, position);
    const int step_of_weights = thread % TILE_STEPS;
    ELEMENT loaded_x[X_LOADS], loaded_weights[WEIGHT_LOADS];
    auto find_taps = [&](int tile) {
        const int step = tile * TILE_STEPS + thread;
        if (thread < TILE_STEPS && step < index.steps)
            taps[tile % 2][thread] = index.tap(step);
    };
    auto load = [&](int tile) {
        const int left = index.steps - tile * TILE_STEPS;
#pragma unroll
        for (int i = 0; i < X_LOADS; i++) {
            const int step = thread / TILE_POSITIONS + i * X_STEPS;
            loaded_x[i] = from_float<ELEMENT>(0.0f);
            if (step < left && has_position) {
                const Tap tap = taps[tile % 2][step];
                if (index.has(position, tap))
                    loaded_x[i] = x[position.x_base + tap.x_offset];
            }
        }
#pragma unroll
        for (int i = 0; i < WEIGHT_LOADS; i++) {
            const int filter = first_filter + thread / TILE_STEPS + i * (CTA / TILE_STEPS);
            loaded_weights[i] = from_float<ELEMENT>(0.0f);
            if (step_of_weights < left && filter < index.filters)
                loaded_weights[i] = weights[i64(filter) * index.filter_stride() +
                                            taps[tile % 2][step_of_weights].weight_offset];
        }
    };
    auto store = [&](int buffer) {
#pragma unroll
        for (int i = 0; i < X_LOADS; i++)
            x_tiles[buffer][(thread / TILE_POSITIONS + i * X_STEPS) * X_PITCH + thread % TILE_POSITIONS] =
                Converted::convert(loaded_x[i]);
#pragma unroll
        for (int i = 0; i < WEIGHT_LOADS; i++) {
            const int filter = thread / TILE_STEPS + i * (CTA / TILE_STEPS);
            const int at =
                TENSOR_CORES ? filter * WEIGHT_PITCH + step_of_weights : step_of_weights * WEIGHT_PITCH + filter;
            weight_tiles[buffer][at] = Converted::convert(loaded_weights[i]);
        }
    };

    ResultTile tile_results = {};
    find_taps(0);
    __syncthreads();
    if (tiles > 0) {
        load(0);
        store(0);
        find_taps(1);
    }
    __syncthreads();
    for (int tile = 0; tile < tiles; tile++) {
        if (tile + 1 < tiles)
            load(tile + 1);
        tile_results.multiply(weight_tiles[tile % 2], x_tiles[tile % 2]);
        find_taps(tile + 2);
        if (tile + 1 < tiles)
            store((tile + 1) % 2);
        __syncthreads();
    }

#pragma unroll
    for (int j = 0; j < ResultTile::POSITIONS; j++) {
        Position at = {};
        if (!index.position(first_position + ResultTile::position(j), at))
            continue;
#pragma unroll
        for (int i = 0; i < ResultTile::FILTERS; i++) {
            const int filter = first_filter + ResultTile::filter(i);
            if (filter >= index.filters)
                continue;
            const i64 to = at.out_base + filter * index.out_pitch();
            float v = result(tile_results, i, j);
            v = activate(v + (bias ? to_float(bias[index.group * index.filters + filter]) : 0.0f));
            out[to] = from_float<ELEMENT>(v + (residual ? to_float(residual[to]) : 0.0f));
        }
    }
}

// Grouped GEMM of a mixture of experts on Hopper (sm_90a), for many tokens of each expert.
//
// Algorithm: a warp-specialized persistent GEMM as in CUTLASS for Hopper, over tiles that group_assignments.cu lists.
// Tiling: an item is TILE_ROWS assignments of one expert by 256 weight rows: 256 outputs or, with GATED, 128 gates and
//   their ups, which are the two products of a thread. K in steps of 64, in a circular buffer of STAGES. Threads of the
//   producer warpgroup gather rows of x by cp.async, and one of them issues the TMA loads of weights; each of two
//   consumer warpgroups multiplies 64 assignments. Producers run ahead over the borders of items, so that the copies
//   of an item hide behind the epilogue of the one before.
// Departures: rows of x are not permuted first. cp.async writes by the generic proxy: a producer waits for its copies
//   of a step IN_FLIGHT steps later, and makes them visible to wgmma before it arrives. Items of one row tile follow
//   each other, so that CTAs that run together share rows of x and weights of few experts in L2.
//
// Options: ELEMENT (bf16, fp16: of everything), GATED, ACTIVATION (as epilogue.cuh).
// Launch: grid of one CTA for each SM, CTA of 384, shared bytes 4 * (128 + 256) * 128 + 1024.
// Arguments: tensor map of weights (inputs, outputs, experts; box 64, 128, 1), x, bias (experts x outputs, may be
//   null), order, tiles (as group_assignments.cu with TILE_ROWS 128), y (assignments x columns), fan_out (assignments
//   of a row of x), inputs (a multiple of 64), outputs (columns of y are a multiple of 8), max_tiles.
#include "epilogue.cuh"
#include "hopper.cuh"

constexpr int TILE_ROWS = 128, TILE_K = 64, STAGES = 4, IN_FLIGHT = 2;
constexpr int HALF_OUTPUTS = 128, TILE_COLUMNS = GATED ? HALF_OUTPUTS : 2 * HALF_OUTPUTS;
constexpr int X_BYTES = TILE_ROWS * TILE_K * 2, HALF_BYTES = HALF_OUTPUTS * TILE_K * 2;
constexpr int STAGE_BYTES = X_BYTES + 2 * HALF_BYTES;
constexpr int PRODUCERS = 128, CONSUMER_WARPS = 8;

// An item: a row tile and the first of its columns.
struct Item {
    int expert, first, rows, column;
};

KERNEL __launch_bounds__(384, 1)
grouped_gemm_hopper(const __grid_constant__ TensorMap weights, const ELEMENT* x, const ELEMENT* bias, const int* order,
                    const int* tiles, ELEMENT* y, int fan_out, int inputs, int outputs, int max_tiles TRACE_PARAMETER) {
    TRACE_SPAN(blockDim.x - 1);
    extern __shared__ u8 dynamic[];
    __shared__ u64 barriers[2 * STAGES];
    const int warpgroup = threadIdx.x / 128, lane = threadIdx.x % 32;
    const u32 base = (shared_address(dynamic) + 1023) & ~1023u, first_barrier = shared_address(barriers);
    auto x_tile = [&](int stage) { return base + stage * STAGE_BYTES; };
    auto weight_tile = [&](int stage, int half) { return x_tile(stage) + X_BYTES + half * HALF_BYTES; };
    auto full = [&](int stage) { return first_barrier + 8 * stage; };
    auto empty = [&](int stage) { return first_barrier + 8 * (STAGES + stage); };
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            mbarrier_init(full(stage), PRODUCERS + 1);
            mbarrier_init(empty(stage), CONSUMER_WARPS);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    // In this order, so that the kernel behind this one may read the experts before it waits (combine_gemv.cu).
    wait_on_dependency();
    launch_dependents();

    const int columns = GATED ? outputs / 2 : outputs, steps = inputs / TILE_K;
    const int column_tiles = ceil_divide(columns, TILE_COLUMNS), items = max_tiles * column_tiles;
    // Tiles without an expert are the last.
    auto find = [&](int index, Item& item) {
        if (index >= items)
            return false;
        const int* tile = tiles + index / column_tiles * 3;
        item = {tile[0], tile[1], tile[2], index % column_tiles * TILE_COLUMNS};
        return item.expert >= 0;
    };
    Item item;

    if (warpgroup == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
        PipelineState<STAGES> stage, landed;
        int pending = 0;
        auto arrive = [&]() {
            mbarrier_arrive(full(landed.index));
            landed.advance();
            pending--;
        };
        // A thread copies the same chunk of every 16th row, so that its rows of x are looked up once.
        const int chunk = threadIdx.x % 8, own_row = threadIdx.x / 8;
        for (int index = blockIdx.x; find(index, item); index += gridDim.x) {
            const ELEMENT* from[TILE_ROWS / 16];
#pragma unroll
            for (int i = 0; i < TILE_ROWS / 16; i++) {
                const int r = min(own_row + i * 16, item.rows - 1);
                from[i] = x + i64(order[item.first + r] / fan_out) * inputs + chunk * 8;
            }
            for (int k = 0; k < steps; k++) {
                mbarrier_wait(empty(stage.index), stage.phase ^ 1);
                if (threadIdx.x == 0) {
                    const u32 barrier = full(stage.index);
                    mbarrier_arrive_expect_tx(barrier, 2 * HALF_BYTES);
#pragma unroll
                    for (int half = 0; half < 2; half++)
                        tma_load(weight_tile(stage.index, half), weights, barrier, k * TILE_K,
                                 item.column + half * (GATED ? columns : HALF_OUTPUTS), item.expert);
                }
#pragma unroll
                for (int i = 0; i < TILE_ROWS / 16; i++) {
                    const int r = own_row + i * 16;
                    cp_async_16(x_tile(stage.index) + r * 128 + (chunk ^ r % 8) * 16, from[i] + k * TILE_K, true);
                }
                cp_async_commit();
                stage.advance();
                if (++pending > IN_FLIGHT) {
                    cp_async_wait<IN_FLIGHT>();
                    fence_proxy_async();
                    arrive();
                }
            }
        }
        cp_async_wait<0>();
        fence_proxy_async();
        while (pending)
            arrive();
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
        const int g = lane / 4, t = lane % 4;
        const int own_rows = (warpgroup - 1) * 64, warp_rows = own_rows + threadIdx.x / 32 % 4 * 16;
        PipelineState<STAGES> stage;
        float sums[2][64];
        auto release = [&](int index) {
            if (lane == 0)
                mbarrier_arrive(empty(index));
        };
        for (int index = blockIdx.x; find(index, item); index += gridDim.x) {
            int previous = 0;
            for (int k = 0; k < steps; k++) {
                mbarrier_wait(full(stage.index), stage.phase);
                wgmma_fence();
#pragma unroll
                for (int s = 0; s < TILE_K / 16; s++) {
                    const u64 rows = smem_descriptor(x_tile(stage.index) + own_rows * 128 + s * 32, 16);
#pragma unroll
                    for (int half = 0; half < 2; half++)
                        wgmma_ss(sums[half], rows, smem_descriptor(weight_tile(stage.index, half) + s * 32, 16),
                                 k > 0 || s > 0, ELEMENT());
                }
                wgmma_commit();
                if (k > 0) {
                    wgmma_wait<1>();
                    release(previous);
                }
                previous = stage.index;
                stage.advance();
            }
            wgmma_wait<0>();
            release(previous);
            auto with_bias = [&](float v, int output) {
                return bias && output < outputs ? v + to_float(bias[i64(item.expert) * outputs + output]) : v;
            };
            // Lane t of a quad stores a block of eight columns, 16 bytes.
            auto store = [&](const float (&values)[64], const float (&ups)[64], int column, int h) {
                const int r = warp_rows + h * 8 + g;
                const bool inside = r < item.rows;
                ELEMENT* to = y + i64(order[item.first + (inside ? r : 0)]) * columns;
#pragma unroll
                for (int block = 0; block < HALF_OUTPUTS / 8; block += 4) {
                    u32 words[4];
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        float result[2];
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            const int at = (block + j) * 4 + h * 2 + i, output = column + (block + j) * 8 + t * 2 + i;
                            const float v = with_bias(values[at], output);
                            result[i] = GATED ? gated_product(v, with_bias(ups[at], output + columns)) : activate(v);
                        }
                        words[j] = pack<ELEMENT>(result[0], result[1]);
                    }
                    transpose_quad(words, t);
                    const int output = column + (block + t) * 8;
                    if (inside && output < columns)
                        *reinterpret_cast<uint4*>(to + output) = make_uint4(words[0], words[1], words[2], words[3]);
                }
            };
#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int half = 0; half < (GATED ? 1 : 2); half++)
                    store(sums[half], sums[1], item.column + half * HALF_OUTPUTS, h);
        }
    }
}

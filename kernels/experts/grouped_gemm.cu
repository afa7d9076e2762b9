// Grouped GEMM of a mixture of experts: rows of x times the weights of the experts they are assigned to.
//
// Algorithm: tiled GEMM with mma.sync m16n8k16 and a cp.async pipeline, over tiles that group_assignments.cu lists.
// Tiling: a CTA is TILE_ROWS assignments of one expert by 128 weight rows, K in steps of 64; two stages of x and
//   weights in shared memory, XOR-swizzled, read by ldmatrix. Four warps, each of 32 assignments by 64 weight rows.
//   With GATED the weight rows alternate in eights between gates and their ups, so that one thread holds both.
// Departures: rows of x are gathered by the loads; there is no permuted copy.
//
// Options: ELEMENT (bf16, fp16: of everything), GATED, ACTIVATION (as epilogue.cuh).
// Launch: grid (ceil(weight rows / 128), max_tiles), CTA of 128, shared bytes 2 * (64 + 128) * 128.
// Arguments: weights (experts x outputs x inputs), x, bias (experts x outputs, may be null), order, tiles (as
//   group_assignments.cu with TILE_ROWS 64), y (assignments x columns), fan_out (assignments of a row of x), inputs (a
//   multiple of 8), outputs.
#include "epilogue.cuh"

constexpr int TILE_ROWS = 64, TILE_OUTPUTS = 128, TILE_K = 64;
constexpr int X_BYTES = TILE_ROWS * TILE_K * 2, STAGE_BYTES = X_BYTES + TILE_OUTPUTS * TILE_K * 2;

// The address of a 16-byte chunk of a row of 128 bytes, swizzled so that ldmatrix reads eight rows without conflicts.
DEVICE u32 swizzled(u32 tile, int row, int chunk) { return tile + row * TILE_K * 2 + (chunk ^ row % 8) * 16; }

KERNEL __launch_bounds__(128)
grouped_gemm(const ELEMENT* weights, const ELEMENT* x, const ELEMENT* bias, const int* order, const int* tiles,
             ELEMENT* y, int fan_out, int inputs, int outputs TRACE_PARAMETER) {
    TRACE_SPAN(0);
    extern __shared__ uint4 dynamic[];
    const u32 base = shared_address(dynamic);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int row_offset = warp / 2 * 32, output_offset = warp % 2 * 64;
    const int columns = GATED ? outputs / 2 : outputs;
    // In this order, so that the kernel behind this one may read the experts before it waits (combine_gemv.cu).
    wait_on_dependency();
    launch_dependents();
    const int expert = tiles[blockIdx.y * 3], first = tiles[blockIdx.y * 3 + 1], rows = tiles[blockIdx.y * 3 + 2];
    if (expert < 0)
        return;
    weights += i64(expert) * outputs * inputs;
    // The weight row of row r of a tile; -1 past the last.
    auto weight_row = [&](int r) {
        if (!GATED) {
            const int output = blockIdx.x * TILE_OUTPUTS + r;
            return output < outputs ? output : -1;
        }
        const int output = blockIdx.x * (TILE_OUTPUTS / 2) + r / 16 * 8 + r % 8;
        return output < columns ? output + r / 8 % 2 * columns : -1;
    };
    // A thread loads the same chunk of every 16th row, so that its rows of x are looked up once.
    const int chunk = threadIdx.x % 8, own_row = threadIdx.x / 8;
    const ELEMENT* x_rows[TILE_ROWS / 16];
#pragma unroll
    for (int i = 0; i < TILE_ROWS / 16; i++) {
        const int r = own_row + i * 16;
        x_rows[i] = x + i64(order[first + min(r, rows - 1)] / fan_out) * inputs;
    }
    auto load = [&](int k, int stage) {
        const int at = k * TILE_K + chunk * 8;
        const u32 x_tile = base + stage * STAGE_BYTES, w_tile = x_tile + X_BYTES;
        const bool inside = at < inputs;
#pragma unroll
        for (int i = 0; i < TILE_ROWS / 16; i++) {
            const int r = own_row + i * 16;
            cp_async_16(swizzled(x_tile, r, chunk), x_rows[i] + (inside ? at : 0), inside && r < rows);
        }
#pragma unroll
        for (int i = 0; i < TILE_OUTPUTS / 16; i++) {
            const int r = own_row + i * 16, output = weight_row(r);
            const bool valid = inside && output >= 0;
            cp_async_16(swizzled(w_tile, r, chunk), weights + (valid ? i64(output) * inputs + at : 0), valid);
        }
    };
    const int steps = ceil_divide(inputs, TILE_K);
    load(0, 0);
    cp_async_commit();
    const int low = lane / 8 % 2, high = lane / 16, inner = lane % 8;
    float sums[2][8][4] = {};
    for (int k = 0; k < steps; k++) {
        if (k + 1 < steps)
            load(k + 1, (k + 1) % 2);
        cp_async_commit();
        cp_async_wait<1>();
        __syncthreads();
        const u32 x_tile = base + k % 2 * STAGE_BYTES, w_tile = x_tile + X_BYTES;
#pragma unroll
        for (int s = 0; s < TILE_K / 16; s++) {
            u32 a[2][4];
#pragma unroll
            for (int m = 0; m < 2; m++)
                ldmatrix_x4(a[m], swizzled(x_tile, row_offset + m * 16 + low * 8 + inner, s * 2 + high));
#pragma unroll
            for (int n = 0; n < 4; n++) {
                u32 b[4];
                ldmatrix_x4(b, swizzled(w_tile, output_offset + n * 16 + high * 8 + inner, s * 2 + low));
#pragma unroll
                for (int m = 0; m < 2; m++) {
                    mma_16x8x16<ELEMENT>(sums[m][n * 2], a[m][0], a[m][1], a[m][2], a[m][3], b[0], b[1]);
                    mma_16x8x16<ELEMENT>(sums[m][n * 2 + 1], a[m][0], a[m][1], a[m][2], a[m][3], b[2], b[3]);
                }
            }
        }
        __syncthreads();  // all warps are done with this stage before it is loaded again
    }
    auto with_bias = [&](float v, int output) {
        return bias && output >= 0 ? v + to_float(bias[i64(expert) * outputs + output]) : v;
    };
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int r = row_offset + m * 16 + h * 8 + g;
            if (r >= rows)
                continue;
            ELEMENT* to = y + i64(order[first + r]) * columns;
#pragma unroll
            for (int n = 0; n < 8; n += 1 + GATED)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const int at = output_offset + n * 8 + t * 2 + i, output = weight_row(at);
                    if (output < 0)
                        continue;
                    const float v = with_bias(sums[m][n][h * 2 + i], output);
                    if (GATED) {
                        const float up = with_bias(sums[m][n + GATED][h * 2 + i], output + columns);
                        to[output] = from_float<ELEMENT>(gated_product(v, up));
                    } else {
                        to[output] = from_float<ELEMENT>(activate(v));
                    }
                }
        }
}

// Grouped GEMM of a mixture of experts: rows of x times the weights of the experts they are assigned to.
//
// Algorithm: tiled GEMM with mma.sync m16n8k16 and a cp.async pipeline, over tiles that group_assignments.cu lists.
// Tiling: a CTA is TILE_ROWS assignments of one expert by 128 weight rows, K in steps of 64; two stages of x and
//   weights in shared memory, XOR-swizzled, read by ldmatrix. Four warps, each of 32 assignments by 64 weight rows.
//   With GATED the weight rows alternate in eights between gates and their ups, so that one thread holds both.
// Departures: rows of x are gathered by the loads; there is no permuted copy. Weights in MXFP4 are loaded as stored, 16
//   bytes of a row a thread for two steps, and become ELEMENT on their way from registers to shared memory.
//
// Options: ELEMENT (bf16, fp16: of everything but packed weights), GATED, ACTIVATION (as epilogue.cuh), and for weights
//   in MXFP4 the macros of packed_layout.cuh.
// Launch: grid (ceil(weight rows / 128), max_tiles), CTA of 128, shared bytes 2 * (64 + 128) * 128.
// Arguments: weights (experts x outputs x inputs), scales (as packed_layout.cuh, or null), x, bias (experts x outputs,
//   may be null), order, tiles (as group_assignments.cu with TILE_ROWS 64), y (assignments x columns), fan_out
//   (assignments of a row of x), inputs (a multiple of 8), outputs.
#ifndef WEIGHT_FORMAT
#define WEIGHT_FORMAT WeightFormat::Float16
#endif
#include "epilogue.cuh"
#include "packed_layout.cuh"

constexpr int TILE_ROWS = 64, TILE_OUTPUTS = 128, TILE_K = 64;
constexpr int X_BYTES = TILE_ROWS * TILE_K * 2, STAGE_BYTES = X_BYTES + TILE_OUTPUTS * TILE_K * 2;

// The address of a 16-byte chunk of a row of 128 bytes, swizzled so that ldmatrix reads eight rows without conflicts.
DEVICE u32 swizzled(u32 tile, int row, int chunk) { return tile + row * TILE_K * 2 + (chunk ^ row % 8) * 16; }

constexpr bool PACKED = WEIGHT_FORMAT != WeightFormat::Float16;
static_assert(!PACKED || (WEIGHT_FORMAT == WeightFormat::E2m1 && SCALE_FORMAT == ScaleFormat::Exponent), "MXFP4 only");

// Eight e2m1 floats, the lowest bits first, times a scale of twice their values. A code's exponent and mantissa are the
// upper ones of a float that is 2^126 times as small, subnormal ones too, so that shifts and exact products suffice.
DEVICE uint4 dequantized_unit(u32 codes, float scale) {
    u32 words[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float v[2];
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const u32 code = codes >> (i * 8 + j * 4);
            v[j] = __uint_as_float((code & 8) << 28 | (code & 7) << 22) * 0x1p127f * scale;
        }
        words[i] = pack<ELEMENT>(v[0], v[1]);
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

KERNEL __launch_bounds__(128)
grouped_gemm(const void* weights, const u8* scales, const ELEMENT* x, const ELEMENT* bias, const int* order,
             const int* tiles, ELEMENT* y, int fan_out, int inputs, int outputs TRACE_PARAMETER) {
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
    const i64 first_row = i64(expert) * outputs;
    const ELEMENT* dense = static_cast<const ELEMENT*>(weights) + first_row * inputs;
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
        if constexpr (PACKED)
            return;
#pragma unroll
        for (int i = 0; i < TILE_OUTPUTS / 16; i++) {
            const int r = own_row + i * 16, output = weight_row(r);
            const bool valid = inside && output >= 0;
            cp_async_16(swizzled(w_tile, r, chunk), dense + (valid ? i64(output) * inputs + at : 0), valid);
        }
    };
    // Packed weights: a thread has unit t of the k-steps of every 32nd row, four k-steps in 16 bytes. Eight threads
    // have rows r and r + 4, whose chunks in shared memory are in different banks.
    const int unit = threadIdx.x % 4, place = threadIdx.x / 4;
    const int packed_row = place / 8 * 8 + place % 2 * 4 + place / 2 % 4;
    uint4 codes[TILE_OUTPUTS / 32];
    u32 exponents[TILE_OUTPUTS / 32];
    auto fetch = [&](int k) {
#pragma unroll
        for (int i = 0; i < TILE_OUTPUTS / 32; i++) {
            const int output = weight_row(packed_row + i * 32);
            codes[i] = zero16();
            exponents[i] = 0;
            if (output >= 0) {
                const i64 row = first_row + output;
                const u8* line = static_cast<const u8*>(weights) + row * row_bytes(inputs);
                codes[i] = load16(line + weight_offset(k * TILE_K + unit * 8));
                const u8* row_scales = scales + row * scale_row_bytes(inputs);
                exponents[i] = *reinterpret_cast<const u32*>(row_scales + k * TILE_K / 32);
            }
        }
    };
    auto store = [&](int k, int stage) {
        const u32 w_tile = base + stage * STAGE_BYTES + X_BYTES;
#pragma unroll
        for (int i = 0; i < TILE_OUTPUTS / 32; i++)
#pragma unroll
            for (int s = 0; s < 2; s++) {
                const u32 exponent = exponents[i] >> (k % 2 * 2 + s) * 8 & 255;
                const u32 of_step = k % 2 ? word(codes[i], 2 + s) : word(codes[i], s);
                const uint4 values = dequantized_unit(of_step, exponent_scale(exponent));
                store16_shared(swizzled(w_tile, packed_row + i * 32, s * 4 + unit), values);
            }
    };
    const int steps = ceil_divide(inputs, TILE_K);
    load(0, 0);
    cp_async_commit();
    if constexpr (PACKED) {
        fetch(0);
        store(0, 0);
    }
    const int low = lane / 8 % 2, high = lane / 16, inner = lane % 8;
    float sums[2][8][4] = {};
    for (int k = 0; k < steps; k++) {
        if (k + 1 < steps)
            load(k + 1, (k + 1) % 2);
        cp_async_commit();
        if constexpr (PACKED)
            if (k + 1 < steps && k % 2)
                fetch(k + 1);
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
        if constexpr (PACKED)
            if (k + 1 < steps)
                store(k + 1, (k + 1) % 2);
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

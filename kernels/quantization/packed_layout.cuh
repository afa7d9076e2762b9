// The layout of quantized weights that gemv.cu reads, for the kernels that write or dequantize them: eight at a time.
//
// WEIGHT_FORMAT is 8, 80 or 4 and GROUP_SIZE 0, 32, 64 or 128, as there.
#pragma once
#include "prelude.cuh"

constexpr int BITS = WEIGHT_FORMAT == 4 ? 4 : 8;
constexpr int LINE_WEIGHTS = 1024 / BITS;  // weights in 128 bytes

DEVICE i64 row_bytes(int inputs) { return GROUP_SIZE ? i64(ceil_divide(inputs, LINE_WEIGHTS)) * 128 : inputs; }

// The byte offset in a row of weights k to k + 7; k is a multiple of 8.
DEVICE int weight_offset(int k) {
    if (GROUP_SIZE == 0)
        return k;
    const int k_step = k % LINE_WEIGHTS / 32, t = k % 32 / 8;
    const int chunk = BITS == 8 ? k_step / 2 * 4 + t : k_step / 4 * 4 + t;
    return k / LINE_WEIGHTS * 128 + chunk * 16 + (BITS == 8 ? k_step % 2 * 8 : k_step % 4 * 4);
}

DEVICE float from_e4m3(u8 bits) {
    const int exponent = bits >> 3 & 15, mantissa = bits & 7;
    float v = exponent ? ldexpf(float(8 + mantissa), exponent - 10) : ldexpf(float(mantissa), -9);
    v = (bits & 0x7f) == 0x7f ? __int_as_float(0x7fffffff) : v;
    return bits & 0x80 ? -v : v;
}

// Rounds to nearest, ties to even; saturates at the largest finite value.
DEVICE u8 to_e4m3(float v) {
    const u8 sign = signbit(v) ? 0x80 : 0;
    const float size = fabsf(v);
    if (!(size == size))
        return sign | 0x7f;
    if (size == 0.0f || size >= 448.0f)
        return size == 0.0f ? sign : sign | 0x7e;
    int exponent;
    frexpf(size, &exponent);
    exponent = max(exponent - 1, -6);
    // The significand in eighths, 8 to 16: 16 carries into the exponent field, and below 8 the number is subnormal.
    const int eighths = int(rintf(ldexpf(size, 3 - exponent)));
    return u8(sign | (((exponent + 6) << 3) + eighths));
}

// Where the weights that gemv.cu reads lie, for kernels that write or unpack them: eight at a time.
//
// WEIGHT is 8, 80 or 4 and GROUP 0, 32, 64 or 128, as there.
#pragma once
#include "prelude.cuh"

constexpr int BITS = WEIGHT == 4 ? 4 : 8;
constexpr int PIECE = 1024 / BITS;  // weights in 128 bytes

DEVICE i64 row_bytes(int inputs) { return GROUP ? i64(ceil_divide(inputs, PIECE)) * 128 : inputs; }

// The byte within a row at which weights k to k + 7 begin; k is a multiple of 8.
DEVICE int place_of(int k) {
    if (GROUP == 0)
        return k;
    const int span = k % PIECE / 32, t = k % 32 / 8;
    const int chunk = BITS == 8 ? span / 2 * 4 + t : span / 4 * 4 + t;
    return k / PIECE * 128 + chunk * 16 + (BITS == 8 ? span % 2 * 8 : span % 4 * 4);
}

DEVICE float from_e4m3(u8 bits) {
    const int exponent = bits >> 3 & 15, mantissa = bits & 7;
    float v = exponent ? ldexpf(float(8 + mantissa), exponent - 10) : ldexpf(float(mantissa), -9);
    v = (bits & 0x7f) == 0x7f ? __int_as_float(0x7fffffff) : v;
    return bits & 0x80 ? -v : v;
}

// To the nearest, ties to even; what is too large becomes the largest.
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
    // 8 to 16 eighths of a power of two; 16 carries into the exponent by itself, and below 8 it is 0.
    const int eighths = int(rintf(ldexpf(size, 3 - exponent)));
    return u8(sign | (((exponent + 6) << 3) + eighths));
}

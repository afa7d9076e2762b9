// 8-bit floats (e4m3): four exponent bits with bias 7, no infinities [Micikevicius et al. 2022].
#pragma once
#include "prelude.cuh"

struct e4m3 {
    u8 bits;
};

// Converts two of the four e4m3 numbers of a word to fp16, exactly: 0 and 1, or 2 and 3.
DEVICE u32 e4m3_pair(u32 w, int second) {
#if __CUDA_ARCH__ >= 890
    u32 out;
    if (second)
        asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.rn.f16x2.e4m3x2 %0, high;\n}" : "=r"(out) : "r"(w));
    else
        asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.rn.f16x2.e4m3x2 %0, low;\n}" : "=r"(out) : "r"(w));
    return out;
#else
    // Shifts the exponent into fp16's field, then corrects for the difference of the biases.
    const u32 spread = __byte_perm(w, 0, second ? 0x3424 : 0x1404);
    return multiply_fp16(((spread & 0x7f007f00u) >> 1) | (spread & 0x80008000u), 0x5c005c00u);  // 2^8
#endif
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

// Two numbers as e4m3, rounded the same.
DEVICE u32 to_e4m3_pair(float low, float high) {
#if __CUDA_ARCH__ >= 890
    u16 out;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(out) : "f"(high), "f"(low));
    return out;
#else
    return u32(to_e4m3(low)) | u32(to_e4m3(high)) << 8;
#endif
}

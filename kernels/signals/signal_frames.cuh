// Samples of frames that may begin before a signal and end behind it.
//
// Options: REFLECT (1: the signal is mirrored at its ends, 0: zeros are around it), VALUE (what is stored of a
//   frequency: 0 the complex number, 1 its magnitude, 2 its power).
#pragma once
#include "prelude.cuh"

DEVICE float sample_of(const float* signal, int samples, i64 at) {
    if (at >= 0 && at < samples)
        return signal[at];
    if (!REFLECT)
        return 0.0f;
    const i64 mirrored = at < 0 ? -at : 2 * (i64(samples) - 1) - at;
    return mirrored >= 0 && mirrored < samples ? signal[mirrored] : 0.0f;
}

DEVICE void store_frequency(float* out, i64 at, float2 v) {
    if constexpr (VALUE == 0)
        reinterpret_cast<float2*>(out)[at] = v;
    else if constexpr (VALUE == 1)
        out[at] = sqrtf(fmaf(v.x, v.x, v.y * v.y));
    else
        out[at] = fmaf(v.x, v.x, v.y * v.y);
}

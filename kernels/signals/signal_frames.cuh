// Samples of frames that may begin before a signal and end behind it.
//
// Options: REFLECT (1: the signal is mirrored at its ends, 0: zeros are around it), VALUE (what is stored of a
//   frequency: 0 the complex number, 1 its magnitude, 2 its power).
#pragma once
#include "prelude.cuh"

// Places are within 2^31 of either end; the caller's extents are.
DEVICE float sample_of(const float* signal, int samples, int at) {
    if (unsigned(at) < unsigned(samples))
        return signal[at];
    if (!REFLECT)
        return 0.0f;
    const int mirrored = at < 0 ? -at : 2 * (samples - 1) - at;
    return unsigned(mirrored) < unsigned(samples) ? signal[mirrored] : 0.0f;
}

DEVICE void store_frequency(float* out, i64 at, float2 v) {
    if constexpr (VALUE == 0)
        reinterpret_cast<float2*>(out)[at] = v;
    else if constexpr (VALUE == 1)
        out[at] = sqrtf(fmaf(v.x, v.x, v.y * v.y));
    else
        out[at] = fmaf(v.x, v.x, v.y * v.y);
}

// Leaky ReLU, then snake: x + sin^2(alpha x) / alpha [Ziyin et al. 2020].
#pragma once
#include "prelude.cuh"

// A slope of 1 changes nothing; `has_alpha` says whether snake follows.
DEVICE float channel_activation(float v, float slope, bool has_alpha, float alpha) {
    v = v < 0.0f ? v * slope : v;
    if (has_alpha) {
        const float wave = sinf(alpha * v);
        v = fmaf(wave * wave, 1.0f / alpha, v);
    }
    return v;
}

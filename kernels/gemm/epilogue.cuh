// What kernels of linear layers do beside multiplying, nothing unless told: NORM, PAIRED, and to their sums
// ACTIVATE (0 none, 1 silu, 2 gelu, 3 gelu_tanh, 4 relu): the codes of `Activation` in the operations crate.
#pragma once
#include "prelude.cuh"

#ifndef NORM
#define NORM 0
#endif
#ifndef PAIRED
#define PAIRED 0
#endif
#ifndef ACTIVATE
#define ACTIVATE 0
#endif

DEVICE float activate(float v) {
#if ACTIVATE == 1
    return silu(v);
#elif ACTIVATE == 2
    return 0.5f * v * (1.0f + erff(v * 0.70710678118654752f));
#elif ACTIVATE == 3
    return 0.5f * v * (1.0f + tanhf(0.79788456080286536f * (v + 0.044715f * v * v * v)));
#elif ACTIVATE == 4
    return v < 0.0f ? 0.0f : v;
#else
    return v;
#endif
}

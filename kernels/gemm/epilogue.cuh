// Options of the linear kernels around the matrix product, off unless defined: NORM (RMS norm of x, in the prologue),
// and in the epilogue GATED (SwiGLU) and ACTIVATION_CODE (0 none, 1 silu, 2 gelu, 3 gelu_tanh, 4 relu: the codes of
// `Activation` in assay-operations).
#pragma once
#include "prelude.cuh"

#ifndef NORM
#define NORM 0
#endif
#ifndef GATED
#define GATED 0
#endif
#ifndef ACTIVATION_CODE
#define ACTIVATION_CODE 0
#endif

DEVICE float activate(float v) {
#if ACTIVATION_CODE == 1
    return silu(v);
#elif ACTIVATION_CODE == 2
    return 0.5f * v * (1.0f + erff(v * 0.70710678118654752f));
#elif ACTIVATION_CODE == 3
    return 0.5f * v * (1.0f + tanhf(0.79788456080286536f * (v + 0.044715f * v * v * v)));
#elif ACTIVATION_CODE == 4
    return v < 0.0f ? 0.0f : v;
#else
    return v;
#endif
}

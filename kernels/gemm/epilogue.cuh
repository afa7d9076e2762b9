// Options of the linear kernels around the matrix product, off unless defined: NORM (RMS norm of x, in the prologue),
// and in the epilogue GATED (a product of gates and ups) and ACTIVATION_CODE (0 none, 1 silu, 2 gelu, 3 gelu_tanh, 4
// relu; where GATED 0 swiglu, 6 geglu_tanh, 7 geglu, 8 swiglu_clamped: the codes of `Activation` in assay-operations).
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

DEVICE float gelu(float v) { return 0.5f * v * (1.0f + erff(v * 0.70710678118654752f)); }
DEVICE float gelu_tanh(float v) {
    return 0.5f * v * (1.0f + tanhf(0.79788456080286536f * (v + 0.044715f * v * v * v)));
}

DEVICE float activate(float v) {
#if ACTIVATION_CODE == 1
    return silu(v);
#elif ACTIVATION_CODE == 2
    return gelu(v);
#elif ACTIVATION_CODE == 3
    return gelu_tanh(v);
#elif ACTIVATION_CODE == 4
    return v < 0.0f ? 0.0f : v;
#else
    return v;
#endif
}

DEVICE float gated_product(float gate, float up) {
#if ACTIVATION_CODE == 6
    return gelu_tanh(gate) * up;
#elif ACTIVATION_CODE == 7
    return gelu(gate) * up;
#elif ACTIVATION_CODE == 8
    // The SwiGLU of gpt-oss: clamped, with a steeper sigmoid, and ups shifted by one. NaN propagates.
    gate = gate > 7.0f ? 7.0f : gate;
    up = up > 7.0f ? 7.0f : up < -7.0f ? -7.0f : up;
    return gate / (1.0f + __expf(-1.702f * gate)) * (up + 1.0f);
#else
    return silu(gate) * up;
#endif
}

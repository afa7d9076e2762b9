// Options of the linear kernels around the matrix product, off unless defined: NORM (RMS norm of x, in the prologue),
// and in the epilogue GATED (a product of gates and ups) and ACTIVATION (`Activation` in codes.cuh; where GATED,
// None is Swiglu).
#pragma once
#include "codes.cuh"
#include "prelude.cuh"

#ifndef NORM
#define NORM 0
#endif
#ifndef GATED
#define GATED 0
#endif
#ifndef ACTIVATION
#define ACTIVATION Activation::None
#endif

DEVICE float gelu(float v) { return 0.5f * v * (1.0f + erff(v * 0.70710678118654752f)); }
DEVICE float gelu_tanh(float v) {
    return 0.5f * v * (1.0f + tanhf(0.79788456080286536f * (v + 0.044715f * v * v * v)));
}

DEVICE float activate(float v) {
    if constexpr (ACTIVATION == Activation::Silu)
        return silu(v);
    else if constexpr (ACTIVATION == Activation::Gelu)
        return gelu(v);
    else if constexpr (ACTIVATION == Activation::GeluTanh)
        return gelu_tanh(v);
    else if constexpr (ACTIVATION == Activation::Relu)
        return v < 0.0f ? 0.0f : v;
    else if constexpr (ACTIVATION == Activation::Tanh)
        return tanhf(v);
    else if constexpr (ACTIVATION == Activation::Sigmoid)
        return 1.0f / (1.0f + expf(-v));
    else
        return v;
}

DEVICE float gated_product(float gate, float up) {
    if constexpr (ACTIVATION == Activation::GegluTanh) {
        return gelu_tanh(gate) * up;
    } else if constexpr (ACTIVATION == Activation::Geglu) {
        return gelu(gate) * up;
    } else if constexpr (ACTIVATION == Activation::SwigluClamped) {
        // The SwiGLU of gpt-oss: clamped, with a steeper sigmoid, and ups shifted by one. NaN propagates.
        gate = gate > 7.0f ? 7.0f : gate;
        up = up > 7.0f ? 7.0f : up < -7.0f ? -7.0f : up;
        return gate / (1.0f + __expf(-1.702f * gate)) * (up + 1.0f);
    } else {
        return silu(gate) * up;
    }
}

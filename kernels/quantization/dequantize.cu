// Dequantizes weights to floats, for GEMMs of many rows.
//
// Algorithm: scale * code + minimum; the inverse of quantize.cu. Tiling: eight weights a thread.
//
// Options: WEIGHT_FORMAT (8, 80, 4), GROUP_SIZE (as gemv.cu), OUTPUT (bf16, fp16, float).
// Launch: grid (ceil(inputs / 8 / CTA), outputs), CTA of any size.
// Arguments: weights, scales (as gemv.cu), out (outputs x inputs), inputs.
#include "packed_layout.cuh"

KERNEL dequantize(const u8* weights, const void* scales, OUTPUT* out, int inputs TRACE_PARAMETER) {
    TRACE_SPAN(0);
    launch_dependents();
    wait_on_dependency();
    const int k = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    const i64 row = blockIdx.y;
    if (k >= inputs)
        return;
    const u8* codes = weights + row * row_bytes(inputs) + weight_offset(k);
    float scale, minimum = 0.0f;
    if constexpr (GROUP_SIZE != 0) {
        constexpr int group = GROUP_SIZE ? GROUP_SIZE : 1;
        const fp16* pair = static_cast<const fp16*>(scales) + (row * (inputs / group) + k / group) * 2;
        scale = to_float(pair[0]);
        minimum = to_float(pair[1]);
    } else {
        scale = static_cast<const float*>(scales)[row];
    }
    for (int i = 0; i < 8; i++) {
        float v;
        if constexpr (WEIGHT_FORMAT == 4)
            v = float(codes[i / 2] >> i % 2 * 4 & 15);
        else
            v = WEIGHT_FORMAT == 80 ? from_e4m3(codes[i]) : float(i8(codes[i]));
        out[row * inputs + k + i] = from_float<OUTPUT>(fmaf(scale, v, minimum));
    }
}

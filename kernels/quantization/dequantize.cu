// Weights of fewer bits as numbers, for products of many rows.
//
// Options: WEIGHT (8, 80, 4), GROUP (as gemv.cu), OUTPUT (bf16, fp16, float).
// Launch: grid (ceil(inputs / 8 / block), outputs), any block.
// Arguments: weights, scales (as gemv.cu), out (outputs x inputs), inputs.
#include "packed_layout.cuh"

KERNEL dequantize(const u8* weights, const void* scales, OUTPUT* out, int inputs) {
    start_next_kernel();
    wait_for_previous_kernel();
    const int k = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    const i64 row = blockIdx.y;
    if (k >= inputs)
        return;
    const u8* from = weights + row * row_bytes(inputs) + place_of(k);
    float scale, minimum = 0.0f;
    if constexpr (GROUP != 0) {
        constexpr int group = GROUP ? GROUP : 1;
        const fp16* pair = static_cast<const fp16*>(scales) + (row * (inputs / group) + k / group) * 2;
        scale = to_float(pair[0]);
        minimum = to_float(pair[1]);
    } else {
        scale = static_cast<const float*>(scales)[row];
    }
    for (int i = 0; i < 8; i++) {
        float v;
        if constexpr (WEIGHT == 4)
            v = float(from[i / 2] >> i % 2 * 4 & 15);
        else
            v = WEIGHT == 80 ? from_e4m3(from[i]) : float(i8(from[i]));
        out[row * inputs + k + i] = from_float<OUTPUT>(fmaf(scale, v, minimum));
    }
}

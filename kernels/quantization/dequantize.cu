// Dequantizes weights to floats, for GEMMs of many rows.
//
// Algorithm: scale * (code - zero point) + minimum; the inverse of quantize.cu and of pack_blocks.cu. Tiling: eight
//   weights a thread.
//
// Options: WEIGHT_FORMAT (not Float16), GROUP_SIZE, SCALE_FORMAT, ZERO_POINT (as packed_layout.cuh), OUTPUT (bf16,
//   fp16, float).
// Launch: grid (ceil(inputs / 8 / CTA), outputs), CTA of any size.
// Arguments: weights, scales (as packed_layout.cuh), out (outputs x inputs), inputs.
#include "packed_layout.cuh"

// The scale and the minimum of the group that holds input k. Without a minimum -0, which keeps the sign of a zero.
DEVICE float2 scale_and_minimum(const u8* row_scales, int inputs, int k) {
    if constexpr (GROUP_SIZE == 0) {
        return make_float2(*reinterpret_cast<const float*>(row_scales), -0.0f);
    } else if constexpr (SCALE_FORMAT == ScaleFormat::Pair) {
        return unpack<fp16>(reinterpret_cast<const u32*>(row_scales)[k / GROUP_SIZE]);
    } else if constexpr (SCALE_FORMAT == ScaleFormat::Exponent) {
        return make_float2(exponent_scale(row_scales[k / GROUP_SIZE]), -0.0f);
    } else {
        const u8* of_blocks = row_scales + block_scale_offset(inputs);
        const float2 pair = unpack<fp16>(reinterpret_cast<const u32*>(of_blocks)[k / 256]);
        if (SCALE_FORMAT == ScaleFormat::Nested)
            return make_float2(pair.x * float(i8(row_scales[k / GROUP_SIZE])), -0.0f);
        const u8 scale = row_scales[nested_scale_offset(k)], minimum = row_scales[nested_minimum_offset(k)];
        return make_float2(pair.x * float(scale), -pair.y * float(minimum));
    }
}

KERNEL dequantize(const u8* weights, const u8* scales, OUTPUT* out, int inputs TRACE_PARAMETER) {
    TRACE_SPAN(0);
    launch_dependents();
    wait_on_dependency();
    const int k = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    const i64 row = blockIdx.y;
    if (k >= inputs)
        return;
    const u8* lines = weights + row * row_bytes(inputs);
    const u8* codes = lines + weight_offset(k);
    const u8* row_scales = scales + row * scale_row_bytes(inputs);
    u32 upper = 0;
    if constexpr (UPPER_BITS != 0)
        upper = reinterpret_cast<const u32*>(lines + padded_chunks(inputs) * 16)[upper_word(k)];
    const float2 first = scale_and_minimum(row_scales, inputs, unit_input(k, 0));
    const float2 second = SPLIT_UNITS ? scale_and_minimum(row_scales, inputs, unit_input(k, 1)) : first;
    for (int i = 0; i < 8; i++) {
        int code = BITS == 8 ? i8(codes[i]) : codes[i / 2] >> i % 2 * 4 & 15;
        if constexpr (UPPER_BITS != 0)
            code |= (upper >> upper_shift(k % 128 / 32, i) & ((1 << UPPER_BITS) - 1)) << 4;
        const float2 pair = i % 2 ? second : first;
        const float v = WEIGHT_FORMAT == WeightFormat::E4m3 ? pair.x * from_e4m3(codes[i])
                                                            : dequantized(code, pair.x, pair.y);
        out[row * inputs + unit_input(k, i)] = from_float<OUTPUT>(v);
    }
}

// Quantizes weights to int8, e4m3 or uint4.
//
// Algorithm: round-to-nearest quantization, no calibration: symmetric with the largest magnitude of a row (absmax)
//   where GROUP_SIZE is 0, else asymmetric with the minimum and maximum of each group. No published algorithm such as
//   GPTQ or AWQ is involved.
// Tiling: a CTA a row, two passes, or a thread a group, whose codes go to the interleaved layout of packed_layout.cuh.
//
// Options: TYPE (of x: bf16, fp16, float), WEIGHT_FORMAT (Int8, E4m3, Uint4), GROUP_SIZE (as gemv.cu; not 0
//   for Uint4), THREADS (where GROUP_SIZE is 0).
// Launch: GROUP_SIZE 0: grid outputs, CTA of THREADS. Else grid (ceil(padded / GROUP_SIZE / CTA), outputs), CTA of any
//   size; padded is inputs rounded up to lines of 1024 / bits weights.
// Arguments: x (outputs x inputs), weights, scales (both out), inputs. inputs is a multiple of 8, and of GROUP_SIZE.
#include "packed_layout.cuh"

constexpr bool IS_E4M3 = WEIGHT_FORMAT == WeightFormat::E4m3, IS_UINT4 = WEIGHT_FORMAT == WeightFormat::Uint4;

#if GROUP_SIZE == 0
KERNEL __launch_bounds__(THREADS) quantize(const TYPE* x, u8* weights, float* scales, int inputs) {
    launch_dependents();
    wait_on_dependency();
    const i64 row = blockIdx.x;
    x += row * inputs;
    float largest = 0.0f;
    for (int k = threadIdx.x; k < inputs; k += THREADS)
        largest = Maximum::combine(largest, fabsf(to_float(x[k])));
    largest = reduce_cta<Maximum>(largest);
    const float scale = largest == 0.0f ? 1.0f : largest / (IS_E4M3 ? 448.0f : 127.0f);
    for (int k = threadIdx.x; k < inputs; k += THREADS) {
        const float v = to_float(x[k]) / scale;
        weights[row * inputs + k] = IS_E4M3 ? to_e4m3(v) : u8(i8(rintf(v)));
    }
    if (threadIdx.x == 0)
        scales[row] = scale;
}
#else
KERNEL quantize(const TYPE* x, u8* weights, fp16* scales, int inputs) {
    launch_dependents();
    wait_on_dependency();
    const int first = (blockIdx.x * blockDim.x + threadIdx.x) * GROUP_SIZE;
    const i64 row = blockIdx.y;
    if (first >= round_up(inputs, LINE_WEIGHTS))
        return;
    const bool valid = first < inputs;
    x += row * inputs + first;
    float smallest = valid ? to_float(x[0]) : 0.0f, largest = smallest;
    for (int i = 1; valid && i < GROUP_SIZE; i++) {
        smallest = -Maximum::combine(-smallest, -to_float(x[i]));
        largest = Maximum::combine(largest, to_float(x[i]));
    }
    constexpr int lowest_code = IS_UINT4 ? 0 : -128, steps = IS_UINT4 ? 15 : 255;
    // Scale and minimum are stored as fp16; codes are computed from the rounded values.
    const fp16 scale = from_float<fp16>((largest - smallest) / steps);
    const fp16 minimum = from_float<fp16>(smallest - lowest_code * to_float(scale));
    const float inverse_scale = to_float(scale) > 0.0f ? 1.0f / to_float(scale) : 0.0f;
    for (int k = 0; k < GROUP_SIZE; k += 8) {
        u8* bytes = weights + row * row_bytes(inputs) + weight_offset(first + k);
        int codes[8];
        for (int i = 0; i < 8; i++) {
            const float v = valid ? rintf((to_float(x[k + i]) - to_float(minimum)) * inverse_scale) : 0.0f;
            codes[i] = valid ? min(max(int(v), lowest_code), lowest_code + steps) : 0;
        }
        for (int i = 0; i < BITS; i++)
            bytes[i] = IS_UINT4 ? u8(codes[i % 4 * 2] | codes[i % 4 * 2 + 1] << 4) : u8(codes[i % 8]);
    }
    if (valid) {
        fp16* pair = scales + (row * (inputs / GROUP_SIZE) + first / GROUP_SIZE) * 2;
        pair[0] = scale;
        pair[1] = minimum;
    }
}
#endif

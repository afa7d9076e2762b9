// Numbers to weights of fewer bits.
//
// Options: TYPE (of x: bf16, fp16, float), WEIGHT (8, 80, 4), GROUP (as gemv.cu; not 0 for WEIGHT 4),
//   THREADS (where GROUP is 0).
// Launch: GROUP 0: grid outputs, block THREADS, a row each. Else grid (ceil(padded / GROUP / block), outputs), any
//   block, a group each; padded is inputs rounded up to whole pieces of 1024 / bits weights.
// Arguments: x (outputs x inputs), weights, scales (both out), inputs. inputs is a multiple of 8, and of GROUP.
//   A row is counted from 0 to its largest number, a group from its least number to its largest.
#include "packed_layout.cuh"

#if GROUP == 0
KERNEL __launch_bounds__(THREADS) quantize(const TYPE* x, u8* weights, float* scales, int inputs) {
    start_next_kernel();
    wait_for_previous_kernel();
    const i64 row = blockIdx.x;
    x += row * inputs;
    float most = 0.0f;
    for (int k = threadIdx.x; k < inputs; k += THREADS)
        most = Maximum::join(most, fabsf(to_float(x[k])));
    most = reduce_block<Maximum>(most);
    const float scale = most == 0.0f ? 1.0f : most / (WEIGHT == 80 ? 448.0f : 127.0f);
    for (int k = threadIdx.x; k < inputs; k += THREADS) {
        const float v = to_float(x[k]) / scale;
        weights[row * inputs + k] = WEIGHT == 80 ? to_e4m3(v) : u8(i8(rintf(v)));
    }
    if (threadIdx.x == 0)
        scales[row] = scale;
}
#else
KERNEL quantize(const TYPE* x, u8* weights, fp16* scales, int inputs) {
    start_next_kernel();
    wait_for_previous_kernel();
    const int first = (blockIdx.x * blockDim.x + threadIdx.x) * GROUP;
    const i64 row = blockIdx.y;
    if (first >= round_up(inputs, PIECE))
        return;
    const bool live = first < inputs;
    x += row * inputs + first;
    float least = live ? to_float(x[0]) : 0.0f, most = least;
    for (int i = 1; live && i < GROUP; i++) {
        least = -Maximum::join(-least, -to_float(x[i]));
        most = Maximum::join(most, to_float(x[i]));
    }
    constexpr int lowest = WEIGHT == 4 ? 0 : -128, steps = WEIGHT == 4 ? 15 : 255;
    // What is kept is rounded, and codes are of what is kept.
    const fp16 scale = from_float<fp16>((most - least) / steps);
    const fp16 minimum = from_float<fp16>(least - lowest * to_float(scale));
    const float by = to_float(scale) > 0.0f ? 1.0f / to_float(scale) : 0.0f;
    for (int k = 0; k < GROUP; k += 8) {
        u8* to = weights + row * row_bytes(inputs) + place_of(first + k);
        int code[8];
        for (int i = 0; i < 8; i++) {
            const float v = live ? rintf((to_float(x[k + i]) - to_float(minimum)) * by) : 0.0f;
            code[i] = live ? min(max(int(v), lowest), lowest + steps) : 0;
        }
        for (int i = 0; i < BITS; i++)
            to[i] = WEIGHT == 4 ? u8(code[i % 4 * 2] | code[i % 4 * 2 + 1] << 4) : u8(code[i % 8]);
    }
    if (live) {
        fp16* pair = scales + (row * (inputs / GROUP) + first / GROUP) * 2;
        pair[0] = scale;
        pair[1] = minimum;
    }
}
#endif

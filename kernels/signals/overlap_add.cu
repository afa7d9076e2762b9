// Windowed frames added a hop apart, divided by the sum of the squared windows where that is above `floor`.
//
// Tiling: a thread a sample, which reads the frames that cover it.
//
// Launch: grid (ceil(samples / CTA), batch), CTA of any size.
// Arguments: x (batch x frames x length), window (length), out (batch x samples), frames, length, hop, first (the
//   sample that out begins with), samples, floor.
#include "prelude.cuh"

KERNEL overlap_add(const float* x, const float* window, float* out, int frames, int length, int hop, int first,
                   int samples, float floor) {
    launch_dependents();
    wait_on_dependency();
    const int sample = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (sample >= samples)
        return;
    const i64 place = i64(first) + sample;
    const i64 earliest = place >= length ? (place - length) / hop + 1 : 0;
    const i64 last = place / hop < frames ? place / hop : frames - 1;
    const float* rows = x + i64(blockIdx.y) * frames * length;
    float sum = 0.0f, weight = 0.0f;
    for (i64 frame = earliest; frame <= last; frame++) {
        const int at = int(place - frame * hop);
        const float factor = window[at];
        sum = fmaf(factor, rows[frame * length + at], sum);
        weight = fmaf(factor, factor, weight);
    }
    out[i64(blockIdx.y) * samples + sample] = weight > floor ? sum / weight : sum;
}

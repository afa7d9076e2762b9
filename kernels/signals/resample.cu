// Samples `first`, first + down ... of a signal with up - 1 zeros after each sample, convolved with taps (polyphase).
//
// Tiling: a thread an output, which meets only taps of samples that are not inserted zeros.
//
// Launch: grid (ceil(outputs / CTA), batch), CTA of any size.
// Arguments: x (batch x samples), taps, out (batch x outputs), samples, taps_count, up, down, first, outputs.
#include "prelude.cuh"

KERNEL resample(const float* x, const float* taps, float* out, int samples, int taps_count, int up, int down, int first,
                int outputs) {
    launch_dependents();
    wait_on_dependency();
    const int index = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (index >= outputs)
        return;
    const i64 place = i64(first) + i64(index) * down;
    const float* signal = x + i64(blockIdx.y) * samples;
    i64 sample = place / up;
    int tap = int(place % up);
    if (sample >= samples) {
        const i64 behind = sample - (samples - 1);
        if (behind * up + tap >= taps_count)
            sample = -1;
        else
            sample = samples - 1, tap += int(behind * up);
    }
    float sum = 0.0f;
    for (; tap < taps_count && sample >= 0; tap += up, sample--)
        sum = fmaf(taps[tap], signal[sample], sum);
    out[i64(blockIdx.y) * outputs + index] = sum;
}

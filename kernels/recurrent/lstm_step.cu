// One step of an LSTM, of any size and on any GPU; a kernel a step.
//
// Tiling: a warp a hidden unit of a sequence: its four rows of weights, which stay in L2, times the hidden states.
//
// Launch: grid (ceil(hidden / warps of a CTA), batch, directions), CTA of a multiple of 32.
// Arguments: those of lstm_cluster.cu, hidden, and step. The hidden states are those of the step before in out, or h. A
//   launch with a step of `steps` then stores the last ones to h.
#include "lstm.cuh"

KERNEL lstm_step(const float* gates, const float* weights, const float* bias, const float* reverse_weights,
                 const float* reverse_bias, float* h, float* c, float* out, int steps, int batch, int reverse,
                 int hidden, int step) {
    launch_dependents();
    wait_on_dependency();
    const int lane = int(threadIdx.x) % 32, sequence = int(blockIdx.y);
    const int unit = int(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
    const int direction = int(blockIdx.z), directions = int(gridDim.z);
    if (unit >= hidden)
        return;
    const bool backward = direction ? true : reverse != 0;
    const int t = backward ? steps - 1 - step : step, before = backward ? t + 1 : t - 1;
    auto out_at = [&](int at) { return ((i64(at) * batch + sequence) * directions + direction) * hidden; };
    const i64 state_base = (i64(direction) * batch + sequence) * hidden;
    if (step == steps) {
        if (lane == 0)
            h[state_base + unit] = out[out_at(before) + unit];
        return;
    }
    const float* states = step ? out + out_at(before) : h + state_base;
    const float* own_weights = direction ? reverse_weights : weights;
    const float* own_bias = direction ? reverse_bias : bias;
    const float* gate = gates + ((i64(direction) * steps + t) * batch + sequence) * (4 * i64(hidden));
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int i = lane; i < hidden; i += 32) {
        const float v = states[i];
#pragma unroll
        for (int g = 0; g < 4; g++)
            sums[g] = fmaf(own_weights[(i64(g) * hidden + unit) * hidden + i], v, sums[g]);
    }
#pragma unroll
    for (int g = 0; g < 4; g++) {
        const int row = g * hidden + unit;
        sums[g] = reduce_warp<Sum>(sums[g]) + gate[row] + (own_bias ? own_bias[row] : 0.0f);
    }
    if (lane)
        return;
    float cell = c[state_base + unit];
    const float state = lstm_unit(sums[0], sums[1], sums[2], sums[3], cell);
    c[state_base + unit] = cell;
    out[out_at(t) + unit] = state;
}

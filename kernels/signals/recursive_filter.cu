// A recursive filter: a[0] y[t] = sum of b[k] x[t - k] - sum over k > 0 of a[k] y[t - k], in the transposed direct form
// II.
//
// Algorithm: a CTA a signal, a thread a chunk of it. The filter is linear in its state, so each chunk is filtered
//   twice: from a state of zeros, which gives what it adds to the state; and, when one thread has carried the states
//   from chunk to chunk by the power of the companion matrix of a chunk's length, from its own state [Blelloch 1990].
//   States are in double precision.
//
// Options: ORDER (of the state; 1 or more), THREADS (at least ORDER).
// Launch: grid batch, CTA of THREADS, shared bytes 8 * ORDER * (THREADS + ORDER).
// Arguments: x (batch x samples), b, a (ORDER + 1), state (batch x ORDER, changed), out (batch x samples), samples.
#include "prelude.cuh"

KERNEL __launch_bounds__(THREADS)
recursive_filter(const float* x, const float* b, const float* a, float* state, float* out, int samples) {
    extern __shared__ double states[];
    double* power = states + THREADS * ORDER;
    launch_dependents();
    wait_on_dependency();
    const int thread = int(threadIdx.x);
    const i64 row = i64(blockIdx.x) * samples;
    double forward[ORDER + 1], backward[ORDER + 1], kept[ORDER + 1];
    const double leading = double(a[0]);
#pragma unroll
    for (int i = 0; i <= ORDER; i++) {
        forward[i] = double(b[i]) / leading;
        backward[i] = double(a[i]) / leading;
    }
    auto clear = [&]() {
#pragma unroll
        for (int i = 0; i <= ORDER; i++)
            kept[i] = 0.0;
    };
    auto step = [&](double v) {
        const double y = forward[0] * v + kept[0];
#pragma unroll
        for (int i = 0; i < ORDER; i++)
            kept[i] = forward[i + 1] * v - backward[i + 1] * y + kept[i + 1];
        return y;
    };
    const int chunk = ceil_divide(samples, THREADS);
    const int begin = int(min(i64(thread) * chunk, i64(samples))), end = min(begin + chunk, samples);
    clear();
    for (int t = begin; t < end; t++)
        step(double(x[row + t]));
#pragma unroll
    for (int i = 0; i < ORDER; i++)
        states[thread * ORDER + i] = kept[i];
    if (thread < ORDER) {
        clear();
#pragma unroll
        for (int i = 0; i < ORDER; i++)
            kept[i] = i == thread ? 1.0 : 0.0;
        for (int t = 0; t < chunk; t++)
            step(0.0);
#pragma unroll
        for (int i = 0; i < ORDER; i++)
            power[i * ORDER + thread] = kept[i];
    }
    __syncthreads();
    if (thread == 0) {
        clear();
#pragma unroll
        for (int i = 0; i < ORDER; i++)
            kept[i] = double(state[i64(blockIdx.x) * ORDER + i]);
        for (int c = 0; c < THREADS; c++) {
            double next[ORDER];
#pragma unroll
            for (int i = 0; i < ORDER; i++) {
                next[i] = states[c * ORDER + i];
#pragma unroll
                for (int j = 0; j < ORDER; j++)
                    next[i] += power[i * ORDER + j] * kept[j];
            }
#pragma unroll
            for (int i = 0; i < ORDER; i++) {
                states[c * ORDER + i] = kept[i];
                kept[i] = next[i];
            }
        }
    }
    __syncthreads();
    if (begin >= end)
        return;
    clear();
#pragma unroll
    for (int i = 0; i < ORDER; i++)
        kept[i] = states[thread * ORDER + i];
    for (int t = begin; t < end; t++)
        out[row + t] = float(step(double(x[row + t])));
    if (end == samples) {
#pragma unroll
        for (int i = 0; i < ORDER; i++)
            state[i64(blockIdx.x) * ORDER + i] = float(kept[i]);
    }
}

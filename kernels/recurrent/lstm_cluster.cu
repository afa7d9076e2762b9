// The recurrence of an LSTM, all steps in one kernel, with the recurrent weights in registers.
//
// Algorithm: persistent RNN [Diamos et al. 2016] in a thread block cluster. CTA r of CLUSTER_SIZE has the rows of UNITS
//   = HIDDEN / CLUSTER_SIZE hidden units for all gates: LANES threads a row, each with every LANES-th vector of four
//   weights. Each step multiplies them with the hidden states in shared memory; the threads of a unit then store its
//   new state to the shared memory of all CTAs (DSMEM), of two buffers in turns, and the cluster synchronizes.
//
// Options: HIDDEN, CLUSTER_SIZE, THREADS (a multiple of 4 UNITS; LANES a power of two of at most 32; HIDDEN a multiple
//   of 4 LANES), BATCH (sequences of a cluster; UNITS * BATCH <= THREADS).
// Launch: grid (CLUSTER_SIZE * directions, ceil(batch / BATCH)), clusters of CLUSTER_SIZE along x, CTA of THREADS.
// Arguments: gates (directions x steps x batch x 4 x HIDDEN), weights, bias (null: none), reverse_weights, reverse_bias
//   (of the second direction), h, c (directions x batch x HIDDEN, changed), out (steps x batch x directions x HIDDEN),
//   steps, batch, reverse (whether the first direction begins with the last step; the second always does).
#define CLUSTER 1
#include "cluster.cuh"
#include "lstm.cuh"

constexpr int UNITS = HIDDEN / CLUSTER_SIZE, ROWS = 4 * UNITS, LANES = THREADS / ROWS, VECTORS = HIDDEN / LANES / 4;
static_assert(LANES * ROWS == THREADS && VECTORS * LANES * 4 == HIDDEN, "threads do not divide the weights");
static_assert(UNITS * BATCH <= THREADS, "more states than threads");

KERNEL __launch_bounds__(THREADS)
lstm_cluster(const float* gates, const float* weights, const float* bias, const float* reverse_weights,
             const float* reverse_bias, float* h, float* c, float* out, int steps, int batch, int reverse) {
    __shared__ __align__(16) float states[2][BATCH][HIDDEN];
    __shared__ float sums[BATCH][ROWS];
    const int thread = int(threadIdx.x), rank = int(blockIdx.x) % CLUSTER_SIZE;
    const int direction = int(blockIdx.x) / CLUSTER_SIZE, directions = int(gridDim.x) / CLUSTER_SIZE;
    const int first = int(blockIdx.y) * BATCH, count = min(BATCH, batch - first);
    const bool backward = direction ? true : reverse != 0;
    launch_dependents();
    wait_on_dependency();
    const float* own_weights = direction ? reverse_weights : weights;
    const float* own_bias = direction ? reverse_bias : bias;
    const int local_row = thread / LANES, lane = thread % LANES;
    const int row = local_row / UNITS * HIDDEN + rank * UNITS + local_row % UNITS;
    float4 w[VECTORS];
#pragma unroll
    for (int i = 0; i < VECTORS; i++)
        w[i] = *reinterpret_cast<const float4*>(own_weights + i64(row) * HIDDEN + (i * LANES + lane) * 4);
    const float row_bias = own_bias ? own_bias[row] : 0.0f;
    const i64 state_base = (i64(direction) * batch + first) * HIDDEN;
    for (int i = thread; i < BATCH * HIDDEN; i += THREADS)
        states[0][i / HIDDEN][i % HIDDEN] = i / HIDDEN < count ? h[state_base + i] : 0.0f;
    // The unit that this thread updates, of a sequence.
    const int sequence = thread / UNITS, unit = rank * UNITS + thread % UNITS;
    const bool updates = sequence < count;
    float cell = updates ? c[state_base + i64(sequence) * HIDDEN + unit] : 0.0f, state = 0.0f;
    auto gate_at = [&](int step, int b) {
        const int t = backward ? steps - 1 - step : step;
        return gates[((i64(direction) * steps + t) * batch + first + b) * (4 * HIDDEN) + row];
    };
    // The first lane of a row adds what the inputs give, which it loads a step ahead.
    float next_gate[BATCH];
#pragma unroll
    for (int b = 0; b < BATCH; b++)
        next_gate[b] = lane == 0 && b < count && steps > 0 ? gate_at(0, b) : 0.0f;
    // All CTAs have begun, and have read h, before one stores to their shared memory.
    cluster_barrier();
    for (int step = 0; step < steps; step++) {
        const int buffer = step % 2;
        float gate[BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            gate[b] = next_gate[b];
            next_gate[b] = lane == 0 && b < count && step + 1 < steps ? gate_at(step + 1, b) : 0.0f;
        }
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            float sum = 0.0f, other = 0.0f;
            const float4* vectors = reinterpret_cast<const float4*>(states[buffer][b]);
#pragma unroll
            for (int i = 0; i < VECTORS; i++) {
                const float4 v = vectors[i * LANES + lane];
                sum = fmaf(w[i].x, v.x, fmaf(w[i].y, v.y, sum));
                other = fmaf(w[i].z, v.z, fmaf(w[i].w, v.w, other));
            }
            sum += other;
#pragma unroll
            for (int offset = LANES / 2; offset; offset /= 2)
                sum += __shfl_xor_sync(~0u, sum, offset);
            if (lane == 0)
                sums[b][local_row] = sum + gate[b] + row_bias;
        }
        __syncthreads();
        if (updates) {
            const float* own = sums[sequence];
            const int u = thread % UNITS;
            state = lstm_unit(own[u], own[UNITS + u], own[2 * UNITS + u], own[3 * UNITS + u], cell);
            for (int to = 0; to < CLUSTER_SIZE; to++)
                store_cluster(&states[1 - buffer][sequence][unit], to, state);
            const int t = backward ? steps - 1 - step : step;
            out[((i64(t) * batch + first + sequence) * directions + direction) * HIDDEN + unit] = state;
        }
        cluster_barrier();
    }
    if (updates && steps > 0) {
        h[state_base + i64(sequence) * HIDDEN + unit] = state;
        c[state_base + i64(sequence) * HIDDEN + unit] = cell;
    }
}

// The selective scan of Mamba-2, one row after the other, with a state for each sequence.
//
// Algorithm: the recurrence of [Dao & Gu 2024]: state = exp(-exp(a_log) dt) state + dt x B^T, y = state C + d x, and
//   y silu(z) is stored. Tiling: a CTA is ELEMENTS elements of one head of one sequence; their state stays in
//   registers, of which LANES_PER_ELEMENT lanes share an element's, and a lane has ELEMENTS_PER_LANE of them, which
//   share what it reads of B and C. Rows come in chunks of CHUNK_ROWS through shared memory, and the CTAs of an SM hide
//   each other's waits for them. A decode step has one row: the kernel then is bound by reading and writing the state.
// Departures: not the chunked matrix form, which prefill takes (chunked_scan.cu); the bits of a row do not depend on
//   where the steps of its sequence begin.
//
// Options: ELEMENT (bf16, fp16, float), HEAD_DIM, ELEMENTS (divides HEAD_DIM), ELEMENTS_PER_LANE (divides ELEMENTS),
//   STATE_SIZE (a multiple of 4 LANES_PER_ELEMENT), LANES_PER_ELEMENT (a power of two up to 32), CHUNK_ROWS, MIN_ROWS
//   and MAX_ROWS (1 and any: sequences of other rows are skipped).
// Launch: grid (heads, sequences, HEAD_DIM / ELEMENTS), CTA of ELEMENTS / ELEMENTS_PER_LANE * LANES_PER_ELEMENT, a
//   multiple of 32.
// Arguments: projected (rows x (heads * HEAD_DIM + channels + heads)), convolved (rows x channels, with channels =
//   heads * HEAD_DIM + 2 groups * STATE_SIZE), a_log, d, dt_bias (heads, float), slots, query_start_loc, seq_lens
//   (int32), state (slots x heads x HEAD_DIM x STATE_SIZE, float), out (rows x heads * HEAD_DIM), heads, groups,
//   dt_min, dt_max. Before a sequence's first token its state is zero. A sequence of length 0 is skipped.
#include "step_size.cuh"

constexpr int THREADS = ELEMENTS / ELEMENTS_PER_LANE * LANES_PER_ELEMENT;
constexpr int VECTORS = STATE_SIZE / (4 * LANES_PER_ELEMENT);

KERNEL __launch_bounds__(THREADS)
selective_scan(const ELEMENT* projected, const ELEMENT* convolved, const float* a_log, const float* d,
               const float* dt_bias, const int* slots, const int* query_start_loc, const int* seq_lens, float* state,
               ELEMENT* out, int heads, int groups, float dt_min, float dt_max TRACE_PARAMETER) {
    TRACE_SPAN(0);
    __shared__ float4 shared_b[CHUNK_ROWS][STATE_SIZE / 4], shared_c[CHUNK_ROWS][STATE_SIZE / 4];
    __shared__ float shared_x[CHUNK_ROWS][ELEMENTS], shared_z[CHUNK_ROWS][ELEMENTS], shared_dt[CHUNK_ROWS];
    launch_dependents();
    wait_on_dependency();
    const int head = blockIdx.x, sequence = blockIdx.y;
    const int first_row = query_start_loc[sequence], rows = query_start_loc[sequence + 1] - first_row;
    const int seq_len = seq_lens[sequence];
    if (rows < MIN_ROWS || rows > MAX_ROWS || seq_len <= 0)
        return;
    const int inner = heads * HEAD_DIM, channels = inner + 2 * groups * STATE_SIZE, width = inner + channels + heads;
    const int group = head / (heads / groups), first_element = head * HEAD_DIM + blockIdx.z * ELEMENTS;
    const int element = threadIdx.x / LANES_PER_ELEMENT * ELEMENTS_PER_LANE, lane = threadIdx.x % LANES_PER_ELEMENT;
    float4* own = reinterpret_cast<float4*>(state + i64(slots[sequence]) * inner * STATE_SIZE +
                                            i64(first_element + element) * STATE_SIZE);
    // Lane l has every LANES_PER_ELEMENT-th vector of an element's state, so that accesses are contiguous.
    float4 values[ELEMENTS_PER_LANE][VECTORS];
#pragma unroll
    for (int e = 0; e < ELEMENTS_PER_LANE; e++)
#pragma unroll
        for (int v = 0; v < VECTORS; v++)
            values[e][v] = seq_len == rows ? make_float4(0.0f, 0.0f, 0.0f, 0.0f)
                                           : own[e * STATE_SIZE / 4 + v * LANES_PER_ELEMENT + lane];
    const float rate = -__expf(a_log[head]) * LOG2_E, skip = d[head], bias = dt_bias[head];
    for (int begin = 0; begin < rows; begin += CHUNK_ROWS) {
        const int count = min(CHUNK_ROWS, rows - begin);
        __syncthreads();
        // Unrolled, so that the loads of several rows are in flight together.
#pragma unroll 8
        for (int i = threadIdx.x; i < count * STATE_SIZE; i += THREADS) {
            const int row = i / STATE_SIZE, column = i % STATE_SIZE;
            const ELEMENT* from = convolved + i64(first_row + begin + row) * channels + inner + group * STATE_SIZE;
            reinterpret_cast<float*>(shared_b[row])[column] = to_float(from[column]);
            reinterpret_cast<float*>(shared_c[row])[column] = to_float(from[groups * STATE_SIZE + column]);
        }
#pragma unroll 4
        for (int i = threadIdx.x; i < count * ELEMENTS; i += THREADS) {
            const int row = i / ELEMENTS, column = i % ELEMENTS;
            const i64 source = first_row + begin + row;
            shared_x[row][column] = to_float(convolved[source * channels + first_element + column]);
            shared_z[row][column] = to_float(projected[source * width + first_element + column]);
        }
        for (int i = threadIdx.x; i < count; i += THREADS) {
            const float raw = to_float(projected[i64(first_row + begin + i) * width + inner + channels + head]);
            shared_dt[i] = step_size(raw, bias, dt_min, dt_max);
        }
        __syncthreads();
        for (int row = 0; row < count; row++) {
            const float dt = shared_dt[row], decay = exp2_approx(dt * rate);
            float x[ELEMENTS_PER_LANE], sums[ELEMENTS_PER_LANE];
#pragma unroll
            for (int e = 0; e < ELEMENTS_PER_LANE; e++) {
                x[e] = shared_x[row][element + e];
                sums[e] = 0.0f;
            }
#pragma unroll
            for (int v = 0; v < VECTORS; v++) {
                const float4 b = shared_b[row][v * LANES_PER_ELEMENT + lane];
                const float4 c = shared_c[row][v * LANES_PER_ELEMENT + lane];
#pragma unroll
                for (int e = 0; e < ELEMENTS_PER_LANE; e++) {
                    const float input = dt * x[e];
                    float4& own_value = values[e][v];
                    own_value.x = fmaf(input, b.x, decay * own_value.x);
                    own_value.y = fmaf(input, b.y, decay * own_value.y);
                    own_value.z = fmaf(input, b.z, decay * own_value.z);
                    own_value.w = fmaf(input, b.w, decay * own_value.w);
                    sums[e] = fmaf(own_value.x, c.x, fmaf(own_value.y, c.y, sums[e]));
                    sums[e] = fmaf(own_value.z, c.z, fmaf(own_value.w, c.w, sums[e]));
                }
            }
#pragma unroll
            for (int e = 0; e < ELEMENTS_PER_LANE; e++) {
#pragma unroll
                for (int offset = LANES_PER_ELEMENT / 2; offset; offset /= 2)
                    sums[e] += __shfl_xor_sync(~0u, sums[e], offset);
                if (lane == e % LANES_PER_ELEMENT) {
                    const float y = fmaf(skip, x[e], sums[e]) * silu(shared_z[row][element + e]);
                    out[i64(first_row + begin + row) * inner + first_element + element + e] = from_float<ELEMENT>(y);
                }
            }
        }
    }
#pragma unroll
    for (int e = 0; e < ELEMENTS_PER_LANE; e++)
#pragma unroll
        for (int v = 0; v < VECTORS; v++)
            own[e * STATE_SIZE / 4 + v * LANES_PER_ELEMENT + lane] = values[e][v];
}

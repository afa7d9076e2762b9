// The selective scan of Mamba-2, one row after the other, with a state for each sequence.
//
// Algorithm: the recurrence of [Dao & Gu 2024]: state = exp(-exp(a_log) dt) state + dt x B^T, y = state C + d x, and
//   y silu(z) is stored. Tiling: a CTA is one head of one sequence; its state stays in registers, of which
//   LANES_PER_ELEMENT lanes share an element's. Rows come in chunks of CHUNK_ROWS through shared memory. A decode step
//   has one row: the kernel then is bound by reading and writing the state.
// Departures: not the chunked matrix form, which prefill on tensor cores would need.
//
// Options: ELEMENT (bf16, fp16, float), HEAD_DIM, STATE_SIZE (a multiple of 4 LANES_PER_ELEMENT), LANES_PER_ELEMENT (a
//   power of two up to 32), CHUNK_ROWS.
// Launch: grid (heads, sequences), CTA of HEAD_DIM * LANES_PER_ELEMENT, a multiple of 32.
// Arguments: projected (rows x (heads * HEAD_DIM + channels + heads)), convolved (rows x channels, with channels =
//   heads * HEAD_DIM + 2 groups * STATE_SIZE), a_log, d, dt_bias (heads, float), slots, query_start_loc, seq_lens
//   (int32), state (slots x heads x HEAD_DIM x STATE_SIZE, float), out (rows x heads * HEAD_DIM), heads, groups, dt_min,
//   dt_max. Before a sequence's first token its state is zero. A sequence of length 0 is skipped.
#include "prelude.cuh"

constexpr int THREADS = HEAD_DIM * LANES_PER_ELEMENT, VECTORS = STATE_SIZE / (4 * LANES_PER_ELEMENT);

// log(1 + e^v), without overflow.
DEVICE float softplus(float v) { return fmaxf(v, 0.0f) + log1pf(__expf(-fabsf(v))); }

KERNEL __launch_bounds__(THREADS)
selective_scan(const ELEMENT* projected, const ELEMENT* convolved, const float* a_log, const float* d,
               const float* dt_bias, const int* slots, const int* query_start_loc, const int* seq_lens, float* state,
               ELEMENT* out, int heads, int groups, float dt_min, float dt_max TRACE_PARAMETER) {
    TRACE_SPAN(0);
    __shared__ float shared_b[CHUNK_ROWS][STATE_SIZE], shared_c[CHUNK_ROWS][STATE_SIZE];
    __shared__ float shared_x[CHUNK_ROWS][HEAD_DIM], shared_z[CHUNK_ROWS][HEAD_DIM], shared_dt[CHUNK_ROWS];
    launch_dependents();
    wait_on_dependency();
    const int head = blockIdx.x, sequence = blockIdx.y;
    const int first_row = query_start_loc[sequence], rows = query_start_loc[sequence + 1] - first_row;
    const int seq_len = seq_lens[sequence];
    if (rows <= 0 || seq_len <= 0)
        return;
    const int inner = heads * HEAD_DIM, channels = inner + 2 * groups * STATE_SIZE, width = inner + channels + heads;
    const int group = head / (heads / groups), element = threadIdx.x / LANES_PER_ELEMENT;
    const int lane = threadIdx.x % LANES_PER_ELEMENT;
    float4* own = reinterpret_cast<float4*>(state + (i64(slots[sequence]) * heads + head) * HEAD_DIM * STATE_SIZE +
                                            element * STATE_SIZE);
    // Lane l has every LANES_PER_ELEMENT-th vector of the element's state, so that accesses are contiguous.
    float4 values[VECTORS];
#pragma unroll
    for (int v = 0; v < VECTORS; v++)
        values[v] = seq_len == rows ? make_float4(0.0f, 0.0f, 0.0f, 0.0f) : own[v * LANES_PER_ELEMENT + lane];
    const float rate = -__expf(a_log[head]) * LOG2_E, skip = d[head], bias = dt_bias[head];
    for (int begin = 0; begin < rows; begin += CHUNK_ROWS) {
        const int count = min(CHUNK_ROWS, rows - begin);
        __syncthreads();
        for (int i = threadIdx.x; i < count * STATE_SIZE; i += THREADS) {
            const int row = i / STATE_SIZE, column = i % STATE_SIZE;
            const ELEMENT* from = convolved + i64(first_row + begin + row) * channels + inner + group * STATE_SIZE;
            shared_b[row][column] = to_float(from[column]);
            shared_c[row][column] = to_float(from[groups * STATE_SIZE + column]);
        }
        for (int i = threadIdx.x; i < count * HEAD_DIM; i += THREADS) {
            const int row = i / HEAD_DIM, column = i % HEAD_DIM;
            const i64 source = first_row + begin + row;
            shared_x[row][column] = to_float(convolved[source * channels + head * HEAD_DIM + column]);
            shared_z[row][column] = to_float(projected[source * width + head * HEAD_DIM + column]);
        }
        for (int i = threadIdx.x; i < count; i += THREADS) {
            const float raw = to_float(projected[i64(first_row + begin + i) * width + inner + channels + head]);
            shared_dt[i] = fminf(fmaxf(softplus(raw + bias), dt_min), dt_max);
        }
        __syncthreads();
        for (int row = 0; row < count; row++) {
            const float dt = shared_dt[row], x = shared_x[row][element];
            const float decay = exp2_approx(dt * rate), input = dt * x;
            float sum = 0.0f;
#pragma unroll
            for (int v = 0; v < VECTORS; v++) {
                const int at = (v * LANES_PER_ELEMENT + lane) * 4;
                const float4 b = *reinterpret_cast<const float4*>(&shared_b[row][at]);
                const float4 c = *reinterpret_cast<const float4*>(&shared_c[row][at]);
                values[v].x = fmaf(input, b.x, decay * values[v].x);
                values[v].y = fmaf(input, b.y, decay * values[v].y);
                values[v].z = fmaf(input, b.z, decay * values[v].z);
                values[v].w = fmaf(input, b.w, decay * values[v].w);
                sum = fmaf(values[v].x, c.x, fmaf(values[v].y, c.y, fmaf(values[v].z, c.z, fmaf(values[v].w, c.w, sum))));
            }
#pragma unroll
            for (int offset = LANES_PER_ELEMENT / 2; offset; offset /= 2)
                sum += __shfl_xor_sync(~0u, sum, offset);
            if (lane == 0) {
                const float y = fmaf(skip, x, sum);
                out[i64(first_row + begin + row) * inner + head * HEAD_DIM + element] =
                    from_float<ELEMENT>(y * silu(shared_z[row][element]));
            }
        }
    }
#pragma unroll
    for (int v = 0; v < VECTORS; v++)
        own[v * LANES_PER_ELEMENT + lane] = values[v];
}

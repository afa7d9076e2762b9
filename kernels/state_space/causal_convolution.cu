// Causal depthwise convolution over the rows of each sequence, then SiLU, with a state of past inputs.
//
// Algorithm: the convolution of Mamba [Gu & Dao 2023]: KERNEL_TAPS taps, the last for the row itself. Tiling: a thread
//   a channel, a CTA THREADS channels and CHUNK_ROWS rows of one sequence; the taps slide through registers. The CTA of
//   a sequence's first rows alone reads and then updates its state, so that no CTA waits for another.
//
// Options: ELEMENT (bf16, fp16, float), KERNEL_TAPS (2 to 8), THREADS, CHUNK_ROWS (at least KERNEL_TAPS).
// Launch: grid (ceil(channels / THREADS), ceil(most rows of a sequence / CHUNK_ROWS), sequences), CTA of THREADS.
// Arguments: x (rows x columns), weight (KERNEL_TAPS x channels), bias (channels, null: none), slots, query_start_loc,
//   seq_lens (int32), state (slots x (KERNEL_TAPS - 1) x channels, float), out (rows x channels), columns, first,
//   channels. Before a sequence's first token its past is zero. A sequence of length 0 is skipped.
#include "prelude.cuh"

constexpr int PAST = KERNEL_TAPS - 1;

KERNEL __launch_bounds__(THREADS)
causal_convolution(const ELEMENT* x, const ELEMENT* weight, const ELEMENT* bias, const int* slots,
                   const int* query_start_loc, const int* seq_lens, float* state, ELEMENT* out, int columns, int first,
                   int channels TRACE_PARAMETER) {
    TRACE_SPAN(0);
    launch_dependents();
    wait_on_dependency();
    const int sequence = blockIdx.z, channel = blockIdx.x * THREADS + threadIdx.x;
    const int row = query_start_loc[sequence], rows = query_start_loc[sequence + 1] - row;
    const int seq_len = seq_lens[sequence], begin = blockIdx.y * CHUNK_ROWS;
    if (begin >= rows || seq_len <= 0 || channel >= channels)
        return;
    const ELEMENT* input = x + i64(row) * columns + first + channel;
    float* past = state + i64(slots[sequence]) * PAST * channels + channel;
    float taps[KERNEL_TAPS], window[PAST];
#pragma unroll
    for (int k = 0; k < KERNEL_TAPS; k++)
        taps[k] = to_float(weight[k * channels + channel]);
    const float offset = bias ? to_float(bias[channel]) : 0.0f;
    const bool begins = seq_len == rows;
#pragma unroll
    for (int k = 0; k < PAST; k++) {
        const int from = begin - PAST + k;
        if (from >= 0)
            window[k] = to_float(input[i64(from) * columns]);
        else
            window[k] = begins ? 0.0f : past[(PAST + from) * channels];
    }
    const int end = min(begin + CHUNK_ROWS, rows);
    for (int at = begin; at < end; at++) {
        const float current = to_float(input[i64(at) * columns]);
        float sum = fmaf(taps[PAST], current, offset);
#pragma unroll
        for (int k = 0; k < PAST; k++)
            sum = fmaf(taps[k], window[k], sum);
#pragma unroll
        for (int k = 0; k + 1 < PAST; k++)
            window[k] = window[k + 1];
        window[PAST - 1] = current;
        out[i64(row + at) * channels + channel] = from_float<ELEMENT>(silu(sum));
    }
    if (begin > 0)
        return;
    // The last inputs of the sequence: where all its rows are in this CTA, they are in the window.
    if (rows > CHUNK_ROWS) {
#pragma unroll
        for (int k = 0; k < PAST; k++)
            window[k] = to_float(input[i64(rows - PAST + k) * columns]);
    }
#pragma unroll
    for (int k = 0; k < PAST; k++)
        past[k * channels] = window[k];
}

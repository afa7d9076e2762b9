// Group norm of x, [batch, channels, columns]: the channels of a group to mean 0 and variance 1, times a weight, plus a
// bias; then leaky ReLU and snake.
//
// Algorithm: GroupNorm [Wu & He 2018]; the mean first, then squared deviations, each by compensated sums of the threads
//   [Kahan 1965]. Tiling: a CTA a group of a sample, which reads it three times, from L2 where it fits.
//
// Options: THREADS.
// Launch: grid (groups, batch), CTA of THREADS.
// Arguments: x, weight, bias (null: none; of channels, or of samples and channels where per_sample), alpha (channels;
//   null: no snake), out (may be x), channels, columns, group_channels, per_sample, offset (added to weights), epsilon,
//   slope.
#include "channel_activation.cuh"

struct CompensatedSum {
    float sum = 0.0f, rest = 0.0f;
    DEVICE void add(float v) {
        const float y = __fsub_rn(v, rest), t = __fadd_rn(sum, y);
        rest = __fsub_rn(__fsub_rn(t, sum), y);
        sum = t;
    }
};

KERNEL __launch_bounds__(THREADS)
group_norm(const float* x, const float* weight, const float* bias, const float* alpha, float* out, int channels,
           int columns, int group_channels, int per_sample, float offset, float epsilon, float slope) {
    launch_dependents();
    wait_on_dependency();
    const int first_channel = int(blockIdx.x) * group_channels;
    const i64 start = (i64(blockIdx.y) * channels + first_channel) * columns;
    const i64 count = i64(group_channels) * columns;
    CompensatedSum sum, squares;
    for (i64 i = threadIdx.x; i < count; i += THREADS)
        sum.add(x[start + i]);
    const float mean = reduce_cta<Sum>(sum.sum) / float(count);
    for (i64 i = threadIdx.x; i < count; i += THREADS) {
        const float distance = x[start + i] - mean;
        squares.add(distance * distance);
    }
    const float deviation = sqrtf(reduce_cta<Sum>(squares.sum) / float(count) + epsilon);
    for (int c = 0; c < group_channels; c++) {
        const int channel = first_channel + c;
        const i64 of_weight = (per_sample ? i64(blockIdx.y) * channels : 0) + channel;
        const float factor = (weight ? weight[of_weight] + offset : 1.0f) / deviation;
        const float shift = bias ? bias[of_weight] : 0.0f;
        const float of_channel = alpha ? alpha[channel] : 1.0f;
        for (int i = threadIdx.x; i < columns; i += THREADS) {
            const i64 place = start + i64(c) * columns + i;
            const float v = fmaf(x[place] - mean, factor, shift);
            out[place] = channel_activation(v, slope, alpha != nullptr, of_channel);
        }
    }
}

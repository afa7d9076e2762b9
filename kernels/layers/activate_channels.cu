// Leaky ReLU and snake (channel_activation.cuh) of x, [batch, channels, columns].
//
// Tiling: CTAs in turns take parts of a channel of a sample.
//
// Launch: grid (CTAs of a row, rows: samples and channels), CTA of any size; rows that exceed the grid in turns.
// Arguments: x, alpha (channels; null: no snake), out (may be x), rows, channels, columns, slope.
#include "channel_activation.cuh"

KERNEL activate_channels(const float* x, const float* alpha, float* out, int rows, int channels, int columns,
                         float slope) {
    launch_dependents();
    wait_on_dependency();
    for (int row = blockIdx.y; row < rows; row += gridDim.y) {
        const float of_channel = alpha ? alpha[row % channels] : 1.0f;
        for (i64 at = i64(blockIdx.x) * blockDim.x + threadIdx.x; at < columns; at += i64(gridDim.x) * blockDim.x) {
            const i64 place = i64(row) * columns + at;
            out[place] = channel_activation(x[place], slope, alpha != nullptr, of_channel);
        }
    }
}

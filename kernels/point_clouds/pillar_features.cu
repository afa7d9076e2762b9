// The feature net of PointPillars [Lang et al. 2019]: at the cell of each pillar the maximum over its points of
// relu(weight x inputs + bias), else zero. The inputs of a point are itself, its offset from the mean of its pillar and
// that from the cell's center. A pillar of fewer than `most_points` points has zero inputs besides.
//
// Algorithm: weights that meet one coordinate are joined: weight x inputs = of_offset (point - center) + what is the
//   same for all points of a pillar. Offsets are small, so that nothing cancels.
// Tiling: a CTA CELLS consecutive cells and CHANNELS channels; a warp a pillar, a lane the channels 32 apart. Features
//   meet in shared memory, so that every element of the result is stored once, coalesced, and features have no memory.
//
// Options: THREADS.
// Entries:
//   map_pillars: the pillar of each cell. Grid ceil(most_pillars / CTA), CTA of any size.
//     Arguments: cells (most_pillars), pillar_of_cell (rows x columns, -1), most_pillars, count of cells.
//   pillar_features: grid (ceil(cells / CELLS), ceil(channels / CHANNELS)), CTA of THREADS.
//     Arguments: grouped (count points), starts, pillar_of_cell, weight (channels x 10), bias, out (channels x rows x
//     columns), count, most_points, channels, rows, columns, least x, y, z, sizes of a cell along x, y, z.
#include "pillar_grid.cuh"

constexpr int CELLS = 64, CHANNELS = 64, CHANNELS_PER_LANE = CHANNELS / 32, INPUTS = 10;

KERNEL map_pillars(const int* cells, int* pillar_of_cell, int most_pillars, int cell_count) {
    launch_dependents();
    wait_on_dependency();
    const int pillar = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (pillar < most_pillars && cells[pillar] >= 0 && cells[pillar] < cell_count)
        // Of several pillars of a cell, the last.
        atomicMax(&pillar_of_cell[cells[pillar]], pillar);
}

// A channel's weights.
struct Channel {
    // Of an offset from the center, with its intensity; of the center; of the mean offset.
    Point of_offset, of_center, of_mean;
    float bias;

    DEVICE Channel(const float* weight, const float* biases, int channel, bool valid) {
        float row[INPUTS];
#pragma unroll
        for (int input = 0; input < INPUTS; input++)
            row[input] = valid ? weight[channel * INPUTS + input] : 0.0f;
        of_offset = {row[0] + row[4] + row[7], row[1] + row[5] + row[8], row[2] + row[6] + row[9], row[3]};
        of_center = {row[0], row[1], row[2], 0.0f};
        of_mean = {row[4], row[5], row[6], 0.0f};
        bias = valid ? biases[channel] : 0.0f;
    }
};

// sum + weights x values, of three coordinates.
DEVICE float add_product(const Point& weights, const Point& values, float sum) {
    return fmaf(weights.z, values.z, fmaf(weights.y, values.y, fmaf(weights.x, values.x, sum)));
}

DEVICE Point subtract(const Point& a, const Point& b) {
    return {a.x - b.x, a.y - b.y, a.z - b.z, a.intensity - b.intensity};
}

// The mean offset of a pillar's points from the center, with a minus.
DEVICE Point minus_mean(const Point* points, int count, const Point& center) {
    Point sum = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int i = threadIdx.x % 32; i < count; i += 32)
        sum = subtract(sum, subtract(points[i], center));
    const float held = float(max(count, 1));
    return {reduce_warp<Sum>(sum.x) / held, reduce_warp<Sum>(sum.y) / held, reduce_warp<Sum>(sum.z) / held, 0.0f};
}

KERNEL __launch_bounds__(THREADS)
pillar_features(const Point* grouped, const int* starts, const int* pillar_of_cell, const float* weight,
                const float* bias, float* out, int count, int most_points, int channels, int rows, int columns,
                float x_least, float y_least, float z_least, float x_size, float y_size, float z_size) {
    // The columns are not of a power of two, so that lanes meet other banks in either direction.
    __shared__ float features[CHANNELS][CELLS + 1];
    __shared__ int pillars[CELLS];
    const PillarGrid grid = {rows, columns, x_least, y_least, z_least, x_size, y_size, z_size};
    const int lane = threadIdx.x % 32, cell_count = rows * columns;
    const int first_cell = int(blockIdx.x) * CELLS, first_channel = int(blockIdx.y) * CHANNELS;
    launch_dependents();
    wait_on_dependency();
    for (int cell = threadIdx.x; cell < CELLS; cell += THREADS)
        pillars[cell] = first_cell + cell < cell_count ? pillar_of_cell[first_cell + cell] : -1;
    const int first_of_lane = first_channel + lane;
    const Channel lane_channels[CHANNELS_PER_LANE] = {
        Channel(weight, bias, first_of_lane, first_of_lane < channels),
        Channel(weight, bias, first_of_lane + 32, first_of_lane + 32 < channels)};
    __syncthreads();
    for (int cell = threadIdx.x / 32; cell < CELLS; cell += THREADS / 32) {
        if (pillars[cell] < 0)
            continue;
        // No start leads outside of the points, whatever it is.
        const int begin = min(max(starts[pillars[cell]], 0), count);
        const int held = min(max(starts[pillars[cell] + 1], begin), count) - begin;
        const Point* points = grouped + begin;
        const Point center = grid.center(first_cell + cell), mean = minus_mean(points, held, center);
        float shared[CHANNELS_PER_LANE], most[CHANNELS_PER_LANE];
#pragma unroll
        for (int i = 0; i < CHANNELS_PER_LANE; i++) {
            const Channel& channel = lane_channels[i];
            shared[i] = add_product(channel.of_mean, mean, add_product(channel.of_center, center, channel.bias));
            most[i] = held < most_points ? fmaxf(channel.bias, 0.0f) : 0.0f;
        }
        for (int point = 0; point < held; point++) {
            const Point offset = subtract(points[point], center);
#pragma unroll
            for (int i = 0; i < CHANNELS_PER_LANE; i++) {
                const Point& of_offset = lane_channels[i].of_offset;
                const float sum = add_product(of_offset, offset, shared[i]);
                most[i] = fmaxf(most[i], fmaf(of_offset.intensity, offset.intensity, sum));
            }
        }
#pragma unroll
        for (int i = 0; i < CHANNELS_PER_LANE; i++)
            features[i * 32 + lane][cell] = most[i];
    }
    __syncthreads();
    for (int at = threadIdx.x; at < CHANNELS * CELLS; at += THREADS) {
        const int channel = at / CELLS, cell = at % CELLS;
        if (first_channel + channel < channels && first_cell + cell < cell_count)
            out[i64(first_channel + channel) * cell_count + first_cell + cell] =
                pillars[cell] < 0 ? 0.0f : features[channel][cell];
    }
}

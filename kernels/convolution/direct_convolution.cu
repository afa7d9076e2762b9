// A convolution, or a transposed one, of few filters a group: no tile of a matrix product would be full.
//
// Tiling: a thread an element of the result; neighboring threads have neighboring positions, and the same weights.
//
// Options: TRANSPOSED (1: of height 1, any dilation), ELEMENT (bf16, fp16, float: of everything), ACTIVATION
//   (codes.cuh).
// Launch: grid (ceil(results of a filter / CTA), filters of a turn, batch of a turn), CTA of any size; filters and
//   samples that exceed the grid in turns.
// Arguments: x, weight, bias, residual (null: none), out, the shape (see convolution_index.cuh).
#include "convolution_index.cuh"
#include "epilogue.cuh"

KERNEL direct_convolution(const ELEMENT* x, const ELEMENT* weight, const ELEMENT* bias, const ELEMENT* residual,
                          ELEMENT* out, const __grid_constant__ ConvolutionShape s) {
    launch_dependents();
    wait_on_dependency();
    const int place = int(blockIdx.x * blockDim.x + threadIdx.x), results = s.out_height * s.out_width;
    if (place >= results)
        return;
    const int channels = s.channels / s.groups, filters = s.filters / s.groups;
    const int out_row = place / s.out_width, out_column = place % s.out_width;
    for (int sample = blockIdx.z; sample < s.batch; sample += gridDim.z)
        for (int filter = blockIdx.y; filter < s.filters; filter += gridDim.y) {
            const int group = filter / filters;
            float sum = 0.0f;
            for (int c = 0; c < channels; c++) {
                const ELEMENT* plane = x + (i64(sample) * s.channels + group * channels + c) * s.height * s.width;
                if (TRANSPOSED) {
                    const ELEMENT* taps =
                        weight + (i64(group * channels + c) * filters + filter % filters) * s.kernel_width;
                    for (int k = 0; k < s.kernel_width; k++) {
                        const int raised = place + s.pad_width - k * s.dilation_width, t = raised / s.stride_width;
                        if (raised >= 0 && raised % s.stride_width == 0 && t < s.width)
                            sum = fmaf(to_float(taps[k]), to_float(plane[t]), sum);
                    }
                } else {
                    const ELEMENT* taps = weight + (i64(filter) * channels + c) * s.kernel_height * s.kernel_width;
                    for (int kh = 0; kh < s.kernel_height; kh++) {
                        const int row = out_row * s.stride_height - s.pad_height + kh * s.dilation_height;
                        if (unsigned(row) >= unsigned(s.height))
                            continue;
                        for (int kw = 0; kw < s.kernel_width; kw++) {
                            const int column = out_column * s.stride_width - s.pad_width + kw * s.dilation_width;
                            if (unsigned(column) < unsigned(s.width))
                                sum = fmaf(to_float(taps[kh * s.kernel_width + kw]),
                                           to_float(plane[i64(row) * s.width + column]), sum);
                        }
                    }
                }
            }
            const i64 to = (i64(sample) * s.filters + filter) * results + place;
            const float v = activate(sum + (bias ? to_float(bias[filter]) : 0.0f));
            out[to] = from_float<ELEMENT>(v + (residual ? to_float(residual[to]) : 0.0f));
        }
}

// What every product of a convolution reads: x, [batch, channels, height, width], and its weights, by position of the
// result and by step of the sum over channels and taps.
//
// A transposed convolution of stride s is s convolutions of stride 1, one for the results of each phase: those whose
// place, with the padding, leaves the same remainder modulo s. Each has every s-th tap, last first.
//
// Options: TRANSPOSED (1: a transposed convolution; of height 1 and dilation 1).
#pragma once
#include "prelude.cuh"

struct ConvolutionShape {
    int batch, channels, height, width, filters, kernel_height, kernel_width, stride_height, stride_width, pad_height,
        pad_width, dilation_height, dilation_width, groups, out_height, out_width;
};

// A step of the sum: how far its element of x is from the position's, and its weight from the filter's first.
struct Tap {
    int x_offset, down, right, weight_offset;
};

// A position of the result: where its first element of x is, and where it is stored.
struct Position {
    i64 x_base, out_base;  // of channel 0 of x and of filter 0, of the group
    int row, column;       // of x; either may be outside
};

struct ConvolutionIndex {
    const ConvolutionShape& s;
    int group, phase, taps, steps, channels, filters, positions;

    DEVICE ConvolutionIndex(const ConvolutionShape& s, int group, int phase) : s(s), group(group), phase(phase) {
        channels = s.channels / s.groups;
        filters = s.filters / s.groups;
        if (TRANSPOSED) {
            taps = phase < s.kernel_width ? (s.kernel_width - phase + s.stride_width - 1) / s.stride_width : 0;
            positions = ceil_divide(s.out_width, s.stride_width);
        } else {
            taps = s.kernel_height * s.kernel_width;
            positions = s.out_height * s.out_width;
        }
        steps = channels * taps;
    }

    DEVICE Tap tap(int step) const {
        const int channel = step / taps, rest = step % taps;
        if (TRANSPOSED)
            return {channel * s.width - rest, 0, -rest,
                    channel * filters * s.kernel_width + phase + rest * s.stride_width};
        const int down = rest / s.kernel_width * s.dilation_height, right = rest % s.kernel_width * s.dilation_width;
        return {channel * s.height * s.width + down * s.width + right, down, right, step};
    }
    // Weights from one filter to the next, and the first weight of the group.
    DEVICE int filter_stride() const { return TRANSPOSED ? s.kernel_width : steps; }
    DEVICE i64 first_weight() const {
        return TRANSPOSED ? i64(group) * channels * filters * s.kernel_width : i64(group) * filters * steps;
    }
    DEVICE i64 out_pitch() const { return i64(s.out_height) * s.out_width; }

    // False where there is no such position.
    DEVICE bool position(i64 index, Position& to) const {
        const i64 sample = index / positions;
        const int at = int(index % positions);
        if (sample >= s.batch)
            return false;
        int place = at;
        if (TRANSPOSED) {
            const int first = ((phase - s.pad_width) % s.stride_width + s.stride_width) % s.stride_width;
            place = first + at * s.stride_width;
            to.row = 0;
            to.column = (place + s.pad_width - phase) / s.stride_width;
        } else {
            to.row = at / s.out_width * s.stride_height - s.pad_height;
            to.column = at % s.out_width * s.stride_width - s.pad_width;
        }
        to.x_base = ((sample * s.channels + i64(group) * channels) * s.height + to.row) * s.width + to.column;
        to.out_base = (sample * s.filters + i64(group) * filters) * out_pitch() + place;
        return place < s.out_height * s.out_width;
    }
    DEVICE bool has(const Position& at, const Tap& tap) const {
        return unsigned(at.row + tap.down) < unsigned(s.height) && unsigned(at.column + tap.right) < unsigned(s.width);
    }
};

// The gates of an LSTM [Hochreiter & Schmidhuber 1997]: input, forget, cell, output.
#pragma once
#include "prelude.cuh"

DEVICE float logistic(float v) { return 1.0f / (1.0f + expf(-v)); }

// The next hidden state; the cell is changed.
DEVICE float lstm_unit(float input, float forget, float candidate, float output, float& cell) {
    cell = fmaf(logistic(forget), cell, logistic(input) * tanhf(candidate));
    return logistic(output) * tanhf(cell);
}

// The step size dt of the selective scan.
#pragma once
#include "prelude.cuh"

// log(1 + e^v), without overflow.
DEVICE float softplus(float v) { return fmaxf(v, 0.0f) + log1pf(__expf(-fabsf(v))); }

// softplus(raw + bias), within its limits.
DEVICE float step_size(float raw, float bias, float dt_min, float dt_max) {
    return fminf(fmaxf(softplus(raw + bias), dt_min), dt_max);
}

// Rows of a sequence that a scan takes; it leaves others to the other scan.
#ifndef MIN_ROWS
#define MIN_ROWS 1
#endif
#ifndef MAX_ROWS
#define MAX_ROWS 0x7fffffff
#endif

// The second product of LoRA adapters in the epilogue of a GEMV or small-M GEMM: B low of each row's adapter.
//
// Options: LORA_RANK (0, off; else a multiple of 8: the kernel then takes low, b and adapters as lora_expand.cu does).
#pragma once
#include "prelude.cuh"

#ifndef LORA_RANK
#define LORA_RANK 0
#endif

#if LORA_RANK
#define LORA_PARAMETERS , const ELEMENT *low, const ELEMENT *__restrict__ lora_b, const int *adapters
#else
#define LORA_PARAMETERS
#endif

#if LORA_RANK
// Of one output and row. The factors of an output are a cache line or two, which prefetch_delta has loaded.
DEVICE float lora_delta(const ELEMENT* low, const ELEMENT* b, int adapter, int row, int output, int outputs) {
    if (adapter <= 0)
        return 0.0f;
    const ELEMENT *factors = b + (i64(adapter) * outputs + output) * LORA_RANK, *values = low + i64(row) * LORA_RANK;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < LORA_RANK / 8; i++) {
        const uint4 left = load16(factors + 8 * i), right = load16(values + 8 * i);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float2 a = unpack<ELEMENT>(word(left, j)), x = unpack<ELEMENT>(word(right, j));
            sum = fmaf(a.x, x.x, sum);
            sum = fmaf(a.y, x.y, sum);
        }
    }
    return sum;
}

DEVICE void prefetch_delta(const ELEMENT* b, int adapter, int output, int outputs) {
    const ELEMENT* factors = b + (i64(adapter) * outputs + output) * LORA_RANK;
#pragma unroll
    for (int i = 0; i < LORA_RANK; i += 64)
        prefetch_l2(factors + i);
}
#endif

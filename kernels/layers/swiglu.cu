// out = silu(gate) * up, for rows of gate numbers and then as many up numbers.
//
// Options: NUMBER, VECTOR (8, for float 4: half is a multiple of it; else 1).
// Launch: grid (ceil(half / VECTOR / block), rows), any block.
// Arguments: gate_up (rows x 2 half), out (rows x half), half.
#include "vectorization.cuh"

typedef Row<NUMBER, VECTOR> Numbers;

KERNEL swiglu(const NUMBER* gate_up, NUMBER* out, int half) {
    start_next_kernel();
    wait_for_previous_kernel();
    const int at = (blockIdx.x * blockDim.x + threadIdx.x) * VECTOR;
    if (at >= half)
        return;
    float gate[VECTOR], up[VECTOR];
    const NUMBER* row = gate_up + i64(blockIdx.y) * 2 * half + at;
    Numbers::load(row, gate);
    Numbers::load(row + half, up);
#pragma unroll
    for (int i = 0; i < VECTOR; i++)
        gate[i] = silu(gate[i]) * up[i];
    Numbers::store(out + i64(blockIdx.y) * half + at, gate);
}

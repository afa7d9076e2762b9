// out = activation(gate) * up, for rows of gate elements and then as many up elements.
//
// Algorithm: SwiGLU and GEGLU [Shazeer 2020]. Tiling: one vector a thread, no reuse.
//
// Options: ELEMENT, ACTIVATION (as epilogue.cuh where GATED),
//          VECTOR (8, for float 4: half is a multiple of it; else 1).
// Launch: grid (ceil(half / VECTOR / CTA), rows), CTA of any size.
// Arguments: gate_up (rows x 2 half), out (rows x half), half.
#include "epilogue.cuh"
#include "vectorization.cuh"

typedef VectorAccess<ELEMENT, VECTOR> Access;

KERNEL swiglu(const ELEMENT* gate_up, ELEMENT* out, int half TRACE_PARAMETER) {
    TRACE_SPAN(0);
    launch_dependents();
    wait_on_dependency();
    const int at = (blockIdx.x * blockDim.x + threadIdx.x) * VECTOR;
    if (at >= half)
        return;
    float gate[VECTOR], up[VECTOR];
    const ELEMENT* row = gate_up + i64(blockIdx.y) * 2 * half + at;
    Access::load(row, gate);
    Access::load(row + half, up);
#pragma unroll
    for (int i = 0; i < VECTOR; i++)
        gate[i] = gated_product(gate[i], up[i]);
    Access::store(out + i64(blockIdx.y) * half + at, gate);
}

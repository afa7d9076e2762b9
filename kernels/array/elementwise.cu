// result = EXPRESSION of up to three inputs, which may be strided, broadcast or scalars.
//
// Algorithm: none published: a fused elementwise loop over collapsed axes, as NumPy's iterator does on the CPU.
// Tiling: VECTOR elements a thread, one vectorized access for each array.
// Departures: small arrays share one kernel for each expression and compute type, which gets formats and strides at run
//   time, as compiling would take longer than the work; large ones are compiled for theirs.
//
// Options: EXPRESSION (names of expressions.cuh over a0, a1, a2 and the element's `index`, such as
//   multiply(add(a0,a1),a2)), INPUTS, COMPUTE_TYPE (bool, an integer, float, double), INDEX (u32, or u64 where there
//   are more elements than it counts). For large arrays also TYPE0 to TYPE2 and RESULT (storage types), SCALAR_INPUTS
//   (bits of the inputs that are scalars), CONTIGUOUS (1: all arrays are contiguous in the order of result), VECTOR
//   (elements of a thread; arrays are aligned to as many), BROADCAST_INPUTS (bits of the inputs whose stride along the
//   last axis is 0; where not CONTIGUOUS, the others have stride 1 there, or VECTOR is 1. The last axis of `shape` then
//   counts vectors).
// Launch: grid ceil(count / VECTOR / CTA), CTA of any size.
// Arguments: the inputs (null where there is none), result, count (64 bits), layout (a struct by value).
#include "expressions.cuh"

struct Layout {
    i64 shape[8];       // the last axis is the innermost
    i64 strides[4][8];  // of the inputs and of the result, in elements; 0 where broadcast
    u64 scalars[3];     // the bits of a double where COMPUTE_TYPE is floating, else of a 64-bit integer
    u8 formats[4];      // of the inputs and of the result; SCALAR for a scalar input
    int axes;
};
constexpr int SCALAR = 255;

template <class C> DEVICE C scalar_value(u64 bits) {
    if constexpr (TypeTraits<C>::floating)
        return C(__longlong_as_double(i64(bits)));
    else
        return C(i64(bits));
}

// The offset in each array of an element of the result.
DEVICE void compute_offsets(const Layout& layout, INDEX element, i64 (&offsets)[4]) {
    for (int axis = layout.axes - 1; axis >= 0; axis--) {
        const INDEX size = INDEX(layout.shape[axis]), remainder = element / size, index = element - remainder * size;
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (i < INPUTS || i == 3)
                offsets[i] += i64(index) * layout.strides[i][axis];
        element = remainder;
    }
}

DEVICE auto evaluate([[maybe_unused]] i64 index, [[maybe_unused]] COMPUTE_TYPE a0, [[maybe_unused]] COMPUTE_TYPE a1,
                     [[maybe_unused]] COMPUTE_TYPE a2) {
    return EXPRESSION;
}

#ifndef RESULT

template <int INPUT> DEVICE COMPUTE_TYPE load_input(const void* from, const i64 (&offsets)[4], const Layout& layout) {
    if constexpr (INPUT >= INPUTS)
        return COMPUTE_TYPE();
    else
        return layout.formats[INPUT] == SCALAR ? scalar_value<COMPUTE_TYPE>(layout.scalars[INPUT])
                                               : load_as<COMPUTE_TYPE>(layout.formats[INPUT], from, offsets[INPUT]);
}

KERNEL elementwise(const void* in0, const void* in1, const void* in2, void* result, i64 count,
                   const __grid_constant__ Layout layout) {
    launch_dependents();
    wait_on_dependency();
    const i64 element = i64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (element >= count)
        return;
    i64 offsets[4] = {};
    compute_offsets(layout, INDEX(element), offsets);
    const COMPUTE_TYPE a0 = load_input<0>(in0, offsets, layout), a1 = load_input<1>(in1, offsets, layout);
    const COMPUTE_TYPE a2 = load_input<2>(in2, offsets, layout);
    store_as(layout.formats[3], result, offsets[3], evaluate(element, a0, a1, a2));
}

#else

#ifndef TYPE1
#define TYPE1 TYPE0
#endif
#ifndef TYPE2
#define TYPE2 TYPE0
#endif

template <int INPUT, class T> struct Operand {
    COMPUTE_TYPE v[VECTOR];
    DEVICE void load(const T* from, i64 element, i64 count, const i64 (&offsets)[4], const Layout& layout) {
        if constexpr (INPUT >= INPUTS) {
#pragma unroll
            for (int i = 0; i < VECTOR; i++)
                v[i] = COMPUTE_TYPE();
        } else if constexpr (SCALAR_INPUTS >> INPUT & 1) {
#pragma unroll
            for (int i = 0; i < VECTOR; i++)
                v[i] = scalar_value<COMPUTE_TYPE>(layout.scalars[INPUT]);
        } else if constexpr (!CONTIGUOUS && (BROADCAST_INPUTS >> INPUT & 1)) {
            const COMPUTE_TYPE broadcast = load_cast<COMPUTE_TYPE>(from[offsets[INPUT]]);
#pragma unroll
            for (int i = 0; i < VECTOR; i++)
                v[i] = broadcast;
        } else if constexpr (!CONTIGUOUS) {
            const auto vector = *reinterpret_cast<const AlignedArray<T, VECTOR>*>(from + offsets[INPUT]);
#pragma unroll
            for (int i = 0; i < VECTOR; i++)
                v[i] = load_cast<COMPUTE_TYPE>(vector.v[i]);
        } else if (element + VECTOR <= count) {
            const auto vector = *reinterpret_cast<const AlignedArray<T, VECTOR>*>(from + element);
#pragma unroll
            for (int i = 0; i < VECTOR; i++)
                v[i] = load_cast<COMPUTE_TYPE>(vector.v[i]);
        } else {
#pragma unroll
            for (int i = 0; i < VECTOR; i++)
                v[i] = element + i < count ? load_cast<COMPUTE_TYPE>(from[element + i]) : COMPUTE_TYPE();
        }
    }
};

KERNEL elementwise(const TYPE0* in0, const TYPE1* in1, const TYPE2* in2, RESULT* result, i64 count,
                   const __grid_constant__ Layout layout) {
    launch_dependents();
    wait_on_dependency();
    const i64 element = (i64(blockIdx.x) * blockDim.x + threadIdx.x) * VECTOR;
    if (element >= count)
        return;
    i64 offsets[4] = {};
    if constexpr (!CONTIGUOUS)
        compute_offsets(layout, INDEX(element / VECTOR), offsets);
    Operand<0, TYPE0> x0;
    Operand<1, TYPE1> x1;
    Operand<2, TYPE2> x2;
    x0.load(in0, element, count, offsets, layout);
    x1.load(in1, element, count, offsets, layout);
    x2.load(in2, element, count, offsets, layout);
    AlignedArray<RESULT, VECTOR> results;
#pragma unroll
    for (int i = 0; i < VECTOR; i++)
        results.v[i] = StoreCast<RESULT>::from(evaluate(element + i, x0.v[i], x1.v[i], x2.v[i]));
    if constexpr (!CONTIGUOUS) {
        *reinterpret_cast<AlignedArray<RESULT, VECTOR>*>(result + offsets[3]) = results;
    } else if (element + VECTOR <= count) {
        *reinterpret_cast<AlignedArray<RESULT, VECTOR>*>(result + element) = results;
    } else {
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
            if (element + i < count)
                result[element + i] = results.v[i];
    }
}

#endif

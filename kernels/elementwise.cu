// out = EXPRESSION of up to four operands, which may be strided, broadcast or plain numbers.
//
// Options: EXPRESSION (names of expressions.cuh over a0 to a3, such as multiply(add(a0,a1),a2)), INPUTS, TYPE0 to
//   TYPE3 (in memory; one for each input), COMPUTED (bool, an integer, float, double), OUTPUT (in memory),
//   NUMBERS (bits of the inputs that are plain numbers), DENSE (1: all arrays are contiguous and of the shape of
//   out), TOGETHER (elements a thread takes at once where DENSE; out and inputs are aligned to as many).
// Launch: grid ceil(count / TOGETHER / block), any block.
// Arguments: a0, a1, a2, a3 (null where there is none), out, count (64 bits), layout (a struct by value; not read
//   where DENSE and NUMBERS is 0).
#include "expressions.cuh"

#ifndef TYPE1
#define TYPE1 TYPE0
#endif
#ifndef TYPE2
#define TYPE2 TYPE0
#endif
#ifndef TYPE3
#define TYPE3 TYPE0
#endif

struct Layout {
    i64 shape[8];       // of out, the last axis innermost
    i64 strides[4][8];  // of the inputs, in elements; 0 where broadcast
    u64 numbers[4];     // the bits of a double where COMPUTED is floating, else of a 64-bit integer
    int axes;
};

template <class T, int WIDTH> struct alignas(sizeof(T) * WIDTH) Several {
    T v[WIDTH];
};

DEVICE COMPUTED number(u64 bits) {
    if constexpr (Kind<COMPUTED>::floating)
        return COMPUTED(__longlong_as_double(i64(bits)));
    return COMPUTED(i64(bits));
}

template <int INPUT, class T> struct Operand {
    COMPUTED v[TOGETHER];
    DEVICE void load(const T* from, i64 at, const i64* places, const Layout& layout) {
        if constexpr (INPUT >= INPUTS) {
            v[0] = COMPUTED();
        } else if constexpr (NUMBERS >> INPUT & 1) {
#pragma unroll
            for (int i = 0; i < TOGETHER; i++)
                v[i] = number(layout.numbers[INPUT]);
        } else if constexpr (DENSE) {
            const auto several = *reinterpret_cast<const Several<T, TOGETHER>*>(from + at);
#pragma unroll
            for (int i = 0; i < TOGETHER; i++)
                v[i] = computed<COMPUTED>(several.v[i]);
        } else {
            v[0] = computed<COMPUTED>(from[places[INPUT]]);
        }
    }
};

KERNEL elementwise(const TYPE0* in0, const TYPE1* in1, const TYPE2* in2, const TYPE3* in3, OUTPUT* out, i64 count,
                   const __grid_constant__ Layout layout) {
    start_next_kernel();
    wait_for_previous_kernel();
    const i64 at = (i64(blockIdx.x) * blockDim.x + threadIdx.x) * TOGETHER;
    if (at >= count)
        return;
    i64 places[4] = {};
    if constexpr (!DENSE) {
        i64 left = at;
        for (int axis = layout.axes - 1; axis >= 0; axis--) {
            const i64 size = layout.shape[axis], rest = left / size, index = left - rest * size;
#pragma unroll
            for (int i = 0; i < INPUTS; i++)
                places[i] += index * layout.strides[i][axis];
            left = rest;
        }
    }
    Operand<0, TYPE0> x0;
    Operand<1, TYPE1> x1;
    Operand<2, TYPE2> x2;
    Operand<3, TYPE3> x3;
    x0.load(in0, at, places, layout);
    x1.load(in1, at, places, layout);
    x2.load(in2, at, places, layout);
    x3.load(in3, at, places, layout);
    Several<OUTPUT, TOGETHER> made;
#pragma unroll
    for (int i = 0; i < TOGETHER; i++) {
        [[maybe_unused]] const COMPUTED a0 = x0.v[i], a1 = x1.v[INPUTS > 1 ? i : 0];
        [[maybe_unused]] const COMPUTED a2 = x2.v[INPUTS > 2 ? i : 0], a3 = x3.v[INPUTS > 3 ? i : 0];
        made.v[i] = Stored<OUTPUT>::from(EXPRESSION);
    }
    *reinterpret_cast<Several<OUTPUT, TOGETHER>*>(out + at) = made;
}

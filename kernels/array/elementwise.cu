// result = EXPRESSION of up to three inputs, which may be strided, broadcast or plain numbers.
//
// Options: EXPRESSION (names of expressions.cuh over a0, a1, a2 and the element's number `place`, such as
//   multiply(add(a0,a1),a2)), INPUTS, COMPUTED (bool, an integer, float, double), INDEX (u32, or u64 where there are
//   more elements than that counts). Small arrays learn the rest when they run; large ones are compiled for it, by
//   TYPE0 to TYPE2 and RESULT (in memory), NUMBERS (bits of the inputs that are plain numbers), DENSE (1: all arrays
//   are contiguous in the order of result), TOGETHER (elements that a thread takes at once; arrays are aligned to as
//   many), SAME (bits of the inputs that do not move along the last axis; where not DENSE, others move by one element
//   there, or TOGETHER is 1. The last axis of `shape` then counts pieces of so many elements).
// Launch: grid ceil(count / TOGETHER / block), any block.
// Arguments: the inputs (null where there is none), result, count (64 bits), layout (a struct by value).
#include "expressions.cuh"

struct Layout {
    i64 shape[8];       // the last axis innermost; as many as there are axes
    i64 strides[4][8];  // of the inputs and of result, in elements; 0 where broadcast
    u64 numbers[3];     // the bits of a double where COMPUTED is floating, else of a 64-bit integer
    u8 formats[4];      // of the inputs and of result; NUMBER for a plain number
    int axes;
};
constexpr int NUMBER = 255;

template <class C> DEVICE C number(u64 bits) {
    if constexpr (Kind<C>::floating)
        return C(__longlong_as_double(i64(bits)));
    else
        return C(i64(bits));
}

// Where element `at` of the result lies in each array.
DEVICE void find(const Layout& layout, INDEX at, i64 (&places)[4]) {
    for (int axis = layout.axes - 1; axis >= 0; axis--) {
        const INDEX size = INDEX(layout.shape[axis]), rest = at / size, index = at - rest * size;
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (i < INPUTS || i == 3)
                places[i] += i64(index) * layout.strides[i][axis];
        at = rest;
    }
}

DEVICE auto evaluate([[maybe_unused]] i64 place, [[maybe_unused]] COMPUTED a0, [[maybe_unused]] COMPUTED a1,
                     [[maybe_unused]] COMPUTED a2) {
    return EXPRESSION;
}

#ifndef RESULT

template <int INPUT> DEVICE COMPUTED take(const void* from, const i64 (&places)[4], const Layout& layout) {
    if constexpr (INPUT >= INPUTS)
        return COMPUTED();
    else
        return layout.formats[INPUT] == NUMBER ? number<COMPUTED>(layout.numbers[INPUT])
                                               : load_as<COMPUTED>(layout.formats[INPUT], from, places[INPUT]);
}

KERNEL elementwise(const void* in0, const void* in1, const void* in2, void* result, i64 count,
                   const __grid_constant__ Layout layout) {
    start_next_kernel();
    wait_for_previous_kernel();
    const i64 at = i64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= count)
        return;
    i64 places[4] = {};
    find(layout, INDEX(at), places);
    const COMPUTED a0 = take<0>(in0, places, layout), a1 = take<1>(in1, places, layout);
    const COMPUTED a2 = take<2>(in2, places, layout);
    store_as(layout.formats[3], result, places[3], evaluate(at, a0, a1, a2));
}

#else

#ifndef TYPE1
#define TYPE1 TYPE0
#endif
#ifndef TYPE2
#define TYPE2 TYPE0
#endif

template <int INPUT, class T> struct Operand {
    COMPUTED v[TOGETHER];
    DEVICE void load(const T* from, i64 at, i64 count, const i64 (&places)[4], const Layout& layout) {
        if constexpr (INPUT >= INPUTS) {
#pragma unroll
            for (int i = 0; i < TOGETHER; i++)
                v[i] = COMPUTED();
        } else if constexpr (NUMBERS >> INPUT & 1) {
#pragma unroll
            for (int i = 0; i < TOGETHER; i++)
                v[i] = number<COMPUTED>(layout.numbers[INPUT]);
        } else if constexpr (!DENSE && (SAME >> INPUT & 1)) {
            const COMPUTED one = computed<COMPUTED>(from[places[INPUT]]);
#pragma unroll
            for (int i = 0; i < TOGETHER; i++)
                v[i] = one;
        } else if constexpr (!DENSE) {
            const auto several = *reinterpret_cast<const Several<T, TOGETHER>*>(from + places[INPUT]);
#pragma unroll
            for (int i = 0; i < TOGETHER; i++)
                v[i] = computed<COMPUTED>(several.v[i]);
        } else if (at + TOGETHER <= count) {
            const auto several = *reinterpret_cast<const Several<T, TOGETHER>*>(from + at);
#pragma unroll
            for (int i = 0; i < TOGETHER; i++)
                v[i] = computed<COMPUTED>(several.v[i]);
        } else {
#pragma unroll
            for (int i = 0; i < TOGETHER; i++)
                v[i] = at + i < count ? computed<COMPUTED>(from[at + i]) : COMPUTED();
        }
    }
};

KERNEL elementwise(const TYPE0* in0, const TYPE1* in1, const TYPE2* in2, RESULT* result, i64 count,
                   const __grid_constant__ Layout layout) {
    start_next_kernel();
    wait_for_previous_kernel();
    const i64 at = (i64(blockIdx.x) * blockDim.x + threadIdx.x) * TOGETHER;
    if (at >= count)
        return;
    i64 places[4] = {};
    if constexpr (!DENSE)
        find(layout, INDEX(at / TOGETHER), places);
    Operand<0, TYPE0> x0;
    Operand<1, TYPE1> x1;
    Operand<2, TYPE2> x2;
    x0.load(in0, at, count, places, layout);
    x1.load(in1, at, count, places, layout);
    x2.load(in2, at, count, places, layout);
    Several<RESULT, TOGETHER> made;
#pragma unroll
    for (int i = 0; i < TOGETHER; i++)
        made.v[i] = Stored<RESULT>::from(evaluate(at + i, x0.v[i], x1.v[i], x2.v[i]));
    if constexpr (!DENSE) {
        *reinterpret_cast<Several<RESULT, TOGETHER>*>(result + places[3]) = made;
    } else if (at + TOGETHER <= count) {
        *reinterpret_cast<Several<RESULT, TOGETHER>*>(result + at) = made;
    } else {
#pragma unroll
        for (int i = 0; i < TOGETHER; i++)
            if (at + i < count)
                result[at + i] = made.v[i];
    }
}

#endif

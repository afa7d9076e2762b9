// The elementwise operations of arrays, one line each: the table behind the elementwise, reduction and scan kernels.
//
// A name means the same here as in the arrays' own table, `runtime/ufuncs.py`; T is the compute type: bool, an integer,
// float or double. 16-bit floats are computed in float.
#pragma once
#include "codes.cuh"
#include "prelude.cuh"

template <class T> struct TypeTraits {
    static constexpr bool floating = false;
};
template <> struct TypeTraits<float> {
    static constexpr bool floating = true;
};
template <> struct TypeTraits<double> {
    static constexpr bool floating = true;
};

#define UNARY(NAME, VALUE)                                                                                            \
    template <class T> DEVICE auto NAME(T x) { return VALUE; }
#define BINARY(NAME, VALUE)                                                                                           \
    template <class T> DEVICE auto NAME(T x, T y) { return VALUE; }
#define FUNCTION(NAME, SINGLE, DOUBLE)                                                                                \
    DEVICE float NAME##_(float x) { return SINGLE(x); }                                                               \
    DEVICE double NAME##_(double x) { return DOUBLE(x); }
#define FUNCTION_2(NAME, SINGLE, DOUBLE)                                                                              \
    DEVICE float NAME##_(float x, float y) { return SINGLE(x, y); }                                                   \
    DEVICE double NAME##_(double x, double y) { return DOUBLE(x, y); }

// Names end in _ where CUDA already has a function of that name.
FUNCTION(acos, acosf, acos)
FUNCTION(acosh, acoshf, acosh)
FUNCTION(asin, asinf, asin)
FUNCTION(asinh, asinhf, asinh)
FUNCTION(atan, atanf, atan)
FUNCTION(atanh, atanhf, atanh)
FUNCTION(cos, cosf, cos)
FUNCTION(cosh, coshf, cosh)
FUNCTION(exp, expf, exp)
FUNCTION(expm1, expm1f, expm1)
FUNCTION(log, logf, log)
FUNCTION(log10, log10f, log10)
FUNCTION(log1p, log1pf, log1p)
FUNCTION(log2, log2f, log2)
FUNCTION(sin, sinf, sin)
FUNCTION(sinh, sinhf, sinh)
FUNCTION(sqrt, sqrtf, sqrt)
FUNCTION(tan, tanf, tan)
FUNCTION(tanh, tanhf, tanh)
FUNCTION(erf, erff, erf)
FUNCTION_2(atan2, atan2f, atan2)
FUNCTION_2(copysign, copysignf, copysign)
FUNCTION_2(hypot, hypotf, hypot)
FUNCTION_2(nextafter, nextafterf, nextafter)

template <class T> DEVICE bool isnan_(T x) { return x != x; }
template <class T> DEVICE bool isinf_(T x) {
    if constexpr (TypeTraits<T>::floating)
        return x == x && x - x != x - x;
    return false;
}
template <class T> DEVICE T power(T x, T y) {
    if constexpr (sizeof(T) == 4 && TypeTraits<T>::floating) {
        return powf(x, y);
    } else if constexpr (TypeTraits<T>::floating) {
        return pow(x, y);
    } else {
        T out = 1;
        // Unsigned, so that the loop ends for negative exponents too.
        for (u64 left = u64(y); left; left >>= 1, x *= x)
            out *= left & 1 ? x : T(1);
        return out;
    }
}
template <class T> DEVICE T floor_of(T x) {
    if constexpr (sizeof(T) == 4 && TypeTraits<T>::floating)
        return floorf(x);
    else if constexpr (TypeTraits<T>::floating)
        return floor(x);
    return x;
}
FUNCTION_2(fmod, fmodf, fmod)
// Quotient and remainder as in NumPy and Python, infinities apart: the remainder has the sign of y. Integers divided
// by 0 give 0.
template <class T> DEVICE T remainder_of(T x, T y) {
    if constexpr (TypeTraits<T>::floating) {
        const T remainder = fmod_(x, y);
        return remainder == 0 ? copysign_(T(0), y) : (remainder < 0) != (y < 0) ? remainder + y : remainder;
    } else {
        const T remainder = y == 0 ? T(0) : T(x % y);
        return remainder != 0 && (remainder ^ y) < 0 ? T(remainder + y) : remainder;
    }
}
template <class T> DEVICE T floor_quotient(T x, T y) {
    if constexpr (TypeTraits<T>::floating) {
        // One infinite operand: an infinity or a signed zero, by the array API standard.
        if (y == 0 || isinf_(x) != isinf_(y))
            return x / y;
        const T remainder = fmod_(x, y);
        T quotient = (x - remainder) / y;
        if (remainder != 0 && (remainder < 0) != (y < 0))
            quotient -= 1;
        const T down = floor_of(quotient);
        return quotient == 0 ? copysign_(T(0), x / y) : quotient - down > T(0.5) ? down + 1 : down;
    } else {
        if (y == 0)
            return 0;
        const T quotient = x / y;
        return x % y != 0 && (x ^ y) < 0 ? T(quotient - 1) : quotient;
    }
}

UNARY(abs_, x < T(0) ? T(-x) : x == T(0) ? T(0) : x)
template <class T> DEVICE T bitwise_invert(T x) { return T(~x); }
DEVICE bool bitwise_invert(bool x) { return !x; }
UNARY(ceil_, T(-floor_of(T(-x))))
UNARY(floor_, floor_of(x))
UNARY(trunc_, x < T(0) ? T(-floor_of(T(-x))) : floor_of(x))
UNARY(isfinite_, !isnan_(x) && !isinf_(x))
UNARY(logical_not, !x)
UNARY(negative, T(-x))
UNARY(positive, x)
UNARY(reciprocal, T(T(1) / x))
UNARY(sign, isnan_(x) ? x : T((x > T(0)) - (x < T(0))))
UNARY(square, T(x* x))
DEVICE float round_(float x) { return rintf(x); }
DEVICE double round_(double x) { return rint(x); }
template <class T> DEVICE T round_(T x) { return x; }
DEVICE bool signbit_(float x) { return __float_as_int(x) < 0; }
DEVICE bool signbit_(double x) { return __double_as_longlong(x) < 0; }
// Activation functions.
UNARY(silu_, T(x / (T(1) + exp_(T(-x)))))
UNARY(gelu, T(T(0.5) * x * (T(1) + erf_(T(x * T(0.70710678118654752))))))
UNARY(gelu_tanh, T(T(0.5) * x * (T(1) + tanh_(T(T(0.79788456080286536) * (x + T(0.044715) * x * x * x))))))
UNARY(relu, isnan_(x) || x > T(0) ? x : T(0))

BINARY(add, T(x + y))
BINARY(subtract, T(x - y))
BINARY(multiply, T(x* y))
BINARY(divide, T(x / y))
BINARY(floor_divide, floor_quotient(x, y))
BINARY(remainder_, remainder_of(x, y))
BINARY(pow_, power(x, y))
BINARY(bitwise_and, T(x& y))
BINARY(bitwise_or, T(x | y))
BINARY(bitwise_xor, T(x ^ y))
BINARY(bitwise_left_shift, u64(y) >= sizeof(T) * 8 ? T(0) : T(x << y))
BINARY(bitwise_right_shift, u64(y) >= sizeof(T) * 8 ? T(x < T(0) ? -1 : 0) : T(x >> y))
BINARY(equal, x == y)
BINARY(not_equal, x != y)
BINARY(less, x < y)
BINARY(less_equal, x <= y)
BINARY(greater, x > y)
BINARY(greater_equal, x >= y)
BINARY(logical_and, x&& y)
BINARY(logical_or, x || y)
BINARY(logical_xor, bool(x) != bool(y))
// Propagate NaN, as NumPy does.
BINARY(maximum, isnan_(x) || x > y ? x : y)
BINARY(minimum, isnan_(x) || x < y ? x : y)
BINARY(logaddexp, x == y ? T(x + T(0.69314718055994531)) : T(maximum(x, y) + log1p_(exp_(T(-abs_(T(x - y)))))))
template <class T> DEVICE T where(T condition, T x, T y) { return condition != T(0) ? x : y; }
UNARY(nonzero, x != T(0))
// first + index * step, the product and the sum rounded separately, as on the CPU.
DEVICE double ramp(i64 index, double first, double step) { return __dadd_rn(first, __dmul_rn(double(index), step)); }
template <class T> DEVICE T ramp(i64 index, T first, T step) { return T(first + T(index) * step); }

// The identities of the reduction operators.
template <class T> struct Limits {
    static constexpr bool is_signed = T(-1) < T(0);
    DEVICE static T lowest() { return is_signed ? T(u64(1) << (sizeof(T) * 8 - 1)) : T(0); }
    DEVICE static T highest() { return T(~lowest()); }
};
template <> struct Limits<float> {
    DEVICE static float lowest() { return MINUS_INFINITY; }
    DEVICE static float highest() { return -MINUS_INFINITY; }
};
template <> struct Limits<double> {
    DEVICE static double lowest() { return MINUS_INFINITY; }
    DEVICE static double highest() { return -MINUS_INFINITY; }
};
template <> struct Limits<bool> {
    DEVICE static bool lowest() { return false; }
    DEVICE static bool highest() { return true; }
};
template <class T> DEVICE T add_identity() { return T(0); }
template <class T> DEVICE T multiply_identity() { return T(1); }
template <class T> DEVICE T maximum_identity() { return Limits<T>::lowest(); }
template <class T> DEVICE T minimum_identity() { return Limits<T>::highest(); }
template <class T> DEVICE T logical_or_identity() { return T(0); }
template <class T> DEVICE T logical_and_identity() { return T(1); }

// Casts from the storage type to the compute type and back; bool is whether the value is not 0. A float that does not
// fit an integer keeps its lowest bits.
template <class C, class S> DEVICE C load_cast(S v) { return C(v); }
template <class C> DEVICE C load_cast(bf16 v) { return C(to_float(v)); }
template <class C> DEVICE C load_cast(fp16 v) { return C(to_float(v)); }
template <class S> struct StoreCast {
    template <class C> DEVICE static S from(C v) {
        if constexpr (TypeTraits<C>::floating && !TypeTraits<S>::floating && sizeof(S) < 8)
            return S(i64(v));
        else
            return S(v);
    }
};
template <> struct StoreCast<bool> {
    template <class C> DEVICE static bool from(C v) { return v != C(0); }
};
template <> struct StoreCast<u64> {
    template <class C> DEVICE static u64 from(C v) { return v < C(0) ? u64(i64(v)) : u64(v); }
};
// Double rounding is exact if the first rounding is to odd [Boldo & Melquiond 2008].
DEVICE float round_to_odd(float v) { return v; }
DEVICE float round_to_odd(double v) {
    const float truncated = __double2float_rz(v);
    const bool exact = double(truncated) == v || v != v;
    return exact ? truncated : __uint_as_float(__float_as_uint(truncated) | 1);
}
template <class C> DEVICE float round_to_odd(C v) { return float(v); }
template <> struct StoreCast<bf16> {
    template <class C> DEVICE static bf16 from(C v) { return from_float<bf16>(round_to_odd(v)); }
};
template <> struct StoreCast<fp16> {
    template <class C> DEVICE static fp16 from(C v) { return from_float<fp16>(round_to_odd(v)); }
};

// Elements that one vectorized access moves.
template <class T, int WIDTH> struct alignas(sizeof(T) * WIDTH) AlignedArray {
    T v[WIDTH];
};

template <class C> DEVICE C load_as(int format, const void* from, i64 index) {
#define CASE(FORMAT, TYPE)                                                                                            \
    case FORMAT:                                                                                                      \
        return load_cast<C>(static_cast<const TYPE*>(from)[index]);
    switch (format) { EVERY_FORMAT(CASE) }
#undef CASE
    return C();
}
template <class C> DEVICE void store_as(int format, void* to, i64 index, C value) {
#define CASE(FORMAT, TYPE)                                                                                            \
    case FORMAT:                                                                                                      \
        static_cast<TYPE*>(to)[index] = StoreCast<TYPE>::from(value);                                                 \
        break;
    switch (format) { EVERY_FORMAT(CASE) }
#undef CASE
}

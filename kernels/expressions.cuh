// The elementwise operations of arrays, one line each: the table that elementwise and reduction kernels draw from.
//
// A name means the same here as in the arrays' own table; T is the type it is computed in: bool, an integer,
// float or double. Numbers of 16 bits are computed in float.
#pragma once
#include "prelude.cuh"

template <class T> struct Kind {
    static constexpr bool floating = false;
};
template <> struct Kind<float> {
    static constexpr bool floating = true;
};
template <> struct Kind<double> {
    static constexpr bool floating = true;
};

#define UNARY(NAME, VALUE)                                                                                           \
    template <class T> DEVICE auto NAME(T x) { return VALUE; }
#define BINARY(NAME, VALUE)                                                                                          \
    template <class T> DEVICE auto NAME(T x, T y) { return VALUE; }
#define FUNCTION(NAME, SINGLE, DOUBLE)                                                                               \
    DEVICE float NAME##_(float x) { return SINGLE(x); }                                                              \
    DEVICE double NAME##_(double x) { return DOUBLE(x); }
#define FUNCTION_2(NAME, SINGLE, DOUBLE)                                                                             \
    DEVICE float NAME##_(float x, float y) { return SINGLE(x, y); }                                                  \
    DEVICE double NAME##_(double x, double y) { return DOUBLE(x, y); }

// Names end in _ where CUDA has a function of that name already.
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
    if constexpr (Kind<T>::floating)
        return x == x && x - x != x - x;
    return false;
}
template <class T> DEVICE T power(T x, T y) {
    if constexpr (sizeof(T) == 4 && Kind<T>::floating) {
        return powf(x, y);
    } else if constexpr (Kind<T>::floating) {
        return pow(x, y);
    } else {
        T out = 1;
        for (; y; y >>= 1, x *= x)
            out *= y & 1 ? x : T(1);
        return out;
    }
}
template <class T> DEVICE T floor_of(T x) {
    if constexpr (sizeof(T) == 4 && Kind<T>::floating)
        return floorf(x);
    else if constexpr (Kind<T>::floating)
        return floor(x);
    return x;
}
FUNCTION_2(fmod, fmodf, fmod)
// Quotient and rest as NumPy and Python have them: the rest has the sign of y. Integers over 0 give 0.
template <class T> DEVICE T remainder_of(T x, T y) {
    if constexpr (Kind<T>::floating) {
        const T rest = fmod_(x, y);
        return rest == 0 ? copysign_(T(0), y) : (rest < 0) != (y < 0) ? rest + y : rest;
    } else {
        const T rest = y == 0 ? T(0) : T(x % y);
        return rest != 0 && (rest ^ y) < 0 ? T(rest + y) : rest;
    }
}
template <class T> DEVICE T floor_quotient(T x, T y) {
    if constexpr (Kind<T>::floating) {
        if (y == 0)
            return x / y;
        const T rest = fmod_(x, y);
        T quotient = (x - rest) / y;
        if (rest != 0 && (rest < 0) != (y < 0))
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
UNARY(bitwise_invert, T(~x))
UNARY(invert_bool, !x)
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
// Of networks.
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
// NaN wins, as in NumPy.
BINARY(maximum, isnan_(x) || x > y ? x : y)
BINARY(minimum, isnan_(x) || x < y ? x : y)
BINARY(logaddexp, x == y ? T(x + T(0.69314718055994531)) : T(maximum(x, y) + log1p_(exp_(T(-abs_(T(x - y)))))))
template <class T> DEVICE T where(bool condition, T x, T y) { return condition ? x : y; }

// From the type in memory to the one computed in, and back; bool is what is not 0.
template <class C, class S> DEVICE C computed(S v) { return C(v); }
template <class C> DEVICE C computed(bf16 v) { return C(to_float(v)); }
template <class C> DEVICE C computed(fp16 v) { return C(to_float(v)); }
template <class S> struct Stored {
    template <class C> DEVICE static S from(C v) { return S(v); }
};
template <> struct Stored<bf16> {
    template <class C> DEVICE static bf16 from(C v) { return from_float<bf16>(float(v)); }
};
template <> struct Stored<fp16> {
    template <class C> DEVICE static fp16 from(C v) { return from_float<fp16>(float(v)); }
};

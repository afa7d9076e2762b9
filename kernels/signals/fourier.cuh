// Fourier transforms of TRANSFORMS rows of LENGTH complex numbers by one CTA.
//
// Algorithm: Stockham's self-sorting transform [Govindaraju et al. 2008]: a stage for each two digits of RADICES, from
//   the last to the first, whose product is LENGTH. Elements of a butterfly are in registers, and stages exchange them
//   in shared memory; the first stage reads through a function and the last one stores through one, in natural order.
//   Radices that are products are butterflies of both factors, with constant roots of unity between them.
//
// Options: LENGTH, RADICES (1 to 8 but for 6, and 9, 10, 12, 14, 15, 16, 20, 21, 25), TRANSFORMS, THREADS (of the CTA),
//   CTAS_PER_SM (that registers must leave room for).
#pragma once
#include "prelude.cuh"

constexpr int FIRST_RADIX = int(RADICES % 100);
// A gap behind as many elements as the first radix: neighboring threads then use different banks in every stage, and
// the elements of a butterfly are a constant apart.
constexpr int ROW_PITCH = (LENGTH + LENGTH / FIRST_RADIX) | 1;
__device__ constexpr int pitched(int i) { return i + i / FIRST_RADIX; }

// Roots of unity of the stages after the first: of each, those of one element of all butterflies are neighbors.
__device__ constexpr int root_count(u64 radices, int done) {
    const int next = done * int(radices % 100);
    return radices == 0 ? 0 : (done > 1 ? next : 0) + root_count(radices / 100, next);
}
constexpr int ROOTS = root_count(RADICES, 1);
// Bytes of shared memory: the rows, and the roots.
constexpr int FOURIER_BYTES = (TRANSFORMS * ROW_PITCH + ROOTS) * 8;

DEVICE float2 add(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
DEVICE float2 subtract(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }
DEVICE float2 multiply(float2 a, float2 b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
DEVICE float2 scaled(float2 a, float factor) { return make_float2(a.x * factor, a.y * factor); }
DEVICE float2 add_scaled(float2 a, float2 b, float factor) {
    return make_float2(fmaf(b.x, factor, a.x), fmaf(b.y, factor, a.y));
}
// Times -i.
DEVICE float2 turned(float2 a) { return make_float2(a.y, -a.x); }
DEVICE float2 swapped(float2 a) { return make_float2(a.y, a.x); }

// exp(-2 pi i index / count), for an index from 0 to count - 1.
DEVICE float2 root_of_unity(int index, int count) {
    // The nearer end of the circle has the smaller rounding error.
    const int near = index > count / 2 ? index - count : index;
    float sine, cosine;
    sincospif(2.0f * (float(near) / float(count)), &sine, &cosine);
    return make_float2(cosine, -sine);
}

template <int RADIX> DEVICE void butterfly(float2 (&v)[RADIX]);
template <> DEVICE void butterfly<1>(float2 (&)[1]) {}
template <> DEVICE void butterfly<2>(float2 (&v)[2]) {
    const float2 a = v[0];
    v[0] = add(a, v[1]);
    v[1] = subtract(a, v[1]);
}
template <> DEVICE void butterfly<3>(float2 (&v)[3]) {
    const float2 sum = add(v[1], v[2]), wave = scaled(turned(subtract(v[1], v[2])), 0.86602540378443865f);
    const float2 middle = add_scaled(v[0], sum, -0.5f);
    v[0] = add(v[0], sum);
    v[1] = add(middle, wave);
    v[2] = subtract(middle, wave);
}
template <> DEVICE void butterfly<4>(float2 (&v)[4]) {
    const float2 a = add(v[0], v[2]), b = subtract(v[0], v[2]), c = add(v[1], v[3]), d = turned(subtract(v[1], v[3]));
    v[0] = add(a, c);
    v[1] = add(b, d);
    v[2] = subtract(a, c);
    v[3] = subtract(b, d);
}
template <> DEVICE void butterfly<5>(float2 (&v)[5]) {
    constexpr float C1 = 0.30901699437494742f, C2 = -0.80901699437494742f;
    constexpr float S1 = 0.95105651629515357f, S2 = 0.58778525229247313f;
    const float2 t1 = add(v[1], v[4]), t2 = add(v[2], v[3]), d1 = subtract(v[1], v[4]), d2 = subtract(v[2], v[3]);
    const float2 m1 = add_scaled(add_scaled(v[0], t1, C1), t2, C2);
    const float2 m2 = add_scaled(add_scaled(v[0], t1, C2), t2, C1);
    const float2 n1 = turned(add_scaled(scaled(d1, S1), d2, S2)), n2 = turned(add_scaled(scaled(d1, S2), d2, -S1));
    v[0] = add(v[0], add(t1, t2));
    v[1] = add(m1, n1);
    v[2] = add(m2, n2);
    v[3] = subtract(m2, n2);
    v[4] = subtract(m1, n1);
}
template <> DEVICE void butterfly<7>(float2 (&v)[7]) {
    constexpr float C1 = 0.62348980185873353f, C2 = -0.22252093395631440f, C3 = -0.90096886790241913f;
    constexpr float S1 = 0.78183148246802981f, S2 = 0.97492791218182361f, S3 = 0.43388373911755812f;
    const float2 t1 = add(v[1], v[6]), t2 = add(v[2], v[5]), t3 = add(v[3], v[4]);
    const float2 d1 = subtract(v[1], v[6]), d2 = subtract(v[2], v[5]), d3 = subtract(v[3], v[4]);
    const float2 m1 = add_scaled(add_scaled(add_scaled(v[0], t1, C1), t2, C2), t3, C3);
    const float2 m2 = add_scaled(add_scaled(add_scaled(v[0], t1, C2), t2, C3), t3, C1);
    const float2 m3 = add_scaled(add_scaled(add_scaled(v[0], t1, C3), t2, C1), t3, C2);
    const float2 n1 = turned(add_scaled(add_scaled(scaled(d1, S1), d2, S2), d3, S3));
    const float2 n2 = turned(add_scaled(add_scaled(scaled(d1, S2), d2, -S3), d3, -S1));
    const float2 n3 = turned(add_scaled(add_scaled(scaled(d1, S3), d2, -S1), d3, S2));
    v[0] = add(v[0], add(t1, add(t2, t3)));
    v[1] = add(m1, n1);
    v[2] = add(m2, n2);
    v[3] = add(m3, n3);
    v[4] = subtract(m3, n3);
    v[5] = subtract(m2, n2);
    v[6] = subtract(m1, n1);
}

// Cosine of 2 pi times a share, by its series; evaluated by the compiler.
__device__ constexpr double constant_cosine(int index, int count) {
    const double angle = 6.28318530717958647692 * double(2 * index > count ? count - index : index) / double(count);
    double term = 1.0, sum = 1.0;
    for (int i = 1; i < 20; i++) {
        term *= -angle * angle / double((2 * i - 1) * (2 * i));
        sum += term;
    }
    return sum;
}
// exp(-2 pi i INDEX / COUNT).
template <int INDEX, int COUNT> struct ConstantRoot {
    static constexpr float COSINE = float(constant_cosine(INDEX % COUNT, COUNT));
    // sin(a) = cos(a - pi / 2), a quarter of the circle earlier.
    static constexpr float SINE = float(constant_cosine((4 * (INDEX % COUNT) + 3 * COUNT) % (4 * COUNT), 4 * COUNT));
};
template <int INDEX, int COUNT> DEVICE float2 rotated(float2 v) {
    if constexpr (INDEX % COUNT == 0)
        return v;
    else if constexpr (4 * INDEX == COUNT)
        return turned(v);
    else
        return multiply(v, make_float2(ConstantRoot<INDEX, COUNT>::COSINE, -ConstantRoot<INDEX, COUNT>::SINE));
}

// A butterfly of A x B: B of A elements that are B apart, roots of unity, then A of B.
template <int A, int B> struct Composite {
    template <int J, int K> DEVICE static void rotate(float2 (&column)[A]) {
        if constexpr (K < A) {
            column[K] = rotated<J * K, A * B>(column[K]);
            rotate<J, K + 1>(column);
        }
    }
    template <int J> DEVICE static void columns(float2 (&v)[A * B]) {
        if constexpr (J < B) {
            float2 column[A];
#pragma unroll
            for (int i = 0; i < A; i++)
                column[i] = v[i * B + J];
            butterfly<A>(column);
            rotate<J, 1>(column);
#pragma unroll
            for (int i = 0; i < A; i++)
                v[i * B + J] = column[i];
            columns<J + 1>(v);
        }
    }
    DEVICE static void run(float2 (&v)[A * B]) {
        columns<0>(v);
        float2 out[A * B];
#pragma unroll
        for (int i = 0; i < A; i++) {
            float2 row[B];
#pragma unroll
            for (int j = 0; j < B; j++)
                row[j] = v[i * B + j];
            butterfly<B>(row);
#pragma unroll
            for (int j = 0; j < B; j++)
                out[j * A + i] = row[j];
        }
#pragma unroll
        for (int i = 0; i < A * B; i++)
            v[i] = out[i];
    }
};
#define DEFINE_BUTTERFLY(A, B)                                                                                        \
    template <> DEVICE void butterfly<A * B>(float2 (&v)[A * B]) { Composite<A, B>::run(v); }
DEFINE_BUTTERFLY(2, 4)
DEFINE_BUTTERFLY(3, 3)
DEFINE_BUTTERFLY(2, 5)
DEFINE_BUTTERFLY(3, 4)
DEFINE_BUTTERFLY(2, 7)
DEFINE_BUTTERFLY(3, 5)
DEFINE_BUTTERFLY(4, 4)
DEFINE_BUTTERFLY(4, 5)
DEFINE_BUTTERFLY(3, 7)
DEFINE_BUTTERFLY(5, 5)

// The stages of DIGITS; rows of DONE elements are transformed. LOAD_ACROSS and STORE_ACROSS: neighboring threads load
// in the first stage, or store in the last one, elements of neighboring rows and not of one row. KEEP: the last stage
// leaves its results in shared memory.
template <u64 DIGITS, int DONE, bool LOAD_ACROSS, bool STORE_ACROSS, bool KEEP> struct Stages {
    static constexpr int RADIX = int(DIGITS % 100), COLUMNS = LENGTH / RADIX;
    static constexpr bool FIRST = DONE == 1, LAST = DIGITS < 100;
    static constexpr bool BY_ROWS = (FIRST && LOAD_ACROSS) || (LAST && STORE_ACROSS);
    static constexpr int BUTTERFLIES = TRANSFORMS * COLUMNS, EACH = ceil_divide(BUTTERFLIES, THREADS);
    // From one element of a butterfly to the next, in shared memory: as it reads them, and as it stores them.
    static constexpr int READ_STEP = COLUMNS + COLUMNS / FIRST_RADIX;
    static constexpr int STORE_STEP = FIRST ? 1 : DONE + DONE / FIRST_RADIX;

    template <class Load, class Store>
    DEVICE static void run(float2* data, const float2* roots, const Load& load, const Store& store) {
        float2 v[EACH][RADIX];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            // Threads without a butterfly compute the last one too, and store nothing: a branch around all of it would
            // keep the elements out of registers.
            const int index = min(i * THREADS + int(threadIdx.x), BUTTERFLIES - 1);
            const int row = BY_ROWS ? index % TRANSFORMS : index / COLUMNS;
            const int column = BY_ROWS ? index / TRANSFORMS : index % COLUMNS;
            const float2* from = data + row * ROW_PITCH + pitched(column);
            const float2* factors = roots + column % DONE;
#pragma unroll
            for (int r = 0; r < RADIX; r++) {
                if constexpr (FIRST)
                    v[i][r] = load(row, column + r * COLUMNS);
                else
                    v[i][r] = r ? multiply(from[r * READ_STEP], factors[r * DONE]) : from[0];
            }
            butterfly<RADIX>(v[i]);
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const int index = i * THREADS + int(threadIdx.x);
            const int row = BY_ROWS ? index % TRANSFORMS : index / COLUMNS;
            const int column = BY_ROWS ? index / TRANSFORMS : index % COLUMNS;
            if (index >= BUTTERFLIES)
                continue;
            float2* to = data + row * ROW_PITCH + pitched(column / DONE * (DONE * RADIX) + column % DONE);
#pragma unroll
            for (int r = 0; r < RADIX; r++) {
                if constexpr (LAST && !KEEP)
                    store(row, column + r * COLUMNS, v[i][r]);
                else
                    to[r * STORE_STEP] = v[i][r];
            }
        }
        if constexpr (!LAST) {
            __syncthreads();
            Stages<DIGITS / 100, DONE * RADIX, LOAD_ACROSS, STORE_ACROSS, KEEP>::run(
                data, roots + (FIRST ? 0 : DONE * RADIX), load, store);
        }
    }
};

// The roots of all stages; the caller synchronizes.
template <u64 DIGITS, int DONE> DEVICE void fill_stage_roots(float2* roots) {
    constexpr int RADIX = int(DIGITS % 100), COUNT = DONE * RADIX;
    if constexpr (DONE > 1)
        for (int i = threadIdx.x; i < COUNT; i += THREADS)
            roots[i] = root_of_unity(i % DONE * (i / DONE), COUNT);
    if constexpr (DIGITS >= 100)
        fill_stage_roots<DIGITS / 100, COUNT>(roots + (DONE > 1 ? COUNT : 0));
}
DEVICE void fill_roots(float2* roots) { fill_stage_roots<RADICES, 1>(roots); }

// Of two real rows as one complex row, the spectra of either, from what is at a frequency and at its mirror.
DEVICE float2 first_of_pair(float2 at, float2 mirror) {
    return make_float2(0.5f * (at.x + mirror.x), 0.5f * (at.y - mirror.y));
}
DEVICE float2 second_of_pair(float2 at, float2 mirror) {
    return make_float2(0.5f * (at.y + mirror.y), 0.5f * (mirror.x - at.x));
}

// Fourier transforms of TRANSFORMS rows of LENGTH complex numbers by one CTA.
//
// Algorithm: Stockham's self-sorting transform [Govindaraju et al. 2008]: a stage for each digit of RADICES, from the
//   last to the first, whose product is LENGTH. Elements of a butterfly are in registers, and stages exchange them in
//   shared memory; the first stage reads through a function and the last one stores through one, in natural order.
//
// Options: LENGTH, RADICES (digits 1, 2, 3, 4, 5, 7, 8), TRANSFORMS, THREADS (of the CTA).
#pragma once
#include "prelude.cuh"

// So that elements that are a power of two apart are in different banks, and rows as well.
constexpr int ROW_PITCH = (LENGTH + LENGTH / 16) | 1;
__device__ constexpr int pitched(int i) { return i + i / 16; }
// Bytes of shared memory: the rows, and the roots of unity.
constexpr int FOURIER_BYTES = (TRANSFORMS * ROW_PITCH + LENGTH) * 8;

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
template <> DEVICE void butterfly<8>(float2 (&v)[8]) {
    constexpr float HALF_ROOT = 0.70710678118654752f;
    float2 even[4] = {v[0], v[2], v[4], v[6]}, odd[4] = {v[1], v[3], v[5], v[7]};
    butterfly<4>(even);
    butterfly<4>(odd);
    odd[1] = scaled(add(odd[1], turned(odd[1])), HALF_ROOT);
    odd[2] = turned(odd[2]);
    odd[3] = scaled(subtract(turned(odd[3]), odd[3]), HALF_ROOT);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[i] = add(even[i], odd[i]);
        v[i + 4] = subtract(even[i], odd[i]);
    }
}

// The stages of DIGITS; rows of DONE elements are transformed. LOAD_ACROSS and STORE_ACROSS: neighboring threads load
// in the first stage, or store in the last one, elements of neighboring rows and not of one row.
template <u64 DIGITS, int DONE, bool LOAD_ACROSS, bool STORE_ACROSS> struct Stages {
    static constexpr int RADIX = int(DIGITS % 10), COLUMNS = LENGTH / RADIX;
    static constexpr bool FIRST = DONE == 1, LAST = DIGITS < 10;
    static constexpr bool BY_ROWS = (FIRST && LOAD_ACROSS) || (LAST && STORE_ACROSS);
    static constexpr int BUTTERFLIES = TRANSFORMS * COLUMNS, EACH = ceil_divide(BUTTERFLIES, THREADS);

    template <class Load, class Store>
    DEVICE static void run(float2* data, const float2* roots, const Load& load, const Store& store) {
        float2 v[EACH][RADIX];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const int index = i * THREADS + int(threadIdx.x);
            const int row = BY_ROWS ? index % TRANSFORMS : index / COLUMNS;
            const int column = BY_ROWS ? index / TRANSFORMS : index % COLUMNS;
            if (index >= BUTTERFLIES)
                continue;
#pragma unroll
            for (int r = 0; r < RADIX; r++) {
                const int at = column + r * COLUMNS;
                if constexpr (FIRST) {
                    v[i][r] = load(row, at);
                } else {
                    v[i][r] = data[row * ROW_PITCH + pitched(at)];
                    if (r)
                        v[i][r] = multiply(v[i][r], roots[column % DONE * r * (COLUMNS / DONE)]);
                }
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
#pragma unroll
            for (int r = 0; r < RADIX; r++) {
                const int at = column / DONE * (DONE * RADIX) + column % DONE + r * DONE;
                if constexpr (LAST)
                    store(row, at, v[i][r]);
                else
                    data[row * ROW_PITCH + pitched(at)] = v[i][r];
            }
        }
        if constexpr (!LAST) {
            __syncthreads();
            Stages<DIGITS / 10, DONE * RADIX, LOAD_ACROSS, STORE_ACROSS>::run(data, roots, load, store);
        }
    }
};

// The roots of unity of LENGTH, for all stages; the caller synchronizes.
DEVICE void fill_roots(float2* roots) {
    for (int i = threadIdx.x; i < LENGTH; i += THREADS)
        roots[i] = root_of_unity(i, LENGTH);
}

// Of two real rows as one complex row, the spectra of either, from what is at a frequency and at its mirror.
DEVICE float2 first_of_pair(float2 at, float2 mirror) {
    return make_float2(0.5f * (at.x + mirror.x), 0.5f * (at.y - mirror.y));
}
DEVICE float2 second_of_pair(float2 at, float2 mirror) {
    return make_float2(0.5f * (at.y + mirror.y), 0.5f * (mirror.x - at.x));
}

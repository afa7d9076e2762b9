// The discrete Fourier transform of rows, times a scale; or one of the two passes of a long one.
//
// Algorithm: a CTA transforms TRANSFORMS rows at a time in shared memory (fourier.cuh). Two real rows are the real and
//   the imaginary part of one complex row. With positive exponents, real and imaginary parts change places before and
//   after. A long transform of `total` = LENGTH x M elements takes two passes [Bailey 1990]: M transforms of elements M
//   apart, whose results are multiplied by roots of unity of the total and stored transposed; then LENGTH of length M.
//
// Options: those of fourier.cuh; LOAD and STORE (Form, below), SWAP_LOAD and SWAP_STORE (real and imaginary parts
//   change places), ACROSS (neighboring threads load, and with 2 also store, elements of neighboring transforms),
//   ROTATE (the results of transform t are multiplied by roots of unity of `total`: number t times the index).
// Launch: grid (CTAs that take tiles of TRANSFORMS in turns, batch), CTA of THREADS, shared bytes FOURIER_BYTES.
// Arguments: in, out (may be in, for contiguous complex rows), count (transforms of a batch; for pairs, rows), total,
//   strides of in (batch, transform, element) and of out, in elements, scale. Pairs are of contiguous rows: of LENGTH
//   reals, of LENGTH / 2 + 1 complex numbers.
#include "fourier.cuh"

enum Form {
    COMPLEX,    // complex numbers
    REAL,       // reals: read with imaginary parts of zero, stored without them
    HALF,       // the first half of a spectrum of `total` elements, of which the rest is the mirror image
    REAL_PAIR,  // two rows of reals
    HALF_PAIR,  // two rows of the first half of a spectrum
};

KERNEL __launch_bounds__(THREADS, CTAS_PER_SM)
fourier(const float* in, float* out, int count, int total, i64 in_batch, int in_transform, int in_element,
        i64 out_batch, int out_transform, int out_element, float scale) {
    extern __shared__ float2 shared[];
    float2 *data = shared, *roots = shared + TRANSFORMS * ROW_PITCH;
    constexpr bool PAIRS = LOAD >= REAL_PAIR;
    constexpr int HALF_LENGTH = LENGTH / 2 + 1;
    launch_dependents();
    fill_roots(roots);
    wait_on_dependency();
    const int transforms = PAIRS ? (count + 1) / 2 : count;
    const int tiles = ceil_divide(transforms, TRANSFORMS);
    const float2* complex_in = reinterpret_cast<const float2*>(in) + blockIdx.y * in_batch;
    const float* real_in = in + blockIdx.y * in_batch;
    float2* complex_out = reinterpret_cast<float2*>(out) + blockIdx.y * out_batch;
    float* real_out = out + blockIdx.y * out_batch;

    // Element `at` of a spectrum of which the first half is stored; that of no row is zero.
    auto mirrored = [](const float2* half, int at, int length) {
        const bool upper = at > length / 2;
        float2 v = half[upper ? length - at : at];
        v.y = at == 0 || 2 * at == length ? 0.0f : upper ? -v.y : v.y;
        return v;
    };
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int first = tile * TRANSFORMS;
        auto load = [&](int row, int at) {
            const int transform = first + row;
            float2 v = make_float2(0.0f, 0.0f);
            if (transform >= transforms)
                return v;
            const i64 place = i64(transform) * in_transform + (ACROSS ? i64(at) * in_element : i64(at));
            const bool has_second = 2 * transform + 1 < count;
            if (LOAD == COMPLEX) {
                v = complex_in[place];
            } else if (LOAD == REAL) {
                v.x = real_in[place];
            } else if (LOAD == HALF) {
                v = mirrored(complex_in, int(place), total);
            } else if (LOAD == REAL_PAIR) {
                const float* rows = real_in + i64(2 * transform) * LENGTH;
                v = make_float2(rows[at], has_second ? rows[LENGTH + at] : 0.0f);
            } else {
                const float2* rows = complex_in + i64(2 * transform) * HALF_LENGTH;
                v = mirrored(rows, at, LENGTH);
                if (has_second)
                    v = subtract(v, turned(mirrored(rows + HALF_LENGTH, at, LENGTH)));
            }
            return SWAP_LOAD ? swapped(v) : v;
        };
        auto store = [&](int row, int at, float2 v) {
            const int transform = first + row;
            if (transform >= transforms)
                return;
            const i64 place = i64(transform) * out_transform + (ACROSS > 1 ? i64(at) * out_element : i64(at));
            if (ROTATE)
                v = multiply(v, root_of_unity(transform * at, total));
            v = scaled(SWAP_STORE ? swapped(v) : v, scale);
            if (STORE == COMPLEX) {
                complex_out[place] = v;
            } else if (STORE == REAL) {
                real_out[place] = v.x;
            } else if (STORE == HALF) {
                if (place <= total / 2)
                    complex_out[place] = v;
            } else {
                float* rows = real_out + i64(2 * transform) * LENGTH;
                rows[at] = v.x;
                if (2 * transform + 1 < count)
                    rows[LENGTH + at] = v.y;
            }
        };
        // The roots are complete, and nobody reads the rows of the tile before.
        __syncthreads();
        Stages<RADICES, 1, (ACROSS > 0), (ACROSS > 1), STORE == HALF_PAIR>::run(data, roots, load, store);
        if (STORE == HALF_PAIR) {
            __syncthreads();
            for (int i = threadIdx.x; i < TRANSFORMS * HALF_LENGTH; i += THREADS) {
                const int row = i / HALF_LENGTH, at = i % HALF_LENGTH, transform = first + row;
                if (transform >= transforms)
                    continue;
                const float2 v = data[row * ROW_PITCH + pitched(at)];
                const float2 mirror = data[row * ROW_PITCH + pitched(at ? LENGTH - at : 0)];
                float2* rows = complex_out + i64(2 * transform) * HALF_LENGTH;
                rows[at] = scaled(first_of_pair(v, mirror), scale);
                if (2 * transform + 1 < count)
                    rows[HALF_LENGTH + at] = scaled(second_of_pair(v, mirror), scale);
            }
        }
    }
}

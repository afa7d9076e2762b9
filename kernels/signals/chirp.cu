// The steps around the transforms of Bluestein's algorithm, which computes one of any length by some of another length.
//
// Algorithm: with w[n] = exp(-pi i n^2 / length), X[k] = w[k] sum over n of x[n] w[n] conj(w[k - n]), a convolution
//   [Bluestein 1970]. It is the product of spectra of `padded` >= 2 length - 1 elements.
//
// Options: PART (0: conj(w) of the distances -length + 1 to length - 1, around zero; 1: x[n] w[n], and zeros behind it;
//   2: the product of both spectra, its parts swapped, so that the transform that follows is the inverse one; 3: the
//   results), LOAD (of part 1) and STORE (of part 3): 0 complex, 1 real, 2 the first half of a spectrum; SWAP (of parts
//   1 and 3: of a transform with positive exponents).
// Launch: grid (ceil(elements of a row / CTA), rows), CTA of any size; elements are `padded` or, of part 3, those of a
//   row of out.
// Arguments: in, filter (of part 2), out, length, padded, scale (of part 3).
#include "prelude.cuh"

DEVICE float2 chirp(int n, int length) {
    // The angle repeats after 2 length.
    const int turn = int(i64(n) * n % (2 * i64(length)));
    const int near = turn > length ? turn - 2 * length : turn;
    float sine, cosine;
    sincospif(float(near) / float(length), &sine, &cosine);
    return make_float2(cosine, -sine);
}
DEVICE float2 product(float2 a, float2 b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }

KERNEL chirp_step(const float* in, const float2* filter, float* out, int length, int padded, float scale) {
    launch_dependents();
    wait_on_dependency();
    const int at = int(blockIdx.x * blockDim.x + threadIdx.x);
    const i64 row = blockIdx.y;
    const float2* complex_in = reinterpret_cast<const float2*>(in);
    float2* complex_out = reinterpret_cast<float2*>(out);
    const int half = length / 2 + 1;
    if (PART == 0) {
        if (at >= padded)
            return;
        const int distance = at < length ? at : padded - at;
        float2 v = make_float2(0.0f, 0.0f);
        if (distance < length) {
            v = chirp(distance, length);
            v.y = -v.y;
        }
        complex_out[at] = v;
    } else if (PART == 1) {
        if (at >= padded)
            return;
        float2 v = make_float2(0.0f, 0.0f);
        if (at < length) {
            if (LOAD == 0) {
                v = complex_in[row * length + at];
            } else if (LOAD == 1) {
                v.x = in[row * length + at];
            } else {
                const bool upper = at > length / 2;
                v = complex_in[row * half + (upper ? length - at : at)];
                v.y = at == 0 || 2 * at == length ? 0.0f : upper ? -v.y : v.y;
            }
            v = product(SWAP ? make_float2(v.y, v.x) : v, chirp(at, length));
        }
        complex_out[row * padded + at] = v;
    } else if (PART == 2) {
        if (at >= padded)
            return;
        const float2 v = product(complex_in[row * padded + at], filter[at]);
        complex_out[row * padded + at] = make_float2(v.y, v.x);
    } else {
        if (at >= (STORE == 2 ? half : length))
            return;
        // What the inverse transform left swapped.
        const float2 sum = complex_in[row * padded + at];
        float2 v = product(make_float2(sum.y, sum.x), chirp(at, length));
        v = SWAP ? make_float2(v.y, v.x) : v;
        v = make_float2(v.x * scale, v.y * scale);
        if (STORE == 1)
            out[row * length + at] = v.x;
        else
            complex_out[row * (STORE == 2 ? half : length) + at] = v;
    }
}

// The short-time Fourier transform: window, transform and value of each frame, in one kernel.
//
// Algorithm: a CTA transforms 2 TRANSFORMS neighboring frames at a time, two as one complex row (fourier.cuh). They
//   stay in shared memory until all are complete, so that stores to out, where frames are neighbors, are coalesced.
//
// Options: those of fourier.cuh, where LENGTH is that of a frame; REFLECT and VALUE (signal_frames.cuh).
// Launch: grid (CTAs that take tiles of frames in turns, batch), CTA of THREADS, shared bytes FOURIER_BYTES.
// Arguments: x (batch x samples), window (LENGTH), out (batch x (LENGTH / 2 + 1) x frames of the value), samples, hop,
//   frames, padding (samples before the first that the first frame begins).
#include "fourier.cuh"
#include "signal_frames.cuh"

KERNEL __launch_bounds__(THREADS)
stft(const float* x, const float* window, float* out, int samples, int hop, int frames, int padding) {
    extern __shared__ float2 shared[];
    float2 *data = shared, *roots = shared + TRANSFORMS * ROW_PITCH;
    constexpr int BINS = LENGTH / 2 + 1;
    launch_dependents();
    fill_roots(roots);
    wait_on_dependency();
    const float* signal = x + i64(blockIdx.y) * samples;
    const i64 out_row = i64(blockIdx.y) * BINS;
    const int tiles = ceil_divide(frames, 2 * TRANSFORMS);
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int first = tile * 2 * TRANSFORMS;
        auto load = [&](int row, int at) {
            const int frame = first + 2 * row;
            if (frame >= frames)
                return make_float2(0.0f, 0.0f);
            const i64 begin = i64(frame) * hop - padding + at;
            const float factor = window[at];
            const float second = frame + 1 < frames ? sample_of(signal, samples, begin + hop) : 0.0f;
            return make_float2(factor * sample_of(signal, samples, begin), factor * second);
        };
        auto store = [&](int row, int at, float2 v) { data[row * ROW_PITCH + pitched(at)] = v; };
        // The roots are complete, and nobody reads the frames of the tile before.
        __syncthreads();
        Stages<RADICES, 1, false, false>::run(data, roots, load, store);
        __syncthreads();
        for (int i = threadIdx.x; i < TRANSFORMS * BINS; i += THREADS) {
            const int row = i % TRANSFORMS, at = i / TRANSFORMS, frame = first + 2 * row;
            if (frame >= frames)
                continue;
            const float2 v = data[row * ROW_PITCH + pitched(at)];
            const float2 mirror = data[row * ROW_PITCH + pitched(at ? LENGTH - at : 0)];
            const i64 place = (out_row + at) * frames + frame;
            store_frequency(out, place, first_of_pair(v, mirror));
            if (frame + 1 < frames)
                store_frequency(out, place + 1, second_of_pair(v, mirror));
        }
    }
}

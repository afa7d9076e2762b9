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

KERNEL __launch_bounds__(THREADS, CTAS_PER_SM)
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
    // A frame of the tile, and frequencies that are so far apart.
    constexpr int FRAMES = 2 * TRANSFORMS, FREQUENCY_STEP = THREADS / FRAMES;
    const int own_frame = int(threadIdx.x) % FRAMES;
    const float2* own_row = data + own_frame / 2 * ROW_PITCH;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int first = tile * FRAMES, begin = first * hop - padding;
        // Most tiles are of whole frames within the signal.
        const bool inside =
            first + FRAMES <= frames && begin >= 0 && begin + (FRAMES - 1) * hop + LENGTH <= samples;
        auto load = [&](int row, int at) {
            const int frame = first + 2 * row, place = begin + 2 * row * hop + at;
            const float factor = window[at];
            if (inside)
                return make_float2(factor * signal[place], factor * signal[place + hop]);
            if (frame >= frames)
                return make_float2(0.0f, 0.0f);
            const float second = frame + 1 < frames ? sample_of(signal, samples, place + hop) : 0.0f;
            return make_float2(factor * sample_of(signal, samples, place), factor * second);
        };
        // The roots are complete, and nobody reads the frames of the tile before.
        __syncthreads();
        Stages<RADICES, 1, false, false, true>::run(data, roots, load, [](int, int, float2) {});
        __syncthreads();
        if (first + own_frame >= frames || int(threadIdx.x) >= FREQUENCY_STEP * FRAMES)
            continue;
        const bool is_second = own_frame % 2;
        i64 place = (out_row + int(threadIdx.x) / FRAMES) * frames + first + own_frame;
        for (int at = int(threadIdx.x) / FRAMES; at < BINS; at += FREQUENCY_STEP) {
            const float2 v = own_row[pitched(at)], mirror = own_row[pitched(at ? LENGTH - at : 0)];
            store_frequency(out, place, is_second ? second_of_pair(v, mirror) : first_of_pair(v, mirror));
            place += i64(FREQUENCY_STEP) * frames;
        }
    }
}

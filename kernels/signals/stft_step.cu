// The steps of a short-time Fourier transform whose frames do not fit the fused kernel (stft.cu).
//
// Options: PART (0: windowed frames as rows of reals; 1: the values of their spectra, transposed), REFLECT and VALUE
//   (signal_frames.cuh).
// Launch: part 0: grid (ceil(length / CTA), frames of the call); part 1: grid (ceil(frames of the call / CTA), bins).
// Arguments: in (part 0: a signal of `samples`; part 1: spectra of frames, frames of the call x bins), window, out
//   (part 0: frames of the call x length; part 1: those of one signal, bins x frames), samples, length, hop, first (the
//   first frame of the call), count (frames of the call), frames, padding.
#include "signal_frames.cuh"

KERNEL stft_step(const float* in, const float* window, float* out, int samples, int length, int hop, int first,
                 int count, int frames, int padding) {
    launch_dependents();
    wait_on_dependency();
    const int at = int(blockIdx.x * blockDim.x + threadIdx.x), row = blockIdx.y;
    if (PART == 0) {
        if (at < length)
            out[i64(row) * length + at] = window[at] * sample_of(in, samples, (first + row) * hop - padding + at);
    } else if (at < count) {
        const int bins = length / 2 + 1;
        const float2 v = reinterpret_cast<const float2*>(in)[i64(at) * bins + row];
        store_frequency(out, i64(row) * frames + first + at, v);
    }
}

"""Operations of audio: spectra, filters, pitch and onsets, over arrays (..., samples)."""

from assay.ops.audio.mel import (
    decibels as decibels,
    hz_to_mel as hz_to_mel,
    mel_filters as mel_filters,
    mel_spectrogram as mel_spectrogram,
    mel_to_hz as mel_to_hz,
    mfcc as mfcc,
)
from assay.ops.audio.onsets import onset_strength as onset_strength, onsets as onsets
from assay.ops.audio.pitch import yin as yin
from assay.ops.audio.resampling import (
    fir as fir,
    recursive_filter as recursive_filter,
    resample as resample,
)
from assay.ops.audio.shaping import interpolate as interpolate, pad as pad
from assay.ops.audio.spectra import frames as frames, istft as istft, stft as stft
from assay.ops.audio.streaming import (
    StreamingResampler as StreamingResampler,
    StreamingSTFT as StreamingSTFT,
)
from assay.ops.audio.windows import window as window

"""Speech: recognition and synthesis on the operations of the runtime.

- Recordings: `sound_files.py`, `wav.py`; `log_mel.py` and `layers.py` are what models share.
- `whisper/`: from samples to text. Files, encoder, decoder, `search.py`, `transcribing.py` for any
  length, `word_times.py`; `steps.py` decodes several recordings by a CUDA graph.
- `moonshine/`: the same from raw samples, with the 8-bit weights of its ONNX files.
- `transcript.py`, and `vad_filter.py` (transcripts without silence).
- `kokoro/`: from phonemes to a waveform. `onnx_names.py` reads the weights; `text.py`, `prosody.py`,
  `decoder.py` and `harmonics.py` are its parts, `speaker.py` says sentences.
- `phonemes/`: English text to phonemes by numbers, word lists and a network for other words.
- `voice_activity.py`: where there is speech; `single_chunks.py` for streams.
"""

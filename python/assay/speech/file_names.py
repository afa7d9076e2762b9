"""Names of the files of speech models, which `assay pull` writes and the models read."""

from typing import Final

SILERO_VAD: Final = "silero_vad_16k_op15.onnx"
MOONSHINE_ENCODER: Final = "encoder_model.onnx"
MOONSHINE_DECODER: Final = "decoder_model_merged.onnx"
MOONSHINE_TOKENIZER: Final = "tokenizer.bin"

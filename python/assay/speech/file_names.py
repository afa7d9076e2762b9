"""Names of the files of speech models, which `assay pull` writes and the models read."""

from typing import Final

SILERO_VAD: Final = "silero_vad_16k_op15.onnx"

"""Records what small modules of the PyTorch definition of Kokoro (PyPI kokoro 0.9.4) compute.

Run with torch, transformers and kokoro installed: python record_oracle.py. Weights and inputs come
from `small_weights.drawn`, so that the file holds shapes and outputs only.
"""

import contextlib
import importlib
import json
import sys
import types
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from small_weights import drawn

ORACLE = Path(__file__).with_name("oracle.json")
STEP = 7


class Recorder:
    """Shapes of weights, and some values of results."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.shapes: dict[str, list[int]] = {}
        self.recorded: dict[str, object] = {"shapes": self.shapes}

    def filled(self, name: str, module: Any) -> Any:
        """A module in which every parameter is drawn by its name; norms without weights stay."""
        for part in module.modules():
            with contextlib.suppress(ValueError):
                self.torch.nn.utils.remove_weight_norm(part)
        state = module.state_dict()
        for key, value in state.items():
            if ".norm." in f".{key}" or "pooler" in key or value.dtype != self.torch.float32:
                continue
            self.shapes[f"{name}.{key}"] = list(value.shape)
            state[key] = self.torch.from_numpy(drawn(f"{name}.{key}", value.shape))
        module.load_state_dict(state)
        return module.eval()

    def record(self, name: str, values: Any) -> None:
        """Store some values and the shape of a result."""
        flat = values.detach().numpy().astype(float).reshape(-1)
        self.recorded[name] = {
            "shape": list(values.shape),
            "step": STEP,
            "values": [float(f"{value:.8g}") for value in flat[::STEP]],
            "largest": float(np.abs(flat).max()),
        }

    def given(self, name: str, *shape: int) -> Any:
        """An input."""
        return self.torch.from_numpy(drawn(name, shape))


def main() -> None:
    """Record all modules."""
    torch = importlib.import_module("torch")
    # The package itself imports its text front end, which needs spaCy.
    package = types.ModuleType("kokoro")
    spec = find_spec("kokoro")
    assert spec is not None
    package.__path__ = list(spec.submodule_search_locations or ())
    sys.modules["kokoro"] = package
    istftnet = importlib.import_module("kokoro.istftnet")
    modules = importlib.import_module("kokoro.modules")
    configuration = importlib.import_module("transformers").AlbertConfig
    recorder = Recorder(torch)
    filled, record, given = recorder.filled, recorder.record, recorder.given

    with torch.no_grad():
        style = given("style", 1, 5)
        block = filled("block", istftnet.AdainResBlk1d(6, 4, 5, upsample=True))
        record("block", block(given("block input", 1, 6, 9), style))
        generator = filled(
            "generator",
            istftnet.Generator(5, [3, 7, 11], [10, 6], 8, [[1, 3, 5]] * 3, [20, 12], 20, 5),
        )
        spectrum = given("spectrum", 1, 22, 241)
        generator.stft.transform = lambda waveform: (spectrum[:, :11], spectrum[:, 11:])
        outputs = []
        generator.conv_post.register_forward_hook(lambda module, inputs, out: outputs.append(out))
        waveform = generator(given("generator input", 1, 8, 4), style, torch.zeros(1, 4))
        record("generator", outputs[0])
        record("waveform", waveform)
        encoder = filled("text_encoder", modules.TextEncoder(8, 5, 2, 20))
        tokens = torch.tensor([[0, 3, 7, 19, 2, 0]])
        lengths, mask = torch.tensor([6]), torch.zeros(1, 6, dtype=torch.bool)
        record("text_encoder", encoder(tokens, lengths, mask))
        predictor = filled("predictor", modules.ProsodyPredictor(5, 8, 2, max_dur=6))
        rows = given("predictor input", 1, 8, 6)
        encoded = predictor.text_encoder(rows, style, lengths, mask)
        record("predictor.encoded", encoded)
        states, _ = predictor.lstm(encoded)
        record("predictor.durations", torch.sigmoid(predictor.duration_proj(states)).sum(-1))
        pitch, loudness = predictor.F0Ntrain(encoded.transpose(1, 2), style)
        record("predictor.pitch", pitch)
        record("predictor.loudness", loudness)
        albert = filled(
            "bert",
            modules.CustomAlbert(
                configuration(
                    vocab_size=20,
                    embedding_size=6,
                    hidden_size=16,
                    num_attention_heads=2,
                    intermediate_size=12,
                    num_hidden_layers=3,
                    max_position_embeddings=8,
                )
            ),
        )
        last = filled("bert_encoder", torch.nn.Linear(16, 8))
        record("bert", last(albert(tokens, attention_mask=torch.ones(1, 6))))
        torch.set_default_dtype(torch.float64)
        torch.randn_like = torch.zeros_like
        sine = istftnet.SineGen(24_000, 300, 8, voiced_threshold=10)
        torch.FloatTensor = torch.DoubleTensor
        hertz = torch.tensor([0.0, 120.0, 121.5, 180.0, 3.0, 240.0])
        upsampled = hertz.repeat_interleave(300)[None, :, None]
        record("sines", sine(upsampled)[0])
    ORACLE.write_text(json.dumps(recorder.recorded, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()

"""Write the hidden states that transformers gives small synthetic encoders.

As `make_architecture_fixtures.py` does for decoders: the weights are those of
`assay.engine.loading.synthetic`, and `tests/data/encoders/<name>/` holds the configuration, tokens and
hidden states. The texts have different lengths; transformers pads them to one batch and masks the
padding. Needs torch and transformers: run it in a separate environment and commit its output.

    PYTHONPATH=python python tests/data/make_encoder_fixtures.py tests/data/encoders
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

LENGTHS = (7, 40, 23)
"""Tokens of the texts."""

SMALL = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
    "layer_norm_eps": 1e-12,
}

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("Bert", {**SMALL, "type_vocab_size": 2, "pad_token_id": 0}),
    "bert_tanh": ("Bert", {**SMALL, "num_attention_heads": 4, "hidden_act": "gelu_new"}),
    "roberta": ("Roberta", {**SMALL, "type_vocab_size": 1, "pad_token_id": 1}),
    "xlm_roberta": ("XLMRoberta", {**SMALL, "type_vocab_size": 1, "pad_token_id": 1}),
}


def make(name: str, folder: Path) -> None:
    """Write the configuration of one encoder and its expected outputs."""
    import torch
    import transformers
    from safetensors.torch import save_file

    from assay.engine.loading.synthetic import write_folder

    family, settings = MODELS[name]
    config = getattr(transformers, f"{family}Config")(**settings)
    where = folder / name
    where.mkdir(parents=True, exist_ok=True)
    config.save_pretrained(where)
    raw = json.loads((where / "config.json").read_text())
    with tempfile.TemporaryDirectory() as scratch:
        write_folder(Path(scratch), raw["model_type"], config=raw, complete=True)
        model, report = transformers.AutoModel.from_pretrained(
            scratch,
            dtype=torch.float32,
            attn_implementation="eager",
            add_pooling_layer=False,
            output_loading_info=True,
        )
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if report[kind]:
            raise SystemExit(f"{name}: {kind}: {sorted(map(str, report[kind]))[:8]}")
    generator = torch.Generator().manual_seed(sorted(MODELS).index(name))
    longest, padding = max(LENGTHS), config.pad_token_id
    tokens = torch.randint(3, settings["vocab_size"], (len(LENGTHS), longest), generator=generator)
    mask = torch.arange(longest) < torch.tensor(LENGTHS)[:, None]
    tokens = torch.where(mask, tokens, padding)
    model.eval()
    with torch.no_grad():
        states = model(tokens, attention_mask=mask.long()).last_hidden_state.float()
        rounded = model.to(torch.bfloat16)(tokens, attention_mask=mask.long())
    expected = {"lengths": torch.tensor(LENGTHS, dtype=torch.int32)}
    for index, length in enumerate(LENGTHS):
        rows = states[index, :length]
        error = rounded.last_hidden_state[index, :length].float() - rows
        expected[f"tokens{index}"] = tokens[index, :length].to(torch.int32).contiguous()
        expected[f"states{index}"] = rows.contiguous()
        expected[f"mean{index}"] = rows.double().mean(dim=0).float()
        expected[f"bf16_errors{index}"] = error.norm(dim=1) / rows.norm(dim=1)
    save_file(expected, str(where / "expected.safetensors"))
    print(name, f"states of up to {states.abs().max():.3g}, transformers", transformers.__version__)


if __name__ == "__main__":
    for chosen in sys.argv[2:] or MODELS:
        make(chosen, Path(sys.argv[1]))

"""Write llama.cpp's greedy output, as an independent oracle for the engine.

    python tests/data/make_llama_cpp_fixtures.py SmolLM2-135M-Instruct.Q4_1.gguf

needs `llama-cpp-python`, which is not a dependency of Assay: install it in a separate environment.
Each step records the two largest logits: a token that differs is an error only where their gap
is larger than the rounding.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay import json_records

PROMPTS = (
    "Gravity is the force that",
    "def fibonacci(n):\n",
    "To bake a loaf of bread, first",
    "Caf\u00e9 na\u00efve \u6771\u4eac \U0001f600:",
    "Once upon a time there was a lighthouse keeper who counted every ship that passed. One "
    "evening, when the fog was thick and the lamp had gone out, he",
)
STEPS = 64
PAGE = Path(__file__).resolve().parent / "llama_cpp_smollm2.json"


def decode(model: Any, prompt: str) -> dict[str, Any]:
    """The prompt's tokens and the greedy completion, with the two largest logits per step."""
    model.reset()
    prompt_ids = model.tokenize(prompt.encode(), add_bos=True, special=False)
    model.eval(prompt_ids)
    token_ids: list[int] = []
    runners_up: list[int] = []
    gaps: list[float] = []
    largest: list[float] = []
    for _ in range(STEPS):
        logits = last_logits(model)
        first, second = (int(i) for i in np.argsort(-logits, kind="stable")[:2])
        token_ids.append(first)
        runners_up.append(second)
        largest.append(round(float(logits[first]), 5))
        gaps.append(round(float(logits[first] - logits[second]), 5))
        if first == model.token_eos():
            break
        model.eval([first])
    return {
        "prompt": prompt,
        "prompt_ids": prompt_ids,
        "token_ids": token_ids,
        "text": model.detokenize(token_ids, prev_tokens=prompt_ids).decode("utf-8", "replace"),
        "logit": largest,
        "runner_up_ids": runners_up,
        "gap": gaps,
    }


def last_logits(model: Any) -> NDArray[np.float32]:
    """The logits after the last token."""
    import llama_cpp

    pointer = llama_cpp.llama_get_logits_ith(model.ctx, -1)
    return np.ctypeslib.as_array(pointer, shape=(model.n_vocab(),)).copy()


def main() -> None:
    """Decode every prompt and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="the GGUF file")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    import llama_cpp

    model = llama_cpp.Llama(
        str(arguments.model), n_ctx=512, n_threads=arguments.threads, verbose=False
    )
    data = {
        "made_by": f"llama-cpp-python {llama_cpp.__version__}, greedy",
        # Builds for other CPUs round differently, and diverge where a gap is small.
        "processor": llama_cpp.llama_print_system_info().decode(),
        "model": arguments.model.name,
        "model_sha256": hashlib.sha256(arguments.model.read_bytes()).hexdigest(),
        "cases": [decode(model, prompt) for prompt in PROMPTS],
    }
    PAGE.write_text(json_records.dumps(data, depth=2) + "\n")
    for case in data["cases"]:
        print(f"{min(case['gap']):.4f} smallest gap  {case['text']!r}")


if __name__ == "__main__":
    main()

"""A LoRA adapter in the folder format of PEFT: adapter_config.json, adapter_model.safetensors.

Hu et al., LoRA: Low-Rank Adaptation of Large Language Models (2021): a layer computes
W x + scale B A x, with scale alpha / r, or alpha / sqrt(r) for rank-stabilized LoRA
(Kalajdzievski 2023).
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from assay._native import SafeTensorsFile
from assay.engine.loading.json_files import read_json
from assay.engine.loading.model_files import Tensor
from assay.errors import InputError, UnsupportedError
from assay.lazy_import import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

CONFIG: Final = "adapter_config.json"
WEIGHTS: Final = "adapter_model.safetensors"
MAX_RANK: Final = 1024

_TENSOR: Final = re.compile(
    r"base_model\.model\.(?P<module>.+)\.lora_(?P<factor>[AB])(?:\.default)?\.weight"
)
_UNSUPPORTED: Final[Mapping[str, str]] = {
    "use_dora": "DoRA",
    "use_qalora": "QALoRA",
    "lora_bias": "biases of adapters",
    "modules_to_save": "modules that are stored whole",
    "alpha_pattern": "an alpha for each module",
    "layer_replication": "replicated layers",
    "trainable_token_indices": "trained tokens",
    "target_parameters": "adapters of parameters, as those of experts",
    "alora_invocation_tokens": "activated LoRA",
    "arrow_config": "Arrow routing",
}
"""Keys whose values must be absent, empty or false, and what they stand for."""

_CHANGED_BASE: Final = ("pissa", "olora", "corda", "loftq")
"""Initializations that change the weights of the base model, too."""


class LowRank(NamedTuple):
    """The factors of one module: rank by inputs, and outputs by rank, scaled."""

    a: NDArray[np.float32]
    b: NDArray[np.float32]


@dataclass(frozen=True)
class LoraAdapter:
    """An adapter: its factors by module, such as model.layers.0.self_attn.q_proj."""

    name: str
    path: Path
    modules: Mapping[str, LowRank]
    digest: str
    """SHA-256 of its weights."""


def open_adapter(name: str, folder: Path) -> LoraAdapter:
    """Read an adapter; whatever it has besides plain LoRA is refused by name."""
    if not folder.is_dir():
        raise InputError(f'adapter "{name}": expected a folder, got {folder}')
    where = folder / CONFIG
    config = read_json(where)
    _check(where, config)
    file = folder / WEIGHTS
    if not file.is_file():
        raise InputError(
            f"{folder}: expected {WEIGHTS}, got none", "pickles (adapter_model.bin) are not read"
        )
    factors: dict[str, dict[str, NDArray[np.float32]]] = {}
    digest = hashlib.sha256()
    for stored in SafeTensorsFile(file).tensors():
        matched = _TENSOR.fullmatch(stored.name)
        if matched is None:
            raise UnsupportedError(
                f"{file}: expected tensors called base_model.model....lora_A.weight or lora_B, got "
                f'"{stored.name}"'
            )
        values = _matrix(file, Tensor.stored(stored.name, stored))
        digest.update(stored.name.encode())
        digest.update(np.ascontiguousarray(values).data)
        if matched["factor"] in factors.setdefault(matched["module"], {}):
            raise InputError(
                f'{file}: expected one lora_{matched["factor"]} of "{matched["module"]}", got two'
            )
        factors[matched["module"]][matched["factor"]] = values
    if not factors:
        raise InputError(f"{file}: expected tensors of an adapter, got none")
    digest.update(f"{config['lora_alpha']} {bool(config.get('use_rslora'))}".encode())
    modules = {module: _scaled(file, module, pair, config) for module, pair in factors.items()}
    return LoraAdapter(name, folder, modules, digest.hexdigest())


def _check(where: Path, config: Mapping[str, Any]) -> None:
    """Refuse a configuration of another kind, and features that change the result."""
    kind = config.get("peft_type")
    if kind != "LORA":
        raise UnsupportedError(f'{where}: peft_type: expected "LORA", got {kind!r}')
    alpha = config.get("lora_alpha")
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not math.isfinite(alpha):
        raise InputError(f"{where}: lora_alpha: expected a number, got {alpha!r}")
    rslora = config.get("use_rslora", False)
    if rslora not in (True, False, None):
        raise InputError(f"{where}: use_rslora: expected true or false, got {rslora!r}")
    for key, meaning in _UNSUPPORTED.items():
        if config.get(key):
            raise UnsupportedError(f"{where}: {key}: {meaning} are not supported")
    if (bias := config.get("bias", "none")) != "none":
        raise UnsupportedError(f'{where}: bias: expected "none", got {bias!r}')
    start = config.get("init_lora_weights")
    if isinstance(start, str) and start.lower().startswith(_CHANGED_BASE):
        raise UnsupportedError(
            f"{where}: init_lora_weights: {start} changes the weights of the base model",
            "convert it to plain LoRA when it is saved: "
            "save_pretrained(path_initial_model_for_weight_conversion=...)",
        )


def _matrix(file: Path, tensor: Tensor) -> NDArray[np.float32]:
    if len(tensor.shape) != 2 or 0 in tensor.shape:
        raise InputError(
            f'{file}: tensor "{tensor.name}": expected a matrix, got shape {list(tensor.shape)}'
        )
    values = tensor.to_float32()
    # A row without this adapter multiplies it by zero, which would give NaN.
    if not np.isfinite(values).all():
        raise InputError(f'{file}: tensor "{tensor.name}": expected finite values, got others')
    return values


def _scaled(
    file: Path, module: str, pair: Mapping[str, NDArray[np.float32]], config: Mapping[str, Any]
) -> LowRank:
    for factor in ("A", "B"):
        if factor not in pair:
            raise InputError(f'{file}: expected lora_{factor} of "{module}", got none')
    a, b = pair["A"], pair["B"]
    rank = a.shape[0]
    if b.shape[1] != rank or rank > MAX_RANK:
        raise InputError(
            f'{file}: "{module}": expected factors of one rank up to {MAX_RANK}, got shapes '
            f"{list(a.shape)} and {list(b.shape)}"
        )
    # A pattern of ranks is in the shapes: PEFT divides by the rank of the module.
    divisor = math.sqrt(rank) if config.get("use_rslora") else rank
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = b * np.float32(config["lora_alpha"] / divisor)
    if not np.isfinite(scaled).all():
        raise InputError(f'{file}: "{module}": expected finite values when scaled, got others')
    return LowRank(a, scaled)

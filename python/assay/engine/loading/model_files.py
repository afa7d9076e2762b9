"""The files of a model: configuration, tensors, tokenizer, chat template."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from assay.engine.loading.once import Once
from assay.errors import UnsupportedError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from assay._native import StoredTensor
    from assay.engine.loading.chat_template import ChatTemplate
    from assay.engine.loading.tokenizer import Tokenizer

RopePairs = Literal["half", "interleaved"]
"""Which elements of a head are rotated together: i with i + d/2, or 2i with 2i + 1."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor: its Hugging Face name, format, shape (row-major) and bytes.

    `bytes` is a view of the mapped file, never a copy. `transposed` says that a matrix is stored
    as inputs by outputs, as GPT-2 is on Hugging Face; all others are outputs by inputs.
    `permuted` says that the rows of each head are ordered for interleaved RoPE, as llama.cpp
    stores the query and key matrices of the Llama family.
    """

    name: str
    format: str
    shape: tuple[int, ...]
    bytes: memoryview
    transposed: bool = False
    permuted: bool = False
    compute: Callable[[], NDArray[np.float32]] | None = field(
        default=None, repr=False, compare=False
    )
    """Computes the values of a quantized layer, whose `bytes` are only its codes."""

    @classmethod
    def stored(
        cls, name: str, stored: StoredTensor, *, transposed: bool = False, permuted: bool = False
    ) -> Tensor:
        """A tensor of a mapped file, under its Hugging Face name."""
        # It implements the buffer protocol, for which Python 3.11 has no type.
        data = memoryview(cast(Any, stored))
        return cls(name, stored.format, stored.shape, data, transposed, permuted)

    def to_float32(self) -> NDArray[np.float32]:
        """The values of an unquantized tensor as float32; those of a float32 tensor are not copied."""
        import numpy as np

        from assay.runtime.rounding import widen

        if self.format == "f32":
            return np.frombuffer(self.bytes, "<f4").reshape(self.shape)
        if self.format == "f16":
            return np.frombuffer(self.bytes, "<f2").astype(np.float32).reshape(self.shape)
        if self.format == "bf16":
            return widen(np.frombuffer(self.bytes, "<u2")).reshape(self.shape)
        raise UnsupportedError(
            f'tensor "{self.name}": expected format f32, f16 or bf16, got {self.format}',
            "assay.ops.dequantize converts block formats to float32",
        )


@dataclass(frozen=True)
class ModelFiles:
    """A model as its files describe it; weights stay on disk until they are loaded.

    `config` has the keys of Hugging Face's config.json for every file format; `notes` lists the
    defaults that were used. The text of a synthetic model means nothing.
    """

    name: str
    path: Path | None
    architecture: str
    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor] = field(repr=False)
    rope_pairs: RopePairs
    make_tokenizer: Callable[[], Tokenizer] = field(repr=False)
    template_text: str | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()
    synthetic: bool = False
    sampling: Mapping[str, float] = field(default_factory=dict, repr=False)
    """The sampling parameters that the files state, for requests that do not give their own."""
    norms_include_offset: bool = False
    """Whether stored norm weights include what the architecture adds to them, as in GGUF files."""
    identity: object = field(init=False, repr=False, compare=False, default_factory=object)
    """Tells models in memory apart; `replace` makes a new one."""
    _tokenizer: Once[Tokenizer] = field(init=False, repr=False, compare=False)
    _chat_template: Once[ChatTemplate | None] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Set up the lazy tokenizer and chat template."""
        object.__setattr__(self, "_tokenizer", Once(self.make_tokenizer))
        object.__setattr__(self, "_chat_template", Once(self._make_chat_template))

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.bytes.nbytes for tensor in self.tensors.values())

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, built by `prepare` or on first use."""
        return self._tokenizer.get()

    def prepare(self) -> None:
        """Build the tokenizer in a background thread, while the weights are loaded.

        An error is raised on the first use of the tokenizer.
        """
        self._tokenizer.begin()

    @property
    def chat_template(self) -> ChatTemplate | None:
        """The chat template, where the model has one."""
        return self._chat_template.get()

    def _make_chat_template(self) -> ChatTemplate | None:
        from assay.engine.loading.chat_template import ChatTemplate

        if self.template_text is None:
            return None
        return ChatTemplate(self.template_text, self.tokenizer.special_texts)

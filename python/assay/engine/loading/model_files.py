"""What a loaded model is made of: configuration, tensors, tokenizer, chat template."""

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
    """One tensor: its Hugging Face name, format, shape (slowest extent first) and bytes.

    `bytes` is a view of the mapped file, never a copy. `transposed` says that a matrix is stored
    as inputs by outputs, as GPT-2 has it on Hugging Face; all others are outputs by inputs.
    `permuted` says that the rows of each head are ordered for interleaved rotation, as llama.cpp
    stores the query and key matrices of the Llama family.
    """

    name: str
    format: str
    shape: tuple[int, ...]
    bytes: memoryview
    transposed: bool = False
    permuted: bool = False

    @classmethod
    def stored(
        cls, name: str, stored: StoredTensor, *, transposed: bool = False, permuted: bool = False
    ) -> Tensor:
        """A tensor of a mapped file, under the name it has here."""
        # It speaks the buffer protocol, which has no name among Python 3.11's types.
        data = memoryview(cast(Any, stored))
        return cls(name, stored.format, stored.shape, data, transposed, permuted)

    def to_float32(self) -> NDArray[np.float32]:
        """The numbers of an unquantized tensor, for the small ones that are used as they are.

        Numbers that are single precision already stay where they are.
        """
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
            "assay.ops.dequantize turns blocks into numbers",
        )


@dataclass(frozen=True)
class ModelFiles:
    """A model as its files describe it; weights stay on disk until they are used.

    `config` is in the spelling of Hugging Face's config.json, whatever the files were; `notes`
    lists what they left open and how that was read. A synthetic model says so: its text means
    nothing.
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
    _tokenizer: Once[Tokenizer] = field(init=False, repr=False, compare=False)
    _chat_template: Once[ChatTemplate | None] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Note how to make what is made when it is asked for."""
        object.__setattr__(self, "_tokenizer", Once(self.make_tokenizer))
        object.__setattr__(self, "_chat_template", Once(self._make_chat_template))

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.bytes.nbytes for tensor in self.tensors.values())

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, built when it is first asked for, if `prepare` has not built it."""
        return self._tokenizer.get()

    def prepare(self) -> None:
        """Begin to build the tokenizer in the background, while weights are being packed.

        What goes wrong there is raised where the tokenizer is asked for.
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

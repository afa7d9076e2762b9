"""A scenario of catalog entries and values, and the commands of figures in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from assay.asking.commands import Resolve, Result
from assay.errors import InputError

if TYPE_CHECKING:
    from assay.model.resolving.resolver import Resolver

GPUS_OF_A_NODE: Final = 8


@dataclass(frozen=True)
class Case:
    """A preset with the entries and values of a question, and what was assumed beside them."""

    preset: str
    includes: tuple[str, ...] = ()
    assign: tuple[str, ...] = ()
    variant: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    layout: tuple[int, int] = (1, 1)
    offer: str = ""

    def resolve(self, target: str, *options: str, intervals: bool = True) -> Resolve:
        """The command that resolves a variable in it."""
        return Resolve(
            target, self.preset, self.includes, self.assign, self.variant, self.offer, options,
            intervals,
        )  # fmt: skip

    def known(self, target: str, *, intervals: bool = False) -> Result:
        """The figure of a variable; raises `InputError` where inputs of it are missing."""
        result = self.resolve(target, intervals=intervals).run()
        if result.value is None:
            raise InputError(f"{target} needs more inputs: {', '.join(result.missing[:4])}")
        return result

    def given(self, **more: Any) -> Case:
        """The case with further values, by name of the variable with `__` for dots."""
        added = tuple(f"{name.replace('__', '.')}={value}" for name, value in more.items())
        names = {text.partition("=")[0] for text in added}
        kept = tuple(text for text in self.assign if text.partition("=")[0] not in names)
        return replace(self, assign=(*kept, *added))

    def with_entries(self, *paths: str) -> Case:
        """The case with further entries of the catalog."""
        return replace(self, includes=tuple(dict.fromkeys((*self.includes, *paths))))

    def used_by(self, target: str) -> tuple[set[str], set[str]]:
        """The names of all variables that a variable depends on, itself among them, and of its inputs."""
        from assay.model.resolving.unused import used_cone

        resolver = self._resolver()
        resolver.value(target)
        relation = resolver.chosen.get(target)
        return used_cone(resolver, [target]), set(() if relation is None else relation.inputs)

    def needed_by(self, target: str) -> Case:
        """The case with the values alone that a variable depends on: for a figure beside the asked one."""
        used, _ = self.used_by(target)
        kept = tuple(text for text in self.assign if text.partition("=")[0] in used)
        return replace(self, assign=kept)

    def value(self, name: str) -> float | None:
        """The value of a variable in base units, without constraints and intervals."""
        return self.values(name)[0]

    def values(self, *names: str) -> list[float | None]:
        """Values of several variables in base units."""
        resolver = self._resolver()
        return [resolver.value(name) for name in names]

    def _resolver(self) -> Resolver:
        from assay.model.resolving.resolve import make_resolver
        from assay.scenario.question import read_question

        question = read_question(
            preset=self.preset, includes=self.includes, assign=self.assign, variant=self.variant,
            offer=self.offer or None,
        )  # fmt: skip
        return make_resolver(question.registry, question.inputs, question.variants)


def number(value: float) -> str:
    """A number as commands take it."""
    return f"{value:.10g}"

"""Chat templates: the Jinja2 template of a model, rendered in a sandbox."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from assay.errors import InputError


class ChatTemplate:
    """Renders messages to the prompt format that a model was trained on, as `transformers` does.

    The sandbox gives access neither to Python attributes nor to the objects passed in. `specials`
    are the texts of the BOS and EOS tokens, under the names that templates use.
    """

    def __init__(self, text: str, specials: Mapping[str, str]) -> None:
        from jinja2 import TemplateError, meta

        self.text = text
        self._specials = dict(specials)
        try:
            environment = _environment()
            self._template = environment.from_string(text)
            self.variables = frozenset(meta.find_undeclared_variables(environment.parse(text)))
            """What the template reads: `messages`, and `tools` if it renders them."""
        except TemplateError as error:
            raise InputError(f"chat template: expected a Jinja2 template, got: {error}") from None

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **variables: Any,
    ) -> str:
        """The text of a conversation, by default up to the start of the assistant's message."""
        from jinja2 import TemplateError

        try:
            text: str = self._template.render(
                messages=[dict(message) for message in messages],
                add_generation_prompt=add_generation_prompt,
                tools=tools,
                **self._specials,
                **variables,
            )
            return text
        # A template may also fail on its input: a message without content, say.
        except (TemplateError, TypeError, ValueError, LookupError, ArithmeticError) as error:
            raise InputError(
                f"chat template: expected messages that it can render, got: {error}"
            ) from None


def _environment() -> Any:
    from jinja2 import TemplateError, nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """`{% generation %}` marks the assistant's text for training; here it has no effect."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> nodes.Node | list[nodes.Node]:
            next(parser.stream)
            body: list[nodes.Node] = parser.parse_statements(
                ("name:endgeneration",), drop_needle=True
            )
            return body

    def raise_exception(message: str) -> NoReturn:
        raise TemplateError(message)

    def tojson(value: Any, indent: int | None = None, **options: Any) -> str:
        # Jinja2's own filter escapes for HTML.
        return json.dumps(value, ensure_ascii=False, indent=indent, **options)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda format_: datetime.now().strftime(format_)
    return environment

"""Chat templates: supported features, and what the sandbox refuses."""

import re
from typing import Any

import pytest

from assay.engine.loading.chat_template import ChatTemplate
from assay.errors import InputError

HELLO = [{"role": "user", "content": "Hi"}]


def render(text: str, messages: Any = HELLO, **options: Any) -> str:
    specials = {"bos_token": "<s>", "eos_token": "</s>"}
    return ChatTemplate(text, specials).render(messages, **options)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ bos_token }}{{ messages[0].content }}{{ eos_token }}", "<s>Hi</s>"),
        ("{% if add_generation_prompt %}go{% endif %}", "go"),
        # Lines with only a block are removed, as in transformers.
        ("{% for m in messages %}\n  {% if true %}\nx\n  {% endif %}\n{% endfor %}", "x\n"),
        ('{{ {"a": "<\u00e9>"} | tojson }}', '{"a": "<\u00e9>"}'),
        ('{{ {"a": 1} | tojson(indent=2) }}', '{\n  "a": 1\n}'),
        ("{% for i in [1,2,3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "1"),
        ("a{% generation %}{{ messages[0].role }}{% endgeneration %}b", "auserb"),
        ("{{ tools is none }}", "True"),
        ("{{ undefined_name }}", ""),
    ],
)
def test_supported_features(template: str, text: str) -> None:
    assert render(template) == text


def test_variables_and_tools_reach_the_template() -> None:
    tools = [{"name": "f"}]
    assert render("{{ tools[0].name }} {{ depth }}", tools=tools, depth=3) == "f 3"


def test_strftime_now_formats_the_date() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", render('{{ strftime_now("%Y-%m-%d") }}'))


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.__class__.__base__.__subclasses__() }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update({'content': 'x'}) }}",
        "{% for i in range(10000000) %}x{% endfor %}",
        "{{ 1 / 0 }}",
        "{{ raise_exception('no roles') }}",
        "{{ messages[0].content + 1 }}",
        "{{ missing.field }}",
        "{% if %}",
        "{{ unclosed",
        "{% include 'other' %}",
    ],
)
def test_forbidden_or_invalid_templates_raise_input_errors(template: str) -> None:
    with pytest.raises(InputError, match="chat template: expected"):
        render(template)


def test_format_does_not_expose_attributes() -> None:
    assert "class" not in render("{{ '{0.__class__}'.format(3) }}")


def test_message_of_raise_exception_is_reported() -> None:
    with pytest.raises(InputError, match="roles must alternate"):
        render("{{ raise_exception('roles must alternate') }}")


def test_messages_are_not_modified() -> None:
    messages = [{"role": "user", "content": "Hi"}]
    render("{% set m = messages[0] %}{{ m.role }}", messages)
    assert messages == HELLO

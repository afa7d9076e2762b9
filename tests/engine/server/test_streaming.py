"""Events of a stream: templates, direct writes and the histogram of their gaps."""

import http.client
import json

import pytest
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from running_server import running

from assay.engine import Engine
from assay.engine.loading.synthetic import synthetic_model
from assay.engine.server import served_model
from assay.engine.server.event_template import MARKED_INDEX, MARKED_TEXT, EventTemplate
from assay.engine.server.metrics import GapHistogram
from assay.engine.server.response_schemas import Completion, CompletionChoice
from assay.engine.server.streaming import event
from chosen_device import cpu_only

TEXTS = ["", "a", 'quo"te\\', "line\nend", "\u00e9\u20ac\U0001d11e", "\u2028 \x00", MARKED_TEXT]


@pytest.mark.parametrize("model", ["m", MARKED_TEXT, str(MARKED_INDEX)])
@pytest.mark.parametrize("text", TEXTS)
def test_a_filled_template_is_the_event_of_its_model(model, text):
    def response(index, shown):
        choice = CompletionChoice(index=index, text=shown)
        return Completion(id="c", created=7, model=model, choices=[choice])

    filled = EventTemplate(response(MARKED_INDEX, MARKED_TEXT)).fill(3, text)
    assert filled == event(response(3, text).model_dump())


def test_gaps_are_counted_as_the_library_counts_them():
    bounds = (0.001, 0.01, 0.5)
    own = GapHistogram("gaps", "Meaning.", bounds)
    registry = CollectorRegistry()
    registry.register(own)
    theirs = Histogram("gaps", "Meaning.", ("model_name",), registry=None, buckets=bounds)
    for count, value in enumerate((0.0005, 0.001, 0.0011, 0.01, 0.25, 0.5, 7.0), 1):
        own.of("m").observe(value, count)
        for _ in range(count):
            theirs.labels("m").observe(value)
    reference = CollectorRegistry()
    reference.register(theirs)

    def lines(found):
        text = generate_latest(found).decode().splitlines()
        return [line for line in text if "_created" not in line]

    assert lines(registry) == lines(reference)


@cpu_only
@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/1.0"])
def test_a_stream_is_the_full_answer_in_order(version):
    engine = Engine.load(synthetic_model(), max_batch=4)
    body = {"model": "m", "prompt": "once", "max_tokens": 60, "temperature": 0, "n": 2}
    with running(engine, model=served_model(engine, "m")) as server:
        whole = ask(server.port, body)
        texts = [choice["text"] for choice in json.loads(whole)["choices"]]
        streamed = ask(server.port, {**body, "stream": True}, version).decode()
    events = [line[6:] for line in streamed.splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    parts = ["", ""]
    for text in events[:-1]:
        choice = json.loads(text)["choices"][0]
        parts[choice["index"]] += choice["text"]
    assert parts == texts


def ask(port, body, version="HTTP/1.1"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection._http_vsn_str = version
    text = json.dumps(body)
    connection.request("POST", "/v1/completions", text, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 200
    data = answer.read()
    connection.close()
    return data

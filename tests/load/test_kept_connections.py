"""A server that closes kept connections without saying so, as llama.cpp's does."""

from __future__ import annotations

import json
import socket
import threading

import pytest

from assay.load.client import LoadClient
from assay.load.workloads.workload import PlannedRequest, Window, Workload

WORKLOAD = Workload("test", "", tuple(PlannedRequest(n, f"number {n}", 2) for n in range(12)))


class Closing:
    """Answers some requests on a connection and then closes it; counts what it read."""

    def __init__(self, answers: int, *, half: bool = False) -> None:
        self.answers, self.half, self.read = answers, half, 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as file:
            for number in range(self.answers):
                first = file.readline()
                if not first:
                    return
                length = 0
                while (line := file.readline()).strip():
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                body = file.read(length)
                if first.startswith(b"GET"):
                    said = json.dumps({"data": [{"id": "m"}]}).encode()
                else:
                    self.read += b"number" in body
                    usage = {"prompt_tokens": 2, "completion_tokens": 2}
                    events = [{"choices": [{"text": "a"}]}] * 2 + [{"choices": [], "usage": usage}]
                    said = b"".join(f"data: {json.dumps(one)}\n\n".encode() for one in events)
                head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(said)}\r\n\r\n".encode()
                if self.half and number == self.answers - 1:
                    connection.sendall(head + said[: len(said) // 2])
                    return
                connection.sendall(head + said)

    def close(self) -> None:
        self._socket.close()


@pytest.mark.parametrize("answers", [1, 2, 5])
def test_every_request_is_answered_once(answers):
    server = Closing(answers)
    try:
        with LoadClient(server.url) as client:
            found = client.run_window(WORKLOAD, Window(requests=12))
        assert (found.errors, found.output_tokens, server.read) == (0, 24, 12)
    finally:
        server.close()


def test_an_answer_that_breaks_off_is_an_error_and_not_asked_again():
    server = Closing(2, half=True)
    try:
        with LoadClient(server.url) as client:
            found = client.run_window(WORKLOAD, Window(requests=12))
        assert found.errors == server.read // 2 > 0
        assert server.read == 12
    finally:
        server.close()

"""Models of a hub and of addresses, fetched from a server of this process."""

import hashlib
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from assay.cli import serve_models
from assay.cli.app import run
from assay.engine.loading import hub, hub_files, open_model, pulling
from assay.engine.loading.description import describe_model
from assay.engine.loading.pull_folder import PullError
from assay.engine.loading.synthetic import write_folder
from assay.errors import InputError

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class FakeHub(ThreadingHTTPServer):
    """Lists repositories and sends their files, large ones from another path, as hubs do."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.gated: set[str] = set()
        self.license: str | None = "apache-2.0"
        self.asked: list[tuple[str, str | None, str | None]] = []
        self.cut_after: int | None = None
        self.wrong_hash = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        hub_, path = self.server, self.path.partition("?")[0]
        token = self.headers.get("Authorization")
        hub_.asked.append((path, token, self.headers.get("Range")))
        words = path.strip("/").split("/")
        if words[:2] == ["api", "models"]:
            name = "/".join(words[2:4])
            if name in hub_.gated and token != "Bearer secret":
                return self._send(401, b"")
            if name not in hub_.repositories:
                return self._send(404, b"")
            return self._send(200, json.dumps(self._listing(name)).encode())
        if words[0] == "cdn":
            return self._file(hub_.repositories["/".join(words[1:3])]["/".join(words[3:])])
        name, file = "/".join(words[:2]), "/".join(words[4:])
        if words[2:4] != ["resolve", COMMIT] and words[2:3] != ["plain"]:
            return self._send(404, b"")
        content = hub_.repositories[name][file]
        if words[2] == "resolve" and _is_large(file):
            self.send_response(302)
            self.send_header("Location", f"/cdn/{name}/{file}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        return self._file(content)

    def _listing(self, name: str) -> dict[str, Any]:
        siblings = []
        for file, content in self.server.repositories[name].items():
            sibling: dict[str, Any] = {"rfilename": file, "size": len(content)}
            blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
            sha256 = hashlib.sha256(content).hexdigest()
            if self.server.wrong_hash:
                sha256 = "0" * 64
            sibling |= (
                {"lfs": {"sha256": sha256, "size": len(content)}}
                if _is_large(file)
                else {"blobId": blob}
            )
            siblings.append(sibling)
        card = {} if self.server.license is None else {"license": self.server.license}
        return {"sha": COMMIT, "siblings": siblings, "cardData": card}

    def _file(self, content: bytes) -> None:
        asked = self.headers.get("Range")
        first = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        sent, cut = content[first:], self.server.cut_after
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent if cut is None else sent[:cut])
        self.close_connection = cut is not None

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _is_large(file: str) -> bool:
    return file.endswith((".safetensors", ".gguf"))


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path / "scratch"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with FakeHub() as fake:
        monkeypatch.setenv("HF_ENDPOINT", fake.url)
        threading.Thread(target=fake.serve_forever, daemon=True).start()
        yield fake
        fake.shutdown()


@pytest.fixture
def folder(server: FakeHub, tmp_path: Path) -> dict[str, bytes]:
    """A repository of a small Llama, beside files that a model does not need."""
    folder = tmp_path / "llama"
    write_folder(folder, "llama")
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    server.repositories["org/small"] = {
        **files,
        "README.md": b"# read me",
        "consolidated.safetensors": b"twice",
        "onnx/model.onnx": b"another format",
        "../outside.json": b"{}",
    }
    return files


def test_repository_is_fetched_verified_and_opened(
    server: FakeHub, folder: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["pull", "org/small", "--json"]) == 0
    printed = capsys.readouterr()
    data = json.loads(printed.out)
    assert (data["license"], data["revision"]) == ("apache-2.0", COMMIT)
    path = Path(data["path"])
    stored = {file.name: file.read_bytes() for file in path.iterdir() if file.name[0] != "."}
    assert stored == folder
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in folder.items()}
    assert data["sha256"] == digests
    assert open_model("org/small").name == "org/small"
    assert describe_model("org/small").model.shapes
    assert serve_models.parse(["org/small"])[0].name == "org/small"
    assert run(["models", "--json"]) == 0
    [listed] = [row for row in json.loads(capsys.readouterr().out) if row["name"] == "org/small"]
    assert (listed["pulled"], listed["license"]) == (True, "apache-2.0")
    asked = len(server.asked)
    pulling.pull("org/small")
    assert len(server.asked) == asked + 1, "only the list of files is asked for again"


def test_unfetched_repository_has_a_hint(server: FakeHub) -> None:
    with pytest.raises(InputError, match="a model that was fetched, got neither") as caught:
        open_model("org/small:Q8_0")
    assert caught.value.hint == "fetch it with: assay pull org/small:Q8_0"


def test_license_that_is_not_stated_is_said(
    server: FakeHub, folder: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    server.license = None
    assert run(["pull", "org/small"]) == 0
    assert "license: not stated by its source" in capsys.readouterr().err


def test_token_goes_to_the_hub_and_not_to_where_it_redirects(
    server: FakeHub, folder: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.gated.add("org/small")
    with pytest.raises(PullError, match="status 401") as caught:
        pulling.pull("org/small")
    assert "HF_TOKEN" in str(caught.value.hint)
    monkeypatch.setenv("HF_TOKEN", "secret")
    other = server.url.replace("127.0.0.1", "localhost")
    monkeypatch.setattr(_Handler, "address_string", lambda self: "")
    original = _Handler.send_header

    def elsewhere(self: _Handler, name: str, value: str) -> None:
        original(self, name, other + value if name == "Location" else value)

    monkeypatch.setattr(_Handler, "send_header", elsewhere)
    pulling.pull("org/small")
    tokens = {path.startswith("/cdn"): token for path, token, _ in server.asked}
    assert tokens == {False: "Bearer secret", True: None}


def test_file_that_was_cut_off_is_continued(server: FakeHub) -> None:
    content = os.urandom(3000)
    server.repositories["org/q"] = {"model-Q4_K_M.gguf": content}
    server.cut_after = 1000
    with pytest.raises(
        PullError, match=r"IncompleteRead|expected 3,000 bytes, got 1,000"
    ) as caught:
        pulling.pull("org/q")
    assert "continues" in str(caught.value.hint)
    assert hub.stored_path(hub.Repository("org/q")) is None
    server.cut_after = None
    pulled = pulling.pull("org/q")
    assert pulled.path.read_bytes() == content
    assert server.asked[-1][2] == "bytes=1000-"


def test_file_with_another_hash_is_removed(server: FakeHub) -> None:
    server.repositories["org/q"] = {"model-Q4_K_M.gguf": b"weights"}
    server.wrong_hash = True
    with pytest.raises(InputError, match="expected SHA-256 0000"):
        pulling.pull("org/q")
    left = {path.name for path in hub.Repository("org/q").folder.iterdir()}
    assert left == {".lock"}


def test_file_of_an_address(server: FakeHub) -> None:
    server.repositories["some/where"] = {"x/model.gguf": b"weights"}
    url = f"{server.url}/some/where/plain/y/x/model.gguf"
    pulled = pulling.pull(url)
    assert pulled.path.read_bytes() == b"weights"
    assert pulled.sha256 == {"model.gguf": hashlib.sha256(b"weights").hexdigest()}
    asked = len(server.asked)
    assert pulling.pull(url).path == pulled.path
    assert len(server.asked) == asked


def test_unknown_repository_is_one_line(
    server: FakeHub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["pull", "org/none"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[-2].startswith('error: repository "org/none": expected it at http://')
    assert lines[-1].startswith("hint: check the name")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("org/name", hub.Repository("org/name")),
        ("org/name:Q4_K_M", hub.Repository("org/name", "Q4_K_M")),
        ("org/name@v1:a.gguf", hub.Repository("org/name", "a.gguf", "v1")),
        ("hf.co/org/name:Q8_0", hub.Repository("org/name", "Q8_0")),
        ("https://huggingface.co/org/name", hub.Repository("org/name")),
        (
            "https://huggingface.co/org/name/blob/main/dir/a.gguf",
            hub.Repository("org/name", "dir/a.gguf"),
        ),
        ("https://example.org/a/b.gguf", hub.FileAddress("https://example.org/a/b.gguf")),
        ("smollm2", None),
        ("no/such/model", None),
        ("../model", None),
        ("folder/model.gguf", None),
    ],
)
def test_names_of_repositories(text: str, expected: hub.Remote | None) -> None:
    assert hub.parse(text) == expected


def test_address_of_another_format_is_refused() -> None:
    with pytest.raises(InputError, match=r"expected the address of a GGUF file, got 'a\.bin'"):
        hub.parse("https://example.org/a.bin")


SPLIT = ["m-Q4_K_M-00001-of-00002.gguf", "m-Q4_K_M-00002-of-00002.gguf"]


@pytest.mark.parametrize(
    ("names", "wanted", "files"),
    [
        (["a.gguf", "README.md"], None, ["a.gguf"]),
        (["m-Q4_K_M.gguf", "m-Q8_0.gguf", "m-F16.gguf"], None, ["m-Q4_K_M.gguf"]),
        (["m-Q4_K_M.gguf", "m-Q8_0.gguf"], "q8_0", ["m-Q8_0.gguf"]),
        ([*SPLIT, "m-Q8_0.gguf"], None, SPLIT),
        (["mmproj-F16.gguf", "m-F16.gguf"], "F16", ["m-F16.gguf"]),
    ],
)
def test_files_of_a_model(names: list[str], wanted: str | None, files: list[str]) -> None:
    selection = hub_files.select("org/m", names, wanted)
    assert (selection.files, selection.opens) == (files, files[0])


@pytest.mark.parametrize(
    ("names", "wanted", "message"),
    [
        (["pytorch_model.bin", "config.json"], None, "expected safetensors with config.json"),
        (["m-F16.gguf", "n-F16.gguf"], None, "expected safetensors with config.json or GGUF"),
        (["m-F16.gguf", "n-F16.gguf"], "F16", "got several"),
        (["m-F16.gguf"], "Q2_K", "got none"),
        (["config.json", "model.safetensors"], "config.json", "expected a GGUF file"),
    ],
)
def test_repositories_without_a_model(names: list[str], wanted: str | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        hub_files.select("org/m", names, wanted)

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from assay.errors import InputError
from assay.ui.app import create_app
from assay.ui.security import CONTENT_SECURITY_POLICY, MAX_BODY, check_token

TOKEN = "a-token-of-this-test"
KEY = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(create_app(TOKEN, ["gpu-box"]), base_url="http://127.0.0.1:8321")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8321", 200),
        ("localhost:8321", 200),
        ("[::1]:8321", 200),
        ("gpu-box:8321", 200),
        ("GPU-BOX", 200),
        # A rebound name of another site.
        ("evil.example:8321", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example", 421),
        ("user@evil.example", 421),
        ("[::1", 421),
        ("", 421),
    ],
)
def test_only_names_of_this_server_are_served(client: TestClient, host: str, status: int) -> None:
    assert client.get("/", headers={"Host": host}).status_code == status
    assert client.get("/api/v1/about", headers={"Host": host, **KEY}).status_code == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": TOKEN}, 401),
        ({"Authorization": "Bearer "}, 401),
        ({"Authorization": f"Bearer {TOKEN}x"}, 401),
        ({"Authorization": b"Bearer \xff\xfe"}, 401),
        ({"Authorization": f"Basic {TOKEN}"}, 401),
        ({"Cookie": f"token={TOKEN}"}, 401),
        (KEY, 200),
        ({**KEY, "Origin": "http://127.0.0.1:8321"}, 200),
        ({**KEY, "Origin": "http://127.0.0.1:9999"}, 403),
        ({**KEY, "Origin": "https://evil.example"}, 403),
        ({**KEY, "Origin": "null"}, 403),
        ({**KEY, "Sec-Fetch-Site": "cross-site"}, 403),
        ({**KEY, "Sec-Fetch-Site": "same-site"}, 403),
        ({**KEY, "Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
def test_the_api_answers_own_pages_only(
    client: TestClient, headers: dict[str, str], status: int
) -> None:
    response = client.get("/api/v1/about", headers=headers)
    assert response.status_code == status
    if status != 200:
        assert response.json()["error"]["message"]


@pytest.mark.parametrize("action", ["stop", "rollback"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        # What a form or an image of another site can make a browser send.
        (
            {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "cross-site"},
            403,
        ),
        ({"Content-Type": "text/plain", "Origin": "https://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:8321", "Sec-Fetch-Site": "same-origin"}, 401),
        ({**KEY, "Origin": "https://evil.example"}, 403),
        ({**KEY, "Host": "evil.example"}, 421),
        # From our own page it is answered: there is no such run.
        ({**KEY, "Origin": "http://127.0.0.1:8321", "Sec-Fetch-Site": "same-origin"}, 404),
    ],
)
def test_actions_cannot_be_forged(
    client: TestClient, action: str, headers: dict[str, str], status: int
) -> None:
    path = f"/api/v1/runs/20200101-000000-nothing-0000/{action}"
    assert client.post(path, headers=headers, content=b"{}").status_code == status
    # An image or a link cannot act at all.
    assert "there is no" in client.get(path, headers=KEY).json()["error"]["message"]


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%2e%2e", "a/b", "%00", "latest/../x"]
)
def test_no_name_of_a_run_trace_or_document_is_a_path(client: TestClient, name: str) -> None:
    for path in (
        f"runs/{name}",
        f"runs/{name}/timeline",
        f"traces/{name}/timeline",
        f"documents/{name}",
    ):
        response = client.get(f"/api/v1/{path}", headers=KEY)
        assert response.status_code in (404, 405, 422), path
        assert "root:" not in response.text


def test_a_token_in_the_address_is_not_accepted(client: TestClient) -> None:
    assert client.get(f"/api/v1/about?token={TOKEN}").status_code == 401


def test_no_response_lets_another_origin_read_it(client: TestClient) -> None:
    for path in ("/", "/api/v1/about", "/nothing"):
        response = client.get(path, headers={**KEY, "Origin": "http://127.0.0.1:8321"})
        assert "access-control-allow-origin" not in response.headers
        assert response.headers["cross-origin-resource-policy"] == "same-origin"
        assert response.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "set-cookie" not in response.headers


def test_the_policy_allows_no_inline_code() -> None:
    assert "unsafe-inline" not in CONTENT_SECURITY_POLICY
    assert "'unsafe-eval'" not in CONTENT_SECURITY_POLICY
    assert "default-src 'none'" in CONTENT_SECURITY_POLICY


@pytest.mark.parametrize(
    "path",
    [
        "/../pyproject.toml",
        "/..%2f..%2f..%2fpyproject.toml",
        "/%2e%2e/%2e%2e/app.py",
        "/static/../../app.py",
        "//etc/passwd",
        "/static/%00",
        "/../__init__.py",
        "/app.py",
    ],
)
def test_no_path_leads_out_of_the_assets(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_large_bodies_are_refused(client: TestClient) -> None:
    response = client.post("/api/v1/about", headers=KEY, content=b"x" * (MAX_BODY + 1))
    assert response.status_code == 413


@pytest.mark.parametrize(
    "token",
    ["", "short", "with space and more of it", "caf\u00e9-caf\u00e9-caf\u00e9-caf\u00e9", "a" * 15],
)
def test_weak_tokens_are_refused(token: str) -> None:
    with pytest.raises(InputError, match="--token"):
        check_token(token)

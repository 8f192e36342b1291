"""The published client and grant profiles: what a program may call, what it may not, and what its caller is told."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from plimsoll_client import AsyncClient, Client, InvalidRequestError, PlimsollError

from harness import TOKEN, UNLIMITED, Daemon, running

CREDENTIAL = "interop-api-credential-0123456789"


@dataclass
class Api:
    """A loopback API: every answer is the path it was asked for; it remembers request lines, credentials and bodies."""

    base_url: str = ""
    lines: list[str] = field(default_factory=list)
    credentials: list[str | None] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)


@pytest.fixture
def api() -> Iterator[Api]:
    """One API for one test."""
    api = Api()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            length = int(self.headers["Content-Length"] or 0)
            api.lines.append(f"{self.command} {self.path}")
            api.credentials.append(self.headers["Authorization"])
            api.bodies.append(self.rfile.read(length))
            status = 404 if self.path.endswith("/missing") else 200
            content = json.dumps({"path": self.path}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            self.answer()

        def do_PUT(self) -> None:
            self.answer()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    api.base_url = f"http://127.0.0.1:{server.server_port}"
    yield api
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def granting(api: Api, tmp_path: Path) -> Iterator[Daemon]:
    """A daemon whose shared-token caller, `static`, may use all profiles but one."""

    def profile(**fields: object) -> dict[str, object]:
        return {
            "base_url": api.base_url,
            "allow": ["GET /berths", "GET /berths/*", "PUT /berths/*"],
            "batch_of": {"GET /berths": ["GET /berths/*"]},
            "allowed_callers": ["static"],
            "token": {"env": "BERTHS_TOKEN"},
            **fields,
        }

    profiles = {
        "berths": profile(advice="caller"),
        "quiet": profile(advice="operator"),
        "few": profile(max_calls=2),
        "theirs": profile(allowed_callers=["somebody-else"]),
    }
    grants = tmp_path / "grants.json"
    grants.write_text(json.dumps({"profiles": profiles}))
    grants.chmod(0o600)
    with running({**UNLIMITED, "PLIMSOLL_GRANTS_FILE": str(grants), "BERTHS_TOKEN": CREDENTIAL}) as daemon:
        yield daemon


@pytest.fixture
def granted(granting: Daemon) -> Client:
    """The published client, pointed at that daemon."""
    return Client(granting.base_url, TOKEN)


def refusal(error: pytest.ExceptionInfo[PlimsollError]) -> tuple[str, str | None, int | None, str]:
    """Code, mark, HTTP status and text of a refusal."""
    value = error.value
    return (value.code, value.not_dispatched, value.http_status, str(value))


FAN_OUT = "for (let i = 0; i < 8; i++) await host.get('/berths/' + i)"


def test_describe_offers_grants_for_snippets(granted: Client) -> None:
    info = granted.describe()
    assert (info.supports_javascript_grants, info.supports_project_grants) == (True, False)


def test_a_program_calls_what_its_profile_allows_and_the_record_stands(granted: Client, api: Api) -> None:
    code = "await host.put('/berths/7', {a: 1}); console.log((await host.get('/berths/8')).path)"
    result = granted.run_javascript(code, grant_profile="berths", minimum_isolation="process")
    assert (result.stdout, result.stderr, result.exit_code) == (b"/berths/8\n", b"", 0)
    assert result.record is not None
    assert api.lines == ["PUT /berths/7", "GET /berths/8"]
    assert api.credentials == [f"Bearer {CREDENTIAL}"] * 2
    assert api.bodies == [b'{"a":1}', b""]


def test_the_grant_is_part_of_what_the_record_binds(granted: Client) -> None:
    code = "console.log(1)"
    without = granted.run_javascript(code).record
    with_it = granted.run_javascript(code, grant_profile="berths").record
    other = granted.run_javascript(code, grant_profile="quiet").record
    assert without is not None
    assert with_it is not None
    assert other is not None
    assert len({without.request_sha256, with_it.request_sha256, other.request_sha256}) == 3
    assert without.result_sha256 == with_it.result_sha256 == other.result_sha256


def test_a_forbidden_route_and_a_failing_one_are_the_programs_own_errors(granted: Client, api: Api) -> None:
    code = """
        for (const path of ['/other', '/berths/1?x=1', '/berths/missing'])
            await host.get(path).catch((error) => console.log(error.message, error.status));
        console.log(__plimsoll_host_call('{"method":"DELETE","path":"/berths/1"}').status);
    """
    result = granted.run_javascript(code, grant_profile="berths")
    assert result.stdout.decode().splitlines() == [
        "host api call not permitted: GET /other undefined",
        "host api call not permitted: GET /berths/1?x=1 undefined",
        'host api 404: {"path": "/berths/missing"} 404',
        "403",
    ]
    assert api.lines == ["GET /berths/missing"]


def test_an_unknown_profile_and_a_forbidden_one_are_refused_in_the_same_words(granted: Client, api: Api) -> None:
    refusals = []
    for name in ("theirs", "nobodys"):
        with pytest.raises(PlimsollError) as error:
            granted.run_javascript(FAN_OUT, grant_profile=name)
        refusals.append(refusal(error))
    assert refusals[0] == refusals[1]
    assert refusals[0][:3] == ("permission_denied", "permission", 403)
    assert api.lines == []


def test_a_name_of_129_bytes_is_an_invalid_request(granted: Client) -> None:
    with pytest.raises(InvalidRequestError) as error:
        granted.run_javascript("1", grant_profile="p" * 129)
    assert refusal(error)[:3] == ("invalid_argument", "request", 400)


def test_a_run_that_names_no_profile_has_no_client(granted: Client, api: Api) -> None:
    code = """console.log(typeof host, __plimsoll_host_call('{"method":"GET","path":"/berths"}').status)"""
    assert granted.run_javascript(code).stdout == b"undefined 503\n"
    assert granted.run_javascript(code, grant_profile="").stdout == b"undefined 503\n"
    assert api.lines == []


def test_advice_is_on_the_result_of_a_caller_who_may_be_told(granted: Client) -> None:
    result = granted.run_javascript(FAN_OUT, grant_profile="berths")
    assert len(result.advice) == 1
    finding = result.advice[0]
    assert (finding.pattern, finding.severity, finding.remedy) == ("fan_out", "low", "batch")
    assert (finding.method, finding.route) == ("GET", "/berths/*")
    assert (finding.suggested_method, finding.suggested_route) == ("GET", "/berths")
    assert finding.extra_calls == 7
    assert finding.bytes_moved == 8 * len('{"path": "/berths/0"}')
    assert finding.added_latency_ms >= 0
    assert "GET /berths/*" in finding.detail
    assert result.record is not None

    quiet = granted.run_javascript(FAN_OUT, grant_profile="quiet")
    assert len(quiet.advice) == 0
    assert quiet.record is not None
    assert quiet.record.result_sha256 == result.record.result_sha256


def test_the_async_client_names_a_profile_as_the_other_does(granting: Daemon, api: Api) -> None:
    client = AsyncClient(granting.base_url, TOKEN)
    result = asyncio.run(client.run_javascript("await host.get('/berths')", grant_profile="berths"))
    assert (result.exit_code, api.lines) == (0, ["GET /berths"])


def test_calls_beyond_the_budget_are_the_programs_own_errors(granted: Client, api: Api) -> None:
    code = "for (let i = 0; i < 3; i++) await host.get('/berths').then(() => {}, (e) => console.log(e.status))"
    assert granted.run_javascript(code, grant_profile="few").stdout == b"429\n"
    assert len(api.lines) == 2


def test_neither_credential_nor_path_is_logged_or_counted(granting: Daemon, granted: Client) -> None:
    granted.run_javascript("await host.get('/berths/path-of-a-guest')", grant_profile="berths", trace_id="grant-1")
    line = granting.wait_for_line("trace_id", "grant-1")
    assert (line["grant_profile"], line["host_calls"]) == ("berths", 1)
    assert granting.metric('plimsoll_host_calls_total{profile="berths",method="GET",route="/berths/*"}') == 1
    kept = json.dumps(granting.lines)
    assert CREDENTIAL not in kept
    assert "path-of-a-guest" not in kept

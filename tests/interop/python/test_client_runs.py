"""The published client runs snippets and believes the answers."""

from __future__ import annotations

import re

import pytest
from plimsoll_client import PROTOCOL, RECORD_VERSION, Client

from harness import ROOT, Daemon

ENGINE = re.compile(r"quickjs-wasm:sha256:[0-9a-f]{64}")


def test_describe_states_the_wasm_provider(client: Client) -> None:
    info = client.describe()
    assert (info.provider, info.isolation, info.protocol) == ("wasm", "process", PROTOCOL)
    assert ENGINE.fullmatch(info.javascript_environment.identity)
    assert info.javascript_environment.software_identity == ""
    assert info.javascript_environment.languages == ("javascript",)
    assert info.javascript_environment.max_timeout_ms == 30_000
    assert info.project_environment == info.javascript_environment
    assert (info.module_environment.identity, info.module_environment.max_timeout_ms) == ("", 0)
    assert info.supports_javascript_grants
    assert info.supports_project
    unbuilt = (info.supports_module, info.supports_sessions, info.supports_project_grants)
    assert unbuilt == (False, False, False)
    assert info.policy == ""


def test_a_run_carries_output_tier_environment_and_record(client: Client) -> None:
    result = client.run_javascript("console.log(6*7)", minimum_isolation="process")
    assert (result.stdout, result.stderr, result.exit_code, result.timed_out) == (b"42\n", b"", 0, False)
    assert (result.provider, result.isolation) == ("wasm", "process")
    assert result.environment == client.describe().javascript_environment.identity
    assert result.duration_ms >= 0
    assert result.record is not None
    assert result.record.version == RECORD_VERSION


def test_a_project_of_node_steps_runs_and_brings_its_artifacts_back(client: Client) -> None:
    files = {
        "src/main.mjs": "import { total } from './total.cjs'; console.log(total([40, 2]), process.argv[2])",
        "src/total.cjs": "exports.total = (rows) => rows.reduce((sum, row) => sum + row, 0)",
        "write.js": "require('fs').writeFileSync('out.bin', Buffer.from([255, 0]))",
    }
    steps = ["node src/main.mjs 'two words'", "node write.js", "ls", "node write.js"]
    result = client.run_project(files, steps, artifacts=["out.bin", "missing"], minimum_isolation="process")
    assert (result.provider, result.isolation, result.outcome) == ("wasm", "process", "completed")
    told = [(step.command, step.exit_code, step.stdout) for step in result.steps]
    assert told[:2] == [(steps[0], 0, b"42 two words\n"), (steps[1], 0, b"")]
    assert (told[2][:2], len(told)) == (("ls", 127), 3)
    assert b"node FILE [arguments]" in result.steps[2].stderr
    assert [(artifact.path, artifact.content) for artifact in result.artifacts] == [("out.bin", b"\xff\x00")]
    assert result.environment == client.describe().javascript_environment.identity
    assert result.record is not None


def test_the_payroll_example_prints_its_totals(client: Client) -> None:
    code = (ROOT / "examples/minimal/payroll.js").read_text()
    result = client.run_javascript(code, minimum_isolation="process")
    assert result.stdout == b'{"Engineering":59000000,"Sales":20300000,"Operations":9800000}\n'
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("console.log('done')", 0),
        ("process.exit(3)", 3),
        ("process.exit(-1)", 255),
        ("process.exit(124)", 124),
        ("process.exitCode = 7", 7),
        ("throw new Error('boom')", 1),
        ("let x = ;", 1),
        ("Promise.reject(new Error('unhandled'))", 1),
        ("await new Promise(() => {})", 13),
    ],
)
def test_the_guests_exit_code_is_a_result_and_not_an_error(client: Client, code: str, exit_code: int) -> None:
    result = client.run_javascript(code)
    assert (result.exit_code, result.timed_out) == (exit_code, False)


def test_an_uncaught_error_is_named_on_stderr(client: Client) -> None:
    result = client.run_javascript("console.log('before')\nthrow new TypeError('boom')")
    assert result.stdout == b"before\n"
    assert b"TypeError: boom" in result.stderr
    assert b"main.js:2" in result.stderr


def test_streams_are_kept_apart(client: Client) -> None:
    result = client.run_javascript("console.error('E');console.warn('W');console.info('I');console.log('OK')")
    assert (result.stdout, result.stderr) == (b"I\nOK\n", b"E\nW\n")


@pytest.mark.parametrize(
    ("code", "stdout"),
    [
        ("process.stdout.write(new Uint8Array([255, 254, 0, 128, 10]))", b"\xff\xfe\x00\x80\n"),
        ("process.stdout.write('a\\u0000b')", b"a\x00b"),
        ("process.stdout.write('caf\\u00e9\\u2615')", "café\u2615".encode()),
        ("process.stdout.write('\\ud800')", b"\xef\xbf\xbd"),
        ("process.stdout.write('a\\n\\n\\nb\\n')", b"a\n\n\nb\n"),
    ],
)
def test_output_arrives_byte_for_byte(client: Client, code: str, stdout: bytes) -> None:
    assert client.run_javascript(code).stdout == stdout


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize(
    ("length", "kept", "truncated"),
    [(65_535, 65_535, False), (65_536, 65_536, False), (65_537, 65_536, True), (1_000_000, 65_536, True)],
)
def test_output_past_the_cap_is_flagged_and_nothing_is_inserted(
    client: Client, stream: str, length: int, kept: int, truncated: bool
) -> None:
    result = client.run_javascript(f"process.{stream}.write('x'.repeat({length}))")
    streams = {"stdout": (result.stdout, result.stdout_truncated), "stderr": (result.stderr, result.stderr_truncated)}
    assert streams.pop(stream) == (b"x" * kept, truncated)
    assert streams.popitem()[1] == (b"", False)
    assert result.exit_code == 0


def test_two_runs_share_nothing(client: Client) -> None:
    client.run_javascript("globalThis.left = 'behind'; Array.prototype.left = 'behind'")
    result = client.run_javascript("console.log(typeof left, [].left)")
    assert result.stdout == b"undefined undefined\n"


def test_a_run_can_be_repeated_byte_for_byte(client: Client) -> None:
    code = "console.log(Math.random(), Date.now(), performance.now(), crypto.randomUUID())"
    assert client.run_javascript(code).stdout == client.run_javascript(code).stdout


def test_the_trace_id_reaches_the_audit_line_and_nothing_else_does(client: Client, daemon: Daemon) -> None:
    client.run_javascript("console.log('secret-in-code', 'secret' + '-in-output')", trace_id="interop-trace-1")
    audit = daemon.wait_for_line("trace_id", "interop-trace-1")
    assert (audit["msg"], audit["op"], audit["caller"]) == ("code run", "javascript", "static")
    assert not any("secret-in" in str(line) for line in daemon.lines)

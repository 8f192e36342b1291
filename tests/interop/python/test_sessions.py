"""The published client keeps a session on wasm: cells that remember, the chain of records, ends and caps."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator

import pytest
from plimsoll_client import (
    RECORD_VERSION,
    AtCapacityError,
    ChainError,
    Client,
    InsufficientIsolationError,
    PlimsollError,
    RunRecord,
    Session,
    SessionEndedError,
    SoftwareMismatchError,
    SoftwareRule,
    UnsupportedError,
    Workspace,
)

from harness import TOKEN, UNLIMITED, Daemon, running
from proxy import Exchange, Proxy
from recompute import record_digest

MAX_SESSIONS = 2
HEX_DIGEST = re.compile(r"[0-9a-f]{64}")


@pytest.fixture(scope="module")
def keeper() -> Iterator[Daemon]:
    """A daemon on wasm that keeps a few sessions."""
    with running({**UNLIMITED, "SANDBOX_MAX_SESSIONS": str(MAX_SESSIONS)}) as started:
        yield started


@pytest.fixture
def caller(keeper: Daemon) -> Client:
    """The client of that daemon."""
    return Client(keeper.base_url, TOKEN)


@pytest.fixture
def session(caller: Client) -> Iterator[Session]:
    """One open session of that client; its close compares the daemon's count with the client's own chain."""
    with caller.open_session(minimum_isolation="process") as opened:
        yield opened


def refusal(error: pytest.ExceptionInfo[PlimsollError]) -> tuple[str, str | None]:
    """What a caller decides by: the code, and the mark that nothing ran."""
    return (error.value.code, error.value.not_dispatched)


def believed(record: RunRecord | None) -> RunRecord:
    """The record of an answer that the client has checked."""
    assert record is not None
    return record


def test_describe_states_sessions_their_terms_and_their_one_language(caller: Client) -> None:
    info = caller.describe()
    assert info.supports_sessions
    assert info.session_environment.languages == ("javascript",)
    assert info.session_environment.identity == info.javascript_environment.identity
    assert (info.session_lifetime_ms, info.session_idle_timeout_ms) == (1_800_000, 300_000)
    assert (info.max_sessions_per_caller, info.max_sessions_per_owner) == (0, 0)


def test_a_daemon_that_was_not_told_to_keep_sessions_keeps_none(client: Client) -> None:
    assert not client.describe().supports_sessions
    with pytest.raises(UnsupportedError) as error:
        client.open_session()
    assert refusal(error) == ("unimplemented", "unsupported")


def test_an_open_session_states_its_tier_its_end_and_a_fingerprint(caller: Client) -> None:
    before = time.time_ns() // 1_000_000
    with caller.open_session(minimum_isolation="process", lifetime=600, idle_timeout=60) as opened:
        after = time.time_ns() // 1_000_000
        assert (opened.provider, opened.isolation, opened.software_identity) == ("wasm", "process", "")
        assert before + 600_000 <= opened.expires_unix_ms <= after + 600_000
        assert opened.idle_timeout_ms == 60_000
        assert HEX_DIGEST.fullmatch(opened.fingerprint)
        assert (opened.calls, opened.last_record_sha256, opened.ended, opened.stopped) == (0, "", None, None)


def test_variables_functions_and_classes_survive_from_cell_to_cell(session: Session) -> None:
    first = session.run_cell("let n = 40; const add = (x) => x + n; class Box { get() { return n } }", "javascript")
    assert (first.stdout, first.stderr, first.exit_code, first.timed_out) == (b"", b"", 0, False)
    assert (first.interpreter_started, first.interpreter_ended) == (True, False)
    second = session.run_cell("n += 1\nconsole.log(add(1), new Box().get())\nn", "javascript")
    assert (second.stdout, second.exit_code) == (b"42 41\n41\n", 0)
    assert (second.interpreter_started, second.interpreter_ended) == (False, False)
    third = session.run_cell("const add = await Promise.resolve('declared again'); console.log(add)", "javascript")
    assert (third.stdout, third.exit_code, third.interpreter_started) == (b"declared again\n", 0, False)
    assert (third.provider, third.isolation) == ("wasm", "process")


def test_two_sessions_share_nothing(caller: Client, session: Session) -> None:
    session.run_cell("globalThis.left = 'behind'", "javascript")
    with caller.open_session(minimum_isolation="process") as other:
        cell = other.run_cell("console.log(typeof left)", "javascript")
        assert (cell.stdout, cell.interpreter_started) == (b"undefined\n", True)


def test_a_snippet_runs_beside_the_cells_and_leaves_their_variables_alone(session: Session) -> None:
    session.run_cell("let kept = 'by the interpreter'", "javascript")
    snippet = session.run_javascript("console.log(typeof kept); var kept = 'by nobody'; process.exit(3)")
    assert (snippet.stdout, snippet.exit_code, snippet.timed_out) == (b"undefined\n", 3, False)
    after = session.run_cell("console.log(kept)", "javascript")
    assert (after.stdout, after.interpreter_started) == (b"by the interpreter\n", False)
    assert session.calls == 3


def test_a_file_that_a_cell_brings_is_there_for_the_next_cell(session: Session) -> None:
    session.run_cell("1", "javascript", files={"data/n.txt": "41"})
    cell = session.run_cell("Number(require('node:fs').readFileSync('data/n.txt', 'utf8')) + 1", "javascript")
    assert (cell.stdout, cell.exit_code) == (b"42\n", 0)


def test_a_cell_that_raises_says_so_and_its_interpreter_goes_on(session: Session) -> None:
    session.run_cell("let n = 41", "javascript")
    raised = session.run_cell("console.log('before')\nn += 1\nthrow new TypeError('boom')", "javascript")
    assert (raised.stdout, raised.exit_code, raised.timed_out) == (b"before\n", 1, False)
    assert b"TypeError: boom" in raised.stderr
    assert (raised.interpreter_started, raised.interpreter_ended) == (False, False)
    after = session.run_cell("n", "javascript")
    assert (after.stdout, after.exit_code, after.interpreter_started) == (b"42\n", 0, False)


def test_a_cell_past_its_deadline_ends_the_interpreter_and_the_next_one_starts_anew(session: Session) -> None:
    session.run_cell("let n = 41", "javascript")
    started = time.monotonic()
    late = session.run_cell("console.log('kept'); while (true) {}", "javascript", timeout=0.3)
    assert time.monotonic() - started < 5
    assert (late.stdout, late.exit_code, late.timed_out) == (b"kept\n", 124, True)
    assert (late.interpreter_started, late.interpreter_ended) == (False, True)
    after = session.run_cell("console.log(typeof n)", "javascript")
    assert (after.stdout, after.exit_code, after.interpreter_started) == (b"undefined\n", 0, True)
    assert (session.calls, session.ended, session.stopped) == (3, None, None)


def test_a_cell_that_exits_ends_the_interpreter_and_not_the_session(session: Session) -> None:
    session.run_cell("let n = 41", "javascript")
    left = session.run_cell("process.exit(3)", "javascript")
    assert (left.timed_out, left.interpreter_ended) == (False, True)
    after = session.run_cell("console.log(typeof n)", "javascript")
    assert (after.stdout, after.interpreter_started, session.ended) == (b"undefined\n", True, None)


def test_every_answer_continues_the_chain_and_the_close_confirms_it(caller: Client) -> None:
    opened = caller.open_session(minimum_isolation="process")
    records = [
        believed(opened.run_cell("let n = 1", "javascript").record),
        believed(opened.run_javascript("console.log(2)").record),
        believed(opened.run_cell("throw n", "javascript").record),
        believed(opened.run_cell("while (true) {}", "javascript", timeout=0.2).record),
    ]
    assert [record.version for record in records] == [RECORD_VERSION] * 4
    assert [record.session for record in records] == [opened.fingerprint] * 4
    assert [record.sequence for record in records] == [1, 2, 3, 4]
    assert [record.previous_sha256 for record in records] == ["", *(record.sha256 for record in records[:3])]
    assert [record.unanswered for record in records] == [""] * 4
    assert (opened.calls, opened.last_record_sha256) == (4, records[3].sha256)
    summary = opened.close()
    assert (summary.session, summary.calls, summary.end) == (opened.fingerprint, 4, "closed")
    assert summary.last_record_sha256 == records[3].sha256


def test_a_refused_call_is_no_link_of_the_chain(session: Session) -> None:
    first = believed(session.run_cell("1", "javascript").record)
    with pytest.raises(InsufficientIsolationError) as floor:
        session.run_cell("2", "javascript", minimum_isolation="container")
    assert refusal(floor) == ("failed_precondition", "isolation")
    assert (session.calls, session.last_record_sha256, session.stopped) == (1, first.sha256, None)
    second = believed(session.run_cell("3", "javascript").record)
    assert (second.sequence, second.previous_sha256) == (2, first.sha256)


def test_an_honest_record_out_of_its_place_breaks_the_chain_and_stops_the_session(keeper: Daemon) -> None:
    def displace(exchange: Exchange) -> None:
        record = exchange.answer.get("run", {}).get("record", {})
        if record.get("sequence") == "2":
            record["sequence"] = "3"
            record["recordSha256"] = record_digest(record)

    with Proxy(keeper.address, on_answer=displace) as proxy:
        opened = Client(proxy.base_url, TOKEN).open_session(minimum_isolation="process")
        first = believed(opened.run_cell("1", "javascript").record)
        with pytest.raises(ChainError) as error:
            opened.run_cell("2", "javascript")
        assert refusal(error) == ("data_loss", None)
        assert (opened.calls, opened.last_record_sha256) == (1, first.sha256)
        assert opened.stopped is not None
        # The daemon counted the call whose answer was not believed.
        with pytest.raises(ChainError):
            opened.close()


def test_a_close_that_counts_other_calls_is_not_believed(keeper: Daemon) -> None:
    def add_a_call(exchange: Exchange) -> None:
        if exchange.answer.get("ended") == "SESSION_END_CLOSED" and "calls" in exchange.answer:
            exchange.answer["calls"] = str(int(exchange.answer["calls"]) + 1)

    with Proxy(keeper.address, on_answer=add_a_call) as proxy:
        opened = Client(proxy.base_url, TOKEN).open_session(minimum_isolation="process")
        opened.run_cell("1", "javascript")
        for _ in range(2):
            with pytest.raises(ChainError):
                opened.close()


def test_a_second_close_answers_as_the_first_did(caller: Client) -> None:
    opened = caller.open_session(minimum_isolation="process")
    opened.run_cell("1", "javascript")
    first = opened.close()
    assert (first.calls, first.end) == (1, "closed")
    assert opened.close() == first


def test_a_call_after_the_close_is_told_that_the_session_ended(caller: Client, keeper: Daemon) -> None:
    opened = caller.open_session(minimum_isolation="process")
    opened.close()
    before = keeper.metric("plimsoll_runs_total")
    with pytest.raises(SessionEndedError) as cell:
        opened.run_cell("1", "javascript")
    assert (cell.value.reason, cell.value.not_dispatched) == ("closed", "request")
    with pytest.raises(SessionEndedError) as snippet:
        opened.run_javascript("1")
    assert (snippet.value.reason, snippet.value.not_dispatched) == ("closed", "request")
    assert keeper.metric("plimsoll_runs_total") == before


def test_a_suspended_session_wakes_with_its_variables(caller: Client, keeper: Daemon) -> None:
    with caller.open_session(minimum_isolation="process", idle_timeout=1) as opened:
        opened.run_cell("let n = 41", "javascript")
        keeper.wait_for_metric('plimsoll_sessions{state="suspended"}', 1)
        cell = opened.run_cell("n + 1", "javascript")
        assert (cell.stdout, cell.interpreter_started) == (b"42\n", False)


def test_a_session_past_its_lifetime_says_that_it_expired(caller: Client) -> None:
    opened = caller.open_session(minimum_isolation="process", lifetime=1)
    opened.run_cell("1", "javascript")
    time.sleep(max(0.0, opened.expires_unix_ms / 1000 - time.time()) + 0.5)
    with pytest.raises(SessionEndedError) as error:
        opened.run_cell("2", "javascript")
    assert (*refusal(error), error.value.reason) == ("failed_precondition", "request", "expired")
    assert opened.ended is not None
    assert opened.ended.reason == "expired"
    summary = opened.close()
    assert (summary.calls, summary.end) == (1, "expired")


def test_more_sessions_than_the_daemon_keeps_are_refused_until_one_is_closed(caller: Client) -> None:
    with caller.open_session(minimum_isolation="process") as first:
        with caller.open_session(minimum_isolation="process"):
            with pytest.raises(AtCapacityError) as error:
                caller.open_session(minimum_isolation="process")
            assert refusal(error) == ("resource_exhausted", "capacity")
        with caller.open_session(minimum_isolation="process") as second:
            for opened in (first, second):
                assert opened.run_cell("6 * 7", "javascript").stdout == b"42\n"


def test_a_caller_has_its_own_cap_and_an_owner_replaces_its_own_oldest() -> None:
    caps = {"SANDBOX_MAX_SESSIONS": "4", "SANDBOX_MAX_SESSIONS_PER_CALLER": "2", "SANDBOX_MAX_SESSIONS_PER_OWNER": "1"}
    with running({**UNLIMITED, **caps}) as daemon:
        client = Client(daemon.base_url, TOKEN)
        info = client.describe()
        assert (info.max_sessions_per_caller, info.max_sessions_per_owner) == (2, 1)
        first = client.open_session(owner="ada")
        first.run_cell("1", "javascript")
        second = client.open_session(owner="ada")
        with pytest.raises(SessionEndedError) as replaced:
            first.run_cell("2", "javascript")
        assert (*refusal(replaced), replaced.value.reason) == ("failed_precondition", "request", "replaced")
        summary = first.close()
        assert (summary.calls, summary.end) == (1, "replaced")
        with client.open_session(owner="grace"), pytest.raises(AtCapacityError) as error:
            client.open_session()
        assert refusal(error) == ("resource_exhausted", "capacity")
        assert second.run_cell("6 * 7", "javascript").stdout == b"42\n"
        second.close()


def test_what_a_session_on_wasm_cannot_give_is_refused_at_the_open(caller: Client) -> None:
    with pytest.raises(InsufficientIsolationError) as floor:
        caller.open_session(minimum_isolation="container")
    assert refusal(floor) == ("failed_precondition", "isolation")
    rule = SoftwareRule.exact("oci-manifest:linux/amd64@sha256:" + "a" * 64)
    with pytest.raises(SoftwareMismatchError) as software:
        caller.open_session(software=rule)
    assert refusal(software) == ("failed_precondition", "environment")


def test_a_python_cell_is_refused_and_the_session_goes_on(session: Session) -> None:
    with pytest.raises(UnsupportedError) as error:
        session.run_cell("print(1)")
    assert refusal(error) == ("unimplemented", "environment")
    assert session.run_cell("6 * 7", "javascript").stdout == b"42\n"
    assert session.calls == 1


def test_a_workspace_needs_a_shell_that_wasm_does_not_have(session: Session) -> None:
    workspace = Workspace(session)
    with pytest.raises(UnsupportedError) as error:
        workspace.exec("ls")
    assert refusal(error) == ("unimplemented", "unsupported")
    with pytest.raises(UnsupportedError) as error:
        workspace.write("a.txt", "1")
    assert refusal(error) == ("unimplemented", "unsupported")
    with pytest.raises(UnsupportedError) as error:
        session.run_project({"a.txt": "1"}, ["ls"])
    assert refusal(error) == ("unimplemented", "unsupported")
    assert (session.calls, session.stopped) == (0, None)


def test_a_project_of_node_steps_shares_the_files_of_a_wasm_session(session: Session) -> None:
    session.run_cell("const kept = 1; require('fs').writeFileSync('n.json', '41')", "javascript")
    code = "import fs from 'fs'; fs.writeFileSync('n.json', `${1 + JSON.parse(fs.readFileSync('n.json'))}`)"
    project = session.run_project({"main.mjs": code}, ["node main.mjs"], artifacts=["n.json"])
    assert (project.outcome, project.steps[0].exit_code, project.artifacts[0].content) == ("completed", 0, b"42")
    assert session.run_cell("[kept, require('./n.json')]", "javascript").stdout == b"[ 1, 42 ]\n"
    assert session.calls == 3


def test_the_log_names_a_session_by_its_fingerprint_and_never_by_its_id_or_owner(keeper: Daemon) -> None:
    ids: list[str] = []

    def listen(exchange: Exchange) -> None:
        if "sessionId" in exchange.answer:
            ids.append(exchange.answer["sessionId"])

    with Proxy(keeper.address, on_answer=listen) as proxy:
        opened = Client(proxy.base_url, TOKEN).open_session(minimum_isolation="process", owner="ada-of-this-suite")
        opened.run_cell("1", "javascript", trace_id="session-trace-1")
        opened.close()
    assert len(ids) == 1
    assert opened.fingerprint == hashlib.sha256(ids[0].encode()).hexdigest()
    assert keeper.wait_for_line("trace_id", "session-trace-1")["session"] == opened.fingerprint
    assert not any(ids[0] in str(line) or "ada-of-this-suite" in str(line) for line in keeper.lines)

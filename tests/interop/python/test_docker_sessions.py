"""The published client keeps sessions on docker: cells in two languages, projects, a workspace, and how they end."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from plimsoll_client import (
    PROTOCOL,
    AtCapacityError,
    Client,
    InsufficientIsolationError,
    InvalidRequestError,
    PlimsollError,
    Session,
    SessionEndedError,
    Workspace,
    WorkspacePathError,
)

from harness import TOKEN, UNLIMITED, Daemon, running

TIERS = {"runc": "container", "runsc": "kernel"}
PYTHON_IMAGE = os.environ.get("PLIMSOLL_TEST_PYTHON_IMAGE", "plimsoll/sandbox-python")


def variables(runtime: str, **more: str) -> dict[str, str]:
    """The settings of a daemon that keeps sessions in containers."""
    chosen = {
        **UNLIMITED,
        "SANDBOX_PROVIDER": "docker",
        "SANDBOX_DOCKER_PROJECT_IMAGE": PYTHON_IMAGE,
        "SANDBOX_DOCKER_IMAGE": PYTHON_IMAGE,
        "SANDBOX_MAX_SESSIONS": "16",
        **more,
    }
    if runtime != "runc":
        chosen["SANDBOX_DOCKER_RUNTIME"] = runtime
    return chosen


def docker(*arguments: str) -> str:
    """What the engine's own command answers."""
    environment = {**os.environ, "DOCKER_API_VERSION": "1.41"}
    done = subprocess.run(["docker", *arguments], env=environment, check=True, capture_output=True, text=True)
    return done.stdout


def containers() -> list[str]:
    """The containers of sessions, by id."""
    return docker("ps", "--all", "--quiet", "--no-trunc", "--filter", "label=io.plimsoll.session=1").split()


@pytest.fixture(scope="module", params=["runc", "runsc"])
def runtime(request: pytest.FixtureRequest) -> str:
    """The OCI runtime of a daemon."""
    return str(request.param)


@pytest.fixture(scope="module")
def keeper(runtime: str) -> Iterator[Daemon]:
    """A daemon that keeps sessions in containers."""
    with running(variables(runtime)) as daemon:
        yield daemon


@pytest.fixture
def caller(keeper: Daemon) -> Client:
    """The client of that daemon."""
    return Client(keeper.base_url, TOKEN)


@pytest.fixture
def session(caller: Client, runtime: str) -> Iterator[Session]:
    """An open session; its close compares the daemon's count with the client's own chain."""
    with caller.open_session(minimum_isolation=TIERS[runtime]) as opened:
        yield opened


@pytest.fixture
def lone(caller: Client) -> Iterator[tuple[Session, str]]:
    """An open session that a test ends, and its container."""
    before = set(containers())
    opened = caller.open_session()
    (container,) = set(containers()) - before
    yield opened, container
    with contextlib.suppress(PlimsollError):
        # A test that ends its session leaves nothing to close.
        opened.close()


def text(result: Any) -> str:
    """What a call printed; it must have ended well."""
    assert result.exit_code == 0, result
    return bytes(result.stdout).decode()


def step(session: Session, command: str, **more: Any) -> Any:
    """One step of a project in a session."""
    result = session.run_project({}, [command], **more)
    assert result.outcome == "completed", result
    return result.steps[0]


def await_gone(container: str) -> None:
    """A container that must be gone soon."""
    until = time.monotonic() + 30
    while container in containers():
        assert time.monotonic() < until, "the container of an ended session stays"
        time.sleep(0.1)


def test_describe_states_sessions_their_image_and_both_languages(caller: Client) -> None:
    info = caller.describe()
    assert info.supports_sessions
    assert set(info.session_environment.languages) == {"javascript", "python"}
    assert info.session_environment.identity == info.project_environment.identity


def test_files_pass_between_snippets_projects_and_cells(session: Session, runtime: str) -> None:
    first = session.run_javascript("require('fs').writeFileSync('a.txt', 'one'); console.log(process.cwd())")
    assert (text(first), first.isolation) == ("/work\n", TIERS[runtime])
    assert step(session, "cat a.txt; echo two > b.txt").stdout == b"one"
    assert text(session.run_cell("open('a.txt').read() + open('b.txt').read()")) == "'onetwo\\n'\n"
    assert text(session.run_cell("require('fs').readFileSync('b.txt', 'utf8')", "javascript")) == "'two\\n'\n"


def test_cells_remember_and_say_when_they_do_not(session: Session) -> None:
    first = session.run_cell("x = 41")
    assert (first.interpreter_started, first.interpreter_ended, first.stdout) == (True, False, b"")
    second = session.run_cell("x + 1")
    assert (second.interpreter_started, second.stdout) == (False, b"42\n")
    assert session.run_cell("const x = 1", "javascript").interpreter_started
    assert text(session.run_cell("const x = 2; x", "javascript")) == "2\n"
    raised = session.run_cell("y = 1\nraise SystemExit(7)")
    assert (raised.exit_code, raised.interpreter_ended) == (1, False)
    assert text(session.run_cell("x + y")) == "42\n"
    step(session, "true")
    again = session.run_cell("'x' in globals()")
    assert (again.interpreter_started, again.stdout) == (True, b"False\n")


def test_a_cell_that_never_ends_costs_its_interpreter(session: Session) -> None:
    session.run_cell("kept = 1")
    slow = session.run_cell("while True: pass", timeout=1)
    assert (slow.exit_code, slow.timed_out, slow.interpreter_ended) == (124, True, True)
    after = session.run_cell("'kept' in globals()")
    assert (after.interpreter_started, after.stdout) == (True, b"False\n")


def test_an_interpreter_killed_from_inside_is_said_to_be(session: Session) -> None:
    for code, language in [("import os; os._exit(3)", "python"), ("process.exit(3)", "javascript")]:
        ended = session.run_cell(code, language)
        assert (ended.exit_code, ended.interpreter_ended) == (1, True)
        assert session.run_cell("1", language).interpreter_started


def test_what_a_call_left_running_is_gone_at_the_next(session: Session) -> None:
    session.run_cell("import subprocess; subprocess.Popen(['sleep', '998'], start_new_session=True)")
    step(session, "(setsid sleep 997 &) ; sleep 996 & echo left")
    session.run_javascript(
        "require('child_process').spawn('sleep', ['995'], { detached: true, stdio: 'ignore' }).unref()"
    )
    listed = step(session, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert b"sleep" not in listed.stdout


def test_case_8_fifty_floods_leave_no_process(session: Session) -> None:
    # Field case 8. The first process and the shell that counts, which starts nothing to do so.
    count = "set -- /proc/[0-9]*; echo $#"
    assert step(session, count).stdout == b"2\n"
    for _ in range(50):
        step(session, "yes >/dev/null & yes >/dev/null 2>&1 & true")
    assert step(session, count).stdout == b"2\n"


def test_cases_10_and_11_a_thousand_orphans_leave_no_zombie_and_room_to_fork(session: Session) -> None:
    # Field cases 10 and 11: children whose parents are gone when they end, in several times what may run at once.
    session.run_cell("kept = 1")
    orphans = (
        "import os\nfor _ in range(200):\n    child = os.fork()\n"
        "    if child == 0:\n        os.fork()\n        os._exit(0)\n    os.waitpid(child, 0)"
    )
    zombies = (
        "import glob\nstats = [open(name).read().rsplit(')', 1)[1].split() "
        "for name in glob.glob('/proc/[0-9]*/stat')]\n"
        "sum(1 for stat in stats if stat[0] == 'Z' and stat[1] == '1')"
    )
    for _ in range(5):
        assert session.run_cell(orphans, timeout=120).exit_code == 0
        # The last of them end while the interpreter is stopped already, which must neither wake it nor hang up on it.
        counted = session.run_cell(zombies, timeout=120)
        assert (text(counted), counted.interpreter_started) == ("0\n", False)
    forked = session.run_cell("import subprocess; subprocess.run(['echo', 'forked'], capture_output=True).stdout, kept")
    assert text(forked) == "(b'forked\\n', 1)\n"
    assert step(session, "echo forked").stdout == b"forked\n"


def test_the_time_limit_of_a_call_is_not_the_sessions_end(session: Session) -> None:
    slow = session.run_javascript("setInterval(() => {}, 1000)", timeout=1)
    assert (slow.exit_code, slow.timed_out) == (124, True)
    project = session.run_project({}, ["sleep 60", "echo never"], timeout=1)
    assert (project.outcome, [one.timed_out for one in project.steps]) == ("timed_out", [True])
    assert text(session.run_javascript("console.log('on')")) == "on\n"
    assert session.run_javascript("process.exit(125)").exit_code == 125


def test_a_large_cell_with_large_files_runs(session: Session) -> None:
    files = {f"f{n}.txt": "x" * (1 << 20) for n in range(3)}
    code = "# " + "y" * (255 << 10) + "\nimport os\nsum(os.path.getsize(f'f{n}.txt') for n in range(3))"
    assert text(session.run_cell(code, files=files)) == f"{3 << 20}\n"


def test_a_file_that_cannot_be_written_names_its_error(session: Session) -> None:
    session.run_cell("kept = 5", files={"a": "1"})
    with pytest.raises(InvalidRequestError, match="ENOTDIR") as error:
        session.run_cell("kept = 6", files={"a/b": "2"})
    assert error.value.not_dispatched == "request"
    assert text(session.run_cell("kept")) == "5\n"


def test_figures_and_files_of_cells_are_fetched_by_a_project(session: Session) -> None:
    drawn = session.run_cell(
        "import os; os.makedirs('artifacts', exist_ok=True)\n"
        "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.savefig('artifacts/plot.png')",
        timeout=60,
    )
    assert drawn.exit_code == 0, drawn.stderr
    fetched = session.run_project({}, ["true"], ["artifacts/plot.png"])
    (plot,) = fetched.artifacts
    assert (plot.path, plot.content[:4]) == ("artifacts/plot.png", b"\x89PNG")


def test_python_starts_isolated_and_imports_what_is_there(session: Session) -> None:
    step(session, "echo 'raise SystemExit(9)' > json.py; echo 'value = 7' > mymod.py")
    assert text(session.run_cell("import mymod\nmymod.value")) == "7\n"


def test_asyncio_works_in_cells_with_and_without_await(session: Session) -> None:
    session.run_cell("import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 3")
    assert text(session.run_cell("t = asyncio.create_task(f())\nawait t")) == "3\n"
    assert text(session.run_cell("asyncio.run(f())")) == "3\n"
    assert text(session.run_cell("await Promise.resolve(5)", "javascript")) == "5\n"


def test_nothing_in_a_session_reaches_its_first_process(session: Session, runtime: str) -> None:
    tried = session.run_cell(
        "import subprocess\nprint(subprocess.run(['/usr/local/bin/plimsoll-guest', 'try-runner']).returncode)"
    )
    assert tried.stdout.endswith(b"0\n"), tried
    if runtime == "runc":
        # Linux lets nobody inside end or stop the first process of a namespace.
        session.run_cell("import os, signal\nos.kill(1, signal.SIGKILL); os.kill(1, signal.SIGSTOP)")
        assert text(session.run_cell("1 + 1")) == "2\n"


def test_a_first_process_cannot_be_killed_or_its_end_is_the_sessions(caller: Client, runtime: str) -> None:
    session = caller.open_session()
    if runtime == "runc":
        assert step(session, "kill -9 $PLIMSOLL_RUNNER_PID; echo alive").stdout == b"alive\n"
        session.close()
        return
    # gVisor lets a namespace's first process be killed from inside.
    with pytest.raises(PlimsollError) as unanswered:
        session.run_project({}, ["kill -9 $PLIMSOLL_RUNNER_PID; sleep 5"])
    assert unanswered.value.not_dispatched is None
    with pytest.raises(SessionEndedError) as error:
        session.run_cell("1")
    assert error.value.reason == "main_process_ended"


@pytest.mark.parametrize(
    ("change", "end"),
    [
        (("update", "--pids-limit", "9999"), "sandbox_changed"),
        (("pause",), "sandbox_changed"),
        (("rm", "--force"), "sandbox_changed"),
        (("kill",), "main_process_ended"),
    ],
)
def test_a_sandbox_that_somebody_changed_is_not_used(
    lone: tuple[Session, str], change: tuple[str, ...], end: str
) -> None:
    session, container = lone
    session.run_cell("1")
    docker(*change, container)
    time.sleep(1)
    with pytest.raises(SessionEndedError) as error:
        session.run_cell("2")
    assert error.value.reason == end
    await_gone(container)


def test_a_renamed_sandbox_is_not_used_and_goes_all_the_same(lone: tuple[Session, str]) -> None:
    session, container = lone
    session.run_cell("1")
    docker("rename", container, f"renamed-{container[:12]}")
    with pytest.raises(SessionEndedError) as error:
        session.run_cell("2")
    assert error.value.reason == "sandbox_changed"
    assert "renamed" in error.value.detail
    await_gone(container)


def test_close_removes_the_container(lone: tuple[Session, str]) -> None:
    session, container = lone
    session.run_cell("1")
    assert session.close().calls == 1
    assert container not in containers()
    with pytest.raises(SessionEndedError):
        session.run_cell("1")


def ask(daemon: Daemon, method: str, body: dict[str, Any], patience: float = 60) -> dict[str, Any]:
    """A procedure called without the client, which gives a session up when it loses an answer."""
    request = urllib.request.Request(
        f"{daemon.base_url}/plimsoll.v1.SandboxService/{method}",
        json.dumps({"protocol": PROTOCOL, **body}).encode(),
        {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=patience) as answer:
        return dict(json.load(answer))


def test_a_call_whose_caller_leaves_is_stopped_and_the_session_goes_on(keeper: Daemon) -> None:
    session = ask(keeper, "OpenSession", {})["sessionId"]

    def cell(code: str, patience: float = 60) -> dict[str, Any]:
        body = {"sessionId": session, "cell": {"language": "python", "code": code}}
        return ask(keeper, "SessionRun", body, patience)

    for patience in (0.02, 0.06, 0.12, 0.5):
        with pytest.raises(TimeoutError):
            cell("import time; time.sleep(30)", patience)
        # The call that was left is stopped and swept while this one waits for its turn.
        began = time.monotonic()
        assert base64.b64decode(cell("1 + 1")["run"]["cell"]["stdout"]) == b"2\n"
        assert time.monotonic() - began < 15
    ask(keeper, "CloseSession", {"sessionId": session})


def test_an_idle_session_is_frozen_and_wakes_with_its_state(runtime: str) -> None:
    with running(variables(runtime, SANDBOX_SESSION_IDLE="1s")) as daemon:
        before = set(containers())
        session = Client(daemon.base_url, TOKEN).open_session()
        session.run_cell("kept = 3", files={"f": "x"})
        (container,) = set(containers()) - before
        until = time.monotonic() + 20
        while json.loads(docker("inspect", container))[0]["State"]["Status"] != "paused":
            assert time.monotonic() < until, "the session is not suspended"
            time.sleep(0.2)
        # Longer than PID 1 may be silent while a call runs.
        time.sleep(7)
        woken = session.run_cell("kept, open('f').read()")
        assert (woken.stdout, woken.interpreter_started) == (b"(3, 'x')\n", False)
        session.close()
        assert container not in containers()


def test_what_a_session_writes_is_bounded(runtime: str) -> None:
    with running(variables(runtime, SANDBOX_SESSION_DISK_MB="16", SANDBOX_MEMORY_MB="512")) as daemon:
        client = Client(daemon.base_url, TOKEN)
        session = client.open_session()
        # Held open by no interpreter, so it is gone by the time that is measured.
        step(session, "head -c 32M /dev/zero > big; exec 9<big; rm big; true")
        assert text(session.run_cell("1")) == "1\n"
        session.run_cell("import os\nf = open('big', 'wb'); f.write(bytes(32 << 20)); f.flush(); os.unlink('big')")
        with pytest.raises(SessionEndedError) as error:
            session.run_cell("2")
        assert error.value.reason == "disk_exceeded"


MEMORY_BOMB = "b = bytearray(1 << 30)\nfor i in range(0, len(b), 4096): b[i] = 1"


def test_memory_that_runs_out_ends_a_call_or_is_said_to_end_the_session(keeper: Daemon, runtime: str) -> None:
    session = ask(keeper, "OpenSession", {})["sessionId"]

    def cell(code: str) -> dict[str, Any]:
        body = {"sessionId": session, "timeoutMs": 60_000, "cell": {"language": "python", "code": code}}
        return ask(keeper, "SessionRun", body)["run"]  # type: ignore[no-any-return]

    if runtime == "runc":
        ended = cell(MEMORY_BOMB)
        assert ended["cell"]["exitCode"] != 0
        assert ended["cell"]["interpreterEnded"] is True
        assert ended["diagnostics"]["limitHit"] == "memory"
        assert base64.b64decode(cell("1 + 1")["cell"]["stdout"]) == b"2\n"
        ask(keeper, "CloseSession", {"sessionId": session})
        return
    # The host's killer takes the sandbox, which holds the memory of everything in it.
    with pytest.raises(urllib.error.HTTPError) as unanswered:
        cell(MEMORY_BOMB)
    assert b"NotDispatched" not in unanswered.value.read()
    with pytest.raises(urllib.error.HTTPError) as refused:
        cell("1")
    assert b"main_process_ended" in refused.value.read()


def test_a_thousand_calls_leave_one_process_and_one_file(session: Session) -> None:
    session.run_cell("n = 0")
    for _ in range(1000):
        session.run_cell("n += 1")
    assert text(session.run_cell("n")) == "1000\n"
    step(session, "echo x > only")
    assert step(session, "set -- /proc/[0-9]*; echo $#; ls -A").stdout == b"2\nartifacts\nonly\n"


def test_a_floor_above_the_tier_opens_nothing(caller: Client) -> None:
    before = containers()
    with pytest.raises(InsufficientIsolationError):
        caller.open_session(minimum_isolation="vm")
    assert containers() == before


def test_a_hundred_opens_at_once_stay_within_the_cap(caller: Client) -> None:
    def open_one(_: int) -> Session | None:
        try:
            return caller.open_session()
        except AtCapacityError:
            return None

    with ThreadPoolExecutor(100) as pool:
        opened = [session for session in pool.map(open_one, range(100)) if session]
    assert 1 <= len(opened) <= 16
    for session in opened:
        assert text(session.run_javascript("console.log(1)")) == "1\n"
        session.close()
    assert containers() == []


def test_drain_ends_every_session(runtime: str) -> None:
    with running(variables(runtime)) as daemon:
        client = Client(daemon.base_url, TOKEN)
        for _ in range(3):
            client.open_session().run_cell("1")
        assert len(containers()) >= 3
    assert containers() == []


@pytest.fixture
def workspace(caller: Client) -> Iterator[Workspace]:
    """A shell and files over one session."""
    with Workspace(caller.open_session()) as opened:
        yield opened


def test_a_workspace_keeps_its_directory_its_variables_and_its_files(workspace: Workspace) -> None:
    workspace.write("src/a.txt", "one\n")
    workspace.write("src/b.bin", bytes(range(256)))
    assert workspace.exec("cd src && export WHO=me && cat a.txt").stdout == b"one\n"
    outcome = workspace.exec("echo $WHO; pwd; exit 3")
    assert (outcome.exit_code, outcome.stdout, outcome.cwd) == (3, b"me\n/work/src\n", "/work/src")
    assert workspace.read("src/b.bin") == bytes(range(256))
    assert workspace.edit("src/a.txt", "one", "two") == 1
    assert workspace.glob("**/*.txt") == ["src/a.txt"]
    assert workspace.grep("tw.") == "src/a.txt:1:two"
    kept = workspace.persist()
    workspace.exec("rm -r /work/src")
    workspace.hydrate(kept)
    assert workspace.read("src/a.txt") == b"two\n"
    for path in ("/etc/passwd", "../x", ".plimsoll-shell/env"):
        with pytest.raises(WorkspacePathError):
            workspace.write(path, "x")


def test_a_workspace_leaves_no_process_and_survives_a_timeout(workspace: Workspace) -> None:
    workspace.exec("sleep 994 &")
    assert b"sleep" not in workspace.exec("cat /proc/[0-9]*/comm").stdout
    assert workspace.exec("sleep 60", timeout=1).timed_out
    assert b"sleep" not in workspace.exec("cat /proc/[0-9]*/comm").stdout
    big = base64.b64encode(os.urandom(2 << 20)).decode()
    workspace.write("big", big)
    assert workspace.read("big", max_bytes=8 << 20).decode() == big

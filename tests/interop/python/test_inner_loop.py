"""What docs/inner-loop.md walks through: one caller and one command, against wasm and then against containers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harness import Daemon, running

PLIMSOLL = Path(os.environ["PLIMSOLLD"]).with_name("plimsoll")
NOTHING_RAN = 125


@pytest.fixture
def caller(tmp_path: Path) -> tuple[Path, str]:
    """A clients file with one caller, and its token."""
    file = tmp_path / "clients.json"
    made = subprocess.run(
        [PLIMSOLL, "clients", "create", "--file", file, "--id", "dev", "--token-stdout"],
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    return file, made.stdout.strip()


def run(daemon: Daemon, token: str, floor: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command of the page."""
    program = folder / "hello.js"
    program.write_text("console.log(6 * 7)\n")
    return subprocess.run(
        [PLIMSOLL, "run", "--daemon", daemon.base_url, "--floor", floor, program],
        env={"PLIMSOLL_TOKEN": token},
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )


def test_the_client_stays_as_it_is_when_the_provider_is_exchanged(caller: tuple[Path, str], tmp_path: Path) -> None:
    clients, token = caller
    # The token of the command stands in its daemon's environment too, where the clients file wins over it.
    variables = {"PLIMSOLL_CLIENTS_FILE": str(clients), "PLIMSOLL_TOKEN": token}
    with running({**variables, "SANDBOX_PROVIDER": "wasm"}) as daemon:
        done = run(daemon, token, "process", tmp_path)
        assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr
        assert "tier process" in done.stderr
        refused = run(daemon, token, "kernel", tmp_path)
        assert (refused.returncode, refused.stdout) == (NOTHING_RAN, ""), refused.stderr
        assert "nothing ran (isolation): --floor is kernel, but provider wasm gives process" in refused.stderr
        assert daemon.metric("plimsoll_runs_total") == 1
    gvisor = {"SANDBOX_PROVIDER": "docker", "SANDBOX_DOCKER_RUNTIME": "runsc"}
    with running({**variables, **gvisor}) as daemon:
        done = run(daemon, token, "kernel", tmp_path)
        assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr
        assert "tier kernel" in done.stderr

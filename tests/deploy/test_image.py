"""The daemon's image and the compose file: what is in it, how little it needs, and how daemons get along."""

from __future__ import annotations

import base64
import filecmp
import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harness import ROOT

OUT = Path(os.environ["PLIMSOLL_DAEMON_IMAGE"])
TOKEN = "deploy-token-0123456789abcdef0123456789abcdef"
USER = 10001
SANDBOX = os.environ.get("PLIMSOLL_SANDBOX_IMAGE", "plimsoll/sandbox:latest")
OWNER = "io.plimsoll.owner"


def said(*words: str, environment: dict[str, str] | None = None) -> str:
    """What a program says; anything but success fails the test."""
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout.strip()


def call(address: str, code: str) -> bytes:
    """Runs a program on a daemon and gives back what it printed."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    body = json.dumps({"protocol": 4, "javascript": {"code": code}}).encode()
    request = urllib.request.Request(f"http://{address}/plimsoll.v1.SandboxService/Run", body, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        result: dict[str, Any] = json.load(answer)
    return base64.b64decode(result["javascript"]["stdout"])


class Daemon:
    """A daemon in a container: read-only, without capabilities, as a user of no rights."""

    def __init__(self, image: str, network: str, clients: Path, *options: str, settings: dict[str, str]) -> None:
        """Starts it; it may end again at once."""
        variables = {"PLIMSOLL_CLIENTS_FILE": "/etc/plimsoll/clients.json", **settings}
        self.id = said(
            "docker",
            "run",
            "--detach",
            "--read-only",
            "--cap-drop=ALL",
            "--security-opt=no-new-privileges",
            f"--network={network}",
            "--publish=127.0.0.1::8746",
            "--label=plimsoll-deploy-test",
            f"--volume={clients}:/etc/plimsoll/clients.json:ro",
            *(f"--env={name}={value}" for name, value in variables.items()),
            *options,
            image,
        )

    def log(self) -> list[dict[str, Any]]:
        """The records it wrote."""
        done = subprocess.run(["docker", "logs", self.id], capture_output=True, text=True, check=True, timeout=60)
        return [json.loads(line) for line in done.stderr.splitlines()]

    def ended(self) -> int | None:
        """Its exit code, once it has ended."""
        state = json.loads(said("docker", "inspect", "--format={{json .State}}", self.id))
        return None if state["Running"] else int(state["ExitCode"])

    def serving(self) -> str:
        """Waits until it serves; gives back where."""
        deadline = time.monotonic() + 90
        while not any(record["msg"] == "listening" for record in self.log()):
            assert self.ended() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.1)
        return said("docker", "port", self.id, "8746/tcp").splitlines()[0]

    def stop(self) -> int:
        """Asks it to drain; gives back its exit code."""
        said("docker", "stop", "--time=90", self.id)
        code = self.ended()
        assert code is not None
        return code

    def remove(self) -> None:
        """Ends it and forgets it."""
        said("docker", "rm", "--force", "--volumes", self.id)


Start = Callable[..., Daemon]


@pytest.fixture(scope="session")
def image() -> str:
    """The image, loaded into the engine."""
    loaded = said("docker", "load", "--input", str(OUT / "plimsolld.tar"))
    found = re.search(r"Loaded image: (\S+)", loaded)
    assert found is not None, loaded
    return found.group(1)


@pytest.fixture(scope="session")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clients file that the daemon's user can read."""
    file = tmp_path_factory.mktemp("callers") / "clients.json"
    fingerprint = hashlib.sha256(TOKEN.encode()).hexdigest()
    callers = [{"id": "ci", "token_sha256": fingerprint, "scopes": ["code:run"]}]
    file.write_text(json.dumps({"clients": callers}))
    file.chmod(0o644)
    return file


@pytest.fixture(scope="session")
def network() -> Iterator[str]:
    """A network for daemons: callers come in by published ports."""
    name = f"plimsoll-deploy-test-{uuid.uuid4()}"
    said("docker", "network", "create", name)
    yield name
    said("docker", "network", "rm", name)


@pytest.fixture
def folder() -> Iterator[Callable[[], Path]]:
    """Makes folders for the sockets of daemons, at a short path that is the same inside and outside."""
    made: list[Path] = []

    def make() -> Path:
        path = Path(tempfile.mkdtemp(prefix="plimsolld-", dir="/run"))
        os.chown(path, USER, USER)
        made.append(path)
        return path

    yield make
    for path in made:
        shutil.rmtree(path)


@pytest.fixture
def start(image: str, network: str, clients: Path, folder: Callable[[], Path]) -> Iterator[Start]:
    """Starts daemons, and removes them before their folders: an engine makes anew what a living one has mounted."""
    del folder
    started: list[Daemon] = []

    def begin(*options: str, **settings: str) -> Daemon:
        daemon = Daemon(image, network, clients, *options, settings=settings)
        started.append(daemon)
        return daemon

    yield begin
    for daemon in started:
        daemon.remove()


def on_docker(folder: Path) -> list[str]:
    """What a daemon with the docker provider needs beside its settings."""
    socket = Path("/var/run/docker.sock")
    return [
        f"--group-add={socket.stat().st_gid}",
        f"--volume={socket}:{socket}",
        f"--volume={folder}:{folder}",
        f"--env=TMPDIR={folder}",
        "--env=SANDBOX_PROVIDER=docker",
        f"--env=SANDBOX_DOCKER_IMAGE={SANDBOX}",
        f"--env=SANDBOX_DOCKER_PROJECT_IMAGE={SANDBOX}",
        # Containers that wait, so that there is something to take for an orphan.
        "--env=SANDBOX_READY_POOL=1",
    ]


def sandboxes(folder: Path) -> set[str]:
    """The containers of daemons that keep their sockets in this folder."""
    ids = said("docker", "ps", "--all", "--quiet", "--no-trunc", f"--filter=label={OWNER}").split()
    if not ids:
        return set()
    form = '{{.Id}} {{index .Config.Labels "' + OWNER + '"}}'
    done = subprocess.run(["docker", "inspect", f"--format={form}", *ids], capture_output=True, text=True, check=False)
    pairs = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    return {pair[0] for pair in pairs if len(pair) == 2 and Path(pair[1]).parent == folder}


def settled(folder: Path) -> set[str]:
    """The containers of a folder's daemons, once those of the smoke test are gone and the ready pool is full."""
    deadline = time.monotonic() + 60
    found: set[str] = set()
    while not found or found != sandboxes(folder):
        assert time.monotonic() < deadline, f"the ready pool does not come to rest: {found}"
        found = sandboxes(folder)
        time.sleep(1.5)
    return found


def renewed(folder: Path, before: set[str]) -> set[str]:
    """The same, once a run has used up one of those of before and another waits in its place."""
    deadline = time.monotonic() + 60
    while (found := settled(folder)) == before or len(found) != len(before):
        assert time.monotonic() < deadline, f"the ready pool is not filled anew: {found}"
    return found


def gone(folder: Path) -> None:
    """Waits until a folder's daemons have no container left."""
    deadline = time.monotonic() + 30
    while left := sandboxes(folder):
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.1)


def test_the_same_package_gives_the_same_image(tmp_path: Path) -> None:
    said(
        str(ROOT / "deploy/image/build"),
        os.environ["PLIMSOLL_PACKAGE"],
        str(tmp_path),
        f"--crates={OUT / 'crates.txt'}",
    )
    for name in ("plimsolld.tar", "plimsolld.spdx.json"):
        assert filecmp.cmp(OUT / name, tmp_path / name, shallow=False), name


def test_the_archive_is_an_oci_layout_that_holds_together() -> None:
    with tarfile.open(OUT / "plimsolld.tar") as archive:

        def content(name: str) -> bytes:
            file = archive.extractfile(name)
            assert file is not None
            return file.read()

        def blob(described: dict[str, Any]) -> bytes:
            algorithm, digest = described["digest"].split(":")
            data = content(f"blobs/{algorithm}/{digest}")
            assert (hashlib.sha256(data).hexdigest(), len(data)) == (digest, described["size"])
            return data

        assert json.loads(content("oci-layout")) == {"imageLayoutVersion": "1.0.0"}
        manifest = json.loads(blob(json.loads(content("index.json"))["manifests"][0]))
        config = json.loads(blob(manifest["config"]))
        assert len(manifest["layers"]) == len(config["rootfs"]["diff_ids"])
        for layer in manifest["layers"]:
            blob(layer)
    assert config["config"]["User"] == f"{USER}:{USER}"


def test_nothing_in_it_can_be_run_but_the_daemon(image: str, tmp_path: Path) -> None:
    made = said("docker", "create", image)
    try:
        said("docker", "export", f"--output={tmp_path / 'root.tar'}", made)
    finally:
        said("docker", "rm", made)
    with tarfile.open(tmp_path / "root.tar") as archive:
        files = [member for member in archive if member.isfile()]
    # The engine adds empty files of its own.
    programs = [file.name for file in files if file.mode & 0o111 and file.size and ".so" not in Path(file.name).name]
    assert [name for name in programs if "bin/" in name] == ["usr/bin/plimsolld"]
    assert not [file.name for file in files if file.mode & 0o6022 and file.size]
    assert not [file.name for file in files if (file.uid, file.gid) != (0, 0)]


def test_the_list_of_what_is_inside_names_every_package_and_crate(image: str) -> None:
    document = json.loads((OUT / "plimsolld.spdx.json").read_text())
    assert (document["spdxVersion"], document["SPDXID"]) == ("SPDX-2.3", "SPDXRef-DOCUMENT")
    packages = {package["SPDXID"]: package for package in document["packages"]}
    assert len(packages) == len(document["packages"])
    assert all(re.fullmatch(r"SPDXRef-[a-zA-Z0-9.-]+", one) for one in packages)
    assert packages["SPDXRef-image"]["versionInfo"] == said("docker", "inspect", "--format={{.Id}}", image)
    related = {one["relatedSpdxElement"] for one in document["relationships"]}
    assert related == set(packages)
    named = {package["name"] for package in packages.values()}
    assert {"libc6", "ca-certificates", "plimsoll", "wasmtime", "tokio", "rustls", "plimsoll-core"} <= named
    # What only tests, builds and other systems need is not in the daemon.
    assert named.isdisjoint({"proptest", "insta", "wasmtime-wizer", "cranelift-codegen", "serde_derive", "windows-sys"})
    licences = [package["licenseDeclared"] for package in packages.values() if "-crate-" in package["SPDXID"]]
    assert len(licences) > 100
    assert "NOASSERTION" not in licences


@pytest.mark.parametrize("runtime", ["runc", "runsc"])
def test_a_daemon_serves_read_only_and_without_rights(start: Start, runtime: str) -> None:
    daemon = start(f"--runtime={runtime}", "--pids-limit=256", "--memory=1g", SANDBOX_PROVIDER="wasm")
    address = daemon.serving()
    assert call(address, "console.log(6 * 7)") == b"42\n"
    for probe in ("healthz", "readyz"):
        with urllib.request.urlopen(f"http://{address}/{probe}", timeout=10) as answer:
            assert answer.status == 200
    # The place of the mounted file is all the engine had to add.
    assert set(said("docker", "diff", daemon.id).splitlines()) == {
        "C /etc",
        "A /etc/plimsoll",
        "A /etc/plimsoll/clients.json",
    }
    if runtime == "runc":
        listed = said("docker", "top", daemon.id, "-eo", "pid,uid").splitlines()[1:]
        assert [row.split()[1] for row in listed] == [str(USER)]
    assert daemon.stop() == 0
    assert daemon.log()[-1]["msg"] == "stopped"


def test_a_second_signal_ends_the_first_process_of_a_container_at_once(start: Start) -> None:
    """The kernel keeps default actions of signals from a first process, so this is nothing to take for granted."""
    daemon = start(SANDBOX_PROVIDER="wasm")
    address = daemon.serving()
    with ThreadPoolExecutor() as elsewhere:
        running = elsewhere.submit(call, address, "for (;;);")
        time.sleep(1)
        said("docker", "kill", "--signal=TERM", daemon.id)
        time.sleep(1)
        assert daemon.ended() is None, "it waits for the run"
        said("docker", "kill", "--signal=TERM", daemon.id)
        deadline = time.monotonic() + 5
        while daemon.ended() is None:
            assert time.monotonic() < deadline, "the second signal did nothing"
            time.sleep(0.05)
        assert isinstance(running.exception(30), OSError)


def test_check_runs_in_the_image(image: str) -> None:
    good = ["docker", "run", "--rm", "--read-only", "--network=none", image, "check"]
    said(*good)
    bad = subprocess.run(
        [*good[:-2], "--env=SANDBOX_PIDS=many", image, "check"], capture_output=True, text=True, check=False, timeout=60
    )
    assert bad.returncode == 1
    assert "SANDBOX_PIDS" in bad.stderr


def test_two_daemons_on_one_engine_never_reap_each_others_containers(start: Start, folder: Callable[[], Path]) -> None:
    first_folder, second_folder = folder(), folder()
    first = start(*on_docker(first_folder))
    address = first.serving()
    of_first = settled(first_folder)

    # The second looks for orphans at its start, and sees neither the processes nor the folder of the first.
    second = start(*on_docker(second_folder))
    other = second.serving()
    settled(second_folder)
    assert of_first <= sandboxes(first_folder)
    assert call(address, "console.log('first')") == b"first\n"
    assert call(other, "console.log('second')") == b"second\n"
    of_first = renewed(first_folder, of_first)

    # What a dead daemon of the first folder left, as it looks from the second: it cannot know, and leaves it alone.
    labels = [
        f"--label=io.plimsoll.expires={int(time.time()) + 600}",
        f"--label={OWNER}={first_folder}/plimsoll-daemon-x",
    ]
    orphan = said("docker", "run", "--detach", "--network=none", *labels, "--entrypoint=sleep", SANDBOX, "600")
    try:
        assert second.stop() == 0
        gone(second_folder)
        second = start(*on_docker(second_folder))
        second.serving()
        of_second = settled(second_folder)
        assert {orphan} | of_first <= sandboxes(first_folder)

        # The next daemon with that folder can, and clears it away at once, and nothing else.
        again = start(*on_docker(first_folder))
        again.serving()
        deadline = time.monotonic() + 30
        while orphan in sandboxes(first_folder):
            assert time.monotonic() < deadline, "the orphan stays"
            time.sleep(0.1)
        assert of_first <= sandboxes(first_folder)
        assert of_second <= sandboxes(second_folder)
    finally:
        subprocess.run(["docker", "rm", "--force", orphan], capture_output=True, check=False, timeout=60)
    for daemon in (first, second, again):
        assert daemon.stop() == 0
    gone(first_folder)
    gone(second_folder)


def test_a_daemon_in_a_container_proves_the_kernel_tier(start: Start, folder: Callable[[], Path]) -> None:
    """As the service of the compose file does it: with the host's processes and control groups to look at."""
    its = folder()
    host = ["--pid=host", "--volume=/sys/fs/cgroup:/sys/fs/cgroup:ro"]
    daemon = start(*on_docker(its), *host, SANDBOX_DOCKER_RUNTIME="runsc", SANDBOX_MIN_ISOLATION="kernel")
    assert call(daemon.serving(), "console.log(6 * 7)") == b"42\n"
    listening = next(record for record in daemon.log() if record["msg"] == "listening")
    assert listening["isolation"] == "kernel"
    assert daemon.stop() == 0
    gone(its)


def test_two_daemons_that_share_a_folder_leave_each_other_alone(start: Start, folder: Callable[[], Path]) -> None:
    shared = folder()
    first = start(*on_docker(shared))
    address = first.serving()
    of_first = settled(shared)
    second = start(*on_docker(shared))
    second.serving()
    assert of_first < settled(shared)
    assert second.stop() == 0
    assert settled(shared) == of_first
    assert call(address, "console.log('first')") == b"first\n"
    assert first.stop() == 0
    gone(shared)


def test_a_folder_that_the_engine_does_not_have_stops_the_start(start: Start, folder: Callable[[], Path]) -> None:
    neighbour = folder()
    living = start(*on_docker(neighbour))
    address = living.serving()
    its = settled(neighbour)
    elsewhere = folder()
    options = [option for option in on_docker(elsewhere) if not option.startswith(f"--volume={elsewhere}")]
    daemon = start(*options, f"--tmpfs={elsewhere}:mode=1777")
    deadline = time.monotonic() + 90
    while (code := daemon.ended()) is None:
        assert time.monotonic() < deadline, daemon.log()
        time.sleep(0.1)
    assert code == 1
    assert "TMPDIR" in daemon.log()[-1]["error"], daemon.log()
    assert its <= sandboxes(neighbour)
    assert call(address, "console.log('here')") == b"here\n"


def compose(clients: Path, file: Path, *words: str) -> str:
    """What docker-compose says, with the settings of a test."""
    environment = {
        "PATH": os.environ["PATH"],
        "COMPOSE_PROJECT_NAME": "plimsoll-deploy-test",
        "CLIENTS_FILE": str(clients),
    }
    return said("docker-compose", "--file", str(file), *words, environment=environment)


def test_the_compose_file_is_one_that_compose_takes_and_serves(image: str, clients: Path, tmp_path: Path) -> None:
    text = (ROOT / "deploy/compose.yaml").read_text()
    assert image in text
    for profile in ([], ["--profile", "docker"], ["--profile", "gvisor"]):
        compose(clients, ROOT / "deploy/compose.yaml", *profile, "config", "--quiet")
    services = compose(clients, ROOT / "deploy/compose.yaml", "--profile", "docker", "config", "--services").split()
    assert {"plimsolld", "plimsolld-docker"} <= set(services)
    # Ports of this host's choice, because a developer may have a daemon on the usual ones.
    file = tmp_path / "compose.yaml"
    file.write_text(re.sub(r'"127\.0\.0\.1:\d+:(\d+)"', r'"127.0.0.1::\1"', text))
    broken = tmp_path / "broken.yaml"
    broken.write_text(text.replace("pids_limit", "pid_limit"))
    with pytest.raises(AssertionError, match="Unsupported config option"):
        compose(clients, broken, "config", "--quiet")
    try:
        compose(clients, file, "up", "--detach")
        address = compose(clients, file, "port", "plimsolld", "8746")
        deadline = time.monotonic() + 30
        while True:
            try:
                assert call(address, "console.log(6 * 7)") == b"42\n"
                break
            except (urllib.error.URLError, ConnectionError):
                assert time.monotonic() < deadline
                time.sleep(0.1)
        scrape = compose(clients, file, "port", "plimsolld", "9464")
        with urllib.request.urlopen(f"http://{scrape}/metrics", timeout=10) as page:
            assert b"plimsoll_build_info" in page.read()
    finally:
        compose(clients, file, "down", "--volumes")


def test_what_the_docker_service_of_the_compose_file_mounts_has_one_path_inside_and_outside(clients: Path) -> None:
    text = compose(clients, ROOT / "deploy/compose.yaml", "--profile", "docker", "config")
    service = text.split("\n  plimsolld-docker:\n")[1]
    temp = re.search(r"TMPDIR: (\S+)", service)
    assert temp is not None
    assert f"- {temp.group(1)}:{temp.group(1)}:rw" in " ".join(service.split())

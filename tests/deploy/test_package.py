"""The Debian package: what is in it, and what it does to a clean Debian that systemd runs."""

from __future__ import annotations

import filecmp
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import ROOT

PACKAGE = Path(os.environ["PLIMSOLL_PACKAGE"])
TOKEN = "deploy-token-0123456789abcdef0123456789abcdef"
CLIENTS = json.dumps(
    {"clients": [{"id": "ci", "token_sha256": hashlib.sha256(TOKEN.encode()).hexdigest(), "scopes": ["code:run"]}]}
)
CALLERS = "/etc/plimsoll/clients.json"
DROP_INS = "/etc/systemd/system/plimsolld.service.d"
UNITS = ROOT / "deploy/systemd"
SANDBOX = os.environ.get("PLIMSOLL_SANDBOX_IMAGE", "plimsoll/sandbox:latest")

# Exposure that `systemd-analyze security` of systemd 252 may find, times ten: 100 is no sandbox at all. What is left is
# the network, machine code in memory (for wasm), and the host's own root folder.
EXPOSURE = 11
EXPOSURE_WITH_DOCKER = 14


# Hands control groups over to systemd. Where the host has version 1 of them, it gets a group of its own in version 2,
# of which every kernel has the bare bones: systemd tells processes apart by it, and no test here asks for limits.
BOOT = """
set -e
mount --make-rshared /
if ! mountpoint -q /sys/fs/cgroup || [ "$(stat -f -c %T /sys/fs/cgroup)" != cgroup2fs ]; then
  umount -R /sys/fs/cgroup || true
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  own=/sys/fs/cgroup/$PLIMSOLL_TEST_GROUP
  mkdir "$own"
  echo $$ >"$own/cgroup.procs"
  exec unshare --cgroup --mount sh -c '
    umount /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup && mount --make-rshared / &&
      exec /lib/systemd/systemd'
fi
exec /lib/systemd/systemd
"""


def said(*words: str, text: str | None = None) -> str:
    """What a program says on both streams; anything but success fails the test."""
    done = subprocess.run(
        words, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=110
    )
    assert done.returncode == 0, f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


class Debian:
    """A clean Debian with systemd as its first process, in a container without a network."""

    def __init__(self, *options: str) -> None:
        """Boots it."""
        self.token = ""
        self.group = f"plimsoll-deploy-test-{uuid.uuid4()}"
        start = [
            "docker",
            "run",
            "--detach",
            # What systemd needs to make sandboxes. Not --privileged: an engine may have less than everything itself.
            *(f"--cap-add={one}" for one in ("SYS_ADMIN", "SYS_PTRACE", "SYS_NICE", "NET_ADMIN", "DAC_READ_SEARCH")),
            *(f"--security-opt={one}=unconfined" for one in ("seccomp", "apparmor", "systempaths")),
            "--network=none",
            "--tmpfs=/run",
            "--env=container=docker",
            f"--env=PLIMSOLL_TEST_GROUP={self.group}",
            "--label=plimsoll-deploy-test",
            *options,
            os.environ["PLIMSOLL_DEBIAN_IMAGE"],
            "sh",
            "-c",
            BOOT,
        ]
        self.id = said(*start).strip()
        deadline = time.monotonic() + 60
        while self.tried("systemctl", "is-system-running")[1].strip() not in {"running", "degraded"}:
            assert time.monotonic() < deadline, said("docker", "logs", self.id)
            time.sleep(0.2)
        self.before = self.files()

    def tried(self, *words: str, text: str | None = None) -> tuple[int, str]:
        """What a program inside says, and its exit code."""
        done = subprocess.run(
            ["docker", "exec", "--interactive", self.id, *words],
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=110,
        )
        return done.returncode, done.stdout

    def says(self, *words: str, text: str | None = None) -> str:
        """What a program inside says; it has to succeed."""
        code, output = self.tried(*words, text=text)
        assert code == 0, f"{' '.join(words)} ended with {code}:\n{output}"
        return output

    def write(self, path: str, content: str, mode: str) -> None:
        """Puts a file of root's there."""
        self.says("install", "-m", mode, "-D", "/dev/stdin", path, text=content)

    def files(self) -> set[str]:
        """Every path of the system that outlives a boot."""
        listed = self.says("find", "/", "-xdev")
        volatile = re.compile(
            r"^/(?:run|tmp|sys|dev|proc)(?:/|$)|^/var/(?:log|lib/(?:dpkg|systemd)|tmp)/|^/root/.cache(?:/|$)"
        )
        return {path for path in listed.splitlines() if not volatile.match(path)}

    def journal(self) -> str:
        """What the daemon wrote, and what systemd says of it."""
        return self.says("journalctl", "--no-pager", "--unit=plimsolld.service", "--output=cat")

    def install(self) -> None:
        """Installs the package, as dpkg does it."""
        said("docker", "cp", str(PACKAGE), f"{self.id}:/var/tmp/plimsoll.deb")
        self.says("dpkg", "--install", "/var/tmp/plimsoll.deb")

    def end(self) -> None:
        """Ends it, and everything inside."""
        said("docker", "rm", "--force", "--volumes", self.id)
        # Its control group of version 2, which the engine does not know of.
        with tempfile.TemporaryDirectory() as mounted:
            said("mount", "-t", "cgroup2", "cgroup2", mounted)
            try:
                own = Path(mounted) / self.group
                if own.is_dir():
                    for folder in sorted((path for path in own.rglob("*") if path.is_dir()), reverse=True):
                        folder.rmdir()
                    own.rmdir()
            finally:
                said("umount", mounted)


@pytest.fixture(scope="module")
def debian() -> Iterator[Debian]:
    """One Debian for the tests of this file, which follow the life of the package in order."""
    booted = Debian()
    yield booted
    booted.end()


def test_the_same_binaries_give_the_same_package(tmp_path: Path) -> None:
    # The time of the commit that it was built from: somebody may be committing meanwhile.
    archive = subprocess.run(["dpkg-deb", "--ctrl-tarfile", str(PACKAGE)], capture_output=True, check=True, timeout=60)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as members:
        built_from = ["env", f"SOURCE_DATE_EPOCH={max(int(member.mtime) for member in members)}"]
    build = [str(ROOT / "deploy/debian/build"), os.environ["PLIMSOLL_BINARIES"], str(tmp_path)]
    built = said(*built_from, *build).splitlines()[-1]
    assert filecmp.cmp(built, PACKAGE, shallow=False)


def test_the_package_holds_what_it_should_and_nothing_that_runs_as_more_than_its_user() -> None:
    listing = said("dpkg-deb", "--contents", str(PACKAGE))
    rows = [line.split(maxsplit=5) for line in listing.splitlines()]
    modes = {row[5].split(" -> ")[0].removeprefix("."): row[0] for row in rows}
    assert all(row[1] == "root/root" for row in rows)
    assert not [path for path, mode in modes.items() if set(mode) & set("sStT")]
    for path in (
        "/usr/bin/plimsoll",
        "/usr/bin/plimsolld",
        "/usr/bin/plimsoll-clients",
        "/usr/bin/plimsoll-specgen",
        "/usr/bin/prospector-report",
        "/lib/systemd/system/plimsolld.service",
        "/usr/share/man/man1/plimsoll.1.gz",
        "/usr/share/man/man1/plimsoll-run.1.gz",
        "/usr/share/man/man1/plimsoll-clients.1.gz",
        "/usr/share/man/man8/plimsolld.8.gz",
        "/usr/share/bash-completion/completions/plimsoll",
        "/usr/share/zsh/vendor-completions/_plimsoll",
        "/usr/share/fish/vendor_completions.d/plimsoll.fish",
        "/usr/share/doc/plimsoll/examples/docker.conf",
        "/usr/share/doc/plimsoll/examples/grants.conf",
        "/usr/share/doc/plimsoll/examples/tls.conf",
        "/usr/share/doc/plimsoll/notices.gz",
    ):
        assert path in modes, path
    assert modes["/etc/default/plimsolld"] == "-rw-r-----"
    assert modes["/etc/plimsoll/"] == "drwx------"


def test_the_default_environment_has_no_secret_and_names_known_variables_only() -> None:
    text = (ROOT / "deploy/debian/plimsolld.default").read_text()
    assigned = dict(re.findall(r"^#?([A-Z][A-Z_]+)=(.*)$", text, re.MULTILINE))
    assert assigned
    known = set(re.findall(r"^\| `([A-Z_]+)`", (ROOT / "docs/variables.md").read_text(), re.MULTILINE))
    assert set(assigned) <= known
    assert not [name for name in assigned if "TOKEN" in name or "KEY" in name]
    active = dict(re.findall(r"^([A-Z][A-Z_]+)=(.*)$", text, re.MULTILINE))
    assert active == {"PLIMSOLL_ADDR": "127.0.0.1:8746"}


def test_lintian_has_nothing_to_say() -> None:
    said("lintian", "--fail-on=error,warning", "--suppress-tags-from-file", os.devnull, "--allow-root", str(PACKAGE))


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    unit = tmp_path / "plimsolld.service"
    # The program and the callers are not on this host.
    unit.write_text((UNITS / "plimsolld.service").read_text().replace("/usr/bin/plimsolld", "/bin/true"))
    for drop_in in ([], ["docker.conf"]):
        folder = tmp_path / "plimsolld.service.d"
        folder.mkdir(exist_ok=True)
        for name in drop_in:
            (folder / name).write_text((UNITS / name).read_text())
        output = said("systemd-analyze", "verify", "--man=no", str(unit))
        assert "plimsolld" not in output, output


@pytest.mark.parametrize(
    ("drop_ins", "threshold"), [((), EXPOSURE), (("docker.conf",), EXPOSURE_WITH_DOCKER)], ids=["wasm", "docker"]
)
def test_the_sandbox_of_the_unit_is_as_tight_as_stated(
    tmp_path: Path, drop_ins: tuple[str, ...], threshold: int
) -> None:
    unit = tmp_path / "plimsolld.service"
    unit.write_text((UNITS / "plimsolld.service").read_text())
    (tmp_path / "plimsolld.service.d").mkdir()
    for name in drop_ins:
        (tmp_path / "plimsolld.service.d" / name).write_text((UNITS / name).read_text())
    judge = ["systemd-analyze", "security", "--offline=true", f"--threshold={threshold}", str(unit)]
    said(*judge)
    # A sandbox with a hole is noticed.
    unit.write_text(
        unit.read_text().replace("NoNewPrivileges=yes", "NoNewPrivileges=no").replace("ProtectHome=yes", "")
    )
    unit.write_text(unit.read_text().replace("DynamicUser=yes", "DynamicUser=no"))
    done = subprocess.run(judge, capture_output=True, check=False, timeout=60)
    assert done.returncode != 0


def test_life_of_the_package(debian: Debian) -> None:
    """Installed, used, started, stopped, removed and purged, by dpkg and systemd themselves."""
    accounts = debian.says("cat", "/etc/passwd", "/etc/group", "/etc/shadow")
    debian.install()
    assert debian.says("dpkg", "--verify", "plimsoll") == ""

    # Nothing runs, nothing will, and there is no new account.
    assert debian.tried("systemctl", "is-active", "plimsolld")[1].strip() == "inactive"
    assert debian.tried("systemctl", "is-enabled", "plimsolld")[1].strip() == "disabled"
    assert debian.says("cat", "/etc/passwd", "/etc/group", "/etc/shadow") == accounts

    # The command works for anybody, and the daemon judges its settings.
    program = "console.log(6 * 7)"
    assert debian.says("plimsoll", "run", "--quiet", "-", text=program) == "42\n"
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    assert debian.says(*nobody, "plimsoll", "run", "--quiet", "-", text=program) == "42\n"
    debian.says(*nobody, "plimsolld", "check")
    assert debian.tried("env", "SANDBOX_PROVIDER=dokcer", "plimsolld", "check")[0] == 1
    assert debian.says("bash", "-n", "/usr/share/bash-completion/completions/plimsoll") == ""

    # Without callers it does not start.
    assert debian.tried("systemctl", "start", "plimsolld")[0] != 0
    assert "asserts failed" in debian.journal()
    token = debian.says("plimsoll-clients", "create", "-file", CALLERS, "-id", "ci", "-token-stdout")
    debian.token = re.findall(r"^[0-9a-f]{64}$", token, re.MULTILINE)[0]
    assert debian.says("stat", "--format=%a %U", CALLERS).strip() == "600 root"
    debian.says("sh", "-c", "echo SANDBOX_PROVIDER=wasm >>/etc/default/plimsolld")
    debian.says("systemctl", "enable", "--now", "plimsolld")


def test_the_daemon_serves_inside_its_sandbox(debian: Debian, tmp_path: Path) -> None:
    assert debian.says("systemctl", "is-active", "plimsolld").strip() == "active"
    run = ("env", f"PLIMSOLL_TOKEN={debian.token}", "plimsoll", "run", "--quiet", "--daemon")
    daemon = (*run, "http://127.0.0.1:8746")
    assert debian.says(*daemon, "--floor", "process", "-", text="console.log(6 * 7)") == "42\n"
    project = debian.says("sh", "-c", "mkdir -p /tmp/p && echo 'console.log(1)' >/tmp/p/main.js && echo /tmp/p").strip()
    assert debian.says(*daemon, "--step", "node main.js", project) == "1\n"
    # Told ready by the daemon itself, and sandboxed as the unit says.
    shown = debian.says("systemctl", "show", "plimsolld", "--property=StatusText,MainPID,NotifyAccess,DynamicUser")
    process = re.search(r"^MainPID=(\d+)$", shown, re.MULTILINE)
    assert process is not None
    status = debian.says("cat", f"/proc/{process.group(1)}/status")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["NoNewPrivs"] == "1"
    assert fields["Seccomp"] == "2"
    assert {fields[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert 61184 <= int(fields["Uid"].split()[0]) <= 65519
    # Nothing of the system can be written, and the log is records.
    journal = debian.journal()
    assert '"msg":"listening"' in journal
    assert "Operation not permitted" not in journal, journal
    debian.says("systemctl", "stop", "plimsolld")
    assert '"msg":"stopped"' in debian.journal()
    assert debian.says("systemctl", "show", "plimsolld", "--property=Result").strip() == "Result=success"

    # The same with TLS and grants, whose files are root's alone.
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    made += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    said(
        *made, "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", f"{tmp_path}/key", "-out", f"{tmp_path}/crt"
    )
    profile = {
        "base_url": "https://port.example.com",
        "allow": ["GET /berths"],
        "allowed_callers": ["ci"],
        "token": {"env": "PORT_TOKEN"},
    }
    debian.write("/etc/plimsoll/tls.crt", (tmp_path / "crt").read_text(), "0600")
    debian.write("/etc/plimsoll/tls.key", (tmp_path / "key").read_text(), "0600")
    debian.write("/etc/plimsoll/grants.json", json.dumps({"profiles": {"port": profile}}), "0600")
    debian.says("sh", "-c", "echo PORT_TOKEN=a-token-for-the-api >>/etc/default/plimsolld")
    debian.says("mkdir", "-p", DROP_INS)
    for name in ("tls.conf", "grants.conf"):
        debian.says("cp", f"/usr/share/doc/plimsoll/examples/{name}", DROP_INS)
    debian.says("systemctl", "daemon-reload")
    code, output = debian.tried("systemctl", "start", "plimsolld")
    assert code == 0, output + debian.journal()
    secure = (*run, "https://127.0.0.1:8746", "--ca", "/etc/plimsoll/tls.crt")
    assert debian.says(*secure, "-", text="console.log(6 * 7)") == "42\n"
    assert "a-token-for-the-api" not in debian.journal()


def test_removal_and_purge_leave_nothing(debian: Debian) -> None:
    debian.says("dpkg", "--remove", "plimsoll")
    assert debian.tried("systemctl", "is-active", "plimsolld")[1].strip() in {"inactive", "unknown"}
    # Settings outlive a removal.
    debian.says("test", "-f", "/etc/plimsoll/clients.json")
    debian.says("test", "-f", "/etc/default/plimsolld")
    # What the operator put beside the package's own files is the operator's.
    debian.says("rm", "-r", DROP_INS, "/etc/plimsoll/tls.crt", "/etc/plimsoll/tls.key", "/etc/plimsoll/grants.json")
    debian.says("dpkg", "--purge", "plimsoll")
    assert debian.tried("dpkg-query", "--status", "plimsoll")[0] == 1
    assert debian.files() - debian.before == set()


def test_the_docker_provider_works_inside_the_sandbox_with_its_drop_in() -> None:
    socket = Path("/var/run/docker.sock")
    # The engine is this host's, so the daemon's folder has to have one path here and there.
    folder = Path(tempfile.mkdtemp(prefix="plimsolld-", dir="/run"))
    debian = Debian(f"--volume={socket.resolve()}:/run/docker.sock", f"--volume={folder}:{folder}")
    try:
        debian.install()
        debian.says("groupadd", "--non-unique", f"--gid={socket.stat().st_gid}", "docker")
        debian.says("mkdir", "-p", DROP_INS)
        debian.says("cp", "/usr/share/doc/plimsoll/examples/docker.conf", DROP_INS)
        place = f"[Service]\nRuntimeDirectory=\nRuntimeDirectory={folder.name}\nEnvironment=TMPDIR={folder}\n"
        debian.write(f"{DROP_INS}/folder.conf", place, "0644")
        debian.write(CALLERS, CLIENTS, "0600")
        settings = ["SANDBOX_PROVIDER=docker", "SANDBOX_MIN_ISOLATION=container", "SANDBOX_READY_POOL=1"]
        settings += [f"SANDBOX_DOCKER_IMAGE={SANDBOX}", f"SANDBOX_DOCKER_PROJECT_IMAGE={SANDBOX}"]
        debian.write("/etc/default/plimsolld", "".join(f"{line}\n" for line in settings), "0640")
        debian.says("systemctl", "daemon-reload")
        code, output = debian.tried("systemctl", "start", "plimsolld")
        assert code == 0, output + debian.journal()
        daemon = ("env", f"PLIMSOLL_TOKEN={TOKEN}", "plimsoll", "run", "--quiet", "--daemon", "http://127.0.0.1:8746")
        assert debian.says(*daemon, "--floor", "container", "-", text="console.log(6 * 7)") == "42\n"
        debian.says("systemctl", "stop", "plimsolld")
        listed = said("docker", "ps", "--all", '--format={{.ID}} {{.Label "io.plimsoll.owner"}}')
        assert str(folder) not in listed
        assert list(folder.iterdir()) == []
    finally:
        debian.end()
        shutil.rmtree(folder)

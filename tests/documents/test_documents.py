"""The repository's documents say only what is true: links resolve, variables exist, promises name their tests."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TRACKED = subprocess.run(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
    cwd=ROOT,
    capture_output=True,
    check=True,
    text=True,
).stdout.split("\0")
PAGES = sorted(name for name in TRACKED if name.endswith(".md"))

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
VARIABLE = re.compile(r"\b(?:PLIMSOLL|SANDBOX)_[A-Z][A-Z_]*[A-Z]\b")

# Read by the scripts of this repository, not by the daemon.
SCRIPT_VARIABLES = {"PLIMSOLL_CACHE"}

# Native engines, whatever would link a file system into the guest, and a second TLS stack. The linter of `./test deny`
# refuses them too; this test does not depend on it.
NEVER_LINKED = {
    "rquickjs",
    "rquickjs-core",
    "quick-js",
    "quickjs_runtime",
    "boa_engine",
    "deno_core",
    "v8",
    "wasi-common",
    "wasmtime-wasi",
    "openssl",
    "native-tls",
}


@pytest.mark.parametrize("page", PAGES)
def test_every_relative_link_resolves(page: str) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    targets = [target for target in LINK.findall(text) if "://" not in target]
    for target in targets:
        path, _, anchor = target.partition("#")
        found = (ROOT / page).parent / path if path else ROOT / page
        assert found.exists(), f"{page} links to {target}, which does not exist"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", found.read_text(), re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in anchors, f"{page} links to #{anchor}, which {path or page} does not have"


def test_every_variable_that_a_page_names_is_one_that_the_daemon_knows() -> None:
    help_text = subprocess.run(
        [os.environ["PLIMSOLLD"], "--help"], env={}, capture_output=True, check=True, text=True, timeout=30
    ).stdout
    known = set(VARIABLE.findall(help_text)) | SCRIPT_VARIABLES
    assert "SANDBOX_PROVIDER" in known
    for page in PAGES:
        unknown = set(VARIABLE.findall((ROOT / page).read_text())) - known
        assert not unknown, f"{page} names {sorted(unknown)}, which plimsolld does not read"


def test_every_variable_of_the_daemon_is_on_the_reference_page() -> None:
    help_text = subprocess.run(
        [os.environ["PLIMSOLLD"], "--help"], env={}, capture_output=True, check=True, text=True, timeout=30
    ).stdout
    page = (ROOT / "docs/variables.md").read_text()
    missing = set(VARIABLE.findall(help_text)) - set(VARIABLE.findall(page))
    assert not missing, f"docs/variables.md does not have {sorted(missing)}"


def test_every_promise_names_an_enforcer_that_exists_or_says_that_there_is_none() -> None:
    rows = re.findall(r"^\|(.+)\|$", (ROOT / "SPECIFICATION.md").read_text(), re.MULTILINE)
    promises = [row.split("|") for row in rows if not row.startswith((" Promise", " Limit", "-", "--"))]
    assert len(promises) >= 10
    for promise in promises:
        enforcer = promise[-1]
        files = re.findall(r"`([\w./-]+/[\w./-]*)(?: [\w-]+)?`", enforcer)
        assert files or "not yet enforced" in enforcer, f"no enforcer: {promise[0].strip()}"
        for name in files:
            assert (ROOT / name).exists(), f"the enforcer {name} of {promise[0].strip()!r} does not exist"


def test_every_field_of_a_profile_and_every_refusal_of_a_call_is_on_the_page_about_grants() -> None:
    page = (ROOT / "docs/grants.md").read_text()
    profile = (ROOT / "crates/grants/src/profiles/profile.rs").read_text()
    fields = re.findall(r'"(\w+)"', profile.split("const FIELDS")[1].split("];")[0])
    token = (ROOT / "crates/grants/src/profiles/token.rs").read_text()
    fields += re.findall(r'"(\w+)"', token.split("const FIELDS")[1].split("];")[0])
    assert len(fields) > 20
    missing = [field for field in fields if f"`{field}`" not in page]
    assert not missing, f"docs/grants.md does not have {missing}"
    answers = (ROOT / "crates/broker/src/answer.rs").read_text()
    reasons = set(re.findall(r'^ *"([^":]+): [^"]+; [^"]+\\n",?$', answers, re.MULTILINE))
    assert len(reasons) > 8
    unknown = [reason for reason in sorted(reasons) if f"`{reason}`" not in page]
    assert not unknown, f"docs/grants.md does not have {unknown}"


def test_the_grants_file_on_the_page_about_grants_is_one_that_the_daemon_takes(tmp_path: Path) -> None:
    page = (ROOT / "docs/grants.md").read_text()
    grants = tmp_path / "grants.json"
    grants.write_text(page.split("```json\n")[1].split("```")[0])
    variables = {
        "SANDBOX_PROVIDER": "wasm",
        "PLIMSOLL_TOKEN": "0123456789abcdef0123456789abcdef",
        "PLIMSOLL_GRANTS_FILE": str(grants),
        "BERTHS_TOKEN": "a-token-for-the-api",
    }
    check = subprocess.run(
        [os.environ["PLIMSOLLD"], "check"], env=variables, capture_output=True, text=True, check=False, timeout=30
    )
    assert check.returncode == 0, check.stderr


@pytest.mark.parametrize("lock", ["Cargo.lock", "fuzz/Cargo.lock", "tests/deploy/Cargo.lock"])
def test_no_lock_file_holds_a_crate_that_must_never_be_linked(lock: str) -> None:
    packages = tomllib.loads((ROOT / lock).read_text())["package"]
    assert NEVER_LINKED.isdisjoint(package["name"] for package in packages)
    sources = {package["source"] for package in packages if "source" in package}
    assert len(sources) == 1, f"more than one source of crates: {sources}"


def test_no_program_or_archive_is_committed() -> None:
    magic = (b"\x7fELF", b"\0asm", b"MZ", b"PK\x03\x04", b"\x1f\x8b", b"\xfd7zXZ", b"!<arch>")
    for name in filter(None, TRACKED):
        path = ROOT / name
        if path.is_file() and not name.startswith("fuzz/corpus/"):
            assert not path.read_bytes().startswith(magic), f"{name} is a program or an archive"


def printed_texts() -> list[str]:
    """The sources that print messages, one text each: string literals joined, and `…` for what is filled in."""
    texts = []
    for path in sorted((ROOT / "crates").glob("*/src/**/*.rs")):
        # What a test expects is not printed.
        if "tests" in path.parts or path.name == "tests.rs":
            continue
        source = path.read_text().split("#[cfg(test)]")[0]
        source = re.sub(r"\\\n\s*", "", source)
        # What is filled in may itself hold braces of a format, never a quote.
        source = re.sub(r"\{[\w.:?#]*\}", "…", source)
        texts.append(source.replace('\\"', '"'))
    return texts


def test_every_text_on_the_page_about_troubles_is_one_that_is_printed() -> None:
    page = (ROOT / "docs/troubleshooting.md").read_text()
    told = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert len(told) > 45
    assert len(set(told)) == len(told)
    sources = printed_texts()
    for text in told:
        assert any(f'"{text}"' in source for source in sources), f"nothing prints {text!r}"


# Each sentence of the list of limitations that users must be told, by a phrase of the page about limitations. Those
# about hosted providers, their guard and paid time come with them.
LIMITATIONS = [
    "JavaScript only",
    "No modules, no shell, no grants in sessions and for projects",
    "builds no walls itself",
    "A tier is evidence, not attestation",
    "No claim is made against timing or cache side channels",
    "weakest tier",
    "nothing can be installed during a run",
    "No control plane over several daemons",
    "No automatic update",
    "a rebuild can change what software they hold",
    "Sessions are in memory: a restart forgets them",
    "limits are per daemon",
    "needs a restart unless `PLIMSOLL_CLIENTS_RELOAD` is on",
    "Every grant is a path out for data",
    "The output of a run is untrusted input",
    "Access to the container engine is root on that host",
    "all guests are one user of the host's kernel",
    "Runs on one host share its hardware",
]


@pytest.mark.parametrize("phrase", LIMITATIONS)
def test_the_page_about_limitations_has_each_that_users_must_be_told(phrase: str) -> None:
    page = re.sub(r"\s+", " ", (ROOT / "docs/limitations.md").read_text())
    assert phrase in page

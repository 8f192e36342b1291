//! Files: too many, too large, too deep, oddly named, and in every place that takes them.

use plimsoll_core::{Limit, ProjectOutcome};

use crate::kit::{answer, attack, attempts, limit, output, request, still_serves, told};
use crate::support::{gvisor, project_of, run};

#[test]
fn inodes_run_out_as_an_ordinary_error_or_lose_the_sandbox_but_nothing_else() {
    run(async {
        let answer = attack(&["#py
count = 0
try:
    while count < 2_000_000:
        os.close(os.open('/work/f%d' % count, os.O_CREAT | os.O_WRONLY))
        count += 1
    else:
        print('unbounded', flush=True)
except OSError as error:
    print(errno.errorcode[error.errno], count <= 65536, flush=True)
"])
        .await;
        let result = project_of(&answer);
        if gvisor() {
            // Its kernel counts no inodes; they are memory, and that ends, with one process or the whole sandbox.
            assert_eq!(limit(&answer), Some(Limit::Memory), "{result:?}");
            assert!(
                result.outcome == ProjectOutcome::PROTOCOL_ERROR || result.steps[0].exit_code == 137,
                "{result:?}"
            );
            let told = result.steps.first().map(|step| step.stdout.as_slice());
            assert!(told.unwrap_or_default().is_empty(), "{result:?}");
        } else {
            assert_eq!(output(&result), "ENOSPC True\n", "{result:?}");
            assert_eq!(limit(&answer), Some(Limit::Disk));
        }
        still_serves().await;
    });
}

#[test]
fn ten_gibibytes_can_be_neither_allocated_nor_written() {
    run(async {
        let found = attempts(
            "
def allocate(path, size):
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    try: os.posix_fallocate(file, 0, size)
    finally: os.close(file); os.unlink(path)
for folder in ('/work', '/tmp', '/dev/shm'):
    attempt('allocate ' + folder, lambda: allocate(folder + '/x', 10 << 30))
    attempt('allocate more than it has ' + folder, lambda: allocate(folder + '/x', 140 << 20))
attempt('allocate a little', lambda: allocate('/work/y', 1 << 20))
",
        )
        .await;
        crate::kit::all_refused(&found, &["allocate a little"]);
        assert_eq!(found["allocate a little"], "done", "{found:?}");
    });
}

#[test]
fn a_sparse_file_is_too_large_to_be_an_artifact_and_costs_nothing() {
    run(async {
        let truncate =
            "truncate -s 1T sparse 2>/dev/null || truncate -s 7G sparse; truncate -s 8M whole; echo small > small";
        let result = project_of(&answer(request(&[truncate], &["small", "sparse", "whole"], 10_000)).await);
        assert_eq!(result.outcome, ProjectOutcome::COMPLETED, "{result:?}");
        assert!(result.artifacts_truncated);
        let paths: Vec<&str> = result.artifacts.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(paths, ["small"]);
    });
}

#[test]
fn five_thousand_open_files_are_refused_to_it_alone() {
    run(async {
        let result = told(&[
            "#py
held = []
try:
    while len(held) < 5000: held.append(os.open('/work/f%d' % len(held), os.O_CREAT | os.O_RDWR))
except OSError as error:
    print(errno.errorcode[error.errno], len(held) < 4096, flush=True)
",
            "ls /work | grep -c ^f; rm -r /work/f*; ls /work",
        ])
        .await;
        assert_eq!(output(&result), "EMFILE True\n");
        let second = String::from_utf8_lossy(&result.steps[1].stdout).into_owned();
        assert!(
            second.starts_with("409") && second.ends_with("attack0.py\n"),
            "{second}"
        );
    });
}

#[test]
fn a_very_deep_folder_and_its_artifact_do_no_harm() {
    run(async {
        let deep = "#py
depth = 0
try:
    while depth < 5000:
        os.mkdir('d'); os.chdir('d'); depth += 1
except OSError: pass
open('f', 'w').write('deep')
print(depth > 500, flush=True)
";
        let path = format!("{}f", "d/".repeat(400));
        let result =
            project_of(&answer(request(&[deep, "rm -rf d; ls d 2>/dev/null | wc -l"], &[&path], 20_000)).await);
        assert_eq!(result.outcome, ProjectOutcome::COMPLETED, "{result:?}");
        assert_eq!(output(&result), "True\n");
        assert!(result.artifacts.is_empty());
        assert_eq!(result.steps[1].stdout, b"0\n");
    });
}

#[test]
fn names_with_line_ends_and_raw_bytes_stay_in_their_folder() {
    run(async {
        let names = "#py
for name in (b'a\\nb', b'\\xff\\xfe', b'-rf', b'$(id)', b'a' * 255, 'ä'.encode('latin-1'), b'\\x1b[2J'):
    open(b'/work/' + name, 'w').write('x')
print(len(os.listdir('/work')), flush=True)
";
        let result = project_of(&answer(request(&[names], &["-rf", "$(id)"], 10_000)).await);
        assert_eq!(output(&result), "8\n", "{result:?}");
        let paths: Vec<&str> = result.artifacts.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(paths, ["-rf", "$(id)"]);
    });
}

#[test]
fn nothing_outside_the_scratch_folders_takes_a_byte() {
    run(async {
        let found = told(&["#py
found = []
for folder, _, names in os.walk('/'):
    if folder.startswith(('/proc', '/sys')): continue
    if os.access(folder, os.W_OK):
        try:
            open(folder + '/.x', 'w').close(); os.unlink(folder + '/.x'); found.append(folder)
        except OSError: pass
    for name in names:
        path = os.path.join(folder, name)
        if os.path.isfile(path) and not os.path.islink(path) and not folder.startswith('/work'):
            try: os.close(os.open(path, os.O_WRONLY)); found.append(path)
            except OSError: pass
print(sorted(found), flush=True)
"])
        .await;
        assert_eq!(output(&found), "['/dev/shm', '/tmp', '/work']\n");
    });
}

#[test]
fn no_program_of_the_image_gives_another_user_or_a_capability() {
    run(async {
        let result = told(&["#py
found = []
for folder, _, names in os.walk('/'):
    if folder.startswith(('/proc', '/sys')): continue
    for name in names:
        path = os.path.join(folder, name)
        try:
            if os.lstat(path).st_mode & 0o6000 and not os.path.islink(path): found.append(path)
            if 'security.capability' in os.listxattr(path, follow_symlinks=False): found.append(path)
        except OSError: pass
print(found, flush=True)
"])
        .await;
        assert_eq!(output(&result), "[]\n");
    });
}

#[test]
fn what_it_writes_cannot_be_executed_by_its_path() {
    run(async {
        let result = told(&[
            "for d in /work /tmp /dev/shm; do cp /bin/true $d/t && chmod 755 $d/t && $d/t 2>/dev/null; echo $?; done",
        ])
        .await;
        assert_eq!(output(&result), "126\n126\n126\n");
    });
}

#[test]
fn a_crash_leaves_no_core_file_and_starts_nothing_on_the_host() {
    run(async {
        let result = told(&["ulimit -c; ulimit -c unlimited 2>/dev/null; ulimit -c; python3 -c 'import os; os.abort()'; echo $?; ls /work | grep -c core"])
            .await;
        assert_eq!(output(&result), "0\n0\n134\n0\n");
    });
}

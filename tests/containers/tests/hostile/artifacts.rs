//! Artifacts that are not what they seem.

use std::time::{Duration, Instant};

use plimsoll_core::{ProjectOutcome, ProjectResult};

use crate::kit::{answer, output, request, sandbox};
use crate::support::{project_of, run};

/// What comes back of these paths after this step: only `good` may.
async fn only_good(step: &str, paths: &[&str]) -> ProjectResult {
    sandbox().await;
    let began = Instant::now();
    let mut asked = vec!["good"];
    asked.extend(paths);
    asked.push("good2");
    let step = format!(
        "{step}\n{}",
        if step.starts_with("#py") {
            "open('good','w').write('g'); open('good2','w').write('g')"
        } else {
            "printf g > good; printf g > good2"
        }
    );
    let result = project_of(&answer(request(&[&step], &asked, 10_000)).await);
    assert_eq!(result.outcome, ProjectOutcome::COMPLETED, "{result:?}");
    assert_eq!(result.steps[0].exit_code, 0, "{result:?}");
    let back: Vec<&str> = result.artifacts.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(back, ["good", "good2"], "{result:?}");
    assert!(!result.artifacts_truncated);
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
    result
}

#[test]
fn links_to_files_devices_and_the_kernel_are_left_out() {
    run(async {
        let links = "i=0; for t in /etc/passwd /proc/1/environ /proc/self/environ /proc/1/fd/0 /proc/1/mem /dev/zero /dev/random \
                     /dev/stdin /proc/kcore /run/host-api.sock good /work/good . /; do ln -s $t l$i; i=$((i+1)); done; ln -s l0 chain; ln -s self self";
        let names: Vec<String> = (0..14).map(|number| format!("l{number}")).collect();
        let mut paths: Vec<&str> = names.iter().map(String::as_str).collect();
        paths.extend(["chain", "self"]);
        only_good(links, &paths).await;
    });
}

#[test]
fn what_would_block_or_never_end_is_left_out() {
    run(async {
        only_good(
            "#py
os.mkfifo('fifo')
s = socket.socket(socket.AF_UNIX); s.bind('sock'); s.listen()
os.mkdir('dir')
open('none', 'w').write('secret'); os.chmod('none', 0)
if os.fork() == 0:
    os.setsid()
    os.open('fifo', os.O_RDWR)
    time.sleep(50)
",
            &["fifo", "sock", "dir", "none"],
        )
        .await;
    });
}

#[test]
fn a_linked_parent_leads_nowhere() {
    run(async {
        only_good(
            "mkdir real; echo x > real/passwd; ln -s /etc etc; ln -s / root; ln -s real inside; ln -s /proc/self proc; ln -s /proc/self/cwd cwd; mkdir -p a; ln -s /etc a/b",
            &["etc/passwd", "root/etc/passwd", "inside/passwd", "proc/environ", "cwd/good", "a/b/passwd"],
        )
        .await;
    });
}

#[test]
fn a_hard_link_out_of_the_folder_cannot_be_made() {
    run(async {
        let result = only_good(
            "#py
for path in ('/etc/passwd', '/usr/local/bin/plimsoll-guest', '/run/host-api.sock', '/proc/self/environ', '/tmp/t', '/dev/shm/t'):
    if path.endswith('/t'): open(path, 'w').write('other mount')
    attempt(path, lambda: os.link(path, '/work/h' + path.replace('/', '')))
tell()
",
            &["hetcpasswd", "hrunhost-api.sock", "htmpt", "hdevshmt"],
        )
        .await;
        assert!(!output(&result).contains("done"), "{result:?}");
    });
}

#[test]
fn an_artifact_that_is_swapped_all_the_time_is_the_file_or_nothing() {
    run(async {
        // The swappers are killed before anything is read, so this must hold however they are timed.
        let swap = "#py
open('/work/victim', 'w').write('honest'); open('/tmp/secret', 'w').write('other')
for turn in range(4):
    if os.fork() == 0:
        os.setsid()
        while True:
            try: os.unlink('victim')
            except OSError: pass
            try: os.symlink('/etc/passwd', 'victim')
            except OSError: pass
            try: os.rename('victim', 'moved')
            except OSError: pass
            try: os.close(os.open('victim', os.O_CREAT | os.O_WRONLY)); os.rename('victim', 'victim2')
            except OSError: pass
            try: os.mkdir('folder')
            except OSError: pass
            try: os.rename('folder', 'f2'); os.symlink('/etc', 'folder')
            except OSError: pass
time.sleep(0.5)
";
        for _ in 0..3 {
            let asked = ["victim", "victim2", "moved", "folder/passwd", "f2/passwd"];
            let result = project_of(&answer(request(&[swap], &asked, 10_000)).await);
            assert_eq!(result.outcome, ProjectOutcome::COMPLETED, "{result:?}");
            for artifact in &result.artifacts {
                let text = String::from_utf8_lossy(&artifact.content).into_owned();
                assert!(["", "honest"].contains(&text.as_str()), "{}: {text}", artifact.path);
            }
        }
    });
}

#[test]
fn a_file_system_mounted_by_the_guest_is_not_looked_into() {
    run(async {
        // Only gVisor's kernel has user namespaces for it; elsewhere nothing is mounted at all.
        let result = only_good(
            "mkdir -p m; unshare -Urm sh -c 'mount -t tmpfs none /work/m && echo hidden > /work/m/f; mount -t tmpfs none /work && echo forged > /work/good; mount -t proc none /work/m' 2>/dev/null; true",
            &["m/f", "m/self/environ", "m/1/environ"],
        )
        .await;
        assert!(result.artifacts.iter().all(|one| one.content == b"g"));
    });
}

#[test]
fn a_folder_that_lost_its_rights_or_was_renamed_hides_only_itself() {
    run(async {
        only_good(
            "mkdir shut; echo x > shut/f; chmod 000 shut; mkdir -p long/a; echo x > long/a/f; mv long moved",
            &["shut/f", "long/a/f"],
        )
        .await;
        let gone = project_of(
            &answer(request(
                &["echo x > f; chmod 000 /work; true", "ls / >/dev/null; pwd"],
                &["f"],
                10_000,
            ))
            .await,
        );
        assert!(
            [ProjectOutcome::COMPLETED, ProjectOutcome::RUNNER_FAILED].contains(&gone.outcome),
            "{gone:?}"
        );
        assert!(gone.artifacts.is_empty(), "{gone:?}");
    });
}

#[test]
fn a_file_that_grows_to_the_cap_counts_in_full() {
    run(async {
        let result = project_of(
            &answer(request(
                &["head -c 8388608 /dev/zero > all; printf x > one"],
                &["all", "one"],
                20_000,
            ))
            .await,
        );
        assert_eq!(result.artifacts.len(), 1, "{}", result.artifacts.len());
        assert_eq!(result.artifacts[0].content.len(), 8 << 20);
        assert!(result.artifacts_truncated);
    });
}

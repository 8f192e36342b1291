//! Files in, files out, and what is neither.

use std::time::Instant;

use plimsoll_core::{ProjectOutcome, Reason};

use crate::support::{ask, project, project_of, run};

#[test]
fn capture_stops_at_the_file_that_would_pass_eight_mib() {
    run(async {
        let fill = "for one in a b; do head -c 5242880 /dev/zero > $one.bin; done; echo small > c.txt";
        let request = project(&[], &[fill], &["a.bin", "b.bin", "c.txt"]);
        let result = project_of(&ask(request).await.unwrap());
        assert_eq!(result.outcome, ProjectOutcome::COMPLETED, "{}", result.outcome_detail);
        let kept: Vec<_> = result
            .artifacts
            .iter()
            .map(|one| (one.path.as_str(), one.content.len()))
            .collect();
        assert_eq!(kept, [("a.bin", 5_242_880)]);
        assert!(result.artifacts_truncated);
    });
}

#[test]
fn what_is_no_regular_file_of_the_run_is_left_out_without_a_wait() {
    run(async {
        let make = "ln -s /etc/passwd link; ln -s / root; mkfifo pipe; mkdir folder; echo in > folder/file; \
                    ln -s folder inner; echo here > plain; ln plain second; \
                    ln -s /proc/1/environ secret; : > closed; chmod 000 closed";
        let asked = [
            "link",
            "root/etc/passwd",
            "pipe",
            "folder",
            "missing",
            "plain/under",
            "inner/file",
            "secret",
            "folder/file",
            "second",
            "plain",
        ];
        let began = Instant::now();
        let result = project_of(&ask(project(&[], &[make], &asked)).await.unwrap());
        assert_eq!(result.steps[0].exit_code, 0, "{result:?}");
        let kept: Vec<_> = result
            .artifacts
            .iter()
            .map(|one| (one.path.as_str(), one.content.as_slice()))
            .collect();
        assert_eq!(
            kept,
            [
                ("folder/file", &b"in\n"[..]),
                ("second", &b"here\n"[..]),
                ("plain", &b"here\n"[..])
            ]
        );
        assert!(!result.artifacts_truncated);
        assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
    });
}

#[test]
fn artifacts_of_a_failed_and_of_a_timed_out_step_come_back() {
    run(async {
        let failed = project(&[], &["echo kept > out; exit 3"], &["out"]);
        let result = project_of(&ask(failed).await.unwrap());
        assert_eq!(result.artifacts[0].content, b"kept\n");
        let mut slow = project(&[], &["echo kept > out; sleep 60"], &["out"]);
        slow.timeout_ms = 1000;
        let result = project_of(&ask(slow).await.unwrap());
        assert_eq!(result.outcome, ProjectOutcome::TIMED_OUT);
        assert_eq!(result.artifacts[0].content, b"kept\n");
    });
}

#[test]
fn a_path_that_leads_out_is_refused_before_anything_runs() {
    run(async {
        for path in ["../x", "/etc/x", "a/../x", "."] {
            let refused = ask(project(&[(path, "x")], &["true"], &[])).await.unwrap_err();
            assert_eq!(refused.reason(), Some(Reason::Request), "{path}: {refused}");
            let refused = ask(project(&[], &["true"], &[path])).await.unwrap_err();
            assert_eq!(refused.reason(), Some(Reason::Request), "{path}: {refused}");
        }
    });
}

#[test]
fn a_file_that_cannot_be_written_ends_the_setup_and_no_step_runs() {
    run(async {
        let request = project(&[("a", "file"), ("a/b", "below a file")], &["echo ran"], &["a"]);
        let result = project_of(&ask(request).await.unwrap());
        assert_eq!(result.outcome, ProjectOutcome::SETUP_FAILED);
        assert!(result.outcome_detail.contains("a/b"), "{}", result.outcome_detail);
        assert_eq!((result.steps.len(), result.artifacts.len()), (0, 0));
    });
}

#[test]
fn a_name_of_any_script_is_a_file_like_another() {
    run(async {
        let request = project(
            &[
                ("läuft/日本語 и 🦀.txt", "text"),
                ("-rf", "dash"),
                ("a b'\"$HOME", "quoted"),
            ],
            &["find . -type f | sort | wc -l"],
            &["läuft/日本語 и 🦀.txt", "-rf", "a b'\"$HOME"],
        );
        let result = project_of(&ask(request).await.unwrap());
        assert_eq!(result.steps[0].stdout.trim_ascii(), b"3");
        let contents: Vec<_> = result.artifacts.iter().map(|one| one.content.as_slice()).collect();
        assert_eq!(contents, [&b"text"[..], b"dash", b"quoted"]);
    });
}

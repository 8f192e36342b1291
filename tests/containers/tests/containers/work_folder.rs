//! Images whose `/work` is not what a project needs: the mount lies over it, or the image is refused at the start.

use plimsoll::Project;

use crate::engine::Throwaway;
use crate::support::{gvisor, own_sandbox, run};

/// An image in which `/work` was made by this program, in place of the usual one.
async fn image(program: &str) -> Throwaway {
    let lines = format!("USER 0\nWORKDIR /\nRUN rm -rf /work{program}");
    Throwaway::built(&lines, &[]).await
}

/// Why no sandbox with projects in this image is started.
async fn refusal(program: &str) -> String {
    let image = image(program).await;
    let told = match own_sandbox(&[("SANDBOX_DOCKER_PROJECT_IMAGE", image.name())]).await {
        Ok(_) => panic!("{program:?}: a sandbox was started"),
        Err(error) => error.to_string(),
    };
    image.remove().await;
    told
}

/// A project in this image begins in an empty folder of its own.
async fn works(program: &str) {
    let image = image(program).await;
    let sandbox = own_sandbox(&[("SANDBOX_DOCKER_PROJECT_IMAGE", image.name())])
        .await
        .unwrap_or_else(|error| panic!("{program:?}: {error}"));
    let project = Project::new()
        .step("pwd; ls -A | wc -l; echo kept > made; stat -f -c %T .")
        .step("cat made")
        .artifact("made");
    let ran = sandbox.run_project(project).any_tier().send().await.unwrap();
    let told: Vec<_> = ran.steps.iter().map(|step| step.stdout_text().into_owned()).collect();
    assert_eq!(told, ["/work\n0\ntmpfs\n", "kept\n"], "{program:?}");
    assert_eq!(ran.artifact("made"), Some(&b"kept\n"[..]));
    sandbox.drain().await.unwrap();
    image.remove().await;
}

#[test]
fn a_work_that_is_no_folder_is_refused_at_the_start() {
    run(async {
        for program in [" && echo x > /work", " && ln -s /tmp /work", " && ln -s /etc /work"] {
            let told = refusal(program).await;
            assert!(told.contains("/work"), "{program:?}: {told}");
        }
    });
}

#[test]
fn a_work_that_nobody_may_enter_is_refused_under_runc_and_covered_under_gvisor() {
    run(async {
        let program = " && mkdir -m 000 /work";
        if gvisor() {
            works(program).await;
        } else {
            let told = refusal(program).await;
            assert!(told.contains("/work"), "{told}");
        }
    });
}

#[test]
fn a_work_that_is_missing_closed_to_writers_or_full_is_covered() {
    run(async {
        for program in [
            "",
            " && mkdir -m 0755 /work",
            " && mkdir -m 1777 /work && echo x > /work/x && mkdir /work/y && echo y > /work/y/z",
        ] {
            works(program).await;
        }
    });
}

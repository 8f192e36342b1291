//! Images an operator may name by mistake, and tags that move.

use std::time::Duration;

use plimsoll::Project;
use plimsoll_core::Reason;

use crate::engine::{self, Throwaway};
use crate::support::{own_sandbox, run};

const OWN: &str = "plimsoll/sandbox:latest";

/// Why a sandbox of this image is not started.
async fn refused(image: &Throwaway, setting: &str) -> String {
    match own_sandbox(&[(setting, image.name())]).await {
        Ok(_) => panic!("a sandbox of {} was started", image.name()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn an_image_without_node_is_refused_at_the_start() {
    run(async {
        let image = Throwaway::built(
            "USER 0\nRUN [\"/bin/rm\", \"-f\", \"/usr/bin/node\", \"/usr/local/bin/node\"]\n",
            &[],
        )
        .await;
        for setting in ["SANDBOX_DOCKER_IMAGE", "SANDBOX_DOCKER_PROJECT_IMAGE"] {
            let told = refused(&image, setting).await;
            assert!(told.contains("node"), "{told}");
        }
        image.remove().await;
    });
}

#[test]
fn an_image_without_the_guest_binary_is_refused_at_the_start() {
    run(async {
        let image = Throwaway::built("USER 0\nRUN [\"/bin/rm\", \"/usr/local/bin/plimsoll-guest\"]\n", &[]).await;
        let told = refused(&image, "SANDBOX_DOCKER_IMAGE").await;
        assert!(told.contains("smoke test"), "{told}");
        image.remove().await;
    });
}

#[test]
fn an_image_with_a_volume_is_refused_and_its_volumes_are_listed() {
    run(async {
        let image = Throwaway::built("VOLUME [\"/data\", \"/cache\"]", &[]).await;
        let told = refused(&image, "SANDBOX_DOCKER_IMAGE").await;
        assert!(
            told.contains("VOLUME") && told.find("/cache") < told.find("/data"),
            "{told}"
        );
        image.remove().await;
    });
}

#[test]
fn an_image_that_sets_a_variable_of_the_loader_is_refused() {
    run(async {
        for variable in ["LD_PRELOAD", "LD_AUDIT", "GLIBC_TUNABLES", "LOCPATH"] {
            let image = Throwaway::built(&format!("ENV {variable}=/hook.so"), &[]).await;
            let told = refused(&image, "SANDBOX_DOCKER_PROJECT_IMAGE").await;
            assert!(told.contains(variable), "{told}");
            image.remove().await;
        }
    });
}

#[test]
fn an_image_that_is_not_there_is_refused_and_never_fetched() {
    run(async {
        let error = own_sandbox(&[("SANDBOX_DOCKER_IMAGE", "plimsoll-container-tests/never-built")]).await;
        let told = error.err().unwrap().to_string();
        assert!(told.contains("plimsoll-container-tests/never-built"), "{told}");
    });
}

#[test]
fn what_an_image_has_for_node_reaches_guests_and_nothing_else() {
    run(async {
        let lines = "USER 0\nCOPY hook.cjs /hook.cjs\nENV NODE_OPTIONS=--require=/hook.cjs spring.profiles.active=x";
        let hook =
            "globalThis.hooked = true; process.on('exit', () => require('fs').appendFileSync('/tmp/hooked', '1'));";
        let image = Throwaway::built(lines, &[("hook.cjs", hook)]).await;
        let name = image.name().to_owned();
        let sandbox = own_sandbox(&[("SANDBOX_DOCKER_IMAGE", &name), ("SANDBOX_DOCKER_PROJECT_IMAGE", &name)])
            .await
            .unwrap();
        let code = "console.log(globalThis.hooked, process.env.NODE_OPTIONS, process.env['spring.profiles.active'])";
        let ran = sandbox.run_javascript(code).any_tier().send().await.unwrap();
        assert_eq!(ran.stdout_text(), "true --require=/hook.cjs x\n");
        // Nothing but the step's own node ran in this container.
        let project = Project::new()
            .step("cat /tmp/hooked 2>/dev/null; echo")
            .step("node -e 0; cat /tmp/hooked");
        let ran = sandbox.run_project(project).any_tier().send().await.unwrap();
        assert_eq!(ran.steps[0].stdout, b"\n");
        assert_eq!(ran.steps[1].stdout, b"1");
        sandbox.drain().await.unwrap();
        image.remove().await;
    });
}

#[test]
fn a_health_check_of_the_image_never_runs() {
    run(async {
        let image = Throwaway::built(
            "HEALTHCHECK --interval=1s --timeout=1s CMD touch /tmp/checked /work/checked",
            &[],
        )
        .await;
        let sandbox = own_sandbox(&[("SANDBOX_DOCKER_PROJECT_IMAGE", image.name())])
            .await
            .unwrap();
        let project = Project::new().step("sleep 3; ls -A /tmp /work; set -- /proc/[0-9]*; echo $#");
        let ran = sandbox.run_project(project).any_tier().send().await.unwrap();
        // PID 1 and the shell.
        assert_eq!(String::from_utf8_lossy(&ran.steps[0].stdout), "/tmp:\n\n/work:\n2\n");
        sandbox.drain().await.unwrap();
        image.remove().await;
    });
}

#[test]
fn a_moved_tag_never_runs_what_was_not_proven() {
    run(async {
        let own = engine::image_id(OWN).await;
        let tag = Throwaway::named_like(OWN).await;
        let with_volume = Throwaway::built("VOLUME /data", &[]).await;
        let sandbox = own_sandbox(&[("SANDBOX_DOCKER_IMAGE", tag.name()), ("SANDBOX_READY_POOL", "1")])
            .await
            .unwrap();
        let hello = || sandbox.run_javascript("console.log(1)").any_tier().send();
        let identity = format!("docker-image:{own}");
        assert_eq!(hello().await.unwrap().environment, identity);

        tag.repoint(with_volume.name()).await;
        // What was looked at less than five seconds ago still holds, and names the content that runs.
        match hello().await {
            Ok(ran) => assert_eq!(ran.environment, identity),
            Err(error) => assert_eq!(error.reason(), Some(Reason::Environment), "{error}"),
        }
        tokio::time::sleep(Duration::from_secs(6)).await;
        let error = hello().await.unwrap_err();
        assert_eq!(error.reason(), Some(Reason::Environment), "{error}");

        // Another image that would pass the look was not proven either.
        let other = Throwaway::built("ENV OTHER=1", &[]).await;
        tag.repoint(other.name()).await;
        tokio::time::sleep(Duration::from_secs(6)).await;
        let error = hello().await.unwrap_err();
        assert_eq!(error.reason(), Some(Reason::Environment), "{error}");

        tag.repoint(OWN).await;
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert_eq!(hello().await.unwrap().environment, identity);
        sandbox.drain().await.unwrap();
        for image in [tag, with_volume, other] {
            image.remove().await;
        }
    });
}

#[test]
fn a_pinned_reference_is_demanded_where_the_operator_says_so() {
    run(async {
        let pinned = ("SANDBOX_REQUIRE_PINNED_IMAGES", "true");
        let told = own_sandbox(&[pinned]).await.err().unwrap().to_string();
        assert!(
            told.contains("SANDBOX_REQUIRE_PINNED_IMAGES") || told.contains("pinned"),
            "{told}"
        );
        let id = engine::image_id(OWN).await;
        let sandbox = own_sandbox(&[
            pinned,
            ("SANDBOX_DOCKER_IMAGE", &id),
            ("SANDBOX_DOCKER_PROJECT_IMAGE", &id),
        ])
        .await
        .unwrap();
        let ran = sandbox
            .run_javascript("console.log(1)")
            .any_tier()
            .send()
            .await
            .unwrap();
        assert_eq!(ran.environment, format!("docker-image:{id}"));
        sandbox.drain().await.unwrap();
    });
}

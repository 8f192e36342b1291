//! What a guest sees of where it runs.

use std::collections::BTreeMap;

use crate::engine::image_environment;
use crate::support::{own_sandbox, prints, run, steps};

const IMAGE: &str = "plimsoll/sandbox:latest";

/// What a guest's environment is made of, without what a shell adds.
async fn expected() -> BTreeMap<String, String> {
    let mut expected = image_environment(IMAGE).await;
    expected.insert("HOME".to_owned(), "/".to_owned());
    expected
}

fn pairs(text: &str) -> BTreeMap<String, String> {
    let lines = text.split_terminator(['\0', '\n']);
    lines
        .map(|line| line.split_once('=').unwrap())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[test]
fn a_snippets_environment_is_exactly_path_home_host_name_and_the_images_own() {
    run(async {
        let code = "for (const [name, value] of Object.entries(process.env)) console.log(`${name}=${value}`);
                    console.log(`OS=${require('os').hostname()}`)";
        let mut seen = pairs(&prints(code).await);
        let host_name = seen.remove("HOSTNAME").unwrap();
        assert!(
            host_name.len() == 12 && host_name.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{host_name}"
        );
        assert_eq!(seen.remove("OS").as_ref(), Some(&host_name));
        assert_eq!(seen, expected().await);
    });
}

#[test]
fn a_steps_environment_is_the_same_and_the_number_of_the_first_process() {
    run(async {
        let result = steps(&["tr '\\0' '\\n' < /proc/$$/environ"]).await;
        let mut seen = pairs(std::str::from_utf8(&result.steps[0].stdout).unwrap());
        assert!(seen.remove("HOSTNAME").is_some());
        assert_eq!(seen.remove("PLIMSOLL_RUNNER_PID").as_deref(), Some("1"));
        assert_eq!(seen, expected().await);
    });
}

#[test]
fn every_id_is_the_guests_and_there_is_no_other_group() {
    run(async {
        let result = steps(&["id -u; id -g; id -G; grep -E '^(Uid|Gid|Groups)' /proc/self/status"]).await;
        let seen = String::from_utf8_lossy(&result.steps[0].stdout).into_owned();
        let numbers: Vec<&str> = seen
            .split_ascii_whitespace()
            .filter(|word| word.parse::<u32>().is_ok())
            .collect();
        assert!(
            numbers.len() >= 11 && numbers.iter().all(|number| *number == "61000"),
            "{seen}"
        );
    });
}

#[test]
fn no_setting_of_the_operators_docker_client_reaches_a_guest() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let config = r#"{"proxies":{"default":{"httpProxy":"http://user:secret@proxy.example:3128","noProxy":"*"}},
                         "HttpHeaders":{"X-Meta":"value"}}"#;
        fs_err::write(folder.path().join("config.json"), config).unwrap();
        let path = folder.path().to_str().unwrap();
        let sandbox = own_sandbox(&[
            ("DOCKER_CONFIG", path),
            ("HTTP_PROXY", "http://user:secret@proxy.example:3128"),
            ("NODE_OPTIONS", "--throw-deprecation"),
        ])
        .await
        .unwrap();
        let code = "console.log(JSON.stringify(process.env))";
        let ran = sandbox.run_javascript(code).any_tier().send().await.unwrap();
        let seen = ran.stdout_text().to_lowercase();
        for name in ["proxy", "secret", "node_options"] {
            assert!(!seen.contains(name), "{seen}");
        }
        sandbox.drain().await.unwrap();
    });
}

#[test]
fn a_guest_sees_the_processors_it_has() {
    run(async {
        let code = "const os = require('os'); console.log(os.availableParallelism())";
        assert_eq!(prints(code).await, "1\n");
        let result = steps(&["nproc", "node -p 'require(\"os\").availableParallelism()'"]).await;
        assert!(result.steps.iter().all(|step| step.stdout == b"1\n"), "{result:?}");
    });
}

#[test]
fn the_working_folder_is_the_images_for_a_snippet_and_empty_and_writable_for_a_project() {
    run(async {
        assert_eq!(prints("console.log(process.cwd())").await, "/work\n");
        let snippet = prints("try { require('fs').writeFileSync('/work/x', ''); console.log('written') } catch (error) { console.log(error.code) }").await;
        assert_eq!(snippet, "EROFS\n");
        let result = steps(&["pwd; ls -A; echo x > made && cat made"]).await;
        assert_eq!(result.steps[0].stdout, b"/work\nx\n");
    });
}

#[test]
fn nothing_of_one_run_is_there_for_the_next() {
    run(async {
        let leave = "const fs = require('fs'); for (const folder of ['/tmp', '/dev/shm']) fs.writeFileSync(folder + '/left', 'x'); console.log('ok')";
        assert_eq!(prints(leave).await, "ok\n");
        let look = "const fs = require('fs'); console.log(['/tmp/left', '/dev/shm/left'].some(fs.existsSync))";
        assert_eq!(prints(look).await, "false\n");
    });
}

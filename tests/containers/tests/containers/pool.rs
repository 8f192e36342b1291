//! The ready pool: a run from it is a run like any other, whatever somebody else does to what waits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use plimsoll::{Project, Run, RunError, Sandbox};
use tokio::time::sleep;

use crate::engine;
use crate::support::{own_sandbox, run};
use crate::upstream::Upstream;

/// A sandbox with a pool, and the owner its containers name.
struct Pooled {
    sandbox: Sandbox,
    owner: String,
    size: usize,
}

const HOST_NAME: &str = "console.log(require('os').hostname())";

impl Pooled {
    async fn of(size: usize) -> Self {
        let variables = [
            ("SANDBOX_READY_POOL", &*size.to_string()),
            ("SANDBOX_MAX_CONCURRENT", "32"),
        ];
        let sandbox = own_sandbox(&variables).await.unwrap();
        for _ in 0..40 {
            sleep(Duration::from_millis(250)).await;
            let before = engine::owners().await;
            let ran = sandbox.run_javascript(HOST_NAME).any_tier().send().await.unwrap();
            let host_name = ran.stdout_text().trim().to_owned();
            if let Some((_, owner)) = before.iter().find(|(id, _)| id.starts_with(&host_name)) {
                let pooled = Self {
                    owner: owner.clone(),
                    sandbox,
                    size,
                };
                pooled.full().await;
                return pooled;
            }
        }
        panic!("no run came from the pool");
    }

    /// IDs of the waiting containers, once the pool has as many as it wants and nothing else is going.
    async fn full(&self) -> BTreeSet<String> {
        for _ in 0..120 {
            let owned = engine::owned_by(&self.owner).await;
            if owned.len() == 2 * self.size {
                // Each is there from its creation; a moment later it waits.
                sleep(Duration::from_millis(700)).await;
                if engine::owned_by(&self.owner).await == owned {
                    return owned.into_iter().collect();
                }
            }
            sleep(Duration::from_millis(250)).await;
        }
        panic!("the pool does not fill");
    }

    /// A snippet, and whether it ran in one of these containers.
    async fn among(&self, waiting: &BTreeSet<String>, code: &str) -> (Result<Run, RunError>, bool) {
        let code = format!("console.log(require('os').hostname());\n{code}");
        let ran = self.sandbox.run_javascript(code).any_tier().send().await;
        let from_pool = ran.as_ref().is_ok_and(|ran| {
            let host_name = ran.stdout_text().lines().next().unwrap_or_default().to_owned();
            !host_name.is_empty() && waiting.iter().any(|id| id.starts_with(&host_name))
        });
        (ran, from_pool)
    }
}

/// Everything a program can see of where it runs, but for times, the host name, and what differs from one container to the
/// next under the same runtime: how far the runtime itself has counted processes, peer groups of mounts, which processor.
const DUMP: &str = r"
const fs = require('fs');
const os = require('os');
const vm = require('vm');
const told = {};
const say = (name, value) => { try { told[name] = value(); } catch (error) { told[name] = `! ${error.code ?? error.message}`; } };
const read = (path) => () => fs.readFileSync(path, 'utf8');
const pids = fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name)).map(Number).sort((a, b) => a - b);
const rank = (pid) => pids.indexOf(Number(pid));
say('environment', () => Object.entries(process.env).filter(([name]) => name !== 'HOSTNAME'));
say('arguments', () => [process.argv, process.argv0, process.execArgv, process.execPath, process.title]);
say('working folder', () => process.cwd());
say('ids', () => [rank(process.pid), rank(process.ppid), process.getuid(), process.geteuid(), process.getgid(), process.getegid(), process.getgroups()]);
say('umask', () => process.umask());
say('status', () => fs.readFileSync('/proc/self/status', 'utf8').split('\n')
  .filter((line) => !/^(Vm|Rss|Hugetlb|Cpus_allowed|voluntary|nonvoluntary|FDSize|Threads|State|SigQ)/.test(line))
  .map((line) => line.replace(/^(Tgid|Pid|PPid|NStgid|NSpid|NSpgid|NSsid):\t(\d+)/, (_, name, pid) => `${name} ${rank(pid)}`)));
say('limits', read('/proc/self/limits'));
// Numbers and layer folders are the container's own.
say('mounts', () => fs.readFileSync('/proc/self/mountinfo', 'utf8').split('\n').map((line) =>
  line.replace(/^\d+ \d+ \d+:\d+ /, '').replace(/(lowerdir|upperdir|workdir)=[^, ]*/g, '$1').replace(/[0-9a-f]{64}/g, 'ID')
      .replace(/plimsoll-run-\w+/g, 'RUN').replace(/(master|shared):\d+/g, '$1')).sort());
say('groups', () => fs.readFileSync('/proc/self/cgroup', 'utf8').replace(/[0-9a-f]{64}/g, 'ID'));
say('out of memory', read('/proc/self/oom_score_adj'));
say('processes', () => pids.length);
say('command lines', () => pids.map((pid) => { try { return fs.readFileSync(`/proc/${pid}/cmdline`, 'latin1'); } catch (error) { return error.code; } }));
say('descriptors', () => fs.readdirSync('/proc/self/fd').map((fd) => { try {
  return `${fd} ${fs.readlinkSync(`/proc/self/fd/${fd}`).replace(/\d+/g, 'N')}`; } catch { return 'closed'; } }));
for (const folder of ['/', '/tmp', '/dev/shm', '/run', '/dev', '/work', '/etc', '/home', '/var/tmp'])
  say(folder, () => fs.readdirSync(folder).map((name) => { const file = fs.lstatSync(`${folder}/${name}`);
    return folder === '/' && name === 'proc' ? name : [name, file.mode, file.uid, file.gid, file.isDirectory() ? 0 : file.size]; }));
say('space', () => ['/tmp', '/dev/shm'].map((path) => { const file = fs.statfsSync(path); return [file.type, file.blocks, file.bfree, file.files, file.ffree]; }));
say('clock source', read('/sys/devices/system/clocksource/clocksource0/current_clocksource'));
say('time zone', () => Intl.DateTimeFormat().resolvedOptions());
say('processors', () => [os.cpus().length, os.availableParallelism(), os.totalmem(), os.constrainedMemory?.(), process.constrainedMemory?.()]);
say('kernel', () => [os.release(), os.version(), os.arch()]);
say('user', () => os.userInfo());
say('globals', () => Object.getOwnPropertyNames(globalThis).sort());
say('global descriptors', () => Object.entries(Object.getOwnPropertyDescriptors(globalThis)).map(([name, one]) =>
  [name, one.writable, one.enumerable, one.configurable, typeof one.value, typeof one.get]));
say('process members', () => Object.getOwnPropertyNames(process).sort());
say('loaded', () => Object.keys(require.cache));
say('module', () => [module.id, module.filename, module.paths, module.children.length, require.main === module, __filename, __dirname]);
say('path cache', () => Object.keys(require('module')._pathCache));
say('preloaded', () => [module.constructor._preloadModules?.length, Object.keys(module.constructor._cache)]);
say('listeners', () => [process, process.stdin, process.stdout].map((one) => one.eventNames().map(String)));
say('active', () => process.getActiveResourcesInfo());
say('stack', () => new Error('here').stack.replace(/\d+/g, 'N'));
say('standard streams', () => [0, 1, 2].map((fd) => { const file = fs.fstatSync(fd); return [file.mode, file.isFIFO(), file.isSocket()]; }));
say('report', () => { const { header } = process.report.getReport(); return [header.commandLine, header.cwd, header.wordSize]; });
say('heap limit', () => require('v8').getHeapStatistics().heap_size_limit);
say('entropy pool', read('/proc/sys/kernel/random/poolsize'));
say('fresh context', () => vm.runInNewContext('Object.getOwnPropertyNames(globalThis)').length);
fs.writeSync(1, JSON.stringify(told) + '\n');
";

fn differences(one: &str, other: &str) -> Vec<String> {
    let read = |text: &str| -> BTreeMap<String, serde_json::Value> {
        let line = text.lines().find(|line| line.starts_with('{'));
        serde_json::from_str(line.unwrap_or_else(|| panic!("no facts in {text:?}"))).unwrap()
    };
    let (one, other) = (read(one), read(other));
    assert!(one.len() > 35, "{:?}", one.keys());
    let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    names
        .into_iter()
        .filter(|name| one.get(*name) != other.get(*name))
        .map(|name| format!("{name}: {:?} and {:?}", one.get(name), other.get(name)))
        .collect()
}

#[test]
fn a_snippet_cannot_tell_whether_its_container_waited() {
    run(async {
        let pooled = Pooled::of(2).await;
        let cold = crate::support::snippet(DUMP).await;
        assert_eq!(cold.exit_code, 0, "{}", String::from_utf8_lossy(&cold.stderr));
        let cold = String::from_utf8(cold.stdout).unwrap();
        for _ in 0..3 {
            let waiting = pooled.full().await;
            let (ran, from_pool) = pooled.among(&waiting, DUMP).await;
            assert!(from_pool, "{ran:?}");
            let different = differences(&ran.unwrap().stdout_text(), &cold);
            assert!(different.is_empty(), "{}", different.join("\n"));
        }
        pooled.sandbox.drain().await.unwrap();
    });
}

#[test]
fn a_snippet_with_a_grant_cannot_tell_whether_its_container_waited() {
    run(async {
        let pooled = Pooled::of(1).await;
        let upstream = Upstream::start().await;
        let code = format!("(async () => {{ await host.get('/berths/1'); {DUMP} }})()");
        let mut seen = Vec::new();
        for sandbox in [&pooled.sandbox, crate::support::sandbox().await] {
            pooled.full().await;
            let call = sandbox.run_javascript(&code).any_tier();
            let ran = call
                .grant(upstream.grant(&["GET /berths/*"], 4), "tester")
                .unwrap()
                .send()
                .await
                .unwrap();
            assert_eq!(ran.exit_code, 0, "{}", ran.stderr_text());
            seen.push(ran.stdout_text().into_owned());
        }
        let different = differences(&seen[0], &seen[1]);
        assert!(different.is_empty(), "{}", different.join("\n"));
        assert_eq!(upstream.lines().len(), 2);
        pooled.sandbox.drain().await.unwrap();
    });
}

#[test]
fn a_project_cannot_tell_whether_its_container_waited() {
    run(async {
        let pooled = Pooled::of(1).await;
        let project = || {
            Project::new()
                .file("dump.cjs", DUMP)
                .step("node dump.cjs; tr '\\0' '\\n' < /proc/$$/environ | grep -v HOSTNAME; ls -Ani /work | cut -d' ' -f2-6")
                .step("hostname 2>/dev/null || cat /etc/hostname")
        };
        let cold = crate::support::sandbox()
            .await
            .run_project(project())
            .any_tier()
            .send()
            .await
            .unwrap();
        let waiting = pooled.full().await;
        let ran = pooled.sandbox.run_project(project()).any_tier().send().await.unwrap();
        let host_name = String::from_utf8_lossy(&ran.steps[1].stdout).trim().to_owned();
        assert!(
            waiting.iter().any(|id| id.starts_with(&host_name)),
            "{host_name} {waiting:?}"
        );
        let text = |ran: &plimsoll::ProjectRun| String::from_utf8(ran.steps[0].stdout.clone()).unwrap();
        let (ran, cold) = (text(&ran), text(&cold));
        let different = differences(&ran, &cold);
        assert!(different.is_empty(), "{}", different.join("\n"));
        let rest = |text: &str| {
            text.lines()
                .filter(|line| !line.starts_with('{'))
                .collect::<Vec<_>>()
                .join("\n")
        };
        assert_eq!(rest(&ran), rest(&cold));
        pooled.sandbox.drain().await.unwrap();
    });
}

#[test]
fn randomness_and_clocks_are_those_of_the_run_and_not_of_the_wait() {
    run(async {
        let pooled = Pooled::of(2).await;
        let mut seen = BTreeSet::new();
        for nth in 0..4 {
            let waiting = pooled.full().await;
            let code =
                "console.log(Math.random()); console.log(crypto.randomUUID()); console.log(new Map().size, Date.now())";
            let (ran, from_pool) = pooled.among(&waiting, code).await;
            assert!(from_pool, "{ran:?}");
            let text = ran.unwrap().stdout_text().into_owned();
            let mut lines = text.lines().skip(1);
            assert!(
                seen.insert(lines.next().unwrap().to_owned()),
                "Math.random() repeats at {nth}"
            );
            assert!(
                seen.insert(lines.next().unwrap().to_owned()),
                "randomUUID() repeats at {nth}"
            );
            let now: u128 = lines.next().unwrap().trim_start_matches("0 ").parse().unwrap();
            let here = std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .unwrap()
                .as_millis();
            assert!(here.abs_diff(now) < 5000, "{now} is not now");
        }
        pooled.sandbox.drain().await.unwrap();
    });
}

#[test]
fn a_container_serves_one_run_and_is_gone_afterwards() {
    run(async {
        let pooled = Pooled::of(2).await;
        let mut used = BTreeSet::new();
        for _ in 0..6 {
            let ran = pooled
                .sandbox
                .run_javascript(HOST_NAME)
                .any_tier()
                .send()
                .await
                .unwrap();
            assert!(used.insert(ran.stdout_text().trim().to_owned()), "{used:?}");
        }
        let waiting = pooled.full().await;
        let again = waiting
            .iter()
            .find(|id| used.iter().any(|host_name| id.starts_with(host_name.as_str())));
        assert_eq!(again, None, "used and still there");
        pooled.sandbox.drain().await.unwrap();
        assert_eq!(
            engine::owned_by(&pooled.owner).await,
            Vec::<String>::new(),
            "left by the drain"
        );
    });
}

/// Does this to everything that waits, then runs: never a time limit that the program did not reach.
async fn behind_its_back(pooled: &Pooled, method: &str, action: &str) {
    let waiting = pooled.full().await;
    for id in &waiting {
        engine::ask(method, &format!("/containers/{id}{action}")).await;
    }
    let began = Instant::now();
    let (ran, _) = pooled.among(&waiting, "console.log('right')").await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(8), "{action}: {took:?}");
    let ran = ran.unwrap_or_else(|error| panic!("{action}: {error}"));
    assert!(
        !ran.timed_out && ran.exit_code == 0 && ran.stdout_text().ends_with("right\n"),
        "{action}: {ran:?}"
    );
    let project = Project::new().step("echo right");
    let ran = pooled.sandbox.run_project(project).any_tier().send().await;
    let ran = ran.unwrap_or_else(|error| panic!("{action}: {error}"));
    assert!(
        ran.succeeded() && ran.steps[0].stdout == b"right\n",
        "{action}: {ran:?}"
    );
}

#[test]
fn a_waiting_container_that_somebody_killed_stopped_paused_or_removed_is_never_a_runs_failure() {
    run(async {
        let pooled = Pooled::of(1).await;
        behind_its_back(&pooled, "POST", "/kill").await;
        behind_its_back(&pooled, "POST", "/stop?t=0").await;
        behind_its_back(&pooled, "POST", "/pause").await;
        behind_its_back(&pooled, "DELETE", "?force=true").await;
        // What was paused is removed as well.
        pooled.full().await;
        pooled.sandbox.drain().await.unwrap();
        assert_eq!(engine::owned_by(&pooled.owner).await, Vec::<String>::new());
    });
}

#[test]
fn a_container_that_is_removed_during_its_run_is_an_error_and_no_end_of_the_guest() {
    run(async {
        let pooled = Pooled::of(1).await;
        let waiting = pooled.full().await;
        let began = Instant::now();
        let removal = async {
            sleep(Duration::from_millis(800)).await;
            for id in &waiting {
                engine::request(
                    "DELETE",
                    &format!("/containers/{id}?force=true"),
                    "application/json",
                    b"",
                )
                .await;
            }
        };
        let (ran, ()) = tokio::join!(pooled.among(&waiting, "setTimeout(() => {}, 4500)"), removal);
        let error = ran.0.unwrap_err();
        assert!(matches!(error, RunError::MayHaveRun(_)), "{error}");
        assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
        pooled.sandbox.drain().await.unwrap();
    });
}

#[test]
fn a_burst_of_sixteen_on_a_pool_of_two_is_answered_right_sixteen_times() {
    run(async {
        let pooled = Pooled::of(2).await;
        let mut runs = tokio::task::JoinSet::new();
        for nth in 0..16 {
            let sandbox = pooled.sandbox.clone();
            runs.spawn(async move {
                let code = format!("{HOST_NAME}; console.log({nth} * {nth})");
                let call = sandbox.run_javascript(code).any_tier().timeout(Duration::from_secs(25));
                (nth, call.send().await)
            });
        }
        let mut containers = BTreeSet::new();
        while let Some(ended) = runs.join_next().await {
            let (nth, ran) = ended.unwrap();
            let ran = ran.unwrap_or_else(|error| panic!("run {nth}: {error}"));
            let text = ran.stdout_text();
            let (host_name, square) = text.split_once('\n').unwrap();
            assert_eq!(square, format!("{}\n", nth * nth));
            assert!(containers.insert(host_name.to_owned()), "two runs in {host_name}");
        }
        assert_eq!(containers.len(), 16);
        pooled.sandbox.drain().await.unwrap();
        assert_eq!(engine::owned_by(&pooled.owner).await, Vec::<String>::new());
    });
}

#[test]
fn a_pool_that_nobody_holds_any_more_goes() {
    run(async {
        let pooled = Pooled::of(1).await;
        let owner = pooled.owner.clone();
        drop(pooled);
        engine::goes_for_good(&owner, Duration::from_secs(6)).await;
    });
}

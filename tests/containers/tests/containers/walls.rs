//! What a guest may not do, by trying.

use plimsoll_core::ProjectOutcome;

use crate::support::{ask, gvisor, prints, project, project_of, run, steps};

#[test]
fn no_capability_no_new_privileges_and_under_runc_a_filter() {
    run(async {
        let result = steps(&["grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status"]).await;
        let seen = String::from_utf8_lossy(&result.steps[0].stdout).into_owned();
        let value = |name: &str| {
            let line = seen.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("{name} is not in {seen}"))
                .trim()
                .to_owned()
        };
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:"] {
            assert_eq!(value(set), "0000000000000000", "{set}");
        }
        assert_eq!(value("NoNewPrivs:"), "1");
        assert_eq!(value("Seccomp:"), if gvisor() { "0" } else { "2" });
    });
}

#[test]
fn only_the_scratch_folders_take_bytes_and_nothing_in_them_can_be_executed() {
    run(async {
        let step = "for folder in / /etc /usr /run /dev /proc /sys /work /tmp /dev/shm; do \
                      (echo x > $folder/probe) 2>/dev/null && echo $folder; done; \
                    for folder in /work /tmp /dev/shm; do \
                      printf '#!/bin/sh\\necho ran\\n' > $folder/run; chmod 755 $folder/run; \
                      $folder/run 2>/dev/null || echo $?; done";
        let result = steps(&[step]).await;
        assert_eq!(
            String::from_utf8_lossy(&result.steps[0].stdout),
            "/work\n/tmp\n/dev/shm\n126\n126\n126\n"
        );
    });
}

#[test]
fn a_fifo_can_be_made_and_a_device_cannot() {
    run(async {
        let step = "mkfifo /work/pipe && echo made; mknod /work/null c 1 3 2>&1; mknod /work/disk b 8 0 2>&1";
        let result = steps(&[step]).await;
        let seen = String::from_utf8_lossy(&result.steps[0].stdout).into_owned();
        let lines: Vec<&str> = seen.lines().collect();
        assert_eq!((lines.len(), lines[0]), (3, "made"), "{seen}");
        assert!(
            lines[1..].iter().all(|line| line.ends_with("Operation not permitted")),
            "{seen}"
        );
    });
}

#[test]
fn a_message_queue_cannot_be_made() {
    run(async {
        let code = "try { require('fs').writeFileSync('/dev/mqueue/q', ''); console.log('made') } catch (error) { console.log(error.code) }";
        // gVisor has no such file system.
        let expected = if gvisor() { "ENOENT\n" } else { "EMFILE\n" };
        assert_eq!(prints(code).await, expected);
    });
}

/// A server and its own client, and a look for any other way out.
const LOOPBACK: &str = r"
import http from 'node:http';
import net from 'node:net';
import dgram from 'node:dgram';
import dns from 'node:dns/promises';
const server = http.createServer((request, response) => response.end(`you asked for ${request.url}`));
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const answer = await fetch(`http://127.0.0.1:${server.address().port}/berths`);
console.log(answer.status, await answer.text());
server.close();
server.closeAllConnections();
const out = (options) => new Promise((done) => {
  const socket = net.connect(options);
  socket.setTimeout(3000, () => { socket.destroy(); done('silence'); });
  socket.once('connect', () => { socket.destroy(); done('connected'); });
  socket.once('error', (error) => done(error.code));
});
console.log(await out({ host: '192.0.2.1', port: 80 }), await out({ host: '169.254.169.254', port: 80 }));
const datagram = dgram.createSocket('udp4');
console.log(await new Promise((done) => datagram.send('x', 53, '192.0.2.1', (error) => done(error ? error.code : 'sent'))));
datagram.close();
console.log(await dns.lookup('example.com').then(() => 'resolved', (error) => error.code));
";

#[test]
fn a_step_serves_itself_on_loopback_and_reaches_nothing_else() {
    run(async {
        let request = project(&[("loopback.mjs", LOOPBACK)], &["node loopback.mjs"], &[]);
        let result = project_of(&ask(request).await.unwrap());
        let step = &result.steps[0];
        let seen = String::from_utf8_lossy(&step.stdout).into_owned();
        assert_eq!(step.exit_code, 0, "{seen}\n{}", String::from_utf8_lossy(&step.stderr));
        let lines: Vec<&str> = seen.lines().collect();
        assert_eq!(
            lines[..3],
            ["200 you asked for /berths", "ENETUNREACH ENETUNREACH", "ENETUNREACH"],
            "{seen}"
        );
        assert!(["EAI_AGAIN", "ENOTFOUND"].contains(&lines[3]), "{seen}");
    });
}

#[test]
fn no_interface_but_loopback_no_route_and_no_resolver() {
    run(async {
        let result = steps(&[
            "tail -n +3 /proc/net/dev | cut -d: -f1; tail -n +2 /proc/net/route; grep -v '^#' /etc/resolv.conf",
        ])
        .await;
        let seen = String::from_utf8_lossy(&result.steps[0].stdout).into_owned();
        let words: Vec<&str> = seen.split_ascii_whitespace().collect();
        assert_eq!(words, ["lo", "nameserver", "127.0.0.1"], "{seen}");
    });
}

#[test]
fn a_full_disk_is_told_as_such_and_the_run_goes_on() {
    run(async {
        let result = steps(&[
            "head -c 200000000 /dev/zero > /work/big; echo $?; rm /work/big; echo x > /work/small && echo fits",
        ])
        .await;
        assert_eq!(result.outcome, ProjectOutcome::COMPLETED, "{}", result.outcome_detail);
        assert_eq!(result.steps[0].stdout, b"1\nfits\n", "{:?}", result.steps[0]);
    });
}

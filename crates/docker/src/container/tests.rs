use std::collections::{HashMap, HashSet};

use bollard::models::ContainerInspectResponse;
use serde_json::{Value, json};

use super::*;
use crate::seccomp::SeccompSetting;

fn spec() -> ContainerSpec {
    ContainerSpec {
        image_id: format!("sha256:{}", "1".repeat(64)),
        platform: Some("linux/amd64".to_owned()),
        arguments: vec!["serve".to_owned()],
        work: true,
        auto_remove: true,
        runtime: Runtime::EngineDefault,
        memory_mib: 256,
        processes: ProcessLimit::new(256, false),
        cpus: 1.5,
        cpuset: "0,1".to_owned(),
        storage: Storage {
            tmp: 16,
            shm: 8,
            work: 128,
        },
        guest_uid: 61_000,
        confinement: SeccompSetting::Embedded.load().unwrap(),
        ownership: Ownership {
            expires: 1_800_000_000,
            owner: PathBuf::from("/tmp/plimsoll-daemon-x"),
            session: false,
        },
        broker_socket: PathBuf::from("/tmp/plimsoll-run-x/broker.sock"),
    }
}

fn gvisor() -> ContainerSpec {
    ContainerSpec {
        runtime: Runtime::new("runsc"),
        processes: ProcessLimit::new(256, true),
        ..spec()
    }
}

fn request(spec: &ContainerSpec) -> Value {
    serde_json::to_value(spec.request().unwrap()).unwrap()
}

/// Keys with a value, of an object.
fn keys(value: &Value) -> HashSet<&str> {
    let object = value.as_object().unwrap();
    object
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, _)| key.as_str())
        .collect()
}

#[test]
fn the_request_under_runc_holds_every_row_and_nothing_beside_them() {
    let request = request(&spec());
    let host = &request["HostConfig"];
    for (name, expected) in [
        ("Image", json!(format!("sha256:{}", "1".repeat(64)))),
        ("Entrypoint", json!(["/usr/local/bin/plimsoll-guest"])),
        ("Cmd", json!(["serve"])),
        ("User", json!("61000:61000")),
        ("WorkingDir", json!("/work")),
        ("AttachStdin", json!(true)),
        ("AttachStdout", json!(true)),
        ("AttachStderr", json!(true)),
        ("OpenStdin", json!(true)),
        ("StdinOnce", json!(true)),
        ("Tty", json!(false)),
        ("Healthcheck", json!({ "Test": ["NONE"] })),
        (
            "Labels",
            json!({ "io.plimsoll.expires": "1800000000", "io.plimsoll.owner": "/tmp/plimsoll-daemon-x" }),
        ),
    ] {
        assert_eq!(request[name], expected, "{name}");
    }
    for (name, expected) in [
        ("AutoRemove", json!(true)),
        ("LogConfig", json!({ "Type": "none" })),
        ("Memory", json!(256 << 20)),
        ("MemorySwap", json!(256 << 20)),
        ("PidsLimit", json!(256)),
        ("NanoCpus", json!(1_500_000_000)),
        ("CpusetCpus", json!("0,1")),
        ("ReadonlyRootfs", json!(true)),
        (
            "Tmpfs",
            json!({
                "/tmp": "rw,noexec,nosuid,size=16m,nr_inodes=65536",
                "/dev/shm": "rw,noexec,nosuid,size=8m,nr_inodes=65536",
                "/work": "rw,noexec,nosuid,size=128m,nr_inodes=65536,mode=1777,uid=61000,gid=61000",
            }),
        ),
        ("CapDrop", json!(["ALL"])),
        (
            "Ulimits",
            json!([
                { "Name": "core", "Soft": 0, "Hard": 0 },
                { "Name": "nofile", "Soft": 4096, "Hard": 4096 },
                { "Name": "msgqueue", "Soft": 0, "Hard": 0 },
            ]),
        ),
        ("IpcMode", json!("private")),
        ("NetworkMode", json!("none")),
        ("Dns", json!(["127.0.0.1"])),
        ("DnsSearch", json!(["."])),
        (
            "Binds",
            json!(["/tmp/plimsoll-run-x/broker.sock:/run/host-api.sock:rw"]),
        ),
        ("Init", json!(false)),
        ("Privileged", json!(false)),
    ] {
        assert_eq!(host[name], expected, "{name}");
    }
    let options = host["SecurityOpt"].as_array().unwrap();
    assert_eq!(options[0], "no-new-privileges");
    assert!(options[1].as_str().unwrap().starts_with("seccomp={"));
    // Whatever stands in the request stands in this test: no Env, no CapAdd, no device, no port, no group.
    assert_eq!(keys(&request).len(), 14);
    let written = "AutoRemove LogConfig Memory MemorySwap PidsLimit NanoCpus CpusetCpus ReadonlyRootfs Tmpfs CapDrop \
                   Ulimits IpcMode NetworkMode Dns DnsSearch Binds Init Privileged SecurityOpt";
    assert_eq!(keys(host), written.split_whitespace().collect());
}

#[test]
fn under_runsc_there_is_no_profile_no_inode_option_and_a_limit_inside() {
    let request = request(&gvisor());
    let host = &request["HostConfig"];
    assert_eq!(host["Runtime"], "runsc");
    assert_eq!(host["SecurityOpt"], json!(["no-new-privileges"]));
    assert_eq!(host["Tmpfs"]["/tmp"], "rw,noexec,nosuid,size=16m");
    let most = ProcessLimit::new(256, true);
    assert_eq!(host["PidsLimit"], most.cgroup);
    assert!(most.cgroup > 256 + 28);
    assert_eq!(
        host["Ulimits"],
        json!([
            { "Name": "core", "Soft": 0, "Hard": 0 },
            { "Name": "nofile", "Soft": 4096, "Hard": 4096 },
            { "Name": "nproc", "Soft": 256, "Hard": 256 },
        ])
    );
    assert_eq!(host["NetworkMode"], "none");
}

#[test]
fn a_snippet_has_no_work_mount_and_a_session_its_label() {
    let snippet = request(&ContainerSpec { work: false, ..spec() });
    assert!(snippet["WorkingDir"].is_null());
    assert_eq!(
        keys(&snippet["HostConfig"]["Tmpfs"]),
        HashSet::from(["/tmp", "/dev/shm"])
    );
    let mut session = spec();
    session.ownership.session = true;
    session.auto_remove = false;
    let session = request(&session);
    assert_eq!(session["Labels"]["io.plimsoll.session"], "1");
    assert_eq!(session["HostConfig"]["AutoRemove"], false);
}

#[test]
fn the_profile_is_the_one_that_is_asked_for() {
    let option = |confinement| {
        let request = request(&ContainerSpec { confinement, ..spec() });
        request["HostConfig"]["SecurityOpt"].clone()
    };
    assert_eq!(option(Confinement::Engine), json!(["no-new-privileges"]));
    assert_eq!(
        option(Confinement::Unconfined),
        json!(["no-new-privileges", "seccomp=unconfined"])
    );
}

#[test]
fn a_path_the_engine_would_split_is_refused() {
    for path in ["/tmp/a:b/s.sock", "/tmp/a,b/s.sock"] {
        let broker_socket = PathBuf::from(path);
        let error = ContainerSpec {
            broker_socket,
            ..spec()
        }
        .request()
        .unwrap_err();
        assert!(error.to_string().contains("TMPDIR"), "{error}");
    }
}

#[test]
fn names_say_what_they_are_for_and_do_not_repeat() {
    let (one, two) = (ContainerName::fresh("p").unwrap(), ContainerName::fresh("p").unwrap());
    assert_ne!(one, two);
    let digits = one.as_str().strip_prefix("p-").unwrap();
    assert!(
        digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{one}"
    );
}

/// What an engine says of a container that it created as asked.
fn created(spec: &ContainerSpec) -> Value {
    let request = request(spec);
    let mut host = request["HostConfig"].clone();
    for (name, engines_own) in [
        ("CapAdd", json!(null)),
        ("Devices", json!([])),
        ("PidMode", json!("")),
        ("PortBindings", json!({})),
        ("ShmSize", json!(67_108_864)),
        ("CgroupnsMode", json!("host")),
        ("OomKillDisable", json!(false)),
        ("RestartPolicy", json!({ "Name": "no", "MaximumRetryCount": 0 })),
    ] {
        host[name] = engines_own;
    }
    if host["Runtime"].is_null() {
        host["Runtime"] = json!("runc");
    }
    let mut config = request.clone();
    config.as_object_mut().unwrap().remove("HostConfig");
    config["Env"] = json!(["PATH=/usr/bin"]);
    config["Labels"]["of.the.image"] = json!("1");
    json!({ "Id": "2".repeat(64), "Image": request["Image"], "Config": config, "HostConfig": host })
}

fn differences(spec: &ContainerSpec, seen: Value) -> Vec<&'static str> {
    let seen: ContainerInspectResponse = serde_json::from_value(seen).unwrap();
    match read_back(&spec.request().unwrap(), &seen) {
        Ok(()) => Vec::new(),
        Err(error) => error.differences,
    }
}

#[test]
fn a_container_created_as_asked_reads_back_as_the_same() {
    for spec in [spec(), gvisor(), ContainerSpec { work: false, ..spec() }] {
        assert_eq!(differences(&spec, created(&spec)), [""; 0]);
    }
}

#[test]
fn every_field_that_differs_is_found_by_name() {
    let changes: HashMap<&str, Value> = HashMap::from([
        ("AutoRemove", json!(false)),
        ("Memory", json!(0)),
        ("MemorySwap", json!(-1)),
        ("PidsLimit", json!(0)),
        ("NanoCpus", json!(0)),
        ("CpusetCpus", json!("")),
        ("ReadonlyRootfs", json!(false)),
        ("Tmpfs", json!({ "/tmp": "rw" })),
        ("Binds", json!(["/:/host"])),
        ("CapDrop", json!([])),
        ("SecurityOpt", json!(["seccomp=unconfined"])),
        ("IpcMode", json!("host")),
        ("NetworkMode", json!("bridge")),
        ("Dns", json!([])),
        ("DnsSearch", json!([])),
        ("LogConfig", json!({ "Type": "json-file" })),
        ("Init", json!(true)),
        ("Ulimits", json!([])),
        ("Privileged", json!(true)),
        ("CapAdd", json!(["SYS_ADMIN"])),
        ("Devices", json!([{ "PathOnHost": "/dev/kvm" }])),
        ("DeviceCgroupRules", json!(["a *:* rwm"])),
        ("DeviceRequests", json!([{ "Driver": "nvidia" }])),
        ("GroupAdd", json!(["0"])),
        ("Mounts", json!([{ "Type": "bind", "Source": "/", "Target": "/host" }])),
        ("VolumesFrom", json!(["other"])),
        ("Links", json!(["a:b"])),
        ("ExtraHosts", json!(["a:10.0.0.1"])),
        ("DnsOptions", json!(["debug"])),
        ("PortBindings", json!({ "80/tcp": [{ "HostPort": "80" }] })),
        ("PublishAllPorts", json!(true)),
        ("PidMode", json!("host")),
        ("UTSMode", json!("host")),
        ("UsernsMode", json!("host")),
        ("CgroupParent", json!("/other")),
        ("Sysctls", json!({ "net.ipv4.ip_forward": "1" })),
        ("OomKillDisable", json!(true)),
        ("OomScoreAdj", json!(-1000)),
        ("CpusetMems", json!("0")),
    ]);
    for (name, value) in changes {
        let mut seen = created(&spec());
        seen["HostConfig"][name] = value;
        assert_eq!(differences(&spec(), seen), [name]);
    }
    for (name, value) in [
        ("Image", json!("other")),
        ("Entrypoint", json!(["/bin/sh"])),
        ("Cmd", json!(["x"])),
        ("User", json!("0:0")),
        ("WorkingDir", json!("/")),
        ("OpenStdin", json!(false)),
        ("StdinOnce", json!(false)),
        ("Tty", json!(true)),
        ("Healthcheck", json!(null)),
        ("Volumes", json!({ "/data": {} })),
        ("Labels", json!({})),
    ] {
        let mut seen = created(&spec());
        seen["Config"][name] = value;
        assert_eq!(differences(&spec(), seen), [name]);
    }
    let mut seen = created(&gvisor());
    seen["HostConfig"]["Runtime"] = json!("runc");
    assert_eq!(differences(&gvisor(), seen), ["Runtime"]);
    assert_eq!(differences(&spec(), json!({})), ["Config", "HostConfig"]);
}

#[test]
fn limits_the_engine_adds_are_its_own_and_one_it_doubles_is_not() {
    let mut seen = created(&spec());
    let limits = seen["HostConfig"]["Ulimits"].as_array_mut().unwrap();
    limits.push(json!({ "Name": "memlock", "Soft": 0, "Hard": 0 }));
    assert_eq!(differences(&spec(), seen.clone()), [""; 0]);
    let limits = seen["HostConfig"]["Ulimits"].as_array_mut().unwrap();
    limits.push(json!({ "Name": "core", "Soft": -1, "Hard": -1 }));
    assert_eq!(differences(&spec(), seen), ["Ulimits"]);
}

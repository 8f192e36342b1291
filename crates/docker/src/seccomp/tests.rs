use super::*;

fn embedded() -> Profile {
    Profile::embedded().unwrap()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
}

#[test]
fn what_no_rule_names_is_refused_with_eperm() {
    let value: serde_json::Value = serde_json::from_str(EMBEDDED).unwrap();
    assert_eq!(value["defaultAction"], "SCMP_ACT_ERRNO");
    assert_eq!(value["defaultErrnoRet"], 1);
    let architectures: Vec<&str> = value["archMap"]
        .as_array()
        .unwrap()
        .iter()
        .map(|map| map["architecture"].as_str().unwrap())
        .collect();
    assert_eq!(architectures, ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"]);
    assert!(embedded().refuses_the_rest());
}

#[test]
fn what_programs_cannot_do_without_is_allowed() {
    let profile = embedded();
    let allowed = profile.allowed();
    for name in words(
        "read openat mmap futex clone execve wait4 epoll_pwait getrandom socket connect kill tgkill rt_sigreturn \
         utimensat futimesat statx getxattr listxattr timer_settime sched_getaffinity capget prctl memfd_create \
         copy_file_range close_range signalfd4 sendmmsg socketpair prlimit64 personality mknod mknodat",
    ) {
        assert!(allowed.contains(name), "{name}");
    }
}

#[test]
fn nothing_that_must_stay_denied_is_allowed_under_any_condition() {
    let profile = embedded();
    let allowed = profile.allowed();
    for name in words(
        "ptrace process_vm_readv process_vm_writev io_uring_setup io_uring_enter io_uring_register userfaultfd \
         perf_event_open bpf keyctl add_key request_key unshare setns mount umount umount2 pivot_root chroot \
         name_to_handle_at open_by_handle_at modify_ldt kexec_load kexec_file_load init_module finit_module \
         delete_module reboot swapon swapoff clock_settime clock_settime64 clock_adjtime clock_adjtime64 \
         settimeofday stime adjtimex shmget shmat shmctl shmdt semget semop semctl semtimedop \
         semtimedop_time64 msgget msgsnd msgrcv msgctl ipc socketcall mq_open mq_unlink mq_timedsend \
         mq_timedreceive mq_notify mq_getsetattr capset pidfd_open pidfd_getfd pidfd_send_signal seccomp \
         landlock_create_ruleset landlock_add_rule landlock_restrict_self mincore tee vmsplice process_madvise \
         sched_setscheduler sched_setparam sched_setattr mlockall move_mount open_tree fsopen fsmount fsconfig \
         fspick mount_setattr quotactl acct iopl ioperm sethostname setdomainname syslog fanotify_init clone3 \
         setxattr fsetxattr lsetxattr removexattr",
    ) {
        assert!(!allowed.contains(name), "{name}");
    }
}

#[test]
fn conditions_read_the_arguments() {
    let equal = |index, value| Condition {
        index,
        value,
        value_two: 0,
        op: Op::Equal,
    };
    let unequal = |index, value| Condition {
        op: Op::NotEqual,
        ..equal(index, value)
    };
    let masked = |index, value, value_two| Condition {
        index,
        value,
        value_two,
        op: Op::MaskedEqual,
    };
    let profile = embedded();
    let mut sockets = vec![vec![equal(0, 1)]];
    for family in [2, 10] {
        for (kind, protocols) in [(1, [0, 6]), (2, [0, 17])] {
            for protocol in protocols {
                sockets.push(vec![equal(0, family), masked(1, 0xf, kind), equal(2, protocol)]);
            }
        }
    }
    for (call, expected) in [
        ("socket", sockets),
        ("socketpair", vec![vec![equal(0, 1)]]),
        ("prlimit64", vec![vec![equal(0, 0)]]),
        ("setpriority", vec![vec![equal(0, 0), unequal(1, 1)]]),
        ("sched_setaffinity", vec![vec![unequal(0, 1)]]),
        ("clone", vec![vec![masked(0, 0x7e02_0000, 0)]]),
        ("personality", vec![vec![equal(0, 0)], vec![equal(0, 0xffff_ffff)]]),
        ("mknod", vec![vec![masked(1, 0o170_000, 0o010_000)]]),
        ("mknodat", vec![vec![masked(2, 0o170_000, 0o010_000)]]),
    ] {
        assert_eq!(profile.conditions(call), expected, "{call}");
    }
}

#[test]
fn some_refusals_read_as_absence() {
    let profile = embedded();
    for (call, errno) in [
        ("clone3", 38),
        ("socketcall", 38),
        ("setxattr", 95),
        ("lsetxattr", 95),
        ("fsetxattr", 95),
    ] {
        let rule = profile
            .syscalls
            .iter()
            .find(|rule| rule.calls().any(|name| name == call))
            .unwrap();
        let refusal = (rule.action.as_str(), rule.errno_ret, &rule.args);
        assert_eq!(refusal, ("SCMP_ACT_ERRNO", Some(errno), &None), "{call}");
    }
}

#[test]
fn no_call_stands_in_two_unconditional_rules() {
    let profile = embedded();
    let mut seen = BTreeSet::new();
    for rule in profile.syscalls.iter().filter(|rule| rule.args.is_none()) {
        for name in rule.calls() {
            assert!(seen.insert(name), "{name}");
        }
    }
}

#[test]
fn the_setting_names_a_profile_or_a_file() {
    assert_eq!(SeccompSetting::new(" "), Ok(SeccompSetting::Embedded));
    assert_eq!(SeccompSetting::new("engine"), Ok(SeccompSetting::Engine));
    assert_eq!(SeccompSetting::new("unconfined"), Ok(SeccompSetting::Unconfined));
    assert_eq!(SeccompSetting::new("default"), Err(SeccompError::Default));
    assert_eq!(SeccompSetting::new("/x"), Ok(SeccompSetting::File("/x".into())));
}

#[test]
fn the_engine_is_given_text_and_never_a_path() {
    let loaded = SeccompSetting::Embedded.load().unwrap();
    let option = loaded.security_opt().unwrap();
    let text = option.strip_prefix("seccomp=").unwrap();
    assert_eq!(serde_json::from_str::<Profile>(text).unwrap(), embedded());
    assert!(!text.contains('\n'));
    assert_eq!(Confinement::Engine.security_opt(), None);
    assert_eq!(Confinement::Unconfined.security_opt().unwrap(), "seccomp=unconfined");
    assert_eq!(
        (loaded.expected_mode(), Confinement::Unconfined.expected_mode()),
        (2, 0)
    );
}

#[test]
fn an_operators_file_must_be_a_profile_that_refuses_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let load = |text: &str| {
        let path = folder.path().join("profile.json");
        fs_err::write(&path, text).unwrap();
        SeccompSetting::File(path).load()
    };
    let good = r#"{ "defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{ "name": "read", "action": "SCMP_ACT_ALLOW", "args": null }] }"#;
    let Confinement::Profile(text) = load(good).unwrap() else {
        panic!("a profile")
    };
    assert!(
        serde_json::from_str::<Profile>(&text)
            .unwrap()
            .allowed()
            .contains("read")
    );
    assert!(matches!(
        load(r#"{ "defaultAction": "SCMP_ACT_ALLOW", "syscalls": [] }"#),
        Err(SeccompError::Open { .. })
    ));
    for text in [
        "",
        "null",
        "{}",
        "[]",
        r#"{ "defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{}] }"#,
    ] {
        assert!(matches!(load(text), Err(SeccompError::Malformed { .. })), "{text}");
    }
    for path in [
        folder.path().to_owned(),
        folder.path().join("absent"),
        "/dev/zero".into(),
    ] {
        assert!(matches!(
            SeccompSetting::File(path).load(),
            Err(SeccompError::Unreadable { .. })
        ));
    }
}

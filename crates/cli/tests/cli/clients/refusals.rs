//! What is refused, by what words, and what is left alone.

use super::*;

#[test]
fn what_is_missing_or_wrong_is_told_in_a_fixed_order_and_changes_nothing() {
    let house = House::new();
    let bare = |words: &str| {
        let ran = plimsoll(&words.split(' ').collect::<Vec<_>>());
        assert_eq!((ran.code, ran.stdout_text()), (1, ""), "{words}");
        assert!(
            ran.stderr.starts_with("plimsoll-clients: ") && ran.stderr.lines().count() == 1,
            "{words}: {}",
            ran.stderr
        );
        ran.stderr
    };
    for (words, told) in [
        (
            "clients nosuch -file f",
            "there is no such command; the commands are create, import, limit, list, rotate, revoke, verify",
        ),
        ("clients -nosuch", "there is no flag --nosuch"),
        ("clients create stray -nosuch", "there is no flag --nosuch"),
        ("clients create stray -id a", "an argument that is no flag"),
        ("clients list stray", "an argument that is no flag"),
        ("clients create", "-file is needed"),
        ("clients list", "-file is needed"),
        ("clients verify", "-file is needed"),
        ("clients create -id a -token-stdout", "-file is needed"),
        ("clients create -file", "--file needs a value"),
        ("clients list -file a -file b", "--file is given twice"),
        ("clients list -file a -json=maybe", "--json is a switch"),
    ] {
        let said = bare(words);
        assert!(said.contains(told), "{words}: {said}");
    }
    for (words, told) in [
        ("create -token-stdout", "-id is needed"),
        ("revoke", "-id is needed"),
        ("create -id a -paid-seconds-per-day -5", "create needs -token-stdout"),
        ("create -id a", "create needs -token-stdout"),
        (
            "create -id a -token-stdout -paid-seconds-per-day -5",
            "-paid-seconds-per-day is negative",
        ),
        (
            "create -id a -token-stdout -paid-seconds-per-day 1.5",
            "whole number of seconds",
        ),
        (
            "create -id a -token-stdout -paid-seconds-per-day 9223372036854775808",
            "whole number of seconds",
        ),
        (
            "import -id a -paid-seconds-per-day=-1",
            "-paid-seconds-per-day is negative",
        ),
        ("limit -id a", "limit needs -paid-seconds-per-day"),
        (
            "limit -id a -paid-seconds-per-day",
            "--paid-seconds-per-day needs a value",
        ),
        (
            "limit -id a -paid-seconds-per-day -5",
            "-paid-seconds-per-day is negative",
        ),
        ("rotate -id a", "exactly one of -token-stdout"),
        (
            "rotate -id a -token-stdout -token-stdin",
            "exactly one of -token-stdout",
        ),
        ("limit -id a -paid-seconds-per-day 0", "the file does not exist"),
        ("rotate -id a -token-stdout", "the file does not exist"),
        ("revoke -id a", "the file does not exist"),
        ("list", "the file does not exist"),
        ("create -id * -token-stdout", "clients[0].id: must not be `*`"),
        (
            "create -id a\nb -token-stdout",
            "clients[0].id: must hold no control character",
        ),
        ("create -id a -scope one\ttwo -token-stdout", "clients[0].scopes[0]"),
        (
            "create -id a -scope x -scope x -token-stdout",
            "clients[0].scopes[1]: is repeated",
        ),
    ] {
        let said = house.refused(words, "");
        assert!(said.contains(told), "{words}: {said}");
        assert!(
            said.lines().all(|line| line.starts_with("plimsoll-clients: ")),
            "{words}: {said}"
        );
    }
    let path = house.path();
    let blank = plimsoll(&[
        "clients",
        "create",
        "-file",
        path.to_str().unwrap(),
        "-id",
        "  ",
        "-token-stdout",
    ]);
    assert!(
        blank.code == 1 && blank.stderr.contains("-id is needed"),
        "{}",
        blank.stderr
    );
    assert!(house.names().is_empty());
}

#[test]
fn a_token_in_the_wrong_place_is_not_repeated() {
    let house = House::new();
    house.import("a", TOKEN);
    for words in [
        format!("import -id b {TOKEN}"),
        format!("import -id b -token {TOKEN}"),
        format!("import -id b -token={TOKEN}"),
        format!("import -id b -token{TOKEN}"),
        format!("rotate -id a -token-stdin={TOKEN}"),
        format!("limit -id a -paid-seconds-per-day {TOKEN}"),
    ] {
        let said = house.refused(&words, "");
        assert!(!said.contains(TOKEN), "{words}: {said}");
    }
    let command = plimsoll(&["clients", TOKEN]);
    assert!(
        command.code == 1 && !command.stderr.contains(TOKEN),
        "{}",
        command.stderr
    );
}

#[test]
fn standard_input_that_fails_is_told_in_words_of_our_own() {
    let house = House::new();
    // A folder can be opened and not read.
    let folder = fs_err::File::open(house.0.path()).unwrap().into_parts().0;
    let path = house.path();
    let mut command = command(&["clients", "import", "-file", path.to_str().unwrap(), "-id", "a"]);
    let ran = finish(command.stdin(folder).spawn().unwrap());
    assert_eq!(
        (ran.code, ran.stdout_text(), ran.stderr.as_str()),
        (
            1,
            "",
            "plimsoll-clients: the token could not be read from standard input\n"
        )
    );
    assert!(house.names().is_empty());
}

#[test]
fn links_folders_and_broken_files_are_refused_and_left_alone() {
    let house = House::new();
    house.import("a", TOKEN);
    let registry = house.bytes();
    symlink(house.path(), house.at("link")).unwrap();
    fs_err::create_dir(house.at("folder")).unwrap();
    fs_err::write(house.at("broken"), "{\"clients\":[").unwrap();
    let before = house.names();
    for name in ["link", "folder", "broken"] {
        for words in [
            "create -id b -token-stdout",
            "import -id b",
            "limit -id a -paid-seconds-per-day 60",
            "rotate -id a -token-stdout",
            "revoke -id a",
            "list",
        ] {
            let ran = on(&house.at(name), words, OTHER.as_bytes());
            assert_eq!((ran.code, ran.stdout_text()), (1, ""), "{name} {words}: {}", ran.stderr);
        }
        assert_eq!(on(&house.at(name), "verify", b"").code, 1, "{name}");
    }
    assert_eq!(house.names(), before);
    assert_eq!(
        (house.bytes(), fs_err::read(house.at("broken")).unwrap()),
        (registry, b"{\"clients\":[".to_vec())
    );
    assert!(fs_err::symlink_metadata(house.at("link")).unwrap().is_symlink());
}

#[test]
fn an_editor_that_finds_a_lock_names_it_and_its_age_and_may_come_again() {
    let house = House::new();
    house.import("a", TOKEN);
    let lock = house.at("clients.json.lock");
    fs_err::create_dir(&lock).unwrap();
    let made = std::time::SystemTime::now() - std::time::Duration::from_secs(7300);
    fs_err::File::open(&lock)
        .unwrap()
        .into_parts()
        .0
        .set_modified(made)
        .unwrap();
    let said = house.refused("import -id b", OTHER);
    assert!(
        said.contains(&format!("{}, made 2 h ago", lock.display())) && said.contains("only when no editor is running"),
        "{said}"
    );
    // Reading takes no lock.
    house.done("list");
    fs_err::remove_dir(&lock).unwrap();
    house.import("b", OTHER);
    assert_eq!(house.names(), ["clients.json"]);
}

#[test]
fn editors_at_once_lose_no_edit_and_leave_nothing() {
    let house = House::new();
    std::thread::scope(|scope| {
        for number in 0..4 {
            let house = &house;
            scope.spawn(move || {
                loop {
                    let ran = house.clients(&format!("create -id {number} -token-stdout"));
                    if ran.code == 0 {
                        return;
                    }
                    assert!(ran.stderr.contains("another editor holds the lock"), "{}", ran.stderr);
                }
            });
        }
    });
    let listed: Value = serde_json::from_slice(&house.done("list -json").stdout).unwrap();
    let ids: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["0", "1", "2", "3"]);
    assert_eq!(house.names(), ["clients.json"]);
}

#[test]
fn a_token_that_reached_nobody_is_said_to_need_a_rotation() {
    let house = House::new();
    let path = house.path();
    for (id, redirection) in [("closed", ">&-"), ("full", ">/dev/full"), ("reader-gone", "| true")] {
        let args = [
            "clients",
            "create",
            "-file",
            path.to_str().unwrap(),
            "-id",
            id,
            "-token-stdout",
        ];
        let ran = if id == "reader-gone" {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            finish(command(&args).stdout(writer).spawn().unwrap())
        } else {
            redirected(redirection, &args)
        };
        assert_eq!(ran.code, 1, "{id}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("the registry was updated") && ran.stderr.contains(&format!("rotate caller \"{id}\"")),
            "{id}: {}",
            ran.stderr
        );
        let registry = house.registry();
        let last = registry["clients"].as_array().unwrap().last().unwrap();
        assert_eq!(last["id"], id);
    }
    assert_eq!(house.names(), ["clients.json"]);
}

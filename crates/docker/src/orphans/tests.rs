use std::os::unix::net::UnixListener as BlockingListener;

use serde_json::{Value, json};

use super::*;
use crate::fake::{FakeEngine, Reply};

/// A container in a listing.
fn listed(name: &str, expires: &str, owner: Option<&Path>) -> Value {
    let mut labels = json!({ EXPIRES_LABEL: expires });
    if let Some(owner) = owner {
        labels[OWNER_LABEL] = json!(owner);
    }
    json!({ "Id": name, "Names": [format!("/{name}")], "Labels": labels })
}

/// The same, of one that has run and does so no longer.
fn exited(name: &str, expires: &str, owner: &Path) -> Value {
    let mut listed = listed(name, expires, Some(owner));
    listed["State"] = json!("exited");
    listed
}

/// An engine that lists these containers by label and finds none by name.
async fn engine(fake: &FakeEngine, containers: Value) -> Engine {
    fake.on(
        "GET",
        "/containers/json",
        [Reply::Json(200, containers), Reply::Json(200, json!([]))],
    );
    Engine::connect(fake.socket()).await.unwrap().0
}

fn removed(fake: &FakeEngine) -> Vec<String> {
    let deletes = fake
        .asked()
        .into_iter()
        .filter(|asked| asked.method == http::Method::DELETE);
    deletes
        .map(|asked| asked.path.trim_start_matches("/containers/").to_owned())
        .collect()
}

fn at(seconds_from_now: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    now.saturating_add_signed(seconds_from_now).to_string()
}

/// A folder whose socket refuses: its process is gone.
fn dead_owner(temp: &Path, name: &str) -> PathBuf {
    let owner = temp.join(name);
    fs_err::create_dir(&owner).unwrap();
    drop(BlockingListener::bind(owner.join(ALIVE_SOCKET)).unwrap());
    owner
}

#[tokio::test]
async fn a_private_folder_is_private_answers_and_goes() {
    use std::os::unix::fs::PermissionsExt as _;
    let temp = tempfile::tempdir().unwrap();
    let folder = PrivateFolder::open_in(temp.path()).unwrap();
    let path = folder.path().to_owned();
    assert_eq!(fs_err::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(matches!(dial(&path.join(ALIVE_SOCKET)).await, Dialled::Taken));
    assert_eq!(judge(&path, folder.temp()).await, Owner::Alive);
    drop(folder);
    assert!(!path.exists());
}

#[tokio::test]
async fn what_a_dead_owner_left_is_removed_at_once_whatever_its_label() {
    let temp = tempfile::tempdir().unwrap();
    let folder = PrivateFolder::open_in(temp.path()).unwrap();
    let dead = dead_owner(folder.temp(), "plimsoll-daemon-dead");
    let gone = folder.temp().join("plimsoll-daemon-gone");
    let fake = FakeEngine::healthy();
    let engine = engine(
        &fake,
        json!([
            listed("refuses", &at(3600), Some(&dead)),
            listed("gone", &at(3600), Some(&gone)),
            listed("no-number", "soon", Some(&dead)),
        ]),
    )
    .await;
    assert_eq!(reconcile(&engine, &folder, |_| false).await, Ok(3));
    assert_eq!(removed(&fake), ["refuses", "gone", "no-number"]);
}

#[tokio::test]
async fn what_lives_elsewhere_or_is_held_here_is_never_touched() {
    let temp = tempfile::tempdir().unwrap();
    let folder = PrivateFolder::open_in(temp.path()).unwrap();
    let other = PrivateFolder::open_in(temp.path()).unwrap();
    let elsewhere = Path::new("/run/other-namespace/plimsoll-daemon-x");
    let no_socket = folder.temp().join("plimsoll-daemon-young");
    fs_err::create_dir(&no_socket).unwrap();
    let fake = FakeEngine::healthy();
    let engine = engine(
        &fake,
        json!([
            listed("others", &at(-60), Some(other.path())),
            listed("others-by-a-clock-set-ahead", &at(-100_000), Some(other.path())),
            exited("others-that-will-go", &at(-299), other.path()),
            listed("elsewhere", &at(3600), Some(elsewhere)),
            listed("young", &at(3600), Some(&no_socket)),
            listed("relative", &at(3600), Some(Path::new("plimsoll-daemon-x"))),
            listed("no-owner", &at(-299), None),
            listed("no-number", "soon", None),
            listed("held", &at(-100_000), Some(folder.path())),
        ]),
    )
    .await;
    assert_eq!(reconcile(&engine, &folder, |name| name == "held").await, Ok(0));
    assert_eq!(removed(&fake), [""; 0]);
}

#[tokio::test]
async fn a_label_five_minutes_past_is_an_orphan_where_no_other_daemon_answers_for_what_runs() {
    let temp = tempfile::tempdir().unwrap();
    let folder = PrivateFolder::open_in(temp.path()).unwrap();
    let other = PrivateFolder::open_in(temp.path()).unwrap();
    let elsewhere = Path::new("/run/other-namespace/plimsoll-daemon-x");
    let fake = FakeEngine::healthy();
    let engine = engine(
        &fake,
        json!([
            listed("one", "1", None),
            listed("elsewhere", &at(-302), Some(elsewhere)),
            exited("others-and-over", &at(-302), other.path()),
        ]),
    )
    .await;
    assert_eq!(reconcile(&engine, &folder, |_| false).await, Ok(3));
}

#[tokio::test]
async fn what_this_daemon_could_not_remove_before_is_an_orphan_at_once_and_what_it_has_removed_since_is_none() {
    let temp = tempfile::tempdir().unwrap();
    let folder = PrivateFolder::open_in(temp.path()).unwrap();
    let own = |name| listed(name, &at(3600), Some(folder.path()));
    let fake = FakeEngine::healthy();
    let listings = [
        json!([own("removed-since"), own("left")]),
        json!([]),
        // It is looked for, and looked for again once it was removed.
        json!([own("left")]),
        json!([]),
    ];
    fake.on(
        "GET",
        "/containers/json",
        listings.map(|listing| Reply::Json(200, listing)),
    );
    let engine = Engine::connect(fake.socket()).await.unwrap().0;
    assert_eq!(reconcile(&engine, &folder, |_| false).await, Ok(1));
    assert_eq!(removed(&fake), ["left"]);
}

#[tokio::test]
async fn a_listing_over_the_bound_removes_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let folder = PrivateFolder::open_in(temp.path()).unwrap();
    let mut container = listed("old", "1", None);
    container["Padding"] = json!("x".repeat(6 << 20));
    let fake = FakeEngine::healthy();
    let engine = engine(&fake, json!([container])).await;
    assert_eq!(reconcile(&engine, &folder, |_| false).await, Err(EngineError::TooLarge));
    assert_eq!(removed(&fake), [""; 0]);
}

/// Makes a folder old enough to be a leftover.
fn age(path: &Path) {
    let then = SystemTime::now() - FOLDER_AGE - Duration::from_secs(5);
    fs_err::File::open(path)
        .unwrap()
        .file()
        .set_times(std::fs::FileTimes::new().set_modified(then))
        .unwrap();
}

#[tokio::test]
async fn only_an_old_real_folder_whose_every_socket_refuses_is_cleared() {
    let temp = tempfile::tempdir().unwrap();
    let folder = PrivateFolder::open_in(temp.path()).unwrap();
    let at = folder.temp().to_owned();
    let dead = dead_owner(&at, "plimsoll-daemon-dead");
    let nested = at.join("plimsoll-run-nested");
    fs_err::create_dir(&nested).unwrap();
    let _listening = dead_owner(&nested, "inner");
    let empty = at.join("plimsoll-run-empty");
    fs_err::create_dir(&empty).unwrap();
    let young = dead_owner(&at, "plimsoll-run-young");
    let foreign = dead_owner(&at, "somebody-elses");
    let live = at.join("plimsoll-run-live");
    fs_err::create_dir(&live).unwrap();
    let _live = BlockingListener::bind(live.join("broker.sock")).unwrap();
    let mixed = dead_owner(&at, "plimsoll-run-mixed");
    let _other = BlockingListener::bind(mixed.join("z.sock")).unwrap();
    let file = at.join("plimsoll-run-file");
    fs_err::write(&file, "").unwrap();
    let link = at.join("plimsoll-run-link");
    std::os::unix::fs::symlink(&foreign, &link).unwrap();
    for old in [&dead, &nested, &empty, &foreign, &live, &mixed, &file] {
        age(old);
    }
    clear_folders(&folder).await;
    for cleared in [&dead, &nested, &empty] {
        assert!(!cleared.exists(), "{}", cleared.display());
    }
    for kept in [&young, &foreign, &live, &mixed, &file, &link] {
        assert!(kept.exists(), "{}", kept.display());
    }
    assert!(folder.path().exists());
}

#[tokio::test]
async fn gone_is_decided_by_the_listing_and_never_by_the_answer() {
    let fake = FakeEngine::healthy();
    let engine = Engine::connect(fake.socket()).await.unwrap().0;
    for answer in [
        Reply::done(),
        Reply::failure(404, "no such container"),
        Reply::failure(409, "in progress"),
        Reply::failure(500, "x"),
    ] {
        fake.on("DELETE", "/containers/*", [answer]);
        assert_eq!(force_remove(&engine, "run-1").await, Ok(()));
    }
    // On its way: looked for until it is gone, without another attempt.
    let there = Reply::Json(200, json!([{ "Id": "x", "Names": ["/run-1"] }]));
    let before = fake.count("DELETE", "/containers/run-1");
    fake.on(
        "DELETE",
        "/containers/*",
        [Reply::failure(409, "removal is already in progress")],
    );
    fake.on(
        "GET",
        "/containers/json",
        [there.clone(), there, Reply::Json(200, json!([]))],
    );
    assert_eq!(force_remove(&engine, "run-1").await, Ok(()));
    assert_eq!(fake.count("DELETE", "/containers/run-1"), before + 1);
}

#[tokio::test]
async fn a_container_that_stays_is_given_up_after_three_attempts() {
    let fake = FakeEngine::healthy();
    let engine = Engine::connect(fake.socket()).await.unwrap().0;
    let there = Reply::Json(200, json!([{ "Id": "x", "Names": ["/run-1"] }]));
    fake.on("GET", "/containers/json", [there]);
    fake.on(
        "DELETE",
        "/containers/*",
        [Reply::failure(500, "device or resource busy")],
    );
    let began = std::time::Instant::now();
    let error = force_remove(&engine, "run-1").await.unwrap_err();
    assert!(error.last.contains("busy"), "{error}");
    assert_eq!(fake.count("DELETE", "/containers/run-1"), 3);
    let pauses = began.elapsed();
    assert!(
        (Duration::from_secs(3)..Duration::from_secs(10)).contains(&pauses),
        "{pauses:?}"
    );
}

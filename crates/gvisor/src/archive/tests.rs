use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::*;

/// One entry: its path, type, mode and content.
type Entry<'a> = (&'a str, EntryType, u32, &'a [u8]);

const NAMES: [&str; 3] = ["runsc", "shim", "gvisor-bin/sentry"];

fn tarball(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, kind, mode, content) in entries {
        let mut header = tar::Header::new_ustar();
        // Set by hand: the library would refuse the paths that a test is about.
        header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(*mode);
        header.set_size(content.len() as u64);
        if kind.is_symlink() || kind.is_hard_link() {
            header.set_link_name("/bin/sh").unwrap();
        }
        header.set_cksum();
        builder.append(&header, *content).unwrap();
    }
    builder.into_inner().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

fn pins(archive: &[u8]) -> ArchivePins {
    let digest = hex(&Sha512::digest(archive));
    let text = format!(
        "release=20260907.0\nsha512_x86_64={digest}\nsha512_aarch64={}\nexecutables={}\n",
        "0".repeat(128),
        NAMES.join(" ")
    );
    ArchivePins::parse(&text).unwrap()
}

fn incoming(archive: &[u8], folder: &Path) -> Incoming {
    let mut incoming = Incoming::new(folder).unwrap();
    for piece in archive.chunks(100) {
        incoming.push(piece).unwrap();
    }
    incoming
}

fn unpacked(archive: &[u8]) -> (tempfile::TempDir, Result<(), ArchiveError>) {
    let folder = tempfile::tempdir().unwrap();
    let pins = pins(archive);
    let verified = incoming(archive, folder.path()).verified(&pins, Arch::X86_64).unwrap();
    let result = verified.unpack(pins.executables(), folder.path());
    (folder, result)
}

fn whole<'a>() -> Vec<Entry<'a>> {
    vec![
        ("./runsc", EntryType::Regular, 0o755, b"#!/bin/sh\n"),
        ("shim", EntryType::Regular, 0o700, b"shim"),
        ("gvisor-bin/", EntryType::Directory, 0o755, b""),
        ("gvisor-bin/sentry", EntryType::Regular, 0o555, b"sentry"),
        ("LICENSE", EntryType::Regular, 0o644, b"words"),
    ]
}

fn files_below(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(
                files_below(&entry.path())
                    .into_iter()
                    .map(|file| format!("{name}/{file}")),
            );
        } else {
            found.push(name);
        }
    }
    found.sort();
    found
}

#[test]
fn the_listed_executables_are_unpacked_and_nothing_else_is() {
    let (folder, result) = unpacked(&zstd(&tarball(&whole())));
    result.unwrap();
    assert_eq!(files_below(folder.path()), ["gvisor-bin/sentry", "runsc", "shim"]);
    let mode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!(
        (mode("runsc"), mode("shim"), mode("gvisor-bin/sentry")),
        (0o755, 0o755, 0o755)
    );
    assert_eq!(fs::read(folder.path().join("gvisor-bin/sentry")).unwrap(), b"sentry");
}

#[test]
fn other_bytes_are_refused_before_anything_is_unpacked() {
    let archive = zstd(&tarball(&whole()));
    let folder = tempfile::tempdir().unwrap();
    let pins = pins(&archive);
    for wrong in [&archive[..archive.len() - 1], &[&archive[..], b"x"].concat(), b""] {
        let error = incoming(wrong, folder.path())
            .verified(&pins, Arch::X86_64)
            .unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("the archive is not release-20260907.0 for x86_64"),
            "{error}"
        );
    }
    incoming(&archive, folder.path())
        .verified(&pins, Arch::Aarch64)
        .unwrap_err();
    assert!(files_below(folder.path()).is_empty());
}

#[test]
fn a_file_that_changes_after_it_was_digested_is_not_what_is_unpacked() {
    let archive = zstd(&tarball(&whole()));
    let folder = tempfile::tempdir().unwrap();
    let given = folder.path().join("given");
    fs::write(&given, &archive).unwrap();
    let pins = pins(&archive);
    let verified = Incoming::of_file(&given, folder.path())
        .unwrap()
        .verified(&pins, Arch::X86_64)
        .unwrap();
    fs::write(&given, b"something else").unwrap();
    let into = tempfile::tempdir().unwrap();
    verified.unpack(pins.executables(), into.path()).unwrap();
    assert_eq!(fs::read(into.path().join("shim")).unwrap(), b"shim");
}

#[test]
fn a_link_a_folder_or_a_device_in_the_place_of_an_executable_is_refused() {
    for kind in [
        EntryType::Symlink,
        EntryType::Link,
        EntryType::Directory,
        EntryType::Fifo,
        EntryType::Char,
        EntryType::Continuous,
    ] {
        for at in [0, 1, 3] {
            let mut entries = whole();
            entries[at] = (NAMES[at.min(2)], kind, 0o755, b"");
            let (_folder, result) = unpacked(&zstd(&tarball(&entries)));
            let error = result.unwrap_err();
            assert!(matches!(error, ArchiveError::NotRegular(_)), "{kind:?}: {error}");
        }
    }
}

#[test]
fn a_file_that_nobody_may_run_is_not_an_executable() {
    let mut entries = whole();
    entries[1].2 = 0o644;
    let (_folder, result) = unpacked(&zstd(&tarball(&entries)));
    assert_eq!(result.unwrap_err().to_string(), "shim is not executable in the archive");
}

#[test]
fn each_executable_is_in_the_archive_once() {
    let mut entries = whole();
    entries.remove(3);
    let (_folder, result) = unpacked(&zstd(&tarball(&entries)));
    assert_eq!(
        result.unwrap_err().to_string(),
        "gvisor-bin/sentry is not in the archive"
    );
    let mut entries = whole();
    entries.push(("runsc", EntryType::Regular, 0o755, b"another"));
    let (_folder, result) = unpacked(&zstd(&tarball(&entries)));
    assert_eq!(result.unwrap_err().to_string(), "runsc is in the archive twice");
}

#[test]
fn no_path_of_the_archive_decides_where_a_file_goes() {
    let mut entries = whole();
    entries.insert(0, ("../runsc", EntryType::Regular, 0o755, b"evil"));
    entries.insert(0, ("/tmp/evil/runsc", EntryType::Regular, 0o755, b"evil"));
    entries.insert(0, ("gvisor-bin", EntryType::Symlink, 0o777, b""));
    let (folder, result) = unpacked(&zstd(&tarball(&entries)));
    result.unwrap();
    assert_eq!(files_below(folder.path()), ["gvisor-bin/sentry", "runsc", "shim"]);
    assert_eq!(fs::read(folder.path().join("runsc")).unwrap(), b"#!/bin/sh\n");
}

#[test]
fn an_archive_in_several_frames_is_one_archive() {
    let tar = tarball(&whole());
    let (first, rest) = tar.split_at(700);
    // A frame without data, as parallel compressors write before each of theirs.
    let mut skipped = 0x184D_2A50_u32.to_le_bytes().to_vec();
    skipped.extend_from_slice(&[3, 0, 0, 0, 9, 9, 9]);
    let (folder, result) = unpacked(&[skipped, zstd(first), zstd(rest)].concat());
    result.unwrap();
    assert_eq!(files_below(folder.path()).len(), 3);
}

#[test]
fn what_is_no_archive_is_an_error_although_its_digest_is_right() {
    let archive = zstd(&tarball(&whole()));
    let cut = &archive[..archive.len() / 2];
    for odd in [&b"no zstandard at all"[..], cut, &zstd(b"no tar"), &zstd(&[1; 4096])] {
        let (_folder, result) = unpacked(odd);
        result.unwrap_err();
    }
}

/// An unpacked release whose `runsc` is this script.
fn release(script: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_executable(&mut script.as_bytes(), &folder.path().join("runsc")).unwrap();
    folder
}

#[test]
fn the_trial_takes_what_registers_itself_and_nothing_else() {
    let well = release(
        "#!/bin/sh\n[ \"$1 $2 $4 $5 $6 $7 $8 $9\" = 'install --config_file --runtime runsc --download-sidecars=NEVER \
         --require-sidecars=ALWAYS -- --host-uds=open' ] || exit 1\n\
         printf '{\"runtimes\":{\"runsc\":{\"path\":\"%s\",\"runtimeArgs\":[\"%s\"]}}}' \"$0\" \"$9\" >\"$3\"\n",
    );
    trial(well.path()).unwrap();
    assert_eq!(
        files_below(well.path()),
        ["runsc"],
        "the throwaway configuration is left behind"
    );

    let fails = release("#!/bin/sh\necho no sidecars >&2\nexit 128\n");
    let error = trial(fails.path()).unwrap_err().to_string();
    assert!(error.contains("no sidecars"), "{error}");

    let elsewhere = release(
        "#!/bin/sh\nprintf '{\"runtimes\":{\"runsc\":{\"path\":\"/bin/runc\",\"runtimeArgs\":[\"--host-uds=open\"]}}}' >\"$3\"\n",
    );
    assert!(matches!(trial(elsewhere.path()), Err(ArchiveError::TrialConfig(_))));
    let without = release("#!/bin/sh\nprintf '{\"runtimes\":{\"runsc\":{\"path\":\"%s\"}}}' \"$0\" >\"$3\"\n");
    assert!(matches!(trial(without.path()), Err(ArchiveError::TrialConfig(_))));
}

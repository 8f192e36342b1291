use std::path::{Path, PathBuf};

/// Every Rust file below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn rpc_errors_are_made_in_one_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let makes_an_error = |text: &str| {
        [
            "ConnectError::",
            "ErrorAnswer::refused",
            "ErrorAnswer::unmarked",
            "ErrorDetail {",
        ]
        .iter()
        .any(|made| text.contains(made))
    };
    let makers: Vec<_> = files
        .iter()
        .filter(|path| makes_an_error(&fs_err::read_to_string(path).unwrap()))
        .map(|path| path.strip_prefix(&root).unwrap().display().to_string())
        .collect();
    // This test names the constructors too.
    let mut makers = makers;
    makers.sort();
    assert_eq!(
        makers,
        ["rpc/error.rs", "rpc/tests.rs"],
        "RPC errors are made in rpc/error.rs alone"
    );
}

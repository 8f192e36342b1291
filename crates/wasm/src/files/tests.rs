//! The tree, without a guest.

use super::*;

const LIMIT: usize = 1 << 20;

fn write(tree: &mut Tree, path: &str, content: &[u8], limit: usize) -> Result<(), Errno> {
    tree.write(path, Arc::new(content.to_vec()), limit).map(Gone::away)
}

/// Adds to the end of a file that is there.
fn append(tree: &mut Tree, path: &str, more: &[u8], limit: usize) -> Result<(), Errno> {
    tree.room(path, more.len(), true, limit)?;
    tree.extend(path, more)
}

fn rename(tree: &mut Tree, from: &str, to: &str, limit: usize) -> Result<(), Errno> {
    tree.rename(from, to, limit).map(Gone::away)
}

fn remove_all(tree: &mut Tree, path: &str) -> Result<(), Errno> {
    tree.remove_all(path).map(Gone::away)
}

fn read(tree: &Tree, path: &str) -> Vec<u8> {
    tree.read(path).unwrap().to_vec()
}

#[test]
fn what_is_written_is_read_listed_moved_and_removed() {
    let mut tree = Tree::default();
    tree.place("/work/b/c.txt", b"one", LIMIT).unwrap();
    append(&mut tree, "/work/b/c.txt", b" two", LIMIT).unwrap();
    assert_eq!(read(&tree, "/work/b/c.txt"), b"one two");
    tree.make_folder("/work/d", LIMIT).unwrap();
    write(&mut tree, "/work/a.txt", b"", LIMIT).unwrap();
    assert_eq!(tree.list("/").unwrap(), b"dtmp\0dwork");
    assert_eq!(tree.list("/work").unwrap(), b"fa.txt\0db\0dd");
    rename(&mut tree, "/work/b", "/work/d/e", LIMIT).unwrap();
    assert_eq!(read(&tree, "/work/d/e/c.txt"), b"one two");
    assert_eq!(tree.stat("/work/b"), Err(Errno::NotFound));
    remove_all(&mut tree, "/work/d").unwrap();
    tree.remove_file("/work/a.txt").unwrap().away();
    assert_eq!((tree.entries, tree.bytes), (0, 0));
}

#[test]
fn refusals_are_those_of_posix() {
    let mut tree = Tree::default();
    tree.place("/a/f", b"", LIMIT).unwrap();
    assert_eq!(tree.read("/a"), Err(Errno::IsAFolder));
    assert_eq!(tree.read("/b"), Err(Errno::NotFound));
    assert_eq!(tree.stat("/a/f/g"), Err(Errno::NotAFolder));
    assert_eq!(write(&mut tree, "/b/f", b"", LIMIT), Err(Errno::NotFound));
    assert_eq!(write(&mut tree, "/a", b"", LIMIT), Err(Errno::IsAFolder));
    assert_eq!(write(&mut tree, "/a/f/g", b"", LIMIT), Err(Errno::NotAFolder));
    assert_eq!(tree.place("/a/f/g", b"", LIMIT), Err(Errno::NotAFolder));
    assert_eq!(tree.place("/a/f/g/h", b"", LIMIT), Err(Errno::NotAFolder));
    assert_eq!(tree.make_folder("/a", LIMIT), Err(Errno::Exists));
    assert_eq!(tree.make_folder("/a/f/g", LIMIT), Err(Errno::NotAFolder));
    assert_eq!(tree.remove_folder("/a").map(Gone::away), Err(Errno::NotEmpty));
    assert_eq!(tree.remove_folder("/a/f").map(Gone::away), Err(Errno::NotAFolder));
    assert_eq!(rename(&mut tree, "/a", "/a/b", LIMIT), Err(Errno::Invalid));
    assert_eq!(rename(&mut tree, "/a", "/a/f", LIMIT), Err(Errno::Invalid));
    assert_eq!(rename(&mut tree, "/a/f", "/b/f", LIMIT), Err(Errno::NotFound));
    for path in FIXED {
        assert_eq!(remove_all(&mut tree, path), Err(Errno::Busy), "{path}");
        assert_eq!(tree.remove_folder(path).map(Gone::away), Err(Errno::Busy), "{path}");
        assert_eq!(rename(&mut tree, path, "/elsewhere", LIMIT), Err(Errno::Busy), "{path}");
        assert_eq!(rename(&mut tree, "/a", path, LIMIT), Err(Errno::Busy), "{path}");
        assert_eq!(tree.stat(path), Ok(Stat::Folder), "{path}");
    }
    for path in ["a", "/a/../b", "/a//b", "/a/", "/a\0", "//", ""] {
        assert_eq!(tree.stat(path), Err(Errno::Invalid), "{path}");
    }
    assert_eq!(
        tree.stat(&format!("/{}", "x".repeat(LONGEST_PATH))),
        Err(Errno::NameTooLong)
    );
}

#[test]
fn a_rename_that_fails_leaves_its_target() {
    let mut tree = Tree::default();
    let far = format!("/{}", "n".repeat(600));
    tree.place(&format!("/s/{}", "f".repeat(500)), b"", LIMIT).unwrap();
    tree.make_folder(&far, LIMIT).unwrap();
    assert_eq!(rename(&mut tree, "/s", &far, LIMIT), Err(Errno::NameTooLong));
    assert_eq!(tree.stat(&far), Ok(Stat::Folder));
    write(&mut tree, "/a", b"kept", LIMIT).unwrap();
    write(&mut tree, "/longer", b"kept too", LIMIT).unwrap();
    assert_eq!(rename(&mut tree, "/a", "/longer", 0), Err(Errno::NoSpace));
    assert_eq!(read(&tree, "/longer"), b"kept too");
    rename(&mut tree, "/a", "/longer", LIMIT).unwrap();
    assert_eq!(read(&tree, "/longer"), b"kept");
    remove_all(&mut tree, "/s").unwrap();
    remove_all(&mut tree, &far).unwrap();
    tree.remove_file("/longer").unwrap().away();
    assert_eq!((tree.entries, tree.bytes), (0, 0));
}

#[test]
fn a_copy_counts_in_full_and_goes_its_own_way() {
    let mut tree = Tree::default();
    write(&mut tree, "/a", &[1; 600], LIMIT).unwrap();
    assert_eq!(tree.copy("/a", "/b", 1200).map(Gone::away), Err(Errno::NoSpace));
    tree.copy("/a", "/b", LIMIT).unwrap().away();
    assert_eq!(tree.bytes, 2 * (600 + cost("a")));
    append(&mut tree, "/b", &[2], LIMIT).unwrap();
    assert_eq!(
        (tree.read("/a").unwrap().len(), tree.read("/b").unwrap().len()),
        (600, 601)
    );
    tree.copy("/a", "/a", LIMIT).unwrap().away();
    assert_eq!(tree.bytes, 2 * (600 + cost("a")) + 1);
}

#[test]
fn the_longest_path_of_a_request_has_its_place_and_the_deepest_goes_without_recursion() {
    let mut tree = Tree::default();
    tree.place(&format!("{WORK}/{}", "x".repeat(1024)), b"", LIMIT).unwrap();
    let deep = format!("{WORK}{}/f", "/d".repeat(511));
    tree.place(&deep, b"deep", LIMIT).unwrap();
    assert_eq!(read(&tree, &deep), b"deep");
    let small_stack = std::thread::Builder::new().stack_size(32 << 10);
    let removed = small_stack.spawn(move || {
        remove_all(&mut tree, "/work/d").unwrap();
        tree
    });
    let tree = removed.unwrap().join().unwrap();
    assert_eq!(tree.entries, 1);
}

#[test]
fn no_write_passes_the_limit_and_a_smaller_one_is_always_possible() {
    let mut tree = Tree::default();
    write(&mut tree, "/f", &[1; 1000], 2000).unwrap();
    assert_eq!(append(&mut tree, "/f", &[1; 1000], 2000), Err(Errno::NoSpace));
    assert_eq!(write(&mut tree, "/g", &[1; 1000], 2000), Err(Errno::NoSpace));
    assert_eq!(tree.read("/f").unwrap().len(), 1000);
    write(&mut tree, "/f", b"less", 10).unwrap();
    assert_eq!(read(&tree, "/f"), b"less");
    for number in 1..MOST_FILES {
        write(&mut tree, &format!("/{number}"), b"", usize::MAX).unwrap();
    }
    assert_eq!(write(&mut tree, "/more", b"", usize::MAX), Err(Errno::TooMany));
    assert_eq!(tree.make_folder("/more", usize::MAX), Err(Errno::TooMany));
    assert_eq!((Errno::TooMany.answer(), Errno::NoSpace.answer()), (-28, -28));
    rename(&mut tree, "/1", "/one", usize::MAX).unwrap();
}

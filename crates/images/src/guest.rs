//! The guest binary, which every image carries at one place.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fs_err as fs;

use crate::error::ImagesError;

/// Where the guest binary is in every image, without a leading slash.
pub const GUEST_BINARY: &str = "usr/local/bin/plimsoll-guest";

/// Below a build folder, next to its `release`: where the static binary is put. Cargo's own of that name is another one, and
/// is linked dynamically.
const STATIC_BUILD: &str = "x86_64-unknown-linux-gnu/guest";

/// How to get one.
const FIX: &str = "build the static one in a clone of this project and name it: \
                   plimsoll images build --guest-binary \"$(tools/guest-binary.sh)\"";

/// The guest binary of a program in this folder: the static one beside it, else, in a clone's build folder, the one that
/// `tools/guest-binary.sh` built.
///
/// # Errors
///
/// When there is none. The text says how to get one.
pub fn guest_binary_near(folder: &Path) -> Result<PathBuf, ImagesError> {
    let name = Path::new(GUEST_BINARY).file_name().unwrap_or_default();
    let beside = folder.join(name);
    let built = folder.with_file_name(STATIC_BUILD).join(name);
    let Err(unusable) = read(&beside) else {
        return Ok(beside);
    };
    match read(&built) {
        Ok(_) => Ok(built),
        // What is there and cannot be used is told; that nothing is there is told of the one place a user would put it.
        Err(error) if built.exists() && !beside.exists() => Err(error),
        Err(_) => Err(unusable),
    }
}

/// Reads the guest binary and checks that it can run in an image: statically linked, for Linux on 64-bit x86.
pub(crate) fn read(path: &Path) -> Result<Arc<[u8]>, ImagesError> {
    let wrong = |problem: String| ImagesError::GuestBinary {
        path: path.display().to_string(),
        problem,
    };
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(wrong(format!("is not there; {FIX}")));
        }
        Err(error) => return Err(wrong(format!("{error}; {FIX}"))),
    };
    check(&bytes).map_err(|problem| wrong(format!("{problem}; {FIX}")))?;
    Ok(bytes.into())
}

fn check(bytes: &[u8]) -> Result<(), &'static str> {
    const NOT_ELF: &str = "is no program for Linux on 64-bit x86";
    // The kind of program header that names a dynamic loader.
    const INTERPRETER: u32 = 3;
    let number = |offset: usize, length: usize| -> Option<u64> {
        let field = bytes.get(offset..offset.checked_add(length)?)?;
        Some(
            field
                .iter()
                .rev()
                .fold(0, |number, &byte| number << 8 | u64::from(byte)),
        )
    };
    // 64 bits, little-endian, version 1; then the machine.
    if !bytes.starts_with(b"\x7fELF\x02\x01\x01") || number(18, 2) != Some(62) {
        return Err(NOT_ELF);
    }
    let (Some(table), Some(size), Some(count)) = (number(32, 8), number(54, 2), number(56, 2)) else {
        return Err(NOT_ELF);
    };
    for index in 0..count {
        let offset = table
            .checked_add(index * size)
            .and_then(|offset| usize::try_from(offset).ok());
        match offset.and_then(|offset| number(offset, 4)) {
            None => return Err(NOT_ELF),
            Some(kind) if kind == u64::from(INTERPRETER) => {
                return Err("is linked dynamically, and an image need not have its libraries");
            }
            Some(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(kinds: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        bytes[18] = 62;
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = u8::try_from(kinds.len()).unwrap();
        for kind in kinds {
            bytes.extend(kind.to_le_bytes());
            bytes.extend([0; 52]);
        }
        bytes
    }

    #[test]
    fn a_static_program_passes_and_nothing_else_does() {
        assert_eq!(check(&program(&[1, 1, 4])), Ok(()));
        let error = check(&program(&[1, 3])).unwrap_err();
        assert!(error.contains("dynamically"), "{error}");
        let mut other_machine = program(&[1]);
        other_machine[18] = 183;
        let cut = &program(&[1, 1])[..100];
        for bytes in [&b"#!/bin/sh\n"[..], b"", b"\x7fELF\x02\x01\x01", &other_machine, cut] {
            check(bytes).unwrap_err();
        }
    }

    #[test]
    fn the_static_one_is_found_beside_the_program_or_where_the_clone_builds_it() {
        let target = tempfile::tempdir().unwrap();
        let release = target.path().join("release");
        let guest = target.path().join(STATIC_BUILD);
        for folder in [&release, &guest] {
            fs::create_dir_all(folder).unwrap();
        }
        let (beside, built) = (release.join("plimsoll-guest"), guest.join("plimsoll-guest"));

        let none = guest_binary_near(&release).unwrap_err().to_string();
        assert!(none.contains("release/plimsoll-guest: is not there; "), "{none}");
        assert!(none.contains("--guest-binary \"$(tools/guest-binary.sh)\""), "{none}");

        // What `cargo build` leaves beside the program.
        fs::write(&beside, program(&[1, 3])).unwrap();
        let dynamic = guest_binary_near(&release).unwrap_err().to_string();
        assert!(
            dynamic.contains("linked dynamically") && dynamic.contains("tools/guest-binary.sh"),
            "{dynamic}"
        );
        fs::write(&built, program(&[1])).unwrap();
        assert_eq!(guest_binary_near(&release).unwrap(), built);

        fs::write(&beside, program(&[1])).unwrap();
        assert_eq!(guest_binary_near(&release).unwrap(), beside);
    }
}

//! Leaves the empty pages out of the artifact: more than half of a memory image is holes between heap blocks, and a process
//! that starts for one run should not have to write them.

/// Size of the pieces that are kept or left out, in bytes: a page of every host we build for.
const PAGE: usize = 4096;

/// The pages that hold something, and the Rust expression that says where they belong.
pub(crate) struct Sparse {
    /// All kept pages, one after the other.
    pub(crate) pages: Vec<u8>,
    /// `Runs { size, runs: &[(offset, length), …] }`.
    pub(crate) runs: String,
}

/// Splits an artifact into runs of pages that are not all zero.
pub(crate) fn pack(artifact: &[u8]) -> Sparse {
    let mut pages = Vec::new();
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (index, page) in artifact.chunks(PAGE).enumerate() {
        if page.iter().all(|byte| *byte == 0) {
            continue;
        }
        pages.extend_from_slice(page);
        let offset = index * PAGE;
        match runs.last_mut() {
            Some((start, length)) if *start + *length == offset => *length += page.len(),
            _ => runs.push((offset, page.len())),
        }
    }
    Sparse {
        pages,
        runs: format!("Runs {{ size: {}, runs: &{runs:?} }}", artifact.len()),
    }
}

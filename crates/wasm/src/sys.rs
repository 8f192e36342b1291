//! The unsafe steps of this crate: trusting the machine code that its own build script made, and asking the kernel which
//! pages were written.

#![expect(
    unsafe_code,
    reason = "machine code can only be loaded on trust, and the kernel's page scan has no safe binding"
)]

use rustix::fs::{Mode, OFlags, open};
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use wasmtime::{Engine, Module};

use crate::artifact::Artifact;
use crate::bridges::Stretch;

/// Maps the artifact. Fails when it was made for another CPU baseline or other engine settings.
pub(crate) fn load(engine: &Engine, artifact: &Artifact) -> wasmtime::Result<Module> {
    let file = artifact.file()?;
    // SAFETY: `deserialize_open_file` demands bytes that wasmtime itself produced and that nobody changes while they are
    // mapped. An `Artifact` holds the bytes compiled into this binary, which come from `Engine::precompile_module` of the
    // same wasmtime version (one pin in the workspace), run by our build script. It is either a memory file whose seals
    // forbid every later write, or a read-only file in a folder that only this user can write, checked on the open
    // descriptors: whoever could change it could as well change this process. wasmtime checks version, target, CPU
    // features and settings before it uses them.
    unsafe { Module::deserialize_open_file(engine, file) }
}

/// The kernel's `struct pm_scan_arg` (Linux 6.7).
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// Its `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

const SCAN: Opcode = opcode::read_write::<Scan>(b'f', 16);
const WRITTEN: u64 = 1 << 1;
const FILE: u64 = 1 << 2;
const PRESENT: u64 = 1 << 3;
const ZERO: u64 = 1 << 5;

/// Most stretches that are reported.
const REGIONS: usize = 512;

/// The stretches of a memory that were written since its pages were last given back, in order: what the pool finds when it
/// scans the slot. `None` where the kernel does not tell (before Linux 6.7, or where `/proc` does not show this process its
/// own pages), which stops the pool from scanning too.
pub(crate) fn written(memory: &[u8]) -> Option<Vec<Stretch>> {
    let pages = open("/proc/self/pagemap", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let start = memory.as_ptr().addr();
    let mut regions = [Region::default(); REGIONS];
    let mut scan = Scan {
        size: size_of::<Scan>() as u64,
        start: start as u64,
        end: (start + memory.len()) as u64,
        vec: regions.as_mut_ptr().expose_provenance() as u64,
        vec_len: REGIONS as u64,
        // Present and written, and neither the page of zeros nor still the file's.
        category_inverted: ZERO | FILE,
        category_mask: WRITTEN | PRESENT | ZERO | FILE,
        ..Scan::default()
    };
    // SAFETY: `Scan` is laid out as the kernel expects for this operation. It writes into `scan`, and at most `vec_len`
    // regions into `regions`, which both outlive the call, and only looks at the page tables of `memory`.
    unsafe { ioctl(pages, Updater::<SCAN, Scan>::new(&mut scan)) }.ok()?;
    let offset = |at: u64| usize::try_from(at).ok()?.checked_sub(start);
    regions
        .iter()
        .take_while(|region| region.end > 0)
        .map(|region| Some((offset(region.start)?, offset(region.end)?)))
        .collect()
}

//! The unsafe steps of this crate: trusting the machine code that its own build script made, asking the kernel which pages
//! were written, and making the stacks of kept interpreters.

#![expect(
    unsafe_code,
    reason = "machine code can only be loaded on trust; the kernel's page scan and the stacks of wasmtime have no safe binding"
)]

use std::ffi::c_void;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::ptr;
use std::sync::{Arc, LazyLock};

use rustix::fs::{Mode, OFlags, open};
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap};
use rustix::param::page_size;
use wasmtime::{Engine, Module, PoolingAllocationConfig, StackCreator, StackMemory};

use crate::artifact::Artifact;
use crate::bridges::Stretch;
use crate::stack::{Stack, Stacks};

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

/// What the kernel tells this process of its own pages, opened once: a process that has given up being dumpable, as a daemon
/// does, may not open it any more unless it is root. `None` where it cannot be opened.
static PAGES: LazyLock<Option<File>> = LazyLock::new(|| {
    let opened = open("/proc/self/pagemap", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    opened.ok().map(File::from)
});

/// Opens what this crate and the pool want to know of this process's pages.
pub(crate) fn open_pages() {
    LazyLock::force(&PAGES);
    // The pool keeps what this opens.
    let _: bool = PoolingAllocationConfig::is_pagemap_scan_available();
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
    let pages = PAGES.as_ref()?;
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

/// Bytes of `/proc/self/pagemap` that describe one page.
const ENTRY: usize = 8;

/// The page is in memory, or in swap, and not a file's that others share.
const HELD: u64 = (1 << 63) | (1 << 62);
const SHARED: u64 = 1 << 61;

/// Whose a page of this process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    /// Not there.
    Absent,
    /// A file's, which others share.
    Shared,
    /// This process's own: it was written.
    Own,
}

/// The pages of a range of this process's addresses, in order. `None` where `/proc` does not show a process its own pages.
pub(crate) fn pages(start: usize, length: usize) -> Option<Vec<Page>> {
    let page = page_size();
    let (first, count) = (start / page, length.div_ceil(page));
    let map = PAGES.as_ref()?;
    let mut entries = vec![0; count.checked_mul(ENTRY)?];
    map.read_exact_at(&mut entries, (first as u64).checked_mul(ENTRY as u64)?)
        .ok()?;
    let told = entries.chunks_exact(ENTRY).map(|entry| {
        let entry = u64::from_ne_bytes(entry.try_into().unwrap_or_default());
        match (entry & HELD != 0, entry & SHARED != 0) {
            (false, _) => Page::Absent,
            (true, true) => Page::Shared,
            (true, false) => Page::Own,
        }
    });
    Some(told.collect())
}

/// Bytes of those that are this process's own.
pub(crate) fn own_bytes(pages: &[Page]) -> u64 {
    let own = pages.iter().filter(|page| **page == Page::Own).count();
    own as u64 * page_size() as u64
}

/// The stretches of a range, as offsets, whose pages are of one kind.
pub(crate) fn stretches(pages: &[Page], kind: Page) -> Vec<Stretch> {
    let page = page_size();
    let mut at = 0;
    pages
        .chunk_by(|a, b| a == b)
        .filter_map(|chunk| {
            let from = at;
            at += chunk.len() * page;
            (chunk[0] == kind).then_some((from, at))
        })
        .collect()
}

/// Writes nothing, but makes these stretches of a memory its own, as their first write would: in one step each instead of a
/// fault a page. A kernel before Linux 5.14 does not, which costs time alone.
pub(crate) fn warm(memory: &mut [u8], stretches: &[Stretch]) {
    for (from, to) in stretches {
        let Some(part) = memory.get_mut(*from..*to) else {
            continue;
        };
        // SAFETY: the range is that of a slice held exclusively; its content does not change.
        let _: Result<(), _> = unsafe { madvise(part.as_mut_ptr().cast(), part.len(), Advice::LinuxPopulateWrite) };
    }
}

/// Lets go of the pages of a memory that were only read. Its owner is idle; read again, they come from the artifact.
pub(crate) fn let_go(memory: &mut [u8]) {
    let Some(pages) = pages(memory.as_ptr().addr(), memory.len()) else {
        return;
    };
    for (from, to) in stretches(&pages, Page::Shared) {
        let Some(part) = memory.get_mut(from..to) else { continue };
        // SAFETY: the range is that of a slice held exclusively, and every page of it is still a sealed file's, as the kernel has
        // just said: nothing wrote to it, so the file has its content.
        let _: Result<(), _> = unsafe { madvise(part.as_mut_ptr().cast(), part.len(), Advice::LinuxDontNeed) };
    }
}

/// One mapping: a guard page, and the stack above it.
#[derive(Debug)]
struct MappedStack {
    guard: *mut u8,
    /// Bytes of guard page and stack.
    length: usize,
    owner: Option<Arc<Stack>>,
}

// SAFETY: the addresses are those of a mapping this value alone owns; nothing of it is tied to the thread that made it.
unsafe impl Send for MappedStack {}
// SAFETY: shared, it only tells its addresses.
unsafe impl Sync for MappedStack {}

impl Drop for MappedStack {
    fn drop(&mut self) {
        if let Some(owner) = &self.owner {
            owner.forget();
        }
        // SAFETY: the mapping was made by `new_stack` and is this value's alone; wasmtime drops a stack when nothing runs on it.
        // A failure leaves address space behind, and there is nobody to tell.
        let _: Result<(), _> = unsafe { munmap(self.guard.cast(), self.length) };
    }
}

// SAFETY: `new_stack` answers a fresh anonymous mapping: zeroed, page-aligned, as large as asked, with an inaccessible page below.
// Outside wasmtime only `give_back_stack` touches it.
unsafe impl StackCreator for Stacks {
    fn new_stack(&self, size: usize, _zeroed: bool) -> wasmtime::Result<Box<dyn StackMemory>> {
        let page = page_size();
        let length = size
            .checked_next_multiple_of(page)
            .and_then(|size| size.checked_add(page))
            .ok_or_else(|| wasmtime::Error::msg("a stack larger than the address space"))?;
        // SAFETY: a new mapping at an address of the kernel's choice disturbs no other.
        let guard = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                length,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        let mut stack = MappedStack {
            guard: guard.cast(),
            length,
            owner: None,
        };
        let usable = guard.wrapping_byte_add(page);
        // SAFETY: both calls cover exactly the part of the new mapping above its guard page.
        unsafe {
            mprotect(usable, length - page, MprotectFlags::READ | MprotectFlags::WRITE)?;
            // One huge page for a few touched ones would be all an idle session costs. A kernel without them refuses.
            let _: Result<(), _> = madvise(usable, length - page, Advice::LinuxNoHugepage);
        }
        let start = guard.addr() + page;
        stack.owner = Stacks::made(start, guard.expose_provenance() + length);
        Ok(Box::new(stack))
    }
}

// SAFETY: the addresses are those of the mapping, which lives as long as the value.
unsafe impl StackMemory for MappedStack {
    fn top(&self) -> *mut u8 {
        self.guard.wrapping_byte_add(self.length)
    }

    fn range(&self) -> Range<usize> {
        self.guard.addr() + page_size()..self.guard.addr() + self.length
    }

    fn guard_range(&self) -> Range<*mut u8> {
        self.guard..self.guard.wrapping_byte_add(page_size())
    }
}

/// Gives the lower pages of a stack back to the kernel, its owner knows.
pub(crate) fn give_back_stack(lower: Range<usize>) {
    let start: *mut c_void = ptr::with_exposed_provenance_mut(lower.start);
    // SAFETY: the range lies in a mapping made by `new_stack` that still exists, because its owner forgets it when it goes; no
    // call is under way on it (`Stack::give_back`), so nothing on it is alive. Pages given back read as zeros.
    let _: Result<(), _> = unsafe { madvise(start, lower.len(), Advice::LinuxDontNeed) };
}

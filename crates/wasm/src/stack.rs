//! The stacks of kept interpreters.
//!
//! A store keeps the stack of its last call for the next one. That is right for a store that lives for one run; a session would
//! keep its deepest recursion resident for as long as it lives. So these stacks are ours: after a cell, all but the top of its
//! stack is given back to the kernel.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sys;

/// Bytes at the top of a stack that stay: a usual cell needs no more.
const KEPT: usize = 64 << 10;

tokio::task_local! {
    /// Whose stack is made, should the call that is polled need one.
    static OWNER: Arc<Stack>;
}

/// Where an interpreter's stack lies; empty until its first call.
#[derive(Debug, Default)]
pub(crate) struct Stack {
    start: AtomicUsize,
    end: AtomicUsize,
}

impl Stack {
    /// Gives back what lies deeper than a usual cell goes. Only while no call of its interpreter is under way.
    pub(crate) fn give_back(&self) {
        let (start, end) = self.place();
        if end - start > KEPT {
            sys::give_back_stack(start..end - KEPT);
        }
    }

    /// Bytes of it that are resident.
    pub(crate) fn resident(&self) -> u64 {
        let (start, end) = self.place();
        let kept = (end - start).min(KEPT);
        sys::pages(end - kept, kept).map_or(kept as u64, |pages| sys::own_bytes(&pages))
    }

    /// The stack is about to go.
    pub(crate) fn forget(&self) {
        self.start.store(0, Ordering::Release);
        self.end.store(0, Ordering::Release);
    }

    fn place(&self) -> (usize, usize) {
        (self.start.load(Ordering::Acquire), self.end.load(Ordering::Acquire))
    }
}

/// Polls a call of the interpreter that owns `stack`, so that a stack made for it is remembered there.
pub(crate) fn remembered<F: Future>(stack: Arc<Stack>, call: F) -> impl Future<Output = F::Output> {
    OWNER.scope(stack, call)
}

/// Makes the stacks of one engine.
#[derive(Debug)]
pub(crate) struct Stacks;

impl Stacks {
    /// Remembers a new stack with the interpreter it was made for; `None` outside of any call.
    pub(crate) fn made(start: usize, end: usize) -> Option<Arc<Stack>> {
        OWNER
            .try_with(|owner| {
                owner.start.store(start, Ordering::Release);
                owner.end.store(end, Ordering::Release);
                Arc::clone(owner)
            })
            .ok()
    }
}

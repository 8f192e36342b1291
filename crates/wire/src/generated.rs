//! The messages of `proto/plimsoll/v1/plimsoll.proto`, generated when the crate is built.
#![allow(
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::large_futures,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "generated code follows its generator's habits"
)]

include!(concat!(env!("OUT_DIR"), "/messages.rs"));

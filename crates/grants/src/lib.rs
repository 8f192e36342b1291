//! Grants: what a run may call, its file, its minters and its call trace.
//!
//! A grant is written as a [`GrantSpec`], by an embedder or through the grants file ([`Profiles`]), and frozen into a
//! [`Grant`] that nothing can widen. A call is compared in one spelling only ([`Target`]) against the grant's [`Route`]s;
//! what was compared is what is sent. The [`CallTrace`] that results holds templates and numbers by its types.
//!
//! Nothing here opens a connection; the only input is the grants file.

pub mod address;
pub mod breaker;
pub mod caps;
pub mod grant;
pub mod mint;
pub mod origin;
pub mod profiles;
pub mod route;
pub mod selected;
pub mod trace;

pub use address::{Cidr, CidrError, DialRefused, check_answers, may_dial};
pub use grant::{AllowedRoute, Grant, GrantError, GrantProblem, GrantSpec};
pub use mint::{Credential, JwtMinter, JwtSettings, MintError, MintFuture, MintScope, Minter, StaticMinter, mint};
pub use origin::{Host, Origin, OriginError};
pub use profiles::{Audience, Profile, ProfileError, Profiles, Retention};
pub use route::{Method, PathProblem, Route, RouteError, Target, TargetError};
pub use selected::SelectedGrant;
pub use trace::{CallObserver, CallRow, CallTrace, MAX_ROWS, Measured, TraceRecorder};

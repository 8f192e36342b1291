//! The table: explored against a shadow of it, then rule by rule.

mod model;
mod rules;

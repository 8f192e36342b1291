//! The numbers of `SPECIFICATION.md`, as programs.
//!
//! Each row of the table "It must reach" is a function of [`rows`] that measures and returns a [`Row`]: the figure, the
//! bar, and whether it holds. Where the bar is a ratio both sides are measured in the same run, alternating, so that a
//! busy machine slows both. [`load`] is the mixed load test; a shorter form of it runs with the tests.

pub mod daemon;
pub mod hostile;
pub mod http;
pub mod load;
pub mod rows;
pub mod stats;

/// The program every figure is about, unless its row says otherwise.
pub const CODE: &str = "console.log(6*7)";

/// One measured promise.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name on the command line.
    pub name: &'static str,
    /// What was measured.
    pub what: &'static str,
    /// The figure, for people.
    pub figure: String,
    /// The bar, for people.
    pub bar: &'static str,
    /// Whether the figure is within the bar.
    pub holds: bool,
    /// Every number behind the figure.
    pub numbers: serde_json::Value,
}

impl Row {
    /// The row as one line of JSON.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "row": self.name,
            "what": self.what,
            "figure": self.figure,
            "bar": self.bar,
            "holds": self.holds,
            "numbers": self.numbers,
        })
    }
}

//! Help and the reference page, both made from the table of variables.

use std::fmt::Write as _;

use plimsoll::variables;
use plimsoll_core::vars::State;

/// Width of help text, in characters.
const WIDTH: usize = 100;

const USAGE: &str = "\
Usage: plimsolld [check | version | help]

Runs untrusted code in sandboxes for the callers it knows, and serves until SIGINT or SIGTERM.

  (no argument)  serve
  check          check the configuration, start nothing; exit code 0 or 1
  version        print the version (also --version)
  help           print this text (also -h, --help)

Settings come from the environment only.
";

const EXIT_CODES: &str = "
Exit codes: 0 stopped by a signal, or check passed; 1 a setting is wrong, a start-up step failed, or
a listener failed while serving; 2 an unknown argument.
";

/// What `-h` prints: usage, then every variable the daemon reads.
pub fn help() -> String {
    let mut out = format!("{USAGE}\n");
    list(&mut out);
    out.push_str(EXIT_CODES);
    out
}

/// Every variable the daemon reads, for a program that is the daemon under another name.
pub fn variables_help() -> String {
    let mut out = String::new();
    list(&mut out);
    out
}

fn list(out: &mut String) {
    out.push_str("Variables:\n");
    for var in variables::all().filter(|var| var.state == State::Built) {
        let default = if var.default.is_empty() { "unset" } else { var.default };
        // Writing to a String cannot fail, here and below.
        let _ = write!(out, "\n  {} ({}; default {default})\n", var.name, var.kind);
        wrap(out, var.help);
    }
    out.push_str("\nNot built yet; setting one stops the start, so that nothing looks applied that is not:\n\n");
    for var in variables::all().filter(|var| var.state != State::Built) {
        let _ = writeln!(out, "  {}", var.name);
    }
}

/// The reference page `docs/variables.md`.
pub fn reference_page() -> String {
    let mut out = String::from(
        "# Variables\n\n\
         Every setting of `plimsolld`. This page is made from the table the daemon parses with; \
         `cargo run -p plimsolld --example variables_page > docs/variables.md` writes it anew.\n\n\
         White space around a value is ignored unless the row says otherwise, and a blank value counts as unset. A \
         value that cannot be read, or a variable whose feature is not built yet, stops the start with a message that \
         names the variable, its value (never that of a credential), the limit and the fix. A name that begins with \
         `PLIMSOLL_` or `SANDBOX_` and is not on this page is logged once as a warning.\n\n\
         | Variable | Value | Default | Effect |\n|---|---|---|---|\n",
    );
    for var in variables::all().filter(|var| var.state == State::Built) {
        let default = if var.default.is_empty() {
            "unset".to_owned()
        } else {
            format!("`{}`", var.default)
        };
        let _ = writeln!(out, "| `{}` | {} | {default} | {} |", var.name, var.kind, var.help);
    }
    out.push_str(
        "\n## Not built yet\n\n\
         Setting one of these to anything but blank stops the start, even to the value that would be its default: a \
         safeguard must never look applied. The value is read all the same, so a malformed one is reported as such.\n\n\
         | Variable | Value | Read by | What it will do |\n|---|---|---|---|\n",
    );
    for var in variables::all().filter(|var| var.state != State::Built) {
        let reader = var.provider.unwrap_or("service");
        let _ = writeln!(out, "| `{}` | {} | {reader} | {} |", var.name, var.kind, var.help);
    }
    out
}

fn wrap(out: &mut String, text: &str) {
    const INDENT: &str = "      ";
    let mut column = WIDTH;
    for word in text.split(' ') {
        if column + 1 + word.chars().count() > WIDTH {
            if !out.ends_with('\n') {
                out.push('\n');
            }
            out.push_str(INDENT);
            column = INDENT.len();
        } else {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += word.chars().count();
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_variable_and_fits_a_terminal() {
        let help = help();
        for var in variables::all() {
            assert!(help.contains(&format!("  {}", var.name)), "{} is missing", var.name);
        }
        for line in help.lines() {
            // A heading holds its variable's bounds and is never broken.
            assert!(line.chars().count() <= WIDTH || line.contains("; default "), "{line}");
            assert_eq!(line.trim_end(), line);
        }
    }

    #[test]
    fn the_provider_line_lists_what_is_built_in() {
        let help = help();
        for entry in plimsoll::registry::PROVIDERS {
            let line = help
                .lines()
                .skip_while(|line| !line.contains("SANDBOX_PROVIDER ("))
                .nth(1)
                .unwrap();
            assert!(line.contains(entry.name), "{line}");
        }
    }
}

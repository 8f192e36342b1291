//! What to do about a program that failed in a way the language has one word for and this sandbox another reason.
//!
//! The program's own output stays as it is; a hint is a line of ours after it.

use plimsoll_core::JavaScriptResult;

/// The line of an error that ended a program, and the hint.
const HINTS: [(&str, &str); 8] = [
    (
        "SyntaxError: Cannot use import statement outside a module",
        "the program is a script, where import statements do not work; write const name = require(\"name\")",
    ),
    (
        "SyntaxError: Unexpected token 'export'",
        "the program is a script, which exports nothing; leave the word export out and print the result",
    ),
    (
        "SyntaxError: Cannot use 'import.meta' outside a module",
        "the program is a script, where there is no import.meta; __filename and __dirname are there",
    ),
    (
        "SyntaxError: Illegal return statement",
        "a program returns nothing outside a function; print the result, and end early with process.exit()",
    ),
    // `const n: number = 1`, then `(n: number) => n`, `x as number` and `enum A {}`.
    ("SyntaxError: Missing initializer in const declaration", TYPESCRIPT),
    ("SyntaxError: Unexpected token ':'", TYPESCRIPT),
    ("SyntaxError: Unexpected identifier 'as'", TYPESCRIPT),
    ("SyntaxError: Unexpected token 'enum'", TYPESCRIPT),
];

/// Other programs end with those errors too, so it says if.
const TYPESCRIPT: &str =
    "if this is TypeScript: a program is JavaScript, where types are no syntax; leave them out, or compile it before";

/// As they stand in the error of a program that looks for the client of a grant it has not got.
const NO_CLIENT: (&str, &str) = (
    "ReferenceError: host is not defined",
    "the run has no grant, so the program has no client to call an API with; give it one with --grant",
);

/// A hint about the result, if there is one. `granted` is whether the run named a grant.
pub(crate) fn hint(result: &JavaScriptResult, granted: bool) -> Option<&'static str> {
    if result.exit_code != 1 || result.timed_out {
        return None;
    }
    let client = (!granted).then_some(&NO_CLIENT);
    let mut lines = result.stderr.split(|byte| *byte == b'\n');
    lines.find_map(|line| {
        let known = HINTS.iter().chain(client);
        known
            .into_iter()
            .find(|(error, _)| error.as_bytes() == line)
            .map(|(_, hint)| *hint)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(stderr: &str) -> JavaScriptResult {
        JavaScriptResult {
            exit_code: 1,
            stderr: stderr.as_bytes().to_vec(),
            ..JavaScriptResult::default()
        }
    }

    #[test]
    fn only_the_whole_line_of_an_error_that_ended_the_program_has_a_hint() {
        let told = failed("main.js:1\nreturn 1\n^\n\nSyntaxError: Illegal return statement\n    at main.js:1:1\n");
        assert!(hint(&told, false).is_some_and(|hint| hint.contains("process.exit()")));
        let typed = failed("main.js:1\nconst n: number = 1\n\nSyntaxError: Missing initializer in const declaration\n");
        assert!(hint(&typed, false).is_some_and(|hint| hint.starts_with("if this is TypeScript")));
        for other in [
            "caught SyntaxError: Illegal return statement\n",
            "SyntaxError: Illegal return statement of mine\n",
            "ReferenceError: ghost is not defined\n",
            "",
        ] {
            assert_eq!(hint(&failed(other), false), None, "{other}");
        }
        let printed = JavaScriptResult { exit_code: 0, ..told };
        assert_eq!(hint(&printed, false), None);
    }

    #[test]
    fn a_missing_client_is_a_missing_grant_where_there_is_none() {
        let told = failed("ReferenceError: host is not defined\n");
        assert!(hint(&told, false).is_some_and(|hint| hint.contains("--grant")));
        // Its grant may call the client something else.
        assert_eq!(hint(&told, true), None);
    }
}

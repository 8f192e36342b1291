//! The OpenAPI reader, JSON and YAML: any bytes are refused with reasons of one line each, or yield artifacts that hold
//! what the generator promises.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_grants::Route;
use plimsoll_specgen::{Artifact, Generated, Options, Prefix, generate};
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    let lenient = Options {
        global: "x\"]\n;".to_owned(),
        skip_unsupported: true,
        prefix: Prefix::Auto,
        ..Options::default()
    };
    let mut strict_count = None;
    for options in [Options::default(), lenient] {
        match generate(bytes, &options) {
            Ok(generated) => {
                check(&generated);
                assert_eq!(
                    generate(bytes, &options).as_ref(),
                    Ok(&generated),
                    "the same bytes give the same"
                );
                // Leaving out what cannot be expressed leaves nothing else out.
                match strict_count {
                    None => strict_count = Some((generated.operations(), generated.skipped().len())),
                    Some(counts) if generated.notes().iter().all(|note| note.contains("no prefix")) => {
                        assert_eq!(counts, (generated.operations(), generated.skipped().len()));
                    }
                    Some(_) => {}
                }
            }
            Err(refused) => {
                assert!(!refused.problems().is_empty(), "a refusal says why");
                for problem in refused.problems() {
                    assert!(one_line(problem), "{problem:?}");
                }
                for skip in refused.skipped() {
                    assert!(one_line(&skip.operation) && one_line(&skip.reason), "{skip:?}");
                }
            }
        }
    }
});

fn one_line(text: &str) -> bool {
    !text.contains(|c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}'))
}

fn check(generated: &Generated) {
    let by_text = |route: &Route| (route.path().to_owned(), route.method().as_str());
    assert!(!generated.allow().is_empty() && generated.allow().is_sorted_by_key(by_text));
    for route in generated.allow() {
        let again = Route::new(route.method().as_str(), route.path());
        assert_eq!(again.as_ref(), Ok(route), "every route can be granted");
    }
    for line in generated.warnings().iter().chain(generated.notes()) {
        assert!(one_line(line), "{line:?}");
    }
    for (batch, served) in generated.batch_of() {
        assert!(!served.is_empty() && served.iter().all(|route| route.is_wildcard() && route != batch));
        assert!(generated.allow().contains(batch) && served.iter().all(|route| generated.allow().contains(route)));
    }
    if let Some(probe) = generated.health_check() {
        assert!(!probe.is_wildcard() && generated.allow().contains(probe));
    }

    let preamble = generated.emit(Artifact::Preamble);
    let lines: Vec<&str> = preamble.lines().collect();
    let calls = generated.operations() - generated.skipped().len();
    assert_eq!(lines.len(), calls + 5, "a line for each operation and five around them");
    assert!(lines.iter().all(|line| one_line(line)), "{preamble}");
    assert!(lines[0].starts_with("// ") && lines[4..lines.len() - 1].iter().all(|line| line.starts_with("  h[\"")));

    let allow: Vec<String> = serde_json::from_str(&generated.emit(Artifact::Allow)).expect("a JSON array");
    assert_eq!(allow.len(), generated.allow().len());
    let everything: Value = serde_json::from_str(&generated.emit(Artifact::Json)).expect("a JSON object");
    assert_eq!(everything["preamble"], preamble);
    let _: Value = serde_json::from_str(&generated.profile("p")).expect("a grants file");
    for text in [Artifact::Allow, Artifact::Batch, Artifact::Json].map(|artifact| generated.emit(artifact)) {
        assert!(
            !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']),
            "safe inside HTML: {text}"
        );
    }
}

//! The page of the worked example shows what the command prints.

use crate::support::specgen;

const PAGE: &str = include_str!("../../../../docs/examples/specgen.md");

/// The first fenced block of a language that starts with a text.
fn block(language: &str, start: &str) -> &'static str {
    let opening = format!("```{language}\n{start}");
    let at = PAGE.find(&opening).unwrap_or_else(|| panic!("no block {opening:?}")) + language.len() + 4;
    let rest = &PAGE[at..];
    &rest[..rest.find("```").expect("the end of the block")]
}

#[test]
fn the_page_shows_the_artifacts_of_its_document() {
    let document = block("yaml", "openapi: 3.1.0");
    for (what, shown) in [
        ("allow", block("json", "[")),
        ("preamble", block("js", "// plimsoll-specgen")),
        ("description", block("text", "Harbour (v2.1).")),
    ] {
        assert_eq!(
            specgen(&["-global", "harbour", "-emit", what], document).stdout,
            shown,
            "{what}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("specgen");
    let ran = specgen(&["-global", "harbour", "-outdir", out.to_str().unwrap()], document);
    let said = ran
        .stderr
        .replace(out.to_str().unwrap(), "specgen")
        .replace("plimsoll-specgen: ", "plimsoll specgen: ");
    assert_eq!(said, block("text", "plimsoll specgen: skipped"));
}

#[test]
fn the_profile_of_the_page_loads_after_its_edit() {
    let document = block("yaml", "openapi: 3.1.0");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("specgen");
    assert_eq!(
        specgen(&["-global", "harbour", "-outdir", out.to_str().unwrap()], document).code,
        0
    );
    // The two substitutions of the page's sed command, with its escapes undone.
    let mut grants = specgen(&["-profile", "harbour"], document).stdout;
    let edits: Vec<&str> = block("sh", "sed -i").split('|').collect();
    for edit in [&edits[1..3], &edits[4..6]] {
        let [from, to] = [edit[0], edit[1]].map(|text| text.replace("\\[\\]", "[]").replace("\\n", "\n"));
        assert!(grants.contains(&from), "{from}");
        grants = grants.replace(&from, &to);
    }
    let path = folder.path().join("grants.json");
    fs_err::write(&path, &grants).unwrap();
    let secret = |name: &str| (name == "HARBOUR_TOKEN").then(|| "not-seen-by-the-guest".to_owned());
    let profiles = plimsoll_grants::Profiles::load(&path, &secret).unwrap();
    let grant = profiles.look_up("harbour", Some("me")).unwrap().grant().clone();
    assert_eq!((grant.allow().len(), grant.global()), (4, "harbour"));
    assert!(grant.preamble().contains("h[\"getBerth\"]"));
}

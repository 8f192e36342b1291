//! What is refused before anything is sent, from the vectors every language's client shares.

use std::time::Duration;

use crate::common::{Server, daemon};
use plimsoll_client::{Client, Code, Error, ErrorKind, ModuleRequest, ProjectRequest, Refusal, SoftwareRule, Tier};
use plimsoll_core::{CellRun, ProjectFile, SoftwareRuleText, validate_cell};
use serde_json::Value;

/// The section of that name, with repetitions written out.
fn vectors(section: &str) -> Vec<Value> {
    let file: Value =
        serde_json::from_str(include_str!("../../../../tests/vectors/validation.json")).expect("valid JSON");
    let section = file[section]
        .as_array()
        .unwrap_or_else(|| panic!("no section {section}"));
    assert!(!section.is_empty());
    section.iter().map(|value| expand(value, None)).collect()
}

fn expand(value: &Value, index: Option<usize>) -> Value {
    match value {
        Value::Object(object) => match (object.get("repeat"), object.get("list_of"), object.get("times")) {
            (Some(Value::String(text)), None, Some(times)) => text.repeat(count(times)).into(),
            (None, Some(item), Some(times)) => (0..count(times)).map(|index| expand(item, Some(index))).collect(),
            _ => object
                .iter()
                .map(|(name, value)| (name.clone(), expand(value, index)))
                .collect(),
        },
        Value::Array(items) => items.iter().map(|item| expand(item, index)).collect(),
        Value::String(text) => match index {
            Some(index) => text.replace("{n}", &index.to_string()).into(),
            None => text.as_str().into(),
        },
        other => other.clone(),
    }
}

fn count(value: &Value) -> usize {
    usize::try_from(value.as_u64().expect("a count")).expect("a small count")
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name]
        .as_str()
        .unwrap_or_else(|| panic!("{name} is no text in {value}"))
}

fn texts(value: &Value) -> Vec<String> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .map(|text| text.as_str().expect("text").to_owned())
        .collect()
}

fn number(value: &Value) -> f64 {
    match value {
        Value::String(word) => word.parse().expect("a number's word"),
        number => number.as_f64().expect("a number"),
    }
}

fn accepted(vector: &Value) -> bool {
    vector["accepted"].as_bool().expect("accepted")
}

fn short(vector: &Value) -> String {
    vector.to_string().chars().take(120).collect()
}

fn files(value: &Value) -> Vec<ProjectFile> {
    let file = |file: &Value| ProjectFile {
        path: text(file, "path").into(),
        content: text(file, "content").into(),
    };
    value.as_array().into_iter().flatten().map(file).collect()
}

fn refused_here(error: &Error, vector: &Value) {
    assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{}: {error}", short(vector));
    assert_eq!(error.code(), Code::InvalidArgument, "{}", short(vector));
    assert_eq!(error.not_dispatched(), Some(Refusal::Request), "{}", short(vector));
    assert_eq!(error.http_status(), None, "{}", short(vector));
}

/// Sends one payload vector through the typed calls.
async fn send(client: &Client, vector: &Value) -> Result<(), Error> {
    if let Some(run) = vector.get("javascript") {
        return client
            .run_javascript(text(run, "code"))
            .any_tier()
            .send()
            .await
            .map(drop);
    }
    if let Some(run) = vector.get("project") {
        let mut project = ProjectRequest::new();
        for file in files(&run["files"]) {
            project = project.file(file.path, file.content);
        }
        for step in texts(&run["steps"]) {
            project = project.step(step);
        }
        for artifact in texts(&run["artifacts"]) {
            project = project.artifact(artifact);
        }
        return client.run_project(project).any_tier().send().await.map(drop);
    }
    if let Some(run) = vector.get("module") {
        let rows = run["rows"].as_array().expect("rows");
        let row = |row: &Value| row.as_array().expect("a row").iter().map(number).collect();
        let module = ModuleRequest {
            model: text(run, "model").to_owned(),
            rows: rows.iter().map(row).collect(),
            end_time: number(&run["end_time"]),
            step: number(&run["step"]),
        };
        return client.run_module(module).any_tier().send().await.map(drop);
    }
    let run = &vector["cell"];
    let cell = CellRun {
        language: text(run, "language").to_owned(),
        code: text(run, "code").to_owned(),
        files: files(&run["files"]),
    };
    Ok(validate_cell(&cell)?)
}

#[tokio::test]
async fn payloads_within_the_limits_are_sent_and_no_other() {
    let server = daemon(|_| ()).await;
    let client = server.client();
    let mut sent = 0;
    for vector in vectors("requests") {
        let outcome = send(&client, &vector).await;
        match (&outcome, accepted(&vector)) {
            (Ok(()), true) => sent += usize::from(vector.get("cell").is_none()),
            (Err(error), false) => refused_here(error, &vector),
            _ => panic!("{}: {outcome:?}", short(&vector)),
        }
        assert_eq!(server.connections(), sent, "{}", short(&vector));
    }
    assert!(sent > 20);
}

#[tokio::test]
async fn options_of_a_run_within_their_rules_are_sent_and_no_other() {
    let server = daemon(|_| ()).await;
    let client = server.client();
    let check = |outcome: Result<_, Error>, vector: &Value| match (outcome, accepted(vector)) {
        (Ok(_), true) => {}
        (Err(error), false) => refused_here(&error, vector),
        (outcome, _) => panic!(
            "{}: {:?}",
            short(vector),
            outcome.map(|_: plimsoll_client::JavaScriptResult| ())
        ),
    };
    for vector in vectors("trace_ids") {
        check(
            client
                .run_javascript("1")
                .any_tier()
                .trace_id(text(&vector, "trace_id"))
                .send()
                .await,
            &vector,
        );
    }
    for vector in vectors("grant_profiles") {
        check(
            client
                .run_javascript("1")
                .any_tier()
                .grant_profile(text(&vector, "profile"))
                .send()
                .await,
            &vector,
        );
    }
    for vector in vectors("floors") {
        assert_eq!(
            text(&vector, "floor").parse::<Tier>().is_ok(),
            accepted(&vector),
            "{vector}"
        );
    }
    assert_eq!(server.connections(), 4 + 3);
}

#[test]
fn software_rules_have_a_form_and_an_id() {
    for vector in vectors("software_rules") {
        let identities = texts(&vector["identities"]);
        let rule = SoftwareRule::parse(Some(&SoftwareRuleText {
            mode: text(&vector, "mode").to_owned(),
            identities,
        }));
        match (&rule, accepted(&vector)) {
            (Ok(rule), true) => {
                if let Some(id) = vector["rule_id"].as_str() {
                    assert_eq!(plimsoll_record::rule_id(rule), id);
                }
            }
            (Err(refusal), false) => refused_here(&Error::from(refusal.clone()), &vector),
            _ => panic!("{}: {rule:?}", short(&vector)),
        }
    }
    for vector in vectors("rule_merges") {
        let rule = |side: &Value| match side {
            Value::Null => SoftwareRule::NONE,
            list => SoftwareRule::approved(texts(list)).expect("a rule"),
        };
        let merged = rule(&vector["first"]).merge(&rule(&vector["second"]));
        match (&merged, &vector["merged"]) {
            (Err(refusal), Value::Null) => refused_here(&Error::from(refusal.clone()), &vector),
            (Ok(rule), expected) => {
                let rule = rule.to_text().expect("a rule");
                assert_eq!(
                    (rule.mode.as_str(), rule.identities),
                    (text(expected, "mode"), texts(&expected["identities"]))
                );
            }
            _ => panic!("{vector}: {merged:?}"),
        }
    }
}

#[tokio::test]
async fn time_limits_travel_in_whole_milliseconds() {
    let server = daemon(|_| ()).await;
    let client = server.client();
    let mut sent = Vec::new();
    for vector in vectors("timeouts") {
        // A `Duration` cannot say the values that other languages refuse or clamp: below 0, infinite, not a number.
        let Ok(timeout) = Duration::try_from_secs_f64(number(&vector["seconds"])) else {
            let seconds = number(&vector["seconds"]);
            assert!(seconds < 0.0 || !seconds.is_finite(), "{vector}");
            continue;
        };
        client
            .run_javascript("1")
            .any_tier()
            .timeout(timeout)
            .send()
            .await
            .unwrap();
        sent.push(vector["ms"].as_i64().unwrap());
    }
    let received: Vec<i64> = server
        .received()
        .iter()
        .map(|request| request.run().timeout_ms.into())
        .collect();
    assert_eq!(received, sent);
    assert!(sent.len() >= 7);
}

#[test]
fn base_urls_are_accepted_or_refused_as_listed() {
    for vector in vectors("base_urls") {
        let url = text(&vector, "url");
        let outcome = Client::builder(url).build();
        if let Some(stored) = vector["stored"].as_str() {
            let client = outcome.unwrap();
            assert_eq!(client.base_url(), stored);
            assert!(format!("{client:?}").contains(stored));
            continue;
        }
        let error = outcome.expect_err(url);
        assert_eq!(
            format!("{:?}", error.kind()),
            text(&vector, "error"),
            "{url:?}: {error}"
        );
        assert_eq!(
            (error.code(), error.not_dispatched()),
            (Code::InvalidArgument, None),
            "{url:?}"
        );
        let with_consent = Client::builder(url).insecure_http(true).build();
        assert_eq!(with_consent.is_ok(), error.kind() == ErrorKind::InsecureHttp, "{url:?}");
    }
}

#[test]
fn a_token_that_cannot_stand_in_a_header_is_refused_and_never_shown() {
    for vector in vectors("tokens") {
        let token = text(&vector, "token");
        let outcome = Client::builder("https://plimsoll.example").token(token).build();
        match (&outcome, accepted(&vector)) {
            (Ok(client), true) => assert!(token.is_empty() || !format!("{client:?}").contains(token)),
            (Err(error), false) => {
                assert_eq!(error.kind(), ErrorKind::InvalidOption);
                assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
            }
            _ => panic!("{vector}: {outcome:?}"),
        }
    }
    let builder = Client::builder("https://user:hunter2@plimsoll.example").token("secret");
    assert!(!format!("{builder:?}").contains("secret"));
    let error = builder.build().unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hunter2"));
}

#[test]
fn request_timeouts_lie_above_zero_and_within_32_bits_of_milliseconds() {
    for vector in vectors("request_timeouts") {
        let timeout = match Duration::try_from_secs_f64(number(&vector["seconds"])) {
            Ok(timeout) => timeout,
            // What a `Duration` cannot say cannot be passed; its largest value stands for the infinite ones.
            Err(_) if accepted(&vector) => panic!("{vector} has no Duration"),
            Err(_) => Duration::MAX,
        };
        let outcome = Client::builder("https://plimsoll.example")
            .request_timeout(timeout)
            .build();
        assert_eq!(outcome.is_ok(), accepted(&vector), "{vector}");
        if let Err(error) = outcome {
            assert_eq!(error.kind(), ErrorKind::InvalidOption);
        }
    }
}

#[tokio::test]
async fn nothing_is_sent_while_building() {
    let server = Server::raw(|_| async {}).await;
    drop(server.client());
    assert!(
        Client::builder("https://plimsoll.example")
            .token("bad\n")
            .build()
            .is_err()
    );
    assert_eq!(server.connections(), 0);
}

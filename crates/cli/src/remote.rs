//! A daemon's sandbox, through the client that checks every answer.

use std::time::Duration;

use plimsoll_client::{
    Client, Error, ErrorKind, Evidence, ProjectRequest, Refusal as Mark, RunCall, RunResultKind, TakesGrant,
};
use plimsoll_core::vars::Lookup;
use plimsoll_core::{
    Code, JavaScriptResult, Payload, PayloadEnvironment, PayloadKind, ProjectResult, ProjectRun, Reason, Refusal,
    RunRequest, RunResult, Tier,
};
use plimsoll_record::Answer;
use plimsoll_wire::pb;

use crate::args::TargetArgs;
use crate::failure::Failure;

mod trust;

/// Where the token of a daemon comes from. Never an argument: every user of a host can read the arguments of a process.
const TOKEN: &str = "PLIMSOLL_TOKEN";

/// How long a line about a run that has ended waits for what the daemon states about itself.
const PATIENCE: Duration = Duration::from_secs(2);

/// Runs a prepared request on a daemon.
pub(crate) async fn run(
    url: &str,
    target: &TargetArgs,
    request: RunRequest,
    lookup: &dyn Lookup,
) -> Result<Answer, Failure> {
    let client = client(url, target, lookup)?;
    let conditions = Conditions {
        floor: request.minimum_isolation.parse().ok(),
        timeout: Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0)),
    };
    let ran = match request.payload {
        Some(Payload::JavaScript(program)) => {
            let call = client.run_javascript(program.code);
            conditions.send(call, program.grant_profile).await.map(|checked| {
                let result = RunResult::JavaScript(JavaScriptResult {
                    stdout: checked.stdout,
                    stderr: checked.stderr,
                    exit_code: checked.exit_code,
                    timed_out: checked.timed_out,
                    stdout_truncated: checked.stdout_truncated,
                    stderr_truncated: checked.stderr_truncated,
                    advice: checked.advice,
                });
                answer(checked.evidence, result)
            })
        }
        Some(Payload::Project(project)) => {
            let (project, profile) = sent(project);
            let call = client.run_project(project);
            conditions.send(call, profile).await.map(|checked| {
                let result = RunResult::Project(ProjectResult {
                    steps: checked.steps,
                    outcome: checked.outcome,
                    outcome_detail: checked.detail,
                    artifacts: checked.artifacts,
                    artifacts_truncated: checked.artifacts_truncated,
                    advice: checked.advice,
                });
                answer(checked.evidence, result)
            })
        }
        Some(Payload::Module(_) | Payload::Cell(_)) | None => {
            return Err(Failure::usage("only programs and projects can be run"));
        }
    };
    ran.map_err(|error| failure(&error, url, lookup))
}

/// What a run asks for beside its code.
#[derive(Clone, Copy)]
struct Conditions {
    floor: Option<Tier>,
    timeout: Duration,
}

impl Conditions {
    async fn send<R: RunResultKind + TakesGrant>(
        self,
        call: RunCall<'_, R>,
        grant_profile: String,
    ) -> Result<R, Error> {
        let call = call.grant_profile(grant_profile).timeout(self.timeout);
        match self.floor {
            Some(floor) => call.floor(floor).send().await,
            None => call.any_tier().send().await,
        }
    }
}

/// A project as the client takes it, and the grant profile it names.
fn sent(project: ProjectRun) -> (ProjectRequest, String) {
    let mut request = ProjectRequest::new();
    for file in project.files {
        request = request.file(file.path, file.content);
    }
    for step in project.steps {
        request = request.step(step);
    }
    for artifact in project.artifacts {
        request = request.artifact(artifact);
    }
    (request, project.grant_profile)
}

/// The longest a payload of this kind may run on a daemon; 0 when it does not say so in time, because a run is not worth less
/// for it.
pub(crate) async fn max_timeout_ms(
    url: &str,
    target: &TargetArgs,
    kind: Option<PayloadKind>,
    lookup: &dyn Lookup,
) -> u32 {
    let asked = tokio::time::timeout(PATIENCE, describe(url, target, lookup)).await;
    let stated = asked.ok().and_then(Result::ok);
    let environment = stated.as_ref().and_then(|stated| match kind {
        Some(PayloadKind::Project) => stated.project_environment.as_option(),
        _ => stated.javascript_environment.as_option(),
    });
    environment.map_or(0, |environment| environment.max_timeout_ms)
}

/// What a daemon states about itself, also when it speaks another protocol number.
pub(crate) async fn describe(
    url: &str,
    target: &TargetArgs,
    lookup: &dyn Lookup,
) -> Result<pb::DescribeResponse, Failure> {
    let info = client(url, target, lookup)?
        .describe_unchecked()
        .await
        .map_err(|error| failure(&error, url, lookup))?;
    Ok(pb::DescribeResponse {
        sandbox: info.provider,
        isolation: info.isolation,
        protocol: info.protocol,
        supports_project: info.supports_project,
        supports_module: info.supports_module,
        supports_javascript_grants: info.supports_javascript_grants,
        supports_project_grants: info.supports_project_grants,
        supports_sessions: info.supports_sessions,
        session_lifetime_ms: info.session_lifetime_ms,
        session_idle_timeout_ms: info.session_idle_timeout_ms,
        session_environment: environment(info.session_environment).into(),
        javascript_environment: environment(info.javascript_environment).into(),
        project_environment: environment(info.project_environment).into(),
        module_environment: environment(info.module_environment).into(),
        max_sessions_per_caller: info.max_sessions_per_caller,
        max_sessions_per_owner: info.max_sessions_per_owner,
        policy: info.policy,
        resources: Some(pb::RunResources {
            memory_mb: info.resources.memory_mb,
            cpus: info.resources.cpus,
            pids: info.resources.pids,
            disk_mb: info.resources.disk_mb,
            ..pb::RunResources::default()
        })
        .into(),
        ..pb::DescribeResponse::default()
    })
}

/// An all-zero environment is an absent one.
fn environment(stated: PayloadEnvironment) -> Option<pb::PayloadEnvironment> {
    (stated != PayloadEnvironment::default()).then(|| pb::PayloadEnvironment {
        identity: stated.identity,
        max_timeout_ms: stated.max_timeout_ms,
        software_identity: stated.software_identity,
        languages: stated.languages,
        ..pb::PayloadEnvironment::default()
    })
}

pub(crate) fn client(url: &str, target: &TargetArgs, lookup: &dyn Lookup) -> Result<Client, Failure> {
    let mut builder = Client::builder(url).insecure_http(target.insecure_http);
    if let Some(file) = &target.ca {
        if !is_https(url) {
            return Err(Failure::usage(
                "--ca is about the certificate of an https:// daemon, and --daemon is not one; leave it out, or use https://",
            ));
        }
        builder = builder.tls(trust::only(file)?);
    }
    if let Some(token) = lookup.get(TOKEN) {
        let token = token
            .to_str()
            .ok_or_else(|| Failure::no_program(format!("{TOKEN} is not UTF-8 text")))?;
        builder = builder.token(token);
    }
    builder.build().map_err(|error| match error.kind() {
        ErrorKind::InvalidBaseUrl => Failure::usage(error.message()),
        ErrorKind::InsecureHttp => Failure::usage(
            "--daemon is http:// to a host that is not this one, so anyone on the way could read the token and the \
             program; use https://, or allow it with --insecure-http",
        ),
        _ => Failure::no_program(error.message()),
    })
}

/// Whether anything ran is the client's word, never guessed from a code.
pub(crate) fn failure(error: &Error, url: &str, lookup: &dyn Lookup) -> Failure {
    let failure = marked(error);
    match error.kind() {
        _ if error.code() == Code::Unauthenticated && !error.answer_not_bound() => {
            failure.in_words(if lookup.get(TOKEN).is_some_and(|token| !token.is_empty()) {
                "the daemon does not know the token in PLIMSOLL_TOKEN; set it to one the daemon knows"
            } else {
                "the daemon wants a token, and PLIMSOLL_TOKEN is not set; set it to one the daemon knows"
            })
        }
        ErrorKind::Transport if error.message().starts_with("cannot connect") => {
            failure.with_advice("check --daemon, and that a daemon listens there")
        }
        ErrorKind::Transport if error.message().contains("UnknownIssuer") => {
            failure.with_advice("if its certificate is of an authority of your own, name that with --ca")
        }
        ErrorKind::Transport if error.message().contains("CaUsedAsEndEntity") => failure.with_advice(
            "its certificate is that of an authority; the daemon needs one that is not (basicConstraints CA:FALSE)",
        ),
        ErrorKind::Transport if error.message().contains("invalid HTTP version") => {
            failure.with_advice("what answers speaks no HTTP; is it meant to be reached with https?")
        }
        ErrorKind::AnswerNotBound | ErrorKind::MalformedResponse => {
            failure.with_advice("check that --daemon is the address of a plimsoll daemon")
        }
        ErrorKind::Unsupported if has_path(url) => failure.with_advice("check the path in --daemon"),
        ErrorKind::Unsupported if error.not_dispatched() == Some(Mark::Unsupported) => {
            failure.with_advice("`plimsoll describe --daemon` shows what it runs")
        }
        _ => failure,
    }
}

fn is_https(url: &str) -> bool {
    url.split_once("://")
        .is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("https"))
}

fn has_path(url: &str) -> bool {
    let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
    after_scheme.trim_end_matches('/').contains('/')
}

fn marked(error: &Error) -> Failure {
    let reason = match error.not_dispatched() {
        None => return Failure::may_have_run(error.code(), error.message()),
        Some(Mark::Request) => Reason::Request,
        Some(Mark::Permission) => Reason::Permission,
        Some(Mark::Protocol) => Reason::Protocol,
        Some(Mark::Unsupported) => Reason::Unsupported,
        Some(Mark::Isolation) => Reason::Isolation,
        Some(Mark::Capacity) => Reason::Capacity,
        Some(Mark::Environment) => Reason::Environment,
        Some(_) => return Failure::marked_unknown(error.code(), error.message()),
    };
    Refusal::new(error.code(), reason, error.message()).into()
}

/// The answer as it came, put together again from its checked parts.
fn answer(evidence: Evidence, result: RunResult) -> Answer {
    Answer {
        sandbox: evidence.provider,
        isolation: evidence.isolation,
        duration_ms: evidence.duration_ms,
        record: evidence.record,
        software_identity: evidence.software_identity,
        environment: evidence.environment,
        instance: evidence.instance,
        diagnostics: evidence.diagnostics,
        result: Some(result),
    }
}

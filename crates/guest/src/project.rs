//! Projects: files, steps one after another, artifacts.

use std::time::Instant;

use plimsoll_guest_messages::limits::{
    ARTIFACTS_CAP, PROJECT_OUTPUT_CAP, REPORT_CAP, REPORTED_COMMAND_CAP, STEP_STREAM_CAP, WORK_DIR,
};
use plimsoll_guest_messages::{
    ArtifactContent, Captured, GuestMessage, LimitFacts, ProjectPlan, Report, StepReport, Variable,
};
use rustix::fs::Mode;
use rustix::io::Errno;

use crate::beneath::{Root, replace};
use crate::child::{Alone, Child, Ended, Start, deadline};
use crate::environment::Environment;
use crate::facts::CallFacts;
use crate::hub::{Hub, Stop};
use crate::sys::Launch;

/// Where the grant's client is written for the steps' `node` processes.
const HOST_SDK: &str = "/tmp/plimsoll-host.mjs";

/// The folder of the grant's Python client, and the client in it. A folder of its own: whatever lies beside a module on
/// `PYTHONPATH` can be imported too.
const HOST_PYTHON: &str = "/tmp/plimsoll-python";
const HOST_MODULE: &str = "/tmp/plimsoll-python/plimsoll_host.py";

/// Exit code of a step whose time was up.
const TIMED_OUT: i32 = 124;

/// Exit code of a step whose shell could not be started.
const NOT_STARTED: i32 = 127;

/// Runs a project and queues its report.
pub(crate) fn run(hub: &mut Hub, image: &[Variable], plan: &ProjectPlan) -> Result<(), Stop> {
    hub.begin_call()?;
    let mut facts = CallFacts::begin();
    let mut report = Report::default();
    match prepare(hub, image, plan)? {
        Ok((root, environment)) => {
            steps(hub, plan, &environment, &mut report, &mut facts)?;
            if hub.has_its_limits() {
                artifacts(hub, &root, plan, &mut report)?;
            } else {
                report.error =
                    "the runner's own resource limits were changed by a step, or by an earlier call of the session"
                        .into();
            }
        }
        Err(error) => report.error = error,
    }
    report.limits = facts.read();
    hub.end_call();
    let body = encode(report)?;
    hub.send_encoded(GuestMessage::REPORT, &body)
}

/// Everything before the first step. The inner error is what the caller reads.
fn prepare(hub: &mut Hub, image: &[Variable], plan: &ProjectPlan) -> Result<Result<(Root, Environment), String>, Stop> {
    let root = match sound(plan).and_then(|()| opened()) {
        Ok(root) => root,
        Err(error) => return Ok(Err(error)),
    };
    for file in &plan.files {
        hub.alive()?;
        if let Err(error) = root.write(&file.path, file.content.as_bytes()) {
            return Ok(Err(format!(
                "file {:?} cannot be written: {}",
                file.path,
                reason(error)
            )));
        }
    }
    Ok(environment(image, plan).map(|environment| (root, environment)))
}

fn sound(plan: &ProjectPlan) -> Result<(), String> {
    for variable in &plan.env {
        if !variable.is_sound() {
            return Err("env has an entry without a name, or with NUL".into());
        }
    }
    if let Some(step) = plan.steps.iter().position(|step| step.contains('\0')) {
        return Err(format!("step {} contains NUL", step + 1));
    }
    Ok(())
}

fn opened() -> Result<Root, String> {
    Root::open(WORK_DIR).map_err(|error| format!("{WORK_DIR} cannot be opened: {error}"))
}

fn environment(image: &[Variable], plan: &ProjectPlan) -> Result<Environment, String> {
    let mut environment = Environment::of_image(image);
    environment.set("PLIMSOLL_RUNNER_PID", "1");
    environment.overlay(&plan.env);
    if let Some(client) = &plan.host_sdk {
        replace(HOST_SDK, client.as_bytes()).map_err(|error| format!("{HOST_SDK} cannot be written: {error}"))?;
        environment.append("NODE_OPTIONS", ' ', &format!("--import=file://{HOST_SDK}"));
    }
    if let Some(client) = &plan.host_python {
        place_module(client).map_err(|error| format!("{HOST_MODULE} cannot be written: {error}"))?;
        environment.append("PYTHONPATH", ':', HOST_PYTHON);
    }
    Ok(environment)
}

fn place_module(client: &str) -> rustix::io::Result<()> {
    match rustix::fs::mkdir(HOST_PYTHON, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error),
    }
    replace(HOST_MODULE, client.as_bytes())
}

fn reason(error: Errno) -> String {
    match error {
        Errno::INVAL => "it must be a plain path to a regular file below the working directory".into(),
        Errno::LOOP | Errno::XDEV => "a link leads out of the working directory".into(),
        other => other.to_string(),
    }
}

fn steps(
    hub: &mut Hub,
    plan: &ProjectPlan,
    environment: &Environment,
    report: &mut Report,
    facts: &mut CallFacts,
) -> Result<(), Stop> {
    let deadline = deadline(Instant::now(), plan.step_timeout_ms);
    let mut room = PROJECT_OUTPUT_CAP;
    for command in &plan.steps {
        report.steps_begun += 1;
        let mut step = step(hub, command, environment, deadline, report.steps_begun == 1)?;
        facts.absorb(&step.limits);
        cut(&mut step.stdout, &mut room);
        cut(&mut step.stderr, &mut room);
        let stop = step.timed_out || step.exit_code != 0;
        report.steps.push(step);
        if stop {
            break;
        }
    }
    Ok(())
}

fn step(
    hub: &mut Hub,
    command: &str,
    environment: &Environment,
    deadline: Instant,
    first: bool,
) -> Result<StepReport, Stop> {
    let began = Instant::now();
    let mut facts = CallFacts::begin();
    let started = Child::start(Start {
        launch: Launch {
            program: "/bin/sh",
            name: "sh",
            arguments: &["-c", command],
            environment: environment.as_slice(),
            directory: Some(WORK_DIR),
            stdin: None,
            extra: &[],
            unseen: hub.is_alone(),
            to_be_stopped: false,
        },
        cap: STEP_STREAM_CAP,
        kill_at_cap: true,
    });
    if first {
        hub.send(&GuestMessage::Started)?;
    }
    let mut report = StepReport {
        command: command[..command.floor_char_boundary(REPORTED_COMMAND_CAP)].to_owned(),
        stdout: Captured::default(),
        stderr: Captured::default(),
        exit_code: NOT_STARTED,
        timed_out: false,
        duration_ms: 0,
        signal: 0,
        limits: LimitFacts::default(),
    };
    match started {
        Ok(mut shell) => {
            let Ended { end, timed_out, at } = shell.finish(hub, &mut Alone, deadline, &mut facts)?;
            report.stdout = shell.stdout.take();
            report.stderr = shell.stderr.take();
            report.exit_code = if timed_out { TIMED_OUT } else { end.shell_code() };
            report.timed_out = timed_out;
            report.signal = end.signal();
            report.duration_ms = u64::try_from((at - began).as_millis()).unwrap_or(u64::MAX);
        }
        Err(error) => {
            report.stderr.bytes = format!("sh: {error}\n").into_bytes();
            report.stderr.produced = report.stderr.bytes.len() as u64;
        }
    }
    report.limits = facts.read();
    Ok(report)
}

/// Keeps what the run's output cap has room for. `produced` stays, so a cut shows.
fn cut(stream: &mut Captured, room: &mut usize) {
    stream.bytes.truncate(*room);
    *room -= stream.bytes.len();
}

fn artifacts(hub: &mut Hub, root: &Root, plan: &ProjectPlan, report: &mut Report) -> Result<(), Stop> {
    let mut room = ARTIFACTS_CAP;
    for path in &plan.artifacts {
        hub.alive()?;
        match root.read(path, room) {
            Ok(Some(content)) => {
                room -= content.len();
                report.artifacts.push(ArtifactContent {
                    path: path.clone(),
                    content,
                });
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::NXIO | Errno::NAMETOOLONG) => {}
            // Too much, or an error that is not the file's: what follows is not tried, and the report says so.
            Ok(None) | Err(_) => {
                report.artifacts_truncated = true;
                break;
            }
        }
    }
    Ok(())
}

/// The report's body, within its cap.
fn encode(report: Report) -> Result<Vec<u8>, Stop> {
    let mut message = GuestMessage::Report(report);
    loop {
        let body = message.encode().map_err(|error| Stop::fault("report", error))?;
        if body.len() <= REPORT_CAP {
            return Ok(body);
        }
        let GuestMessage::Report(report) = &mut message else {
            return Ok(body);
        };
        if report.artifacts.pop().is_some() {
            report.artifacts_truncated = true;
        } else {
            *report = Report {
                error: "the report is too long".into(),
                steps_begun: report.steps_begun,
                ..Report::default()
            };
        }
    }
}

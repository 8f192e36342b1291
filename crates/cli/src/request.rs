//! What was typed, as a request: a file or standard input is a program, a folder with steps is a project.

use std::io::Read as _;
use std::path::Path;

use plimsoll_core::limits::MAX_CODE_BYTES;
use plimsoll_core::{JavaScriptRun, Payload, ProjectRun, RunRequest, Validated};

use crate::args::RunArgs;
use crate::artifacts::Out;
use crate::failure::Failure;
use crate::folder;
use crate::words::visible;

/// A request, and what to tell about how it was made.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) request: RunRequest,
    pub(crate) notes: Vec<String>,
}

/// Reads what is to run. A project is checked here already: preparing a sandbox for it takes long enough to be told before.
///
/// # Errors
/// A command line that asks for both or neither, what cannot be read, or a project that breaks a rule.
pub(crate) fn prepare(args: &RunArgs) -> Result<Prepared, Failure> {
    let mut notes = Vec::new();
    let is_project = !args.project.steps.is_empty();
    let payload = if is_project {
        let (project, left_out) = project(args)?;
        if !left_out.is_empty() {
            notes.push(format!(
                "plimsoll: left out of the project: {}",
                visible(&left_out.join(", "))
            ));
        }
        Payload::Project(project)
    } else {
        Payload::JavaScript(program(args)?)
    };
    let mut request = RunRequest::new(payload);
    request.minimum_isolation = args.floor.map(|floor| floor.as_str().to_owned()).unwrap_or_default();
    request.timeout_ms = args.timeout.map_or(0, |timeout| timeout.ms);
    if is_project {
        Validated::new(request.clone())?;
        if let Some(out) = out(args) {
            out.check(&args.project.artifacts)?;
        }
    }
    Ok(Prepared { request, notes })
}

/// Where artifacts go.
pub(crate) fn out(args: &RunArgs) -> Option<Out<'_>> {
    args.project.out.as_deref().map(|folder| Out {
        folder,
        force: args.project.force,
    })
}

fn project(args: &RunArgs) -> Result<(ProjectRun, Vec<String>), Failure> {
    if args.file == Path::new("-") || args.file.is_file() {
        return Err(Failure::usage(format!(
            "--step runs in the files of a folder, and {} is none; name the folder, or leave --step out to run a program",
            named(&args.file)
        )));
    }
    if !args.project.artifacts.is_empty() && args.project.out.is_none() && !args.json {
        return Err(Failure::usage(
            "--artifact needs a place: add --out DIR, or --json to have the files in the answer",
        ));
    }
    let found = folder::read(&args.file, args.project.out.as_deref())?;
    let project = ProjectRun {
        files: found.files,
        steps: args.project.steps.clone(),
        artifacts: args.project.artifacts.clone(),
        grant_profile: args.grant.profile.clone().unwrap_or_default(),
    };
    Ok((project, found.left_out))
}

fn program(args: &RunArgs) -> Result<JavaScriptRun, Failure> {
    if args.file.is_dir() {
        return Err(Failure::usage(format!(
            "{} is a folder; add --step COMMAND to run it as a project, or name a file",
            named(&args.file)
        )));
    }
    Ok(JavaScriptRun {
        code: read_program(&args.file)?,
        grant_profile: args.grant.profile.clone().unwrap_or_default(),
    })
}

fn named(file: &Path) -> String {
    if file == Path::new("-") {
        "standard input".to_owned()
    } else {
        file.display().to_string()
    }
}

/// The program's text: never more than one byte past what a run takes, whatever the file is.
fn read_program(file: &Path) -> Result<String, Failure> {
    let name = named(file);
    let limit = u64::try_from(MAX_CODE_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    if file == Path::new("-") {
        let read = std::io::stdin().lock().take(limit).read_to_end(&mut bytes);
        read.map_err(|error| Failure::no_program(format!("cannot read {name}: {error}")))?;
    } else {
        // These errors name the file.
        let read = fs_err::File::open(file).and_then(|opened| opened.take(limit).read_to_end(&mut bytes));
        read.map_err(|error| Failure::no_program(error.to_string()))?;
    }
    if bytes.len() > MAX_CODE_BYTES {
        return Err(Failure::no_program(format!(
            "{name} is over {MAX_CODE_BYTES} bytes, the most a program may have"
        )));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::no_program(format!("{name} is not UTF-8 text (byte {at}); save it as UTF-8"))
    })
}

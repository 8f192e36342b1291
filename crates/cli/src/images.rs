//! `plimsoll images`: the images that the docker provider runs code in, built on this host without a registry.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use plimsoll_core::vars::Lookup;
use plimsoll_docker::endpoint::ClientConfig;
use plimsoll_images::{BuildOptions, Built, DeriveOptions, Engine, ImagesError, SHIPPED, Shipped, Store, TAG, Tag};

use crate::streams;

const BUILD_EXAMPLES: &str = "\
Packages come from Debian, npm and PyPI through apt-get, npm and pip of this host, with its mirrors and proxies; every one is
checked against a lock file. No container registry is asked, and two builds of the same packages give the same digest.

Exit status: 0 when everything was built and loaded, 1 when it was not, 2 when the command line is wrong.

Examples:
  plimsoll images build
  plimsoll images build sandbox --no-load --out sandbox.tar
  plimsoll images build --apt-sources mirror.sources";

const LIST_EXAMPLES: &str = "\
Examples:
  plimsoll images list
  plimsoll images list --json";

const VERIFY_EXAMPLES: &str = "\
The files of built images are hashed again, the engine is asked which image it has under each name, and the lock files are
compared with what Debian offers now. A version that Debian has superseded is shown; it is a failure with --locked only.

Exit status: 0 when all is in order, 1 when something is not, 2 when the command line is wrong.

Examples:
  plimsoll images verify
  plimsoll images verify --locked";

const DERIVE_EXAMPLES: &str = "\
A run never installs anything: what it needs is part of its image. npm packages go to /node_modules, where Node finds them
from every folder; Python packages go beside those of the image. No script of a package is run. Credentials of private
registries are those of npm and pip on this host, and never reach the image.

Exit status: 0 when the image was built and loaded, 1 when it was not, 2 when the command line is wrong.

Examples:
  plimsoll images derive --tag acme/sandbox:zod --npm zod@4.1.5
  plimsoll images derive --tag acme/sandbox --npm-lock package-lock.json
  plimsoll images derive --tag acme/py --from plimsoll/sandbox-python --pip pydantic==2.11.7";

/// The commands of `images`.
#[derive(Debug, Subcommand)]
pub enum ImagesCommand {
    /// Build images and load them into the engine.
    #[command(after_help = BUILD_EXAMPLES)]
    Build(BuildArgs),
    /// Show which images were built here.
    #[command(after_help = LIST_EXAMPLES)]
    List(ListArgs),
    /// Check that built images are in order, and their packages current.
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(VerifyArgs),
    /// Put packages of your own on a built image.
    #[command(after_help = DERIVE_EXAMPLES)]
    Derive(DeriveArgs),
}

/// Options of `images build`.
#[derive(Args, Debug)]
pub struct BuildArgs {
    /// Which images; without a name, all of them. What an image stands on is built too.
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// The static guest binary; without it, plimsoll-guest beside this program, or the one that tools/guest-binary.sh built
    /// in this program's build folder.
    #[arg(long, value_name = "FILE")]
    pub guest_binary: Option<PathBuf>,
    /// A file of Debian package sources to use instead of this host's, named *.sources or *.list.
    #[arg(long, value_name = "FILE")]
    pub apt_sources: Option<PathBuf>,
    /// Use the packages of the lock files, all of them fetched before, and ask nobody.
    #[arg(long, conflicts_with = "apt_sources")]
    pub offline: bool,
    /// Where the image goes.
    #[command(flatten)]
    pub target: ImageTarget,
}

/// Where an image goes.
#[derive(Args, Debug)]
pub struct ImageTarget {
    /// Write the image's archive to this file: engines load it, and it is an OCI layout. For one image.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Leave the engine alone.
    #[arg(long)]
    pub no_load: bool,
    /// Where packages and built images are kept.
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Where packages and built images are kept.
#[derive(Args, Debug)]
pub struct StoreArgs {
    /// Where packages and built images are kept; without it, plimsoll/images in the user's cache folder.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Options of `images list`.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Where to look.
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Options of `images verify`.
#[derive(Args, Debug)]
pub struct VerifyArgs {
    /// Fail when Debian has superseded a version of a lock file.
    #[arg(long)]
    pub locked: bool,
    /// A file of Debian package sources to use instead of this host's, named *.sources or *.list.
    #[arg(long, value_name = "FILE")]
    pub apt_sources: Option<PathBuf>,
    /// Where to look.
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Options of `images derive`.
#[derive(Args, Debug)]
pub struct DeriveArgs {
    /// What the new image is called.
    #[arg(long, value_name = "NAME", value_parser = Tag::parse)]
    pub tag: Tag,
    /// The built image to put them on.
    #[arg(long, value_name = "NAME", default_value = "plimsoll/sandbox", value_parser = Tag::parse)]
    pub from: Tag,
    /// npm packages, each with a version or a range.
    #[arg(long, value_name = "PACKAGE", num_args = 1..)]
    pub npm: Vec<String>,
    /// A package-lock.json to take npm packages from; development packages are left out.
    #[arg(long, value_name = "FILE")]
    pub npm_lock: Option<PathBuf>,
    /// Python packages, each with a version or a range.
    #[arg(long, value_name = "PACKAGE", num_args = 1..)]
    pub pip: Vec<String>,
    /// Where the image goes.
    #[command(flatten)]
    pub target: ImageTarget,
}

/// Runs one of the commands.
pub(crate) fn images(command: &ImagesCommand, lookup: &dyn Lookup) -> ExitCode {
    let done = match command {
        ImagesCommand::Build(args) => build(args, lookup),
        ImagesCommand::List(args) => list(args, lookup),
        ImagesCommand::Verify(args) => verify(args, lookup),
        ImagesCommand::Derive(args) => derive(args, lookup),
    };
    match done {
        Ok(Done { text, in_order }) => {
            let printed = crate::print(text.as_bytes());
            if in_order { printed } else { ExitCode::FAILURE }
        }
        Err(error) => {
            streams::say(&format!("plimsoll images: {error}"));
            match error {
                ImagesError::Request(_) => ExitCode::from(crate::failure::USAGE),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

/// What a command prints, and whether what it says is good.
struct Done {
    text: String,
    in_order: bool,
}

impl From<String> for Done {
    fn from(text: String) -> Self {
        Self { text, in_order: true }
    }
}

fn build(args: &BuildArgs, lookup: &dyn Lookup) -> Result<Done, ImagesError> {
    let wanted = match args.names.as_slice() {
        [] => SHIPPED.iter().collect::<Vec<_>>(),
        names => names
            .iter()
            .map(|name| Shipped::named(name))
            .collect::<Result<_, _>>()?,
    };
    if args.target.out.is_some() && wanted.len() != 1 {
        return Err(ImagesError::Request(
            "--out is for one image: name it, e.g. `plimsoll images build sandbox`".to_owned(),
        ));
    }
    let guest_binary = match &args.guest_binary {
        Some(path) => path.clone(),
        None => near_this_program()?,
    };
    let store = store(&args.target.store, lookup)?;
    let options = BuildOptions {
        guest_binary: &guest_binary,
        apt_sources: args.apt_sources.as_deref(),
        offline: args.offline,
        progress: &|line| streams::say(&format!("  {line}")),
    };
    let engine = engine_for(&args.target, lookup)?;
    let mut text = String::new();
    for outcome in plimsoll_images::build(&store, &wanted, options)? {
        for change in &outcome.lock_changes {
            streams::say(&format!("  lock change: {change}"));
        }
        let name = outcome.built.tag.strip_suffix(&format!(":{TAG}"));
        let asked_for = wanted.iter().any(|image| Some(image.name) == name);
        let out = args.target.out.as_ref().filter(|_| asked_for);
        let engine = engine.as_ref().filter(|_| asked_for);
        text.push_str(&deliver(&store, &outcome.built, out, engine)?);
    }
    Ok(text.into())
}

fn derive(args: &DeriveArgs, lookup: &dyn Lookup) -> Result<Done, ImagesError> {
    let store = store(&args.target.store, lookup)?;
    let engine = engine_for(&args.target, lookup)?;
    let built = plimsoll_images::derive(
        &store,
        DeriveOptions {
            from: &args.from,
            tag: &args.tag,
            npm: &args.npm,
            npm_lock: args.npm_lock.as_deref(),
            pip: &args.pip,
            progress: &|line| streams::say(&format!("  {line}")),
        },
    )?;
    deliver(&store, &built, args.target.out.as_ref(), engine.as_ref()).map(Done::from)
}

/// Writes the file, loads the image, and says what it is now.
fn deliver(
    store: &Store,
    built: &Built,
    out: Option<&PathBuf>,
    engine: Option<&Engine>,
) -> Result<String, ImagesError> {
    if let Some(path) = out {
        streams::say(&format!("  writing {}", path.display()));
        let (mut archive, _) = built.archive(store)?;
        let mut file = fs_err::File::create(path)?;
        std::io::copy(&mut archive, &mut file)?;
    }
    if let Some(engine) = engine {
        streams::say(&format!("  loading {} into the engine", built.tag));
        wait(async { engine.load(store, built).await })?;
    }
    Ok(line(built))
}

fn list(args: &ListArgs, lookup: &dyn Lookup) -> Result<Done, ImagesError> {
    let all = store(&args.store, lookup)?.all_built()?;
    if args.json {
        let images: Vec<_> = all
            .iter()
            .map(|built| {
                serde_json::json!({
                    "tag": built.tag, "id": built.id.digest(), "manifest": built.manifest.digest(), "bytes": built.size(),
                    "layers": built.layers.iter().map(|layer| serde_json::json!({
                        "title": layer.title, "digest": layer.hash.digest(), "bytes": layer.size,
                    })).collect::<Vec<_>>(),
                })
            })
            .collect();
        return Ok(format!("{:#}\n", serde_json::Value::from(images)).into());
    }
    if all.is_empty() {
        return Ok("no image was built here; `plimsoll images build` builds them\n"
            .to_owned()
            .into());
    }
    Ok(all.iter().map(line).collect::<String>().into())
}

fn verify(args: &VerifyArgs, lookup: &dyn Lookup) -> Result<Done, ImagesError> {
    let store = store(&args.store, lookup)?;
    let (mut text, mut in_order) = (String::new(), true);
    let built = store.all_built()?;
    for image in &built {
        let wrong = plimsoll_images::verify(&store, image)?;
        in_order &= wrong.is_empty();
        match wrong.is_empty() {
            true => text.push_str(&format!("{}: in order{}\n", image.tag, loaded(image, lookup))),
            false => wrong.iter().for_each(|one| text.push_str(&format!("{one}\n"))),
        }
    }
    if built.is_empty() {
        text.push_str("no image was built here\n");
    }
    let all: Vec<&Shipped> = SHIPPED.iter().collect();
    let progress = |line: &str| streams::say(&format!("  {line}"));
    let changes = plimsoll_images::superseded(&store, &all, args.apt_sources.as_deref(), &progress)?;
    in_order &= changes.is_empty() || !args.locked;
    for change in &changes {
        text.push_str(&format!("lock change: {change}\n"));
    }
    if changes.is_empty() {
        text.push_str("lock files: Debian offers every version they name\n");
    }
    Ok(Done { text, in_order })
}

/// What the engine has under the image's name. An engine that is not there is no fault of the image.
fn loaded(built: &Built, lookup: &dyn Lookup) -> &'static str {
    let asked = engine(lookup).and_then(|engine| wait(async { engine.image_id(&built.tag).await }));
    match asked {
        Err(_) => ", no engine to ask",
        Ok(None) => ", not loaded",
        Ok(Some(id)) if id == built.id.digest() || id == built.manifest.digest() => ", loaded",
        Ok(Some(_)) => ", another image is loaded under this name",
    }
}

fn line(built: &Built) -> String {
    const MB: u64 = 1_000_000;
    format!(
        "{}  {}  {} MB\n",
        built.tag,
        built.id.digest(),
        built.size().div_ceil(MB)
    )
}

fn store(args: &StoreArgs, lookup: &dyn Lookup) -> Result<Store, ImagesError> {
    let folder = |name: &str| lookup.get(name).map(Path::new).filter(|path| path.is_absolute());
    let root = args
        .dir
        .clone()
        .or_else(|| Some(folder("XDG_CACHE_HOME")?.join("plimsoll/images")))
        .or_else(|| Some(folder("HOME")?.join(".cache/plimsoll/images")))
        .ok_or_else(|| {
            ImagesError::Request("neither XDG_CACHE_HOME nor HOME names a folder: give one with --dir".to_owned())
        })?;
    Store::open(root)
}

/// The engine to load into, found before the long work.
fn engine_for(target: &ImageTarget, lookup: &dyn Lookup) -> Result<Option<Engine>, ImagesError> {
    (!target.no_load).then(|| engine(lookup)).transpose()
}

fn engine(lookup: &dyn Lookup) -> Result<Engine, ImagesError> {
    let unusable = |problem: String| ImagesError::Engine {
        endpoint: "the docker client's configuration".to_owned(),
        problem,
    };
    let client = ClientConfig::read(lookup).map_err(|error| unusable(error.to_string()))?;
    let endpoint = client.resolve().map_err(|error| unusable(error.to_string()))?;
    Ok(Engine::at(endpoint.path()))
}

fn near_this_program() -> Result<PathBuf, ImagesError> {
    let program = std::env::current_exe()?;
    let path = plimsoll_images::guest_binary_near(program.parent().unwrap_or(Path::new("/")))?;
    streams::say(&format!("  guest binary {}", path.display()));
    Ok(path)
}

/// Reading the archive takes a thread beside the one that talks.
fn wait<T>(work: impl Future<Output = Result<T, ImagesError>>) -> Result<T, ImagesError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    runtime.block_on(work)
}

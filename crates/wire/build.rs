//! Compiles the schema with `protox` (so nobody needs `protoc`), hands the descriptor set to the code generator, and
//! writes the field table that the strict JSON scanner reads. Nothing generated is committed.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use protox::prost_reflect::{Cardinality, DescriptorPool, FieldDescriptor, Kind};

const SCHEMA: &str = "plimsoll/v1/plimsoll.proto";
const PACKAGE: &str = "plimsoll.v1.";

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo tells a build script where it may write through the environment and in no other way.
    #[expect(
        clippy::disallowed_methods,
        reason = "Cargo states OUT_DIR only as an environment variable"
    )]
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    // Asked at run time: a build folder shared by two clones also shares the compiled script.
    #[expect(
        clippy::disallowed_methods,
        reason = "Cargo states CARGO_MANIFEST_DIR only as an environment variable"
    )]
    let manifest_dir = std::env::var("CARGO_MANIFEST_DIR")?;
    let root = Path::new(&manifest_dir).join("../../proto");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={}", root.join(SCHEMA).display());
    // Read by the code generator.
    println!("cargo:rerun-if-env-changed=BUFFA_ELEMENT_MEMORY_LIMIT");

    let set = out.join("plimsoll.binpb");
    let mut compiler = protox::Compiler::new([&root])?;
    compiler
        .include_source_info(true)
        .include_imports(true)
        .open_file(SCHEMA)?;
    write(&set, &compiler.encode_file_descriptor_set())?;
    connectrpc_build::Config::new()
        // It would name the descriptor set, which this script writes: every build would find it newer than the last run
        // and compile this crate and all above it again. Our own directives name what it is made of.
        .emit_rerun_directives(false)
        .descriptor_set(&set)
        .files(&[SCHEMA])
        .include_file("messages.rs")
        .compile()?;
    write(
        &out.join("fields.rs"),
        field_table(&compiler.descriptor_pool())?.as_bytes(),
    )?;
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "a build script has no fs_err, and the path is in OUT_DIR"
)]
fn write(path: &Path, content: &[u8]) -> Result<(), Box<dyn Error>> {
    std::fs::write(path, content).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(())
}

/// One `Message` constant per message and the table of all of them, for `src/json/schema.rs`.
fn field_table(pool: &DescriptorPool) -> Result<String, Box<dyn Error>> {
    let messages: Vec<_> = pool.all_messages().collect();
    let index_of = |name: &str| {
        messages
            .iter()
            .position(|message| message.full_name() == name)
            .ok_or_else(|| format!("{name} is not in the set"))
    };
    let mut text = String::new();
    for (index, message) in messages.iter().enumerate() {
        let name = message.name();
        writeln!(text, "/// `plimsoll.v1.{name}`.")?;
        writeln!(
            text,
            "pub const {}: MessageId = MessageId({index});",
            constant_name(name)
        )?;
    }
    writeln!(text, "static MESSAGES: [Message; {}] = [", messages.len())?;
    for message in &messages {
        let short = message
            .full_name()
            .strip_prefix(PACKAGE)
            .ok_or("a message outside the package")?;
        writeln!(text, "    Message {{ name: {short:?}, fields: &[")?;
        for field in message.fields() {
            let kind = kind(&field, &index_of)?;
            let oneof = field
                .containing_oneof()
                .map_or(0, |oneof| 1_u64 << oneof_index(&field, oneof.name()));
            writeln!(
                text,
                "        Field {{ name: {:?}, json: {:?}, kind: {kind}, repeated: {}, oneof: {oneof} }},",
                field.name(),
                field.json_name(),
                field.cardinality() == Cardinality::Repeated,
            )?;
        }
        writeln!(text, "    ] }},")?;
    }
    writeln!(text, "];")?;
    Ok(text)
}

fn oneof_index(field: &FieldDescriptor, name: &str) -> usize {
    field
        .parent_message()
        .oneofs()
        .position(|oneof| oneof.name() == name)
        .unwrap_or_default()
}

fn kind(field: &FieldDescriptor, index_of: &dyn Fn(&str) -> Result<usize, String>) -> Result<String, Box<dyn Error>> {
    Ok(match field.kind() {
        Kind::String => "Kind::Text".to_owned(),
        Kind::Bytes => "Kind::Bytes".to_owned(),
        Kind::Bool => "Kind::Bool".to_owned(),
        Kind::Int32 => "Kind::Int32".to_owned(),
        Kind::Uint32 => "Kind::Uint32".to_owned(),
        Kind::Int64 => "Kind::Int64".to_owned(),
        Kind::Uint64 => "Kind::Uint64".to_owned(),
        Kind::Double => "Kind::Double".to_owned(),
        Kind::Enum(_) => "Kind::Enum".to_owned(),
        Kind::Message(message) => format!("Kind::Message(MessageId({}))", index_of(message.full_name())?),
        other => return Err(format!("{}: the scanner knows no {other:?} fields", field.full_name()).into()),
    })
}

fn constant_name(message: &str) -> String {
    let mut name = String::new();
    for (index, character) in message.chars().enumerate() {
        if index > 0 && character.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(character.to_ascii_uppercase());
    }
    name
}

//! A strict applier of unified diffs (format: `guest/quickjs/README.md`). It changes text only where the hunk's old lines
//! stand byte for byte, and only if there is no doubt where that is, so a patch either does what its author saw or fails the
//! build.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

/// Reads every `*.patch` of a folder in name order. A missing folder holds none.
pub(crate) fn read_folder(folder: &Path) -> Result<Vec<Patch>> {
    let mut paths: Vec<PathBuf> = Vec::new();
    if folder.is_dir() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "patch") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Patch::parse(name, &text).with_context(|| format!("in {}", path.display()))
        })
        .collect()
}

/// Applies `patches` to `files` (path → text). Every patched file must be among them.
pub(crate) fn apply(patches: &[Patch], files: &mut BTreeMap<String, String>) -> Result<()> {
    for patch in patches {
        for change in &patch.changes {
            let text = files
                .get_mut(&change.file)
                .with_context(|| format!("{}: the image does not use {}", patch.name, change.file))?;
            let mut shift = 0;
            for (number, hunk) in change.hunks.iter().enumerate() {
                let places: Vec<Place> = hunk.places(text).collect();
                let expected = hunk.line + shift;
                let place = match places.as_slice() {
                    [only] => *only,
                    [] => bail!("{}: hunk {} ({}) does not match", patch.name, number + 1, change.file),
                    many => *many.iter().find(|place| place.line == expected).with_context(|| {
                        format!(
                            "{}: hunk {} ({}) matches more than once",
                            patch.name,
                            number + 1,
                            change.file
                        )
                    })?,
                };
                shift = place.line - hunk.line;
                text.replace_range(place.at..place.at + hunk.old.len(), &hunk.new);
            }
        }
    }
    Ok(())
}

/// One patch file.
#[derive(Debug)]
pub(crate) struct Patch {
    name: String,
    changes: Vec<FileChange>,
}

#[derive(Debug)]
struct FileChange {
    file: String,
    hunks: Vec<Hunk>,
}

#[derive(Debug, Default)]
struct Hunk {
    /// The line of the patched file that the header names.
    line: i64,
    old: String,
    new: String,
}

/// Where a hunk's old lines occur: byte offset and line number.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: usize,
    line: i64,
}

impl Hunk {
    fn places<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Place> + 'a {
        let mut counted = 0;
        let mut line = 1;
        text.match_indices(self.old.as_str())
            .map(|(at, _)| at)
            .filter(|&at| starts_line(text, at))
            .map(move |at| {
                line += text.as_bytes()[counted..at]
                    .iter()
                    .filter(|&&byte| byte == b'\n')
                    .map(|_| 1)
                    .sum::<i64>();
                counted = at;
                Place { at, line }
            })
    }
}

fn starts_line(text: &str, at: usize) -> bool {
    at == 0 || text.as_bytes()[at - 1] == b'\n'
}

impl Patch {
    fn parse(name: String, text: &str) -> Result<Self> {
        let mut changes: Vec<FileChange> = Vec::new();
        let mut lines = text.split_inclusive('\n').peekable();
        while let Some(line) = lines.next() {
            if line.starts_with("--- ") && lines.peek().is_some_and(|next| next.starts_with("+++ ")) {
                let name = lines.next().unwrap_or_default()[4..]
                    .split(['\t', '\n'])
                    .next()
                    .unwrap_or_default();
                let file = name.strip_prefix("b/").unwrap_or(name).to_owned();
                changes.push(FileChange {
                    file,
                    hunks: Vec::new(),
                });
            } else if let Some(counts) = line.strip_prefix("@@ ") {
                let change = changes.last_mut().context("a hunk before the first file name")?;
                let (mut old_left, line, mut new_left) = hunk_header(counts)?;
                let mut hunk = Hunk {
                    line,
                    ..Hunk::default()
                };
                while old_left > 0 || new_left > 0 {
                    let body = lines
                        .next()
                        .with_context(|| format!("{}: a hunk ends early", change.file))?;
                    let (mark, rest) = body.split_at(1);
                    match mark {
                        " " | "\n" => {
                            // Some editors strip the blank of an empty context line.
                            let rest = if mark == "\n" { "\n" } else { rest };
                            hunk.old.push_str(rest);
                            hunk.new.push_str(rest);
                            old_left -= 1;
                            new_left -= 1;
                        }
                        "-" => {
                            hunk.old.push_str(rest);
                            old_left -= 1;
                        }
                        "+" => {
                            hunk.new.push_str(rest);
                            new_left -= 1;
                        }
                        _ => bail!("{}: a hunk line starts with {mark:?}", change.file),
                    }
                }
                ensure!(
                    !hunk.old.is_empty(),
                    "{}: a hunk without context has no place",
                    change.file
                );
                change.hunks.push(hunk);
            }
        }
        ensure!(
            changes.iter().any(|change| !change.hunks.is_empty()),
            "the patch changes nothing"
        );
        Ok(Self { name, changes })
    }
}

/// `-12,3 +14,4 @@ …` → (3, 14, 4). Signed, so that a line too many ends below zero and not in a panic.
fn hunk_header(header: &str) -> Result<(i64, i64, i64)> {
    let mut fields = header.split(' ');
    let mut range = |sign: char| -> Result<(i64, i64)> {
        let field = fields
            .next()
            .unwrap_or_default()
            .strip_prefix(sign)
            .context("a hunk header is malformed")?;
        let (line, count) = field.split_once(',').unwrap_or((field, "1"));
        Ok((
            line.parse().context("a hunk header is malformed")?,
            count.parse().context("a hunk header is malformed")?,
        ))
    };
    let ((_, old), (line, new)) = (range('-')?, range('+')?);
    Ok((old, line, new))
}

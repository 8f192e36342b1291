//! The import through which a guest works on its files.
//!
//! A file may be as large as the guest's memory. What copies one of that size does so piece by piece and hands the thread back in
//! between, as the guest's own code does, so that no other run waits for it.

use std::sync::Arc;

use wasmtime::{Caller, Linker, Memory};

use crate::files::{Content, Errno, Gone, Stat, Tree};
use crate::guest::{Guest, MODULE, Stop};
use crate::host_call::slice;

/// Bytes copied in one go: a tenth of a millisecond.
const PIECE: usize = 1 << 20;

/// Marks a folder's size.
const FOLDER: i64 = 1 << 52;

/// A stretch of a guest's memory: where it starts, and its length.
type Part = (u32, u32);

/// What a guest hands over: operation, path, data, and where an answer may be written.
type Arguments = (i32, u32, u32, u32, u32, u32, u32);

/// Defines the import. Its answer is a size or 0, or a negative error number.
pub(crate) fn define(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        MODULE,
        "files",
        |mut caller: Caller<'_, Guest>, (operation, path, path_length, data, length, out, capacity): Arguments| {
            Box::new(async move {
                // A run without files asks once whether it has any.
                if caller.data().files.is_none() {
                    return Ok(Errno::NoTree.answer());
                }
                caller.data().check()?;
                let parts = [(path, path_length), (data, length), (out, capacity)];
                let answer = operate(&mut caller, operation, parts).await?;
                let guest = caller.data_mut();
                guest.growth_refused |= answer == Err(Errno::NoSpace);
                guest.entry_refused |= answer == Err(Errno::TooMany);
                Ok(answer.unwrap_or_else(Errno::answer))
            })
        },
    )?;
    Ok(())
}

/// The outer error ends the run.
async fn operate(
    caller: &mut Caller<'_, Guest>,
    operation: i32,
    [path, data, out]: [Part; 3],
) -> Result<Result<i64, Errno>, Stop> {
    let memory = caller.data().memory.ok_or(Stop::Contract)?;
    let path = match text(caller, memory, path)? {
        Ok(path) => path,
        Err(error) => return Ok(Err(error)),
    };
    let path = path.as_str();
    let limit = caller.data().memory_limit.saturating_sub(memory.data_size(&*caller));
    Ok(match operation {
        0 => {
            let content = on(caller, |tree| tree.read(path))?;
            match content {
                Ok(content) => Ok(hand_over(caller, memory, &content, out).await?),
                Err(error) => Err(error),
            }
        }
        1 => write(caller, memory, path, data, limit).await?,
        2 => append(caller, memory, path, data, limit).await?,
        3 => on(caller, |tree| tree.make_folder(path, limit))?.map(|()| 0),
        4 => match on(caller, |tree| tree.list(path))? {
            Ok(names) => Ok(hand_over(caller, memory, &Arc::new(names), out).await?),
            Err(error) => Err(error),
        },
        5 => on(caller, |tree| tree.stat(path))?.map(|stat| match stat {
            Stat::File(length) => size(length),
            Stat::Folder => FOLDER,
        }),
        6 | 10 => match text(caller, memory, data)? {
            Ok(to) if operation == 6 => let_go(on(caller, |tree| tree.rename(path, &to, limit))?),
            Ok(to) => let_go(on(caller, |tree| tree.copy(path, &to, limit))?),
            Err(error) => Err(error),
        },
        7 => let_go(on(caller, |tree| tree.remove_file(path))?),
        8 => let_go(on(caller, |tree| tree.remove_folder(path))?),
        9 => let_go(on(caller, |tree| tree.remove_all(path))?),
        _ => return Err(Stop::Contract),
    })
}

/// A path the guest wrote.
fn text(caller: &Caller<'_, Guest>, memory: Memory, (at, length): Part) -> Result<Result<String, Errno>, Stop> {
    let bytes = slice(memory.data(caller), at, length).ok_or(Stop::Contract)?;
    Ok(std::str::from_utf8(bytes)
        .map(str::to_owned)
        .map_err(|_| Errno::Invalid))
}

/// Works on the tree, which is nobody else's for that long.
fn on<T>(caller: &Caller<'_, Guest>, work: impl FnOnce(&mut Tree) -> T) -> Result<T, Stop> {
    let files = caller.data().files.as_ref().ok_or(Stop::Contract)?;
    Ok(work(&mut files.lock()))
}

fn let_go(gone: Result<Gone, Errno>) -> Result<i64, Errno> {
    gone.map(|gone| {
        gone.away();
        0
    })
}

fn size(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(FOLDER - 1)
}

/// Writes what was read to a stretch of the guest's memory, if it fits, and answers its size.
async fn hand_over(caller: &mut Caller<'_, Guest>, memory: Memory, content: &Content, out: Part) -> Result<i64, Stop> {
    if content.len() <= out.1 as usize {
        let mut at = out.0 as usize;
        for (number, piece) in content.chunks(PIECE).enumerate() {
            pause(caller, number).await?;
            let target = memory
                .data_mut(&mut *caller)
                .get_mut(at..at.saturating_add(piece.len()));
            target.ok_or(Stop::Contract)?.copy_from_slice(piece);
            at += piece.len();
        }
    }
    Ok(size(content.len()))
}

/// The old content goes first, as node truncates a file before it writes: both at once would be more than was counted. A run that
/// is over half-way leaves what it had written by then.
async fn write(
    caller: &Caller<'_, Guest>,
    memory: Memory,
    path: &str,
    data: Part,
    limit: usize,
) -> Result<Result<i64, Errno>, Stop> {
    let length = stretch(caller, memory, data)?.len();
    let emptied = on(caller, |tree| {
        tree.room(path, length, false, limit)?;
        tree.write(path, Arc::new(Vec::with_capacity(length)), limit)
    })?;
    match emptied {
        Ok(old) => old.gone().await,
        Err(error) => return Ok(Err(error)),
    }
    extend(caller, memory, path, data).await
}

async fn append(
    caller: &Caller<'_, Guest>,
    memory: Memory,
    path: &str,
    data: Part,
    limit: usize,
) -> Result<Result<i64, Errno>, Stop> {
    let length = stretch(caller, memory, data)?.len();
    let checked = on(caller, |tree| {
        tree.room(path, length, true, limit)?;
        Ok(match tree.read(path) {
            // A content that copies share has to be copied before it can grow.
            Ok(content) => Some(content).filter(|content| Arc::strong_count(content) > 2),
            Err(_) => {
                tree.write(path, Content::default(), limit)?.away();
                None
            }
        })
    })?;
    match checked {
        Ok(Some(shared)) => {
            let mut content = Vec::with_capacity(shared.len() + length);
            for (number, piece) in shared.chunks(PIECE).enumerate() {
                pause(caller, number).await?;
                content.extend_from_slice(piece);
            }
            drop(shared);
            if let Err(error) = let_go(on(caller, |tree| tree.write(path, Arc::new(content), limit))?) {
                return Ok(Err(error));
            }
        }
        Ok(None) => {}
        Err(error) => return Ok(Err(error)),
    }
    extend(caller, memory, path, data).await
}

/// Adds a stretch of the guest's memory to the end of a file for which there is room.
async fn extend(
    caller: &Caller<'_, Guest>,
    memory: Memory,
    path: &str,
    data: Part,
) -> Result<Result<i64, Errno>, Stop> {
    let all = stretch(caller, memory, data)?;
    for (number, piece) in all.chunks(PIECE).enumerate() {
        pause(caller, number).await?;
        if let Err(error) = on(caller, |tree| tree.extend(path, piece))? {
            return Ok(Err(error));
        }
    }
    Ok(Ok(0))
}

fn stretch<'a>(caller: &'a Caller<'_, Guest>, memory: Memory, (at, length): Part) -> Result<&'a [u8], Stop> {
    slice(memory.data(caller), at, length).ok_or(Stop::Contract)
}

/// Before every piece but the first: other tasks run, and the run may be over.
async fn pause(caller: &Caller<'_, Guest>, number: usize) -> Result<(), Stop> {
    if number > 0 {
        tokio::task::yield_now().await;
        caller.data().check()?;
    }
    Ok(())
}

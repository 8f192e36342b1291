//! Completion scripts and manual pages, generated from the same tree the parser uses.

use clap_complete::Shell;

use crate::failure::Failure;

/// A completion script.
pub(crate) fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut crate::tree(), "plimsoll", &mut script);
    script
}

/// The manual page of a command, or of plimsoll itself.
pub(crate) fn manual(command: Option<&str>) -> Result<Vec<u8>, Failure> {
    let mut tree = crate::tree();
    tree.build();
    let page = match command {
        None => tree,
        Some(name) => tree.find_subcommand(name).cloned().ok_or_else(|| {
            let known: Vec<&str> = tree.get_subcommands().map(clap::Command::get_name).collect();
            Failure::usage(format!(
                "there is no command {name}; the commands are {}",
                known.join(", ")
            ))
        })?,
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page)
        .render(&mut text)
        .map_err(|error| Failure::not_ready(&error))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_gets_a_script_that_knows_every_command() {
        for shell in [Shell::Bash, Shell::Elvish, Shell::Fish, Shell::PowerShell, Shell::Zsh] {
            let script = String::from_utf8(completions(shell)).unwrap();
            for command in crate::tree().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
        }
    }

    #[test]
    fn every_command_has_a_manual_page_and_others_have_none() {
        for command in crate::tree().get_subcommands() {
            let page = String::from_utf8(manual(Some(command.get_name())).unwrap()).unwrap();
            assert!(page.contains(".SH NAME") && page.contains(command.get_name()), "{page}");
        }
        assert!(String::from_utf8(manual(None).unwrap()).unwrap().contains("Examples"));
        manual(Some("nosuch")).unwrap_err();
    }
}

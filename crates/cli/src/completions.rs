//! `floatgate completions SHELL`.

use crate::common::Outcome;
use crate::output;
use clap::CommandFactory;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  floatgate completions bash > ~/.local/share/bash-completion/completions/floatgate
  floatgate completions zsh > ~/.zfunc/_floatgate
  floatgate completions fish > ~/.config/fish/completions/floatgate.fish")]
pub(crate) struct Args {
    /// Shell to write the completions for
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut command = crate::Cli::command();
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "floatgate", &mut text);
    output::print(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}

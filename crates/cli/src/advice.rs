//! A test that the options and commands of advice exist on the command line.

use floatgate_mtd::advice::{Command, CommandOption};

fn has(command: &clap::Command, option: &str) -> bool {
    let is_it = |arg: &clap::Arg| {
        let long = arg.get_long().map(|long| format!("--{long}"));
        let short = arg.get_short().map(|short| format!("-{short}"));
        [long, short].iter().flatten().any(|name| name == option)
    };
    command.get_arguments().any(is_it) || command.get_subcommands().any(|inner| has(inner, option))
}

#[test]
fn options_and_commands_of_advice_exist() {
    let mut floatgate = crate::command();
    floatgate.build();
    for option in CommandOption::ALL {
        assert!(has(&floatgate, &option.to_string()), "no command has {option}");
    }
    for command in Command::ALL {
        let found = command.name().split(' ').try_fold(&floatgate, |outer, name| outer.find_subcommand(name));
        assert!(found.is_some(), "there is no `floatgate {}`", command.name());
    }
}

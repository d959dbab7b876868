//! Writes the man pages of `hoistway` and its verbs: `cargo run -p hoistway-cli --example man -- DIR`.

use clap_mangen::Man;
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs, io};

fn main() -> ExitCode {
    let Some(folder) = env::args_os().nth(1) else {
        eprintln!("error: which folder? cargo run -p hoistway-cli --example man -- DIR");
        return ExitCode::from(2);
    };
    match write(Path::new(&folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}: {error}", Path::new(&folder).display());
            ExitCode::from(3)
        }
    }
}

fn write(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (name, page) in pages()? {
        fs::write(folder.join(name), page)?;
    }
    Ok(())
}

/// Names and texts of all pages: `hoistway.1`, `hoistway-compare.1`, ...
pub fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut command = whole(hoistway_cli::command()).disable_help_subcommand(true);
    let version = command.get_version().unwrap_or_default().to_string();
    command.build();
    let mut pages = Vec::new();
    add(&command, &format!("hoistway {version}"), &mut pages)?;
    Ok(pages)
}

/// clap_mangen leaves out the text of options that `-h` does not show.
fn whole(command: clap::Command) -> clap::Command {
    command.mut_args(|arg| arg.hide_short_help(false)).mut_subcommands(whole)
}

fn add(
    command: &clap::Command,
    source: &str,
    pages: &mut Vec<(String, Vec<u8>)>,
) -> io::Result<()> {
    let man = Man::new(command.clone()).manual("User commands").source(source);
    let mut page = Vec::new();
    man.render(&mut page)?;
    pages.push((man.get_filename(), page));
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        add(below, source, pages)?;
    }
    Ok(())
}

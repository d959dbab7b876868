//! Options of the server.

use super::spec::{ServeOptions, export_help};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args as ClapArgs, Command, FromArgMatches};
use hoistway_serve::front::FRONTS;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// `hoistway serve`.
#[derive(Debug, ClapArgs)]
pub struct Serve {
    #[arg(long, short, value_name = "EXPORT", help = export_help())]
    pub export: Vec<String>,
    /// Unix socket to listen on. Not needed where systemd or libnbd passes a socket
    #[arg(long, short = 'U', value_name = "PATH")]
    pub socket: Vec<PathBuf>,
    /// TCP port to listen on, for this machine only
    #[arg(long, short, value_name = "PORT")]
    pub port: Vec<u16>,
    #[command(flatten)]
    pub options: ServeOptions,
    /// Options of the front-ends this program was built with.
    #[command(flatten)]
    pub fronts: FrontArgs,
    /// Refuse writes to all exports
    #[arg(long, short_alias = 'r')]
    pub read_only: bool,
    /// TOML file with the same options
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Start the server, run this shell command with $uri, $unixsocket and $fuse set, then stop
    #[arg(long, value_name = "COMMAND")]
    pub run: Option<String>,
    /// Print only warnings and errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// Options of front-ends, by name; the value of a switch is empty.
#[derive(Clone, Debug, Default)]
pub struct FrontArgs {
    /// Those that were given.
    pub given: BTreeMap<String, String>,
}

impl ClapArgs for FrontArgs {
    fn augment_args(command: Command) -> Command {
        let options = FRONTS.iter().flat_map(|front| front.options);
        options.fold(command, |command, option| {
            let arg = Arg::new(option.name).long(option.name).help(option.help);
            command.arg(match option.value {
                "" => arg.action(ArgAction::SetTrue),
                value => arg.action(ArgAction::Set).value_name(value),
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        FrontArgs::augment_args(command)
    }
}

impl FromArgMatches for FrontArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<FrontArgs, clap::Error> {
        let mut args = FrontArgs::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for option in FRONTS.iter().flat_map(|front| front.options) {
            if matches.value_source(option.name) == Some(ValueSource::CommandLine) {
                let value = match option.value {
                    "" => String::new(),
                    _ => matches.get_one::<String>(option.name).cloned().unwrap_or_default(),
                };
                self.given.insert(option.name.into(), value);
            }
        }
        Ok(())
    }
}

//! Where the values of configuration files come from, for errors that quote them.

use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::error::Error;

/// The values of options in configuration files, with their lines.
#[derive(Default)]
pub(crate) struct Origins(pub(super) Vec<Origin>);

pub(super) struct Origin {
    /// The subcommand, with its parents.
    pub(super) command: Vec<String>,
    /// The option's id, and its long name.
    pub(super) id: String,
    pub(super) name: String,
    pub(super) text: String,
    /// `file:line`.
    pub(super) place: String,
    /// The value was added to the command line.
    pub(super) is_merged: bool,
}

impl Origins {
    /// Keeps the values that this command line uses.
    pub(crate) fn used(mut self, matches: &ArgMatches) -> Self {
        self.0.retain(|origin| {
            let below = |of: &ArgMatches, name: &String| {
                of.subcommand().filter(|(found, _)| found == name).map(|(_, of)| of.clone())
            };
            let matched = origin.command.iter().try_fold(matches.clone(), |of, name| below(&of, name));
            matched.is_some_and(|of| {
                let texts = of.get_raw(&origin.id).into_iter().flatten();
                (origin.is_merged || of.value_source(&origin.id) == Some(ValueSource::DefaultValue))
                    && texts.into_iter().any(|text| *text == *origin.text)
            })
        });
        self
    }

    /// An error that quotes a value of a configuration file, with the file and the line.
    pub(crate) fn locate(&self, error: Error) -> Error {
        let place = |problem: &str| {
            // Where the message quotes the value. A hint behind it may quote another one.
            let quoted = |origin: &Origin| {
                let (text, option) = (&origin.text, format!("--{}", origin.name));
                let is_of_option =
                    problem.strip_prefix(&option).is_some_and(|rest| rest.starts_with([':', ' ']));
                if is_of_option || (text.len() > 1 && problem.starts_with(&format!("{text}: "))) {
                    return Some(0);
                }
                let plain = problem.replace('`', "'");
                let find = |word: &str| plain.find(&format!("'{word}'"));
                // A scheduler's setting.
                let settings = text.split_once('{').into_iter().flat_map(|(_, of)| of.split([',', '=', '}']));
                let settings = settings.map(str::trim).filter(|word| !word.is_empty()).filter_map(find);
                let bare = Some(text).filter(|text| text.len() > 1);
                let bare = bare.and_then(|text| plain.find(&format!(": {text};")));
                settings.chain(find(text)).chain(bare).min()
            };
            let found = self.0.iter().filter_map(|origin| Some((quoted(origin)?, origin)));
            found
                .min_by_key(|(at, _)| *at)
                .map(|(_, of)| format!("{}: {} = {:?}", of.place, of.name, of.text))
        };
        let located = |problem: String| match place(&problem) {
            Some(place) => Ok(format!("{place}: {problem}")),
            None => Err(problem),
        };
        match error {
            // A wrong value of a file is wrong input.
            Error::Usage(problem) => located(problem).map_or_else(Error::Usage, Error::Input),
            Error::Input(problem) => Error::Input(located(problem).unwrap_or_else(|problem| problem)),
            Error::Failed(problem) => Error::Failed(located(problem).unwrap_or_else(|problem| problem)),
            other => other,
        }
    }
}

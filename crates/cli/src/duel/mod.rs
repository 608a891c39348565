//! `dwell duel`: the kernel's schedulers against ours, for real, and beside each what the model said.

mod contest;
mod predict;
mod report;
mod table;

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use ::duel::{Arena, Contestant, Discipline, Duel, DuelError, Settings, Size, Standing, Troupe, scratch};
use indicatif::ProgressBar;
use schedulers::Spec;
use schedulers::registry::Catalogue;
use serde_json::json;

use contest::Contest;
use predict::Model;

use crate::arguments::{DuelArguments, Sight};
use crate::device::Device;
use crate::error::Error;
use crate::format::nearest;
use crate::interrupt;
use crate::quantity::span;
use crate::serve::schedulers;

/// Contestants of `--quick`.
const QUICK: [&str; 6] =
    ["kernel:mq-deadline", "kernel:bfq", "kernel:bfq{low_latency=0}", "noop", "deadline", "stream(deadline)"];

pub(crate) fn run(arguments: &DuelArguments, catalogue: Catalogue) -> Result<(), Error> {
    let device = Arc::new(Device::open(&arguments.drive)?);
    let plan = Plan::new(arguments, catalogue, &device)?;
    let mut duel = prepare(arguments, catalogue, &device, plan.size)?;
    let model = Model { device: &device, catalogue, size: plan.size, level: arguments.level };
    let contests = plan.play(&mut duel, &model, arguments.quiet);
    drop(duel);
    let (contests, ended) = contests;
    print(arguments, &device, &contests)?;
    ended
}

/// What is to be played.
struct Plan {
    contestants: Vec<Contestant>,
    disciplines: Vec<Discipline>,
    depths: Vec<u32>,
    hidden: Vec<bool>,
    size: Size,
    repeat: u32,
}

impl Plan {
    fn new(arguments: &DuelArguments, catalogue: Catalogue, device: &Device) -> Result<Self, Error> {
        let size = size(arguments)?;
        let contestants = contestants(arguments, catalogue)?;
        let mut disciplines = disciplines(arguments)?;
        // What cannot be played here is said, and the rest is played.
        disciplines.retain(|discipline| match discipline.available() {
            Ok(()) => true,
            Err(missing) => {
                eprintln!("SKIPPED {missing}");
                false
            }
        });
        let capacity = device.capacity().bytes();
        if let Some(large) = disciplines.iter().find(|discipline| discipline.end_bytes(&size) > capacity) {
            return Err(Error::Usage(format!(
                "{} needs {} bytes, but the drive has {capacity}; choose a larger drive",
                large.name(),
                large.end_bytes(&size)
            )));
        }
        let depths =
            if arguments.depths.is_empty() { vec![device.depth().min(31)] } else { arguments.depths.clone() };
        if let Some(depth) =
            depths.iter().find(|&&depth| depth == 0 || depth > device.depth() || matches!(depth, 2 | 3))
        {
            return Err(Error::Usage(format!(
                "--depth {depth}: a loop device can be made to have 1 request under way, or 4 and more, and this drive queues {}",
                device.depth()
            )));
        }
        let hidden = match arguments.programs {
            Sight::Shown => vec![false],
            Sight::Hidden => vec![true],
            Sight::Both => vec![false, true],
        };
        Ok(Self { contestants, disciplines, depths, hidden, size, repeat: arguments.repeat })
    }

    /// Plays everything; what was measured until then, and how it ended.
    fn play(&self, duel: &mut Duel, model: &Model<'_>, quiet: bool) -> (Vec<Contest>, Result<(), Error>) {
        let rounds = self.disciplines.len() * self.depths.len() * self.hidden.len() * self.repeat as usize;
        let bar = match !quiet && std::io::stderr().is_terminal() {
            true => ProgressBar::new((rounds * self.contestants.len()) as u64),
            false => ProgressBar::hidden(),
        };
        let mut contests = Vec::new();
        for discipline in &self.disciplines {
            for &depth in &self.depths {
                for &hidden in &self.hidden {
                    let mut contest = Contest::new(discipline, &self.size, depth, hidden, &self.contestants);
                    let played = self.contest(duel, model, &mut contest, &bar);
                    if contest.has_begun() {
                        contests.push(contest);
                    }
                    if let Err(error) = played {
                        bar.finish_and_clear();
                        return (contests, Err(told(error)));
                    }
                }
            }
        }
        bar.finish_and_clear();
        (contests, Ok(()))
    }

    fn contest(
        &self,
        duel: &mut Duel,
        model: &Model<'_>,
        contest: &mut Contest,
        bar: &ProgressBar,
    ) -> Result<(), DuelError> {
        duel.set(contest.depth, contest.hidden);
        let mut ways: BTreeMap<(bool, u64, bool), Vec<Duration>> = BTreeMap::new();
        for round in 0..self.repeat as usize {
            // Everybody in turn, and each time another one first: what the machine does beside this meets all of them.
            for n in 0..self.contestants.len() {
                let n = (n + round) % self.contestants.len();
                let contestant = &self.contestants[n];
                bar.set_message(contest.title());
                let outcome = duel.play(&contest.discipline, contestant)?;
                contest.entries[n].outcomes.push(outcome);
                bar.inc(1);
            }
        }
        let requests = model.requests(&contest.discipline);
        for entry in &mut contest.entries {
            for &(bytes, writes) in &requests {
                let way = match ways.entry((entry.contestant.is_kernel(), bytes, writes)) {
                    Slot::Occupied(known) => known.get().clone(),
                    Slot::Vacant(unknown) => {
                        unknown.insert(duel.path_times(&entry.contestant, bytes, writes)?).clone()
                    }
                };
                entry.ways.push(way);
            }
            let (discipline, depth, hidden) = (&contest.discipline, contest.depth, contest.hidden);
            match model.predict(discipline, entry, depth, hidden) {
                Ok(predicted) => entry.predicted = Some(predicted),
                Err(why) => entry.unpredicted = why,
            }
        }
        Ok(())
    }
}

fn size(arguments: &DuelArguments) -> Result<Size, Error> {
    if arguments.quick {
        let (time, patience) = (Duration::from_secs(3), Duration::from_secs(20));
        return Ok(Size { time, patience, tree_files: 250, transactions: 200 });
    }
    Ok(Size {
        time: span("--time", &arguments.time)?,
        patience: span("--patience", &arguments.patience)?,
        tree_files: arguments.tree_files,
        transactions: arguments.transactions,
    })
}

fn contestants(arguments: &DuelArguments, catalogue: Catalogue) -> Result<Vec<Contestant>, Error> {
    let parse = |name: &str| name.parse::<Contestant>().map_err(|error| Error::Usage(error.to_string()));
    let contestants = match (arguments.schedulers.is_empty(), arguments.quick) {
        (false, _) => arguments.schedulers.iter().map(|name| parse(name)).collect::<Result<Vec<_>, _>>()?,
        (true, true) => QUICK.iter().map(|name| parse(name)).collect::<Result<_, _>>()?,
        (true, false) => Contestant::usual(),
    };
    for contestant in &contestants {
        if let Contestant::Dwell { scheduler } = contestant {
            Spec::parse_in(catalogue, scheduler).map_err(|error| {
                Error::Usage(format!("{error}; an elevator of the kernel is written kernel:{scheduler}"))
            })?;
        }
    }
    Ok(contestants)
}

fn disciplines(arguments: &DuelArguments) -> Result<Vec<Discipline>, Error> {
    let named = |name: &String| {
        Discipline::named(name).ok_or_else(|| {
            let names: Vec<String> = Discipline::ALL.iter().map(Discipline::name).collect();
            let hint = nearest(name, names.iter().map(String::as_str));
            let hint = hint.map(|near| format!(" (did you mean '{near}'?)")).unwrap_or_default();
            Error::Usage(format!("'{name}' is no discipline{hint}; there are {}", names.join(", ")))
        })
    };
    let mut disciplines = arguments.disciplines.iter().map(named).collect::<Result<Vec<_>, _>>()?;
    disciplines.extend(arguments.jobs.iter().cloned().map(Discipline::Fio));
    Ok(match (disciplines.is_empty(), arguments.quick) {
        (false, _) => disciplines,
        (true, true) => {
            vec![
                Discipline::ParRead { direct: true },
                Discipline::ParRead { direct: false },
                Discipline::Greps,
            ]
        }
        (true, false) => Discipline::ALL.to_vec(),
    })
}

fn prepare(
    arguments: &DuelArguments,
    catalogue: Catalogue,
    device: &Arc<Device>,
    size: Size,
) -> Result<Duel, Error> {
    let program = std::env::current_exe().map_err(|e| Error::Failed(format!("finding this program: {e}")))?;
    let drive = Arc::clone(device);
    let arena = Arena {
        drive: Arc::new(move || drive.build()),
        rotational: device.rotational(),
        depth: 1,
        hidden: false,
        schedulers: schedulers(catalogue, device.environment()),
        troupe: Troupe { program, arguments: vec!["duel-part".to_owned()] },
        scratch: scratch(),
    };
    let standing = Standing { nice: arguments.nice, level: arguments.level };
    let settings = Settings { arena, standing, size, asked: interrupt::requested };
    Duel::prepare(settings).map_err(told)
}

fn told(error: DuelError) -> Error {
    match error {
        DuelError::Interrupted => Error::Interrupted,
        DuelError::Missing(_) => Error::Kernel(error.to_string()),
        DuelError::Usage(_) => Error::Usage(error.to_string()),
        DuelError::Io { ref source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            Error::Permission(error.to_string())
        }
        _ => Error::Failed(error.to_string()),
    }
}

fn print(arguments: &DuelArguments, device: &Device, contests: &[Contest]) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    if arguments.json {
        let object = json!({
            "schema_version": 1, "dwell": env!("CARGO_PKG_VERSION"), "drive": device.describe(),
            "kernel": kernel(), "nice": arguments.nice, "level": arguments.level, "contests": contests,
        });
        writeln!(out, "{object}")?;
    } else {
        for contest in contests {
            writeln!(out, "{}\n{}\n", contest.title(), table::table(contest))?;
        }
    }
    if !arguments.quiet {
        let unpredicted =
            contests.iter().flat_map(|contest| &contest.entries).map(|entry| &entry.unpredicted);
        let words: BTreeSet<&String> = unpredicted.filter(|why| !why.is_empty()).collect();
        words.iter().for_each(|why| eprintln!("not predicted: {why}"));
    }
    if let Some(path) = &arguments.report {
        std::fs::write(path, report::html(&device.describe(), &kernel(), contests))
            .map_err(|e| Error::file(path.display(), &e))?;
    }
    Ok(())
}

/// The kernel whose schedulers took part.
fn kernel() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {}", text.trim())
}

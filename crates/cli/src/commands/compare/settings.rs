//! `--sweep` and `--optimise`: schedulers with many settings.

use elevator::Random;
use elevator::text::counted;
use evaluation::input::Runtimes;
use evaluation::interrupt;
use evaluation::parallel::on_threads;
use evaluation::runs::{Plan, Run, one};
use evaluation::search_space::{self, Ladder, Optimiser, Space};
use evaluation::sweep::{self, Sweep};
use schedulers::Spec;

use crate::error::Error;
use crate::input::shared_args::Output;
use crate::report::{SortKey, can_rank};

/// Settings that are measured between two decisions of the optimiser. Fixed, so that results do not depend on the number of cores.
const ROUND: usize = 4;

/// The sweeps of the command line; each must have a tunable of one of the schedulers.
pub(super) fn sweeps(texts: &[String], specs: &[Spec]) -> Result<Vec<Sweep>, Error> {
    let wrong = |problem: String| Error::Usage(format!("--sweep: {problem}"));
    let mut all: Vec<Sweep> = Vec::new();
    for text in texts {
        let sweep = Sweep::parse(text).map_err(wrong)?;
        sweep::check(&sweep.tunable, specs).map_err(wrong)?;
        match all.iter_mut().find(|known| known.tunable == sweep.tunable) {
            Some(known) => known.values = format!("{},{}", known.values, sweep.values),
            None => all.push(sweep),
        }
    }
    Ok(all)
}

/// Each scheduler with each combination of the values.
pub(super) fn swept(specs: &[Spec], sweeps: &[Sweep]) -> Result<Vec<Spec>, Error> {
    let mut all: Vec<Spec> = Vec::new();
    for spec in specs {
        let variants = sweep::variants(spec, sweeps).map_err(|e| Error::Usage(format!("--sweep: {e}")))?;
        all.extend(variants);
    }
    Ok(all)
}

/// The values of the given schedulers that a sweep replaces.
pub(super) fn replaced(specs: &[Spec], sweeps: &[Sweep]) -> Vec<String> {
    let mut notes = Vec::new();
    for (spec, sweep) in specs.iter().flat_map(|spec| sweeps.iter().map(move |sweep| (spec, sweep))) {
        if sweep::is_set(spec, &sweep.tunable) {
            notes.push(format!("--sweep {}: replaces the value in {spec}", sweep.tunable));
        }
    }
    notes
}

/// What a search minimises, and how it is done.
#[derive(Clone, Copy)]
pub(super) struct Goal<'a> {
    pub(super) key: SortKey,
    pub(super) trials: u32,
    /// The requests arrive at given times.
    pub(super) by_time: bool,
    /// The jobs that end at a runtime.
    pub(super) runtimes: &'a Runtimes,
}

/// Each scheduler as given and, if the search found better settings, with these; a note for each scheduler without better ones.
pub(super) fn optimised(
    plan: &Plan<'_>,
    specs: &[Spec],
    sweeps: &[Sweep],
    goal: Goal<'_>,
    output: &Output,
) -> Result<(Vec<Spec>, Vec<String>), Error> {
    let spaces = specs.iter().map(|spec| space(spec, sweeps)).collect::<Result<Vec<_>, _>>()?;
    if spaces.iter().all(Option::is_none) {
        let problem = "none of the schedulers has a tunable to try; 'dwell schedulers' lists tunables";
        return Err(Error::Usage(format!("--optimise: {problem}")));
    }
    let bar = output.bar(specs.len() * goal.trials as usize);
    let (mut all, mut notes) = (Vec::new(), Vec::new());
    for (spec, space) in specs.iter().zip(spaces) {
        all.push(spec.clone());
        let Some(space) = space else {
            notes.push(format!("--optimise: {spec} has no tunable to try"));
            continue;
        };
        bar.set_message(spec.to_string());
        let trials = space.size().min(goal.trials.into());
        let best = search(plan, spec, space, goal, &|| bar.inc(1))?;
        match best.filter(|best| best.to_string() != spec.to_string()) {
            Some(best) => all.push(best),
            None => {
                let trials = counted(trials, "trial");
                notes.push(format!("--optimise: {trials} found no better settings than those of {spec}"));
            }
        }
    }
    bar.finish_and_clear();
    if interrupt::requested() { Err(Error::Interrupted) } else { Ok((all, notes)) }
}

/// The values of the sweeps that the scheduler has, or ladders of all its tunables; `None` without any.
fn space(spec: &Spec, sweeps: &[Sweep]) -> Result<Option<Space>, Error> {
    if sweeps.is_empty() {
        // The tick rate is the kernel's, not the scheduler's.
        return Ok(search_space::of_policy(spec, |tunable| tunable != "hz"));
    }
    let mut ladders = Vec::new();
    for sweep in sweeps {
        if let Some(tunable) = sweep::tunable(spec, &sweep.tunable) {
            let values = sweep::values(tunable.default, &sweep.values)
                .map_err(|e| Error::Usage(format!("--sweep: {}: {e}", sweep.tunable)))?;
            let values = values.into_iter().map(sweep::text).collect();
            ladders.push(Ladder { setting: sweep.tunable.clone(), values });
        }
    }
    Ok((!ladders.is_empty()).then(|| Space { scheduler: spec.to_string(), ladders }))
}

/// The settings with the least loss, those of `spec` included.
fn search(
    plan: &Plan<'_>,
    spec: &Spec,
    space: Space,
    Goal { key, trials, by_time, runtimes }: Goal<'_>,
    done: &(dyn Fn() + Sync),
) -> Result<Option<Spec>, Error> {
    // A stopped replay by time stamps has the results of another part of the recording.
    let loss_of = |run: &Run| if by_time && run.cut { f64::INFINITY } else { key.loss(run) };
    let loss = |spec: &Spec| one(plan, spec, &mut |_| None).map_or(f64::INFINITY, |run| loss_of(&run));
    let given = one(plan, spec, &mut |_| None);
    if given.as_ref().is_ok_and(|run| runtimes.bound(run)) {
        can_rank("--optimise", Some(key), super::RUNTIME)?;
    }
    let is_cut = given.as_ref().is_ok_and(|run| run.cut);
    let mut best = (given.map_or(f64::INFINITY, |run| loss_of(&run)), None);
    if !best.0.is_finite() && !interrupt::requested() {
        let problem = match is_cut {
            true if by_time => format!(
                "--at-most stops the replay by time stamps under {spec}: each setting would complete another part of the recording; lengthen or omit \
                 --at-most"
            ),
            true => {
                format!("--at-most stops the run under {spec}; optimise another result, or omit --at-most")
            }
            false => format!(
                "no result under {spec}; optimise another result, or compare without --optimise for the reason"
            ),
        };
        return Err(Error::Usage(format!("--optimise {} ({}): {problem}", key.name(), key.words())));
    }
    let mut optimiser = Optimiser::new(space).map_err(Error::Failed)?;
    let mut random = Random::new(1);
    let mut left = trials as usize;
    while left > 0 && !interrupt::requested() {
        let propose = |_| optimiser.propose(&mut random);
        let round: Vec<Vec<usize>> = (0..left.min(ROUND)).map_while(propose).collect();
        if round.is_empty() {
            break;
        }
        left -= round.len();
        let mut specs = Vec::new();
        for places in &round {
            let set = optimiser
                .settings(places)
                .try_fold(spec.clone(), |spec, (name, value)| spec.with_tunable(name, value));
            specs.push(set.map_err(|error| Error::Usage(format!("--optimise: {}", error.kind)))?);
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let losses = on_threads(threads, specs.len(), |index| loss(&specs[index]));
        for ((places, spec), loss) in round.iter().zip(specs).zip(losses) {
            if loss.is_finite() {
                optimiser.report(places, loss);
            }
            if loss < best.0 {
                best = (loss, Some(spec));
            }
            done();
        }
    }
    (0..left).for_each(|_| done());
    Ok(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use elevator::Span;
    use elevator::queue::Options;
    use evaluation::device::Device;
    use evaluation::input::{Reading, Replaying, open};

    #[test]
    fn values_of_a_repeated_sweep_are_joined() {
        let specs = [Spec::parse("deadline").unwrap()];
        let all = sweeps(&["fifo_batch=1".to_owned(), "fifo_batch=4,16".to_owned()], &specs).unwrap();
        assert_eq!(swept(&specs, &all).unwrap().len(), 3);
        assert!(replaced(&specs, &all).is_empty());
        let given = [Spec::parse("deadline{writes_starved=3, fifo_batch=3}").unwrap()];
        assert_eq!(
            replaced(&given, &all),
            [format!("--sweep fifo_batch: replaces the value in {}", given[0])]
        );
    }

    #[test]
    fn the_search_finds_the_best_value_of_a_ladder() {
        let device = Device::open("wd5000aaks").unwrap();
        let workload = "par-read{processes=2}";
        let opened = open(workload, &Reading::default(), Replaying::default(), device.capacity()).unwrap();
        let plan = Plan {
            workload: &*opened.workload,
            device: &device,
            schedulers: &[],
            options: Options { depth: 1, ..Options::default() },
            before: Span::ZERO,
            at_most: Some(Span::from_millis(300)),
            chart_requests: 0,
            explain: None,
        };
        let spec = Spec::parse("stream(deadline)").unwrap();
        let sweeps =
            sweeps(&["stream_time_slice=1ms,400ms".to_owned()], std::slice::from_ref(&spec)).unwrap();
        let loss = |spec: &Spec| SortKey::Rate.loss(&one(&plan, spec, &mut |_| None).unwrap());
        let all = swept(std::slice::from_ref(&spec), &sweeps).unwrap();
        let least = all.iter().chain([&spec]).map(loss).fold(f64::INFINITY, f64::min);
        let space = space(&spec, &sweeps).unwrap().unwrap();
        let goal = Goal { key: SortKey::Rate, trials: 12, by_time: false, runtimes: &opened.runtimes };
        let found = search(&plan, &spec, space.clone(), goal, &|| ()).unwrap();
        assert_eq!(loss(found.as_ref().unwrap_or(&spec)), least);
        let of_a_replay = search(&plan, &spec, space.clone(), Goal { by_time: true, ..goal }, &|| ());
        assert!(of_a_replay.unwrap_err().to_string().contains("--at-most stops the replay"));
        let time = search(&plan, &spec, space, Goal { key: SortKey::Time, ..goal }, &|| ());
        assert!(time.unwrap_err().to_string().contains("--at-most stops the run"));
    }
}

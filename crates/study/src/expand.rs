//! Expansion of a study to runs.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use elevator::queue::Limits;
use elevator::text::{counted, did_you_mean};
use evaluation::device::Device;
use evaluation::input::{self, is_job_file};
use evaluation::run_setup::description;
use evaluation::scheduler_page::scheduler_page;
use evaluation::sweep::{self, Sweep};
use evaluation::{Error, text_file};
use schedulers::Spec;
use schedulers::registry::Catalogue;
use toml::Spanned;
use workloads::builtin::Builtin;
use workloads::scenario::Identity;

use crate::description::{Input, Kind, Run};
use crate::execute::DEFAULT_DRIVE;
use crate::file::{Study, Tunables, Values, is_address};

/// Most runs of a study. More are a mistake in a range: their list alone takes gigabytes.
const MOST_RUNS: usize = 10_000_000;

/// The error for an empty list.
const NO_VALUE: &str = "there is no value; remove the key for its default";

impl Study {
    /// The runs: workloads outermost, then drives, arrays, depths, identities, seeds, schedulers and their tunables. Runs that differ in
    /// nothing are listed once.
    ///
    /// # Errors
    /// An error in the study file, with file, line and key, or an input that cannot be read.
    pub fn runs(&self, catalogue: Catalogue) -> Result<Vec<Run>, Error> {
        let page = &self.page;
        let base = self.base()?;
        let schedulers = self.schedulers(catalogue)?;
        let drives = self.drives()?;
        let arrays = self.arrays()?;
        let depths = self.numbers("depths", page.depths.as_ref(), 1, 65_536)?;
        let seeds = self.numbers("seeds", page.seeds.as_ref(), 1, i64::MAX as u64)?;
        let identities =
            self.list("identities", page.identities.as_ref())?.unwrap_or_else(|| vec![base.identity]);
        let workloads = self.workloads()?;
        self.check_applicable(&workloads)?;
        let factors =
            [workloads.len(), schedulers.len(), drives.len(), arrays.len(), depths.len(), seeds.len()];
        let product = factors.iter().try_fold(identities.len(), |product, n| product.checked_mul(*n));
        if product.is_none_or(|product| product > MOST_RUNS) {
            return Err(Error::Input(format!("{}: more than {MOST_RUNS} runs", self.name)));
        }
        let (mut runs, mut seen) = (Vec::new(), HashSet::new());
        for (workload, kind) in &workloads {
            for (drive, array) in product_of(&drives, &arrays) {
                let most = device(workload, *kind, drive.as_ref(), array.as_deref())
                    .map_or(u32::MAX, |device| device.depth());
                for (depth, identity) in product_of(&depths, &identities) {
                    for (seed, scheduler) in product_of(&seeds, &schedulers) {
                        let run = Run {
                            workload: workload.clone(),
                            kind: *kind,
                            scheduler: scheduler.clone(),
                            drive: drive.clone(),
                            array: array.clone(),
                            depth: depth.map(|depth| (depth as u32).min(most)),
                            identity: *identity,
                            seed: seed.unwrap_or(1),
                            ..base.clone()
                        }
                        .applicable()
                        .identify();
                        if seen.insert(run.id.clone()) {
                            runs.push(run);
                        }
                    }
                }
            }
        }
        Ok(runs)
    }

    /// A run with the settings that all runs share.
    fn base(&self) -> Result<Run, Error> {
        let page = &self.page;
        let scale = page.scale.as_ref().map_or(1.0, |scale| *scale.get_ref());
        if !(scale > 0.0 && scale <= 1.0) {
            let at = page.scale.as_ref().map_or(0, |scale| scale.span().start);
            return Err(self.wrong(at, "scale", "a scale is above 0 and at most 1"));
        }
        let nr_requests =
            page.nr_requests.as_ref().map_or(Limits::default().nr_requests, |number| *number.get_ref());
        if nr_requests == 0 {
            let at = page.nr_requests.as_ref().map_or(0, |number| number.span().start);
            return Err(self.wrong(at, "nr_requests", "the limit is at least 1"));
        }
        if let Some(reading) = &page.reading {
            input::options(reading.get_ref(), None)
                .map_err(|error| self.wrong(reading.span().start, "reading", &error.to_string()))?;
        }
        Ok(Run {
            id: String::new(),
            workload: Input::built_in(""),
            kind: Kind::BuiltIn,
            scheduler: String::new(),
            drive: None,
            array: None,
            machine: self.machine()?,
            depth: None,
            identity: Identity::Shown,
            nr_requests: Some(nr_requests),
            seed: 1,
            open: page.open.as_ref().is_some_and(|open| *open.get_ref()),
            reading: page.reading.as_ref().map(|reading| reading.get_ref().clone()).unwrap_or_default(),
            scale: Some(scale),
            at_most_ns: self.time("at_most", page.at_most.as_ref())?,
            window_ns: self.time("window", page.window.as_ref())?,
        })
    }

    /// The machine of scripts.
    fn machine(&self) -> Result<Option<Input>, Error> {
        let Some(machine) = &self.page.machine else { return Ok(None) };
        let wrong = |error: Error| self.wrong(machine.span().start, "machine", &error.to_string());
        let input = self.input(machine.get_ref()).map_err(wrong)?;
        description(input.place()).map_err(wrong)?;
        Ok(Some(input))
    }

    /// Rejects settings that apply to no workload of the study.
    fn check_applicable(&self, workloads: &[(Input, Kind)]) -> Result<(), Error> {
        let page = &self.page;
        let scripts = workloads.iter().filter(|(_, kind)| *kind == Kind::Script).count();
        let has_recordings = workloads.iter().any(|(_, kind)| *kind == Kind::Recording);
        let is_open = page.open.as_ref().filter(|open| *open.get_ref());
        let (of_scripts, of_recordings) =
            ("applies to scripts, and no workload is one", "applies to recordings, and no workload is one");
        for (key, at, applies, problem) in [
            ("machine", page.machine.as_ref().map(|value| value.span()), scripts > 0, of_scripts),
            ("scale", page.scale.as_ref().map(|value| value.span()), scripts > 0, of_scripts),
            (
                "nr_requests",
                page.nr_requests.as_ref().map(|value| value.span()),
                scripts < workloads.len(),
                "does not apply to scripts, whose machine has this limit, and all workloads are scripts",
            ),
            ("open", is_open.map(|value| value.span()), has_recordings, of_recordings),
            ("reading", page.reading.as_ref().map(|value| value.span()), has_recordings, of_recordings),
        ] {
            if let Some(at) = at.filter(|_| !applies) {
                return Err(self.wrong(at.start, key, &format!("{problem}; remove it")));
            }
        }
        Ok(())
    }

    /// A list of values, which must have one.
    fn list<T: Clone>(&self, key: &str, list: Option<&Spanned<Vec<T>>>) -> Result<Option<Vec<T>>, Error> {
        match list {
            Some(list) if list.get_ref().is_empty() => Err(self.wrong(list.span().start, key, NO_VALUE)),
            list => Ok(list.map(|list| list.get_ref().clone())),
        }
    }

    /// Numbers of an axis; one `None` if the study does not have it.
    fn numbers(
        &self,
        key: &str,
        values: Option<&Spanned<Values>>,
        least: u64,
        most: u64,
    ) -> Result<Vec<Option<u64>>, Error> {
        let Some(values) = values else { return Ok(vec![None]) };
        let at = values.span().start;
        if values.get_ref().is_empty() {
            return Err(self.wrong(at, key, NO_VALUE));
        }
        let numbers = sweep::numbers(&values.get_ref().text()).map_err(|e| self.wrong(at, key, &e))?;
        if let Some(wrong) = numbers.iter().find(|number| !(least..=most).contains(number)) {
            return Err(self.wrong(at, key, &format!("{wrong} is not between {least} and {most}")));
        }
        Ok(numbers.into_iter().map(Some).collect())
    }

    fn schedulers(&self, catalogue: Catalogue) -> Result<Vec<String>, Error> {
        let key = "schedulers";
        if self.page.schedulers.get_ref().is_empty() {
            return Err(self.wrong(self.page.schedulers.span().start, key, "there is none"));
        }
        let parse = |name: &Spanned<String>| {
            let file = name.get_ref().as_str();
            if is_address(file) || file.ends_with(".toml") {
                let wrong = |error: Error| self.wrong(name.span().start, key, &error.to_string());
                if let Some((file, _)) = file.split_once('{') {
                    let problem =
                        format!("{file}: a scheduler file has no settings in braces; write them into it");
                    return Err(wrong(Error::Input(problem)));
                }
                let path = self.path(file).map_err(wrong)?;
                let page = text_file::read(&path, "scheduler file").map_err(wrong)?;
                let shown = if is_address(file) { file.to_owned() } else { path.display().to_string() };
                return scheduler_page(catalogue, &shown, &page).map_err(wrong);
            }
            let spec = Spec::parse_in(catalogue, name.get_ref());
            spec.map_err(|error| self.wrong(name.span().start, key, &error.to_string()))
        };
        let specs: Vec<Spec> = self.page.schedulers.get_ref().iter().map(parse).collect::<Result<_, _>>()?;
        let names: Vec<&str> =
            self.page.schedulers.get_ref().iter().map(|name| name.get_ref().as_str()).collect();
        self.check_tunables(&names, &specs)?;
        let (mut all, mut applied) = (Vec::new(), HashSet::new());
        for (name, spec) in names.iter().zip(&specs) {
            let (mut sweeps, mut at) = (Vec::new(), 0);
            let is_own = |tunable: &str| match self.page.tunables.get(*name).map(Spanned::get_ref) {
                Some(Tunables::OfScheduler(own)) if own.contains_key(tunable) => true,
                _ => sweep::is_set(spec, tunable),
            };
            for (key, of) in &self.page.tunables {
                let mut add = |tunable: &str, values: &Values| {
                    sweeps.push(Sweep { tunable: tunable.to_owned(), values: values.text() });
                    at = of.span().start;
                };
                match of.get_ref() {
                    Tunables::Values(_) if is_own(key) => {}
                    Tunables::Values(values) => {
                        applied.extend(sweep::tunable(spec, key).map(|_| key));
                        add(key, values);
                    }
                    Tunables::OfScheduler(own) if key == name => {
                        own.iter().for_each(|(key, values)| add(key, values.get_ref()))
                    }
                    Tunables::OfScheduler(_) => {}
                }
            }
            let variants = sweep::variants(spec, &sweeps).map_err(|e| self.wrong(at, "tunables", &e))?;
            all.extend(variants.iter().map(ToString::to_string));
        }
        for (key, of) in &self.page.tunables {
            if matches!(of.get_ref(), Tunables::Values(_)) && !applied.contains(key) {
                let problem = "every scheduler that has it sets it in its braces, its file or [tunables.NAME]; remove this value or the others";
                return Err(self.wrong(of.span().start, &format!("tunables.{key}"), problem));
            }
        }
        Ok(all)
    }

    /// Checks that each tunable belongs to a scheduler of the study, and that its values are valid.
    fn check_tunables(&self, names: &[&str], specs: &[Spec]) -> Result<(), Error> {
        for (key, of) in &self.page.tunables {
            let at = of.span().start;
            let wrong = |problem: &str| self.wrong(at, &format!("tunables.{key}"), problem);
            match of.get_ref() {
                Tunables::Values(values) => {
                    if values.is_empty() {
                        return Err(wrong(NO_VALUE));
                    }
                    sweep::check(key, specs).map_err(|e| wrong(&e))?;
                    let sweep = [Sweep { tunable: key.clone(), values: values.text() }];
                    for spec in specs {
                        sweep::variants(spec, &sweep).map_err(|e| wrong(&e))?;
                    }
                }
                Tunables::OfScheduler(own) => {
                    let Some(index) = names.iter().position(|name| name == key) else {
                        let hint = did_you_mean(key, names.iter().copied());
                        return Err(wrong(&format!("'{key}' is not in schedulers{hint}")));
                    };
                    if own.is_empty() {
                        return Err(wrong("there is no tunable; remove the table"));
                    }
                    for (tunable, values) in own {
                        let (at, values) = (values.span().start, values.get_ref());
                        let wrong = |problem: &str| self.wrong(at, &format!("tunables.{key}"), problem);
                        if values.is_empty() {
                            return Err(wrong(&format!("{tunable}: {NO_VALUE}")));
                        }
                        sweep::check(tunable, &specs[index..=index]).map_err(|e| wrong(&e))?;
                        let sweep = [Sweep { tunable: tunable.clone(), values: values.text() }];
                        sweep::variants(&specs[index], &sweep).map_err(|e| wrong(&e))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn drives(&self) -> Result<Vec<Option<Input>>, Error> {
        let Some(drives) = self.list("drives", self.page.drives.as_ref())? else { return Ok(vec![None]) };
        let open = |drive: &Spanned<String>| {
            let wrong = |error: Error| self.wrong(drive.span().start, "drives", &error.to_string());
            let input = self.input(drive.get_ref()).map_err(wrong)?;
            Device::open(input.place()).map_err(wrong)?;
            Ok(Some(input))
        };
        drives.iter().map(open).collect()
    }

    fn arrays(&self) -> Result<Vec<Option<String>>, Error> {
        let Some(arrays) = self.list("arrays", self.page.arrays.as_ref())? else { return Ok(vec![None]) };
        let check = |array: &Spanned<String>| match array.get_ref().as_str() {
            "none" => Ok(None),
            text => Device::open("wd5000aaks")
                .and_then(|device| device.in_array(text))
                .map(|_| Some(text.to_owned()))
                .map_err(|e| self.wrong(array.span().start, "arrays", &e.to_string())),
        };
        arrays.iter().map(check).collect()
    }

    /// A drive or machine: a file, if one has this name, or something built in.
    fn input(&self, name: &str) -> Result<Input, Error> {
        // Overrides in braces follow the name: the whole text is opened, and the file is hashed.
        let (file, overrides) = name.split_at(name.find('{').unwrap_or(name.len()));
        let path = self.path(file)?;
        if !path.is_file() {
            // Something built in has no extension: this would be a file of the present folder, or none.
            if file.contains(['/', '.']) {
                return Err(Error::Input(format!("'{file}' is no file in {}", self.folder.display())));
            }
            return Ok(Input::built_in(name));
        }
        let mut input = Input::file(name, &path)?;
        if !overrides.is_empty() {
            input.path = input.path.map(|path| path + overrides);
            input.sha256 = input.sha256.map(|hash| hash + overrides);
        }
        Ok(input)
    }

    /// The path of a file, or of the copy of what an address names.
    fn path(&self, file: &str) -> Result<PathBuf, Error> {
        if !is_address(file) {
            return Ok(self.folder.join(file));
        }
        match self.copies(file)? {
            [(_, copy)] => Ok(copy.clone()),
            all => Err(Error::Input(format!(
                "'{file}' matches {}, and only workloads are patterns; name one",
                counted(all.len() as u64, "file")
            ))),
        }
    }

    /// What an address, or a pattern of addresses, names.
    fn copies(&self, address: &str) -> Result<&[(String, PathBuf)], Error> {
        self.copies.get(address).map(Vec::as_slice).ok_or_else(|| {
            Error::Input(format!(
                "'{address}' is an address, which the Python package opens (pip install './python[dask]'); or copy what it names to a file"
            ))
        })
    }

    fn workloads(&self) -> Result<Vec<(Input, Kind)>, Error> {
        let mut all = Vec::new();
        let mut hashed: HashMap<String, (Input, Kind)> = HashMap::new();
        for workload in self.page.workloads.get_ref() {
            let (at, text) = (workload.span().start, workload.get_ref().as_str());
            let wrong = |problem: &str| self.wrong(at, "workloads", problem);
            if is_address(text) {
                for (address, copy) in self.copies(text).map_err(|error| wrong(&error.to_string()))? {
                    all.push(self.file(address, copy).map_err(|error| wrong(&error.to_string()))?);
                }
                continue;
            }
            // A file may have a name that is also a pattern.
            let is_pattern = is_pattern(text) && !self.folder.join(text).is_file();
            let names =
                if is_pattern { self.matches(text).map_err(|e| wrong(&e))? } else { vec![text.to_owned()] };
            if names.is_empty() {
                return Err(wrong(&format!("no file matches '{text}'")));
            }
            for name in names {
                let known = hashed.get(&name).cloned();
                let found = known.map_or_else(|| self.workload(&name), Ok);
                let found = found.map_err(|error| wrong(&error.to_string()))?;
                hashed.insert(name, found.clone());
                all.push(found);
            }
        }
        if all.is_empty() {
            return Err(self.wrong(self.page.workloads.span().start, "workloads", "there is none"));
        }
        Ok(all)
    }

    /// The files that a pattern matches, in alphabetical order, as names relative to the study's folder.
    fn matches(&self, pattern: &str) -> Result<Vec<String>, String> {
        let start = if pattern.starts_with('/') { Path::new("/") } else { &self.folder };
        let parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty()).collect();
        if let Some(path) = not_utf8(start, &parts, false) {
            let name = path.strip_prefix(start).unwrap_or(&path).display().to_string();
            return Err(format!(
                "'{pattern}' matches '{name}', whose name is not UTF-8, as that of a run is; rename it, or use a pattern that does not match it"
            ));
        }
        let folder = glob::Pattern::escape(&self.folder.to_string_lossy());
        let whole = Path::new(&folder).join(pattern);
        let paths = glob::glob(&whole.to_string_lossy()).map_err(|error| format!("'{pattern}': {error}"))?;
        let mut names = Vec::new();
        for path in paths {
            let path = path.map_err(|error| error.to_string())?;
            if path.is_file() {
                let name = path.strip_prefix(&self.folder).unwrap_or(&path);
                names.push(name.to_string_lossy().into_owned());
            }
        }
        Ok(names)
    }

    /// A workload that is no pattern.
    fn workload(&self, name: &str) -> Result<(Input, Kind), Error> {
        let path = self.folder.join(name);
        if path.is_dir() && Builtin::named(name).is_none() {
            return Err(Error::Input(format!("'{name}' is a folder; name files in it, such as '{name}/*'")));
        }
        if path.is_file() {
            return self.file(name, &path);
        }
        if Builtin::named(name.split('{').next().unwrap_or_default()).is_some() {
            input::open(
                name,
                &input::Reading::default(),
                input::Replaying::default(),
                elevator::Sector(u64::MAX),
            )?;
            return Ok((Input::built_in(name), Kind::BuiltIn));
        }
        if input::script_names().any(|known| known == name) {
            return Ok((Input::built_in(name), Kind::Script));
        }
        let names = Builtin::ALL.iter().map(|builtin| builtin.name).chain(input::script_names());
        Err(Error::Input(format!(
            "'{name}' is no file in {}, no built-in workload and no experiment{}",
            self.folder.display(),
            did_you_mean(name, names)
        )))
    }

    /// The workload of a file.
    fn file(&self, name: &str, path: &Path) -> Result<(Input, Kind), Error> {
        let input = Input::file(name, path)?;
        let kind = match () {
            () if name.ends_with(".toml") => Kind::Script,
            () if is_job_file(name, &input::head(input.place()).unwrap_or_default()) => Kind::Job,
            () => Kind::Recording,
        };
        if kind == Kind::Script {
            input::open_script(input.place(), self.scale())?;
        }
        if kind == Kind::Job {
            text_file::read(path, "job file")?;
        }
        Ok((input, kind))
    }

    fn scale(&self) -> f64 {
        self.page.scale.as_ref().map_or(1.0, |scale| *scale.get_ref())
    }

    /// The depths that drives of these runs do not have, and by which ones they are replaced.
    pub fn depth_notes(&self, runs: &[Run]) -> Result<Vec<String>, Error> {
        let depths = self.numbers("depths", self.page.depths.as_ref(), 1, 65_536)?;
        let depths: Vec<u64> = depths.into_iter().flatten().collect();
        let (mut notes, mut seen) = (Vec::new(), HashSet::new());
        for run in runs.iter().filter(|_| !depths.is_empty()) {
            // Only scripts name a drive of their own.
            let script = (run.kind == Kind::Script).then_some(&run.workload);
            if !seen.insert((script, &run.drive, &run.array)) {
                continue;
            }
            let device = device(&run.workload, run.kind, run.drive.as_ref(), run.array.as_deref());
            for note in
                device.iter().flat_map(|device| depths.iter().map(|&depth| device.depth_note(depth as u32)))
            {
                notes.extend(note.filter(|note| !notes.contains(note)));
            }
        }
        Ok(notes)
    }

    /// The study in one line.
    pub fn describe(runs: &[Run]) -> String {
        let distinct = |of: fn(&Run) -> &str| runs.iter().map(of).collect::<HashSet<_>>().len() as u64;
        format!(
            "{}: {}, {}",
            counted(runs.len() as u64, "run"),
            counted(distinct(|run| &run.workload.name), "workload"),
            counted(distinct(|run| &run.scheduler), "scheduler setting")
        )
    }
}

/// Whether a text, or a part of a path, is a pattern.
fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// The first file that a pattern of these parts matches below a folder and whose path from there is not UTF-8 (`is_odd`: the folder's is not).
/// [`glob::glob`] leaves such files out.
fn not_utf8(folder: &Path, parts: &[&str], is_odd: bool) -> Option<PathBuf> {
    let [part, rest @ ..] = parts else { return (is_odd && folder.is_file()).then(|| folder.to_owned()) };
    if !is_pattern(part) {
        return not_utf8(&folder.join(part), rest, is_odd);
    }
    let is_deep = *part == "**";
    if is_deep && let Some(found) = not_utf8(folder, rest, is_odd) {
        return Some(found);
    }
    let pattern = glob::Pattern::new(part).ok()?;
    let mut names: Vec<_> = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    names.into_iter().filter(|name| pattern.matches(&name.to_string_lossy())).find_map(|name| {
        let (path, is_odd) = (folder.join(&name), is_odd || name.to_str().is_none());
        match is_deep {
            true if path.is_symlink() => None,
            true => not_utf8(&path, parts, is_odd),
            false => not_utf8(&path, rest, is_odd),
        }
    })
}

/// The device of a run, above whose depth all depths have equal results. `None` if it cannot be opened: the run's row has the error.
fn device(workload: &Input, kind: Kind, drive: Option<&Input>, array: Option<&str>) -> Option<Device> {
    let script = || input::open_script(workload.place(), 1.0).ok().map(|(scenario, _)| scenario.script);
    let page = (kind == Kind::Script && (drive.is_none() || array.is_none())).then(script).flatten();
    let of_page = page.as_ref().and_then(|page| page.drive.as_deref());
    let device = Device::open(drive.map(Input::place).or(of_page).unwrap_or(DEFAULT_DRIVE)).ok()?;
    match array.or(page.as_ref().and_then(|page| page.array.as_deref())) {
        Some(array) => device.in_array(array).ok(),
        None => Some(device),
    }
}

fn product_of<'a, A, B>(a: &'a [A], b: &'a [B]) -> impl Iterator<Item = (&'a A, &'a B)> {
    a.iter().flat_map(move |a| b.iter().map(move |b| (a, b)))
}

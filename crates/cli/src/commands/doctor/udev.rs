//! udev's rules that set a scheduler: which of them apply to a disk, as far as sysfs and udev's database show it (udev(7)).

use std::collections::{BTreeMap, BTreeSet};

use capture::how_to_get;
use elevator::text::did_you_mean;
use tuner_live::scheduler_settings;

use super::finding::{Finding, Level, finding};
use super::roots::Roots;
use super::rules::tuner;
use super::snapshot::Device;
use super::udev_keys::{Rejection, rejection};

/// Directories of rules; of files with the same name the one in the last directory counts.
const DIRECTORIES: [&str; 5] = [
    "lib/udev/rules.d",
    "usr/lib/udev/rules.d",
    "usr/local/lib/udev/rules.d",
    "run/udev/rules.d",
    "etc/udev/rules.d",
];
/// Those of distributions, whose rules also name disks that this machine does not have.
const OF_DISTRIBUTION: [&str; 2] = ["/lib/", "/usr/lib/"];
/// Which file of udev's sets properties with these beginnings. In a file before it by name they are empty.
const SETTERS: [(&str, &str); 2] =
    [("ID_", "60-persistent-storage.rules"), ("MD_", "63-md-raid-arrays.rules")];
/// The attribute of the scheduler.
const SCHEDULER: &str = "queue/scheduler";
/// Where the settings of a scheduler are.
const IOSCHED: &str = "queue/iosched/";

/// `KEY{attribute}==“value”`.
struct Part {
    key: String,
    attribute: String,
    operator: String,
    value: String,
    /// By the prefix `i`, which systemd 252 does not have.
    ignores_case: bool,
}

impl Part {
    fn is_comparison(&self) -> bool {
        matches!(&*self.operator, "==" | "!=")
    }

    /// Whether a comparison with this text holds.
    fn fits(&self, text: &str) -> bool {
        let fits = match self.ignores_case {
            true => is_one_of(&self.value.to_lowercase(), &text.to_lowercase()),
            false => is_one_of(&self.value, text),
        };
        fits == (self.operator == "==")
    }

    /// Whether it names an attribute of another device (`[net/lo]mtu`), or one by a substitution.
    fn is_elsewhere(&self) -> bool {
        let name = if self.key == "TEST" { &self.value } else { &self.attribute };
        matches!(&*self.key, "ATTR" | "ATTRS" | "TEST")
            && (name.starts_with('[') || name.contains(['%', '$']))
    }

    /// Whether it names a class of disks, and not one disk: a pattern of names, or a property that the disks of a class have.
    fn is_of_class(&self) -> bool {
        const PROPERTIES: [(&str, &str); 5] = [
            ("ATTR", "queue/rotational"),
            ("ATTR", "queue/zoned"),
            ("ATTR", "removable"),
            ("ENV", "ID_BUS"),
            ("ENV", "ID_ATA_ROTATION_RATE_RPM"),
        ];
        let is_pattern = |name: &str| name.contains(['*', '?', '[']) && !name.contains('/');
        (self.key == "KERNEL" && self.value.split('|').all(is_pattern))
            || PROPERTIES.iter().any(|(key, attribute)| self.is(key, attribute))
    }

    fn is(&self, key: &str, attribute: &str) -> bool {
        self.key == key && self.attribute == attribute
    }
}

/// A line of a file, with the lines that continue it.
struct Line {
    /// `/etc/udev/rules.d/60-io.rules:3`.
    place: String,
    /// Its text if udev ignores it, and why.
    parts: Result<Vec<Part>, (String, Rejection)>,
}

/// The files in the order in which udev reads them, and those that another one of the same name replaces.
#[derive(Default)]
struct Files {
    read: Vec<Vec<Line>>,
    /// The replaced file, the one that counts, and the schedulers that it would set.
    replaced: Vec<(String, String, BTreeSet<String>)>,
}

impl Files {
    fn of(roots: &Roots) -> Self {
        let mut by_name: BTreeMap<String, String> = BTreeMap::new();
        let mut replaced = Vec::new();
        for directory in DIRECTORIES {
            for name in roots.names(directory).into_iter().filter(|name| name.ends_with(".rules")) {
                let path = format!("{directory}/{name}");
                // `/lib` may be a link to `/usr/lib`.
                let earlier = by_name.insert(name, path.clone());
                replaced.extend(earlier.filter(|old| !roots.is_same(old, &path)).map(|old| (old, path)));
            }
        }
        let schedulers = |path: &str| {
            let lines = lines(path, &roots.read(path).unwrap_or_default());
            let parts = lines.into_iter().filter_map(|line| line.parts.ok()).flatten();
            parts.filter_map(|part| set_by(&part).map(|(_, scheduler)| scheduler)).collect::<BTreeSet<_>>()
        };
        let replaced = replaced.into_iter().map(|(old, new)| {
            let sets = schedulers(&old);
            (format!("/{old}"), format!("/{new}"), sets)
        });
        let replaced = replaced.filter(|(.., sets)| !sets.is_empty()).collect();
        let read = by_name.values().map(|path| lines(path, &roots.read(path).unwrap_or_default())).collect();
        Self { read, replaced }
    }
}

/// The lines that are neither empty nor comments.
fn lines(path: &str, text: &str) -> Vec<Line> {
    let mut found = Vec::new();
    let (mut joined, mut begun) = (String::new(), 0);
    for (n, line) in text.lines().enumerate() {
        if joined.is_empty() {
            begun = n + 1;
        }
        if line.trim_start().starts_with('#') {
            continue;
        }
        if let Some(line) = line.strip_suffix('\\') {
            joined += line;
            continue;
        }
        let line = std::mem::take(&mut joined) + line;
        if !line.trim().is_empty() {
            let parts = parts(&line).map_err(|why| (line, why));
            found.push(Line { place: format!("/{path}:{begun}"), parts });
        }
    }
    found
}

/// The parts of a line, or why udev ignores it.
fn parts(line: &str) -> Result<Vec<Part>, Rejection> {
    let parts = split(line).ok_or_else(|| Rejection {
        cause: "it cannot parse it".to_owned(),
        fix: "correct it; a part is KEY==\"value\" or KEY=\"value\", with the value in double quotes; 'udevadm verify' names the error".to_owned(),
    })?;
    let why = |(Part { key, attribute, operator, value, .. }, has_braces): &(Part, bool)| {
        rejection(key, has_braces.then_some(&**attribute), operator, value)
    };
    match parts.iter().find_map(why) {
        Some(why) => Err(why),
        None => Ok(parts.into_iter().map(|(part, _)| part).collect()),
    }
}

/// The parts, each with whether its key has braces.
fn split(line: &str) -> Option<Vec<(Part, bool)>> {
    let mut rest = line.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
    let mut found = Vec::new();
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|end| *end > 0)?;
        let key = rest[..end].to_owned();
        rest = &rest[end..];
        let (mut attribute, has_braces) = (String::new(), rest.starts_with('{'));
        if let Some(inside) = rest.strip_prefix('{') {
            let (name, after) = inside.split_once('}')?;
            (attribute, rest) = (name.to_owned(), after);
        }
        rest = rest.trim_start();
        let operators = ["==", "!=", "+=", "-=", ":=", "="];
        let operator = operators.into_iter().find(|operator| rest.starts_with(operator))?;
        rest = rest[operator.len()..].trim_start();
        // e"…" has escapes, i"…" ignores case.
        let (prefixes, _) = rest.split_once('"')?;
        rest = rest.trim_start_matches(['e', 'i']).strip_prefix('"')?;
        let ignores_case = prefixes.contains('i');
        let mut value = String::new();
        let mut characters = rest.char_indices();
        let end = loop {
            match characters.next()? {
                (at, '"') => break at,
                (_, '\\') if characters.as_str().starts_with('"') => {
                    characters.next();
                    value.push('"');
                }
                (_, character) => value.push(character),
            }
        };
        rest = rest[end + 1..].trim_start_matches(|c: char| c.is_whitespace() || c == ',');
        found.push((Part { key, attribute, operator: operator.to_owned(), value, ignores_case }, has_braces));
    }
    Some(found)
}

/// Whether the part sets a scheduler by a command (`RUN`), and which one. For `ATTR`, udev reads `+=` and `:=` as `=`.
fn set_by(part: &Part) -> Option<(bool, String)> {
    if part.is_comparison() || part.operator == "-=" {
        return None;
    }
    if part.is("ATTR", SCHEDULER) {
        // A value by substitution cannot be known.
        return Some((false, part.value.clone())).filter(|(_, value)| !value.contains(['%', '$']));
    }
    let runs = |command: &&str| lacks_shell(command).is_none() && relative(command).is_none();
    let command = command(part).filter(|command| command.contains(SCHEDULER)).filter(runs)?;
    Some((true, echoed(command)?))
}

/// The command that a part runs.
fn command(part: &Part) -> Option<&str> {
    let is_command = part.key == "RUN" && matches!(&*part.attribute, "" | "program");
    (is_command && !part.is_comparison() && part.operator != "-=").then_some(&part.value)
}

/// The sign that a command has for a shell without starting one, as udev does not: `echo bfq > /sys/block/%k/queue/scheduler`. Of a program that may start
/// a shell, and of an interpreter's program, nothing is known.
fn lacks_shell(command: &str) -> Option<char> {
    const WRITERS: [&str; 4] = ["echo", "printf", "cat", "tee"];
    const INTERPRETERS: [&str; 5] = ["python", "perl", "ruby", "awk", "lua"];
    let sign = command.chars().find(|sign| ['>', '|'].contains(sign))?;
    let is_writer = |word: &&str| WRITERS.contains(&program(word));
    let may_run = |word: &&str| {
        let name = program(word);
        let is_option =
            word.starts_with("--command") || (word.starts_with('-') && word.ends_with(['c', 'e']));
        is_option || name.ends_with("sh") || INTERPRETERS.iter().any(|known| name.contains(known))
    };
    let first = command.split_whitespace().find(|word| is_writer(word) || may_run(word))?;
    is_writer(&first).then_some(sign)
}

/// The program that a command names without a path, which udev looks for only where its own programs are.
fn relative(command: &str) -> Option<&str> {
    let first = command.split_whitespace().next()?;
    (!first.starts_with(['/', '%', '$', '\'', '"'])).then_some(first)
}

/// The name of a program by its path.
fn program(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// What a command writes: `/bin/sh -c 'echo bfq > /sys/block/%k/queue/scheduler'`.
fn echoed(command: &str) -> Option<String> {
    let words = command.split(|c: char| c.is_whitespace() || "'\"()".contains(c) || c == '>');
    let mut words =
        words.filter(|word| !word.is_empty()).skip_while(|word| !["echo", "printf"].contains(&program(word)));
    words.next()?;
    let word = words.find(|word| !word.starts_with(['-', '%']))?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    word.chars().all(is_name).then(|| word.to_owned())
}

/// The disk whose scheduler a command writes, if it does not take it from the event.
fn named_disk(command: &str) -> Option<&str> {
    let before = command.split(&format!("/{SCHEDULER}")).next()?;
    let name = before.rsplit('/').next()?;
    (!name.contains(['%', '$', '*'])).then_some(name)
}

/// udev's patterns: `*`, `?` and `[…]`, as far as rules for disks use them.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => matches(rest, text) || (!text.is_empty() && matches(pattern, &text[1..])),
        ([b'?', rest @ ..], [_, text @ ..]) => matches(rest, text),
        ([b'[', rest @ ..], [first, text @ ..]) => {
            let Some(end) = rest.iter().position(|&byte| byte == b']') else { return false };
            let (set, rest) = (&rest[..end], &rest[end + 1..]);
            let (set, negated) = match set {
                [b'!' | b'^', set @ ..] => (set, true),
                set => (set, false),
            };
            let range = set.windows(3).any(|part| part[1] == b'-' && (part[0]..=part[2]).contains(first));
            (range || set.contains(first)) != negated && matches(rest, text)
        }
        ([byte, rest @ ..], [first, text @ ..]) => byte == first && matches(rest, text),
        _ => false,
    }
}

fn is_one_of(patterns: &str, text: &str) -> bool {
    patterns.split('|').any(|pattern| matches(pattern.as_bytes(), text.as_bytes()))
}

/// Whether a line applies to a disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Applies {
    No,
    /// By properties that only udev has at an event.
    Unknown,
    Yes,
}

/// A disk, for the comparison with rules.
struct Disk<'a> {
    roots: &'a Roots,
    name: &'a str,
    /// udev's properties of it, if its database has the disk.
    properties: Option<BTreeMap<String, String>>,
}

impl<'a> Disk<'a> {
    fn of(roots: &'a Roots, name: &'a str) -> Self {
        let number = roots.read(&format!("sys/block/{name}/dev")).unwrap_or_default();
        let database = roots.read(&format!("run/udev/data/b{number}"));
        let property = |line: &str| {
            let (key, value) = line.strip_prefix("E:")?.split_once('=')?;
            Some((key.to_owned(), value.to_owned()))
        };
        let properties = database.map(|text| text.lines().filter_map(property).collect());
        Self { roots, name, properties }
    }

    fn attribute(&self, file: &str) -> Option<String> {
        self.roots.read(&format!("sys/block/{}/{file}", self.name))
    }

    fn fits_action(parts: &[Part], action: &str) -> bool {
        let mut of_action = parts.iter().filter(|part| part.key == "ACTION" && part.is_comparison());
        of_action.all(|part| part.fits(action))
    }

    /// Whether all comparisons of a line hold.
    fn fits(&self, parts: &[Part]) -> Applies {
        parts.iter().map(|part| self.compares(part)).min().unwrap_or(Applies::Yes)
    }

    fn compares(&self, part: &Part) -> Applies {
        let Part { key, attribute, operator, value, .. } = part;
        // A program is run even without a comparison.
        if matches!(&**key, "PROGRAM" | "IMPORT") || (part.is_elsewhere() && part.is_comparison()) {
            return Applies::Unknown;
        }
        if !part.is_comparison() {
            return Applies::Yes;
        }
        let by = |text: Option<&str>| {
            // udev fails both comparisons if there is no such attribute.
            match text.is_some_and(|text| part.fits(text)) {
                // Older versions ignore a line with this prefix.
                true if part.ignores_case => Applies::Unknown,
                true => Applies::Yes,
                false => Applies::No,
            }
        };
        match &**key {
            "KERNEL" => by(Some(self.name)),
            "SUBSYSTEM" => by(Some("block")),
            "ACTION" => by(Some("add")).max(by(Some("change"))),
            "ENV" if attribute == "DEVTYPE" => by(Some("disk")),
            // Properties with a dot are not kept.
            "ENV" if !attribute.starts_with('.') => match &self.properties {
                Some(known) => by(Some(known.get(attribute).map_or("", String::as_str))),
                None => Applies::Unknown,
            },
            // It may have been another one at the event.
            "ATTR" if attribute == SCHEDULER => Applies::Unknown,
            "ATTR" => by(self.attribute(attribute).as_deref()),
            // The attribute may belong to a device further up.
            "ATTRS" if operator == "==" => {
                let own = [attribute.clone(), format!("device/{attribute}")];
                let fits = own.iter().any(|file| by(self.attribute(file).as_deref()) == Applies::Yes);
                if fits { Applies::Yes } else { Applies::Unknown }
            }
            "TEST" if !value.contains('*') => {
                let path = match value.strip_prefix('/') {
                    Some(path) => path.to_owned(),
                    None => format!("sys/block/{}/{value}", self.name),
                };
                if self.roots.has(&path) == (operator == "==") { Applies::Yes } else { Applies::No }
            }
            _ => Applies::Unknown,
        }
    }

    /// The lines that set a scheduler, with the scheduler, in the order of their effect: commands run last.
    fn set(&self, files: &'a Files) -> Vec<Set<'a>> {
        let (mut found, mut commands, mut is_final) = (Vec::new(), Vec::new(), false);
        for file in &files.read {
            // The labels to which earlier lines jump, or may jump.
            let (mut jump, mut perhaps): (Option<&str>, BTreeSet<&str>) = (None, BTreeSet::new());
            let mut jumps_by_class = false;
            // The labels to which earlier lines jump at one of the two events, and that event.
            let mut skipped: Vec<(&str, &str)> = Vec::new();
            for Line { place, parts } in file {
                let Ok(parts) = parts else { continue };
                let value = |key: &str| parts.iter().find(|part| part.key == key).map(|part| &*part.value);
                if let Some(label) = value("LABEL") {
                    jump = jump.filter(|wanted| *wanted != label);
                    perhaps.remove(label);
                    skipped.retain(|(wanted, _)| *wanted != label);
                }
                let actions = ["change", "add"].into_iter().filter(|action| {
                    Self::fits_action(parts, action) && !skipped.iter().any(|(_, skipped)| skipped == action)
                });
                let actions: Vec<&str> = actions.collect();
                let mut applies = match jump.is_some() || actions.is_empty() {
                    true => Applies::No,
                    false => self.fits(parts),
                };
                if !perhaps.is_empty() {
                    applies = applies.min(Applies::Unknown);
                }
                let is_other = |part: &Part| part.is_of_class() && self.compares(part) == Applies::No;
                let of_other_class = parts.iter().any(is_other) || (jump.is_some() && jumps_by_class);
                match (value("GOTO"), applies) {
                    (Some(label), Applies::Yes) if actions.len() == 1 && skipped.is_empty() => {
                        skipped.push((label, actions[0]));
                    }
                    (Some(label), Applies::Yes) => {
                        jump = Some(label);
                        jumps_by_class = parts.iter().any(|part| part.is_comparison() && part.is_of_class());
                    }
                    (Some(label), Applies::Unknown) => _ = perhaps.insert(label),
                    _ => {}
                }
                for part in parts {
                    if part.key == "RUN" && matches!(&*part.operator, "=" | ":=") && applies == Applies::Yes {
                        commands.clear();
                    }
                    let Some((is_command, scheduler)) = set_by(part) else { continue };
                    let applies = match named_disk(&part.value).filter(|_| is_command) {
                        Some(disk) if disk != self.name => Applies::No,
                        // At the event of another disk, perhaps.
                        Some(_) => applies.max(Applies::Unknown),
                        None => applies,
                    };
                    let action = actions.first().copied().unwrap_or("add");
                    let early = early(place, parts);
                    let set = Set { place, scheduler, applies, action, of_other_class, early };
                    match is_command {
                        true if !is_final => commands.push(set),
                        true => {}
                        false => found.push(set),
                    }
                    is_final |= is_command && part.operator == ":=" && applies == Applies::Yes;
                }
            }
        }
        found.extend(commands);
        found
    }
}

/// A scheduler that a line sets.
struct Set<'a> {
    place: &'a str,
    scheduler: String,
    applies: Applies,
    /// An event at which it does so.
    action: &'static str,
    /// Whether the line, or one that jumps over it, names a class of disks to which the disk does not belong.
    of_other_class: bool,
    /// A property that it compares and the file that sets it later.
    early: Option<(&'a str, &'static str)>,
}

/// A property that a line compares before udev reads the file that sets it.
fn early<'a>(place: &str, parts: &'a [Part]) -> Option<(&'a str, &'static str)> {
    let file = place.rsplit('/').next()?.split(':').next()?;
    let compared = parts.iter().filter(|part| part.key == "ENV" && part.is_comparison());
    let set_in = |part: &'a Part| {
        let (_, setter) = SETTERS.iter().find(|(start, _)| part.attribute.starts_with(start))?;
        (file < *setter).then_some((&*part.attribute, *setter))
    };
    compared.filter_map(set_in).next()
}

/// The findings about the rules for a device's disk.
pub(super) fn findings(roots: &Roots, device: &Device) -> Vec<Finding> {
    let files = Files::of(roots);
    let disks = roots.names("sys/block");
    let disks: Vec<Disk<'_>> = disks
        .iter()
        .filter(|name| roots.has(&format!("sys/block/{name}/queue")))
        .map(|name| Disk::of(roots, name))
        .collect();
    // The places of lines that may apply to a disk, and of those that name a class to which a disk belongs.
    let (mut anywhere, mut of_present_class) = (BTreeSet::new(), BTreeSet::new());
    for set in disks.iter().flat_map(|disk| disk.set(&files)) {
        if set.applies != Applies::No {
            anywhere.insert(set.place);
        }
        if !set.of_other_class {
            of_present_class.insert(set.place);
        }
    }
    let (name, active) = (&device.leaf.name, device.scheduler());
    let offers = |set: &&Set<'_>| device.leaf.available.contains(&set.scheduler);
    let mut found = mistakes(roots, &files);
    let all = Disk::of(roots, name).set(&files);
    for set in &all {
        let Set { place, scheduler, applies, .. } = set;
        if !OF_DISTRIBUTION.iter().any(|of| place.starts_with(of)) && !anywhere.contains(place) {
            const TEST: &str = "'udevadm test /sys/block/NAME' shows what matches";
            let (level, fix) = match of_present_class.contains(place) {
                true => (Level::Problem, format!("correct its conditions; {TEST}")),
                false => (Level::Note, format!("leave it, if this system lacks such disks; {TEST}")),
            };
            found.push(finding(
                level,
                "udev",
                format!("{place}: the rule that sets {scheduler} matches no disk"),
                fix,
            ));
        } else if *applies != Applies::No && !offers(&set) {
            let (level, condition) = match applies {
                Applies::Yes => (Level::Problem, ""),
                _ => (Level::Note, ", if the rule matches it"),
            };
            found.push(finding(
                level,
                "udev",
                format!(
                    "{place}: the kernel offers no scheduler '{scheduler}' for {name}{condition} (available: {})",
                    device.leaf.available.join(", ")
                ),
                format!(
                    "{}, or name an available one in the rule",
                    how_to_get(&roots.root, scheduler, &device.leaf.available)
                ),
            ));
        }
    }
    // The last line that matches decides. One that may match is the reason for the active scheduler, if it sets that.
    let last = all.iter().filter(offers).rfind(|set| {
        set.applies == Applies::Yes || (set.applies == Applies::Unknown && set.scheduler == active)
    });
    if let Some(Set { place, scheduler, action, early, .. }) = last.filter(|set| set.scheduler != active) {
        let what = format!("{place} sets {scheduler} for {name}, which has {active}");
        let (why, fix) = match early {
            Some((property, setter)) => (
                format!("{property} is empty there, because udev sets it in {setter}, which it reads later"),
                "give the file a later name, 90-dwell.rules for example, then udevadm control --reload && udevadm trigger"
                    .to_owned(),
            ),
            None => (
                "the rule did not run, or a program changed the scheduler later".to_owned(),
                format!("udevadm control --reload && udevadm trigger --action={action} /sys/block/{name}, then look for another program, such as tuned or dwell tune"),
            ),
        };
        // A finding of its own reports the tuner.
        let level = if tuner(roots, device).is_some() { Level::Note } else { Level::Problem };
        found.push(finding(level, "udev", format!("{what}: {why}"), fix));
    }
    found
}

/// An attribute that a line sets and that no disk has, and the remedy.
struct Unknown {
    /// As the line has it.
    written: String,
    level: Level,
    fix: String,
}

/// What lines can set.
struct Attributes<'a> {
    roots: &'a Roots,
    disks: Vec<String>,
    /// Those of queues, without those of schedulers.
    of_queues: BTreeSet<String>,
    of_schedulers: BTreeSet<&'static str>,
}

impl<'a> Attributes<'a> {
    fn of(roots: &'a Roots) -> Self {
        let disks = roots.names("sys/block");
        let of_queue = |disk: &String| {
            let queue = roots.names(&format!("sys/block/{disk}/queue"));
            queue.into_iter().map(|name| format!("queue/{name}"))
        };
        Self {
            roots,
            of_queues: disks.iter().flat_map(of_queue).collect(),
            of_schedulers: scheduler_settings().collect(),
            disks,
        }
    }

    /// Those of a line that no disk has.
    fn unknown(&self, parts: &[Part]) -> Vec<Unknown> {
        let other = |part: &Part| part.key == "SUBSYSTEM" && part.is_comparison() && !part.fits("block");
        let is_of_disks = !parts.iter().any(other);
        let set = parts.iter().filter(|part| {
            is_of_disks && part.key == "ATTR" && !part.is_comparison() && !part.is_elsewhere()
        });
        let set = set.map(|part| (format!("ATTR{{{}}}", part.attribute), part.attribute.clone()));
        let written = parts.iter().filter_map(command).flat_map(queue_files);
        let written = written.map(|name| (name.clone(), name));
        set.chain(written).filter_map(|(written, name)| self.judge(written, &name)).collect()
    }

    fn judge(&self, written: String, name: &str) -> Option<Unknown> {
        let on_a_disk = || self.disks.iter().any(|disk| self.roots.has(&format!("sys/block/{disk}/{name}")));
        let of_scheduler = name.strip_prefix(IOSCHED);
        let is_known = of_scheduler.is_some_and(|setting| self.of_schedulers.contains(setting));
        if is_known || self.of_queues.contains(name) || on_a_disk() {
            return None;
        }
        let near = match of_scheduler {
            // Modules have schedulers with other settings.
            Some(setting) => Some(did_you_mean(setting, self.of_schedulers.iter().copied()))
                .filter(|near| !near.is_empty())?,
            None if name.starts_with("queue/") => {
                did_you_mean(name, self.of_queues.iter().map(String::as_str))
            }
            None => {
                let slashes = name.replace('.', "/");
                let meant = [format!("queue/{slashes}"), slashes];
                match meant.into_iter().find(|meant| self.of_queues.contains(meant)) {
                    Some(meant) => format!("; did you mean '{meant}'?"),
                    None => Some(did_you_mean(name, ["scheduler"]))
                        .filter(|near| !near.is_empty())
                        .map(|_| format!("; did you mean '{SCHEDULER}'?"))?,
                }
            }
        };
        let level = if near.is_empty() { Level::Note } else { Level::Problem };
        let fix = format!("'ls /sys/block/NAME/queue' lists the attributes of a disk{near}");
        Some(Unknown { written, level, fix })
    }
}

/// The files of a queue that a command names: `queue/scheduler` of `/sys/block/%k/queue/scheduler`.
fn queue_files(command: &str) -> Vec<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '/';
    let after = command.split("/queue/").skip(1);
    let names = after.map(|rest| rest.split(|c| !is_name(c)).next().unwrap_or_default());
    names.filter(|name| !name.is_empty()).map(|name| format!("queue/{name}")).collect()
}

/// Lines and files that have no effect on any disk.
fn mistakes(roots: &Roots, files: &Files) -> Vec<Finding> {
    let mut found = Vec::new();
    for (replaced, by, schedulers) in &files.replaced {
        let schedulers = schedulers.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        found.push(finding(
            Level::Note,
            "udev",
            format!(
                "{replaced}, which sets {schedulers}, is not read: {by} has the same name and replaces it"
            ),
            "rename one of the two files, if both are to have an effect",
        ));
    }
    let attributes = Attributes::of(roots);
    for Line { place, parts } in files.read.iter().flatten() {
        let is_own = !OF_DISTRIBUTION.iter().any(|of| place.starts_with(of));
        let parts = match parts {
            Ok(parts) => parts,
            // Lines about other devices are no matter of I/O.
            Err((line, Rejection { cause, fix })) if is_own && line.contains("queue/") => {
                let what = format!("{place}: udev ignores this line, because {cause}: {}", line.trim());
                found.push(finding(Level::Problem, "udev", what, fix));
                continue;
            }
            Err(_) => continue,
        };
        for Unknown { written, level, fix } in attributes.unknown(parts).into_iter().filter(|_| is_own) {
            let what = format!("{place}: the rule sets {written}, which no disk has");
            found.push(finding(level, "udev", what, fix));
        }
        let of_queues = parts.iter().filter_map(command).filter(|command| command.contains("/queue/"));
        if let Some((command, sign)) =
            of_queues.filter_map(|command| Some((command, lacks_shell(command)?))).next()
        {
            // Within the quotes of the shell's argument, and of the rule.
            let inside = command.replace(['\'', '"'], "\\\"");
            found.push(finding(
                Level::Problem,
                "udev",
                format!(
                    "{place}: RUN starts no shell, so that '{sign}' is an argument of the program: {command}"
                ),
                format!(
                    "write RUN+=\"/bin/sh -c '{inside}'\", or set ATTR{{queue/…}}, which needs no program"
                ),
            ));
        }
        let of_queues = parts.iter().filter_map(command).filter(|command| command.contains("/queue/"));
        let is_own_program =
            |name: &str| ["lib", "usr/lib"].iter().any(|of| roots.has(&format!("{of}/udev/{name}")));
        let with_shell = of_queues.filter(|command| lacks_shell(command).is_none());
        if let Some(name) = with_shell.filter_map(relative).find(|name| !is_own_program(name)) {
            found.push(finding(
                Level::Problem,
                "udev",
                format!("{place}: udev looks for the program '{name}' of RUN only in /usr/lib/udev, which lacks it"),
                format!("write its path, such as /bin/{name}"),
            ));
        }
        let compares = parts.iter().find(|part| part.is("ATTR", SCHEDULER) && part.operator == "==");
        if let Some(Part { value, .. }) = compares.filter(|_| parts.iter().all(Part::is_comparison)) {
            found.push(finding(
                Level::Problem,
                "udev",
                format!("{place}: the rule compares the scheduler with '{value}' (==) and sets nothing"),
                format!("write ATTR{{{SCHEDULER}}}=\"{value}\""),
            ));
        }
    }
    found
}

//! `dwell doctor`: follows a unit, container or device down to the scheduler and its settings, and reports each broken or ineffective link.

mod finding;
mod limits;
mod roots;
mod rules;
mod snapshot;
#[cfg(test)]
mod tests;
mod udev;
mod udev_keys;
#[cfg(test)]
mod udev_tests;
mod unit;
mod values;

use std::io::Write;
use std::path::{Path, PathBuf};

use capture::topology::{Stack, home};
use capture::{Number, device_below};
use clap::Args;
use serde_json::{Value, json};

use self::finding::{Finding, Level};
pub(crate) use self::roots::Roots;
use self::rules::{of_cgroup, of_device};
use self::snapshot::Cgroup;
pub(crate) use self::snapshot::{Device, beside, settings};
use crate::error::Error;
use crate::output_file::{self, is_free};
use evaluation::report::format::object;

/// Options of `dwell doctor`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell doctor /dev/sda
  dwell doctor /var/lib/postgresql
  dwell doctor postgresql.service
  dwell doctor --bundle report.json")]
pub(crate) struct DoctorArguments {
    /// A device, a mount point, directory or file, a unit (NAME.service, .scope, .slice), or a container's identifier; default: every disk
    pub(crate) target: Option<String>,
    /// Also write every file that was read to this file, for a bug report
    #[arg(long, value_name = "FILE")]
    pub(crate) bundle: Option<PathBuf>,
    /// Replace that file if it exists
    #[arg(long, requires = "bundle")]
    pub(crate) overwrite: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// A device with its findings.
struct Examined {
    /// The path from the target down to the queue: `unit > cgroup > file systems > stack`.
    path: String,
    settings: String,
    findings: Vec<Finding>,
}

pub(crate) fn run(arguments: &DoctorArguments) -> Result<(), Error> {
    arguments.bundle.as_deref().map(|file| is_free(file, arguments.overwrite)).transpose()?;
    let roots = Roots::at(Path::new("/"));
    let examined = examine(&roots, arguments.target.as_deref(), &|file| home(file))?;
    if let Some(file) = &arguments.bundle {
        let text = object(&bundle(&roots, &examined))?;
        output_file::write_private(file, text.as_bytes())?;
    }
    let mut out = std::io::stdout().lock();
    if arguments.json {
        return Ok(writeln!(out, "{}", object(&json!({"examined": as_json(&examined)}))?)?);
    }
    Ok(out.write_all(in_words(&examined).as_bytes())?)
}

/// Examines a target in these trees. `home` returns the device that holds a file.
fn examine(
    roots: &Roots,
    target: Option<&str>,
    home: &dyn Fn(&Path) -> Option<Number>,
) -> Result<Vec<Examined>, Error> {
    let stack = |number| Stack::below(&roots.root.join("sys"), number, home).ok();
    let alone = |stack: &Stack| of_one(roots, stack, None, Vec::new());
    match target {
        None => {
            let disks = roots.names("sys/block").into_iter().filter(|name| {
                let plain = !["loop", "ram", "zram"].iter().any(|kind| name.starts_with(kind));
                plain && roots.has(&format!("sys/block/{name}/queue/scheduler"))
            });
            let found = disks.filter_map(|name| stack(number(roots, &name)?));
            let all: Vec<Examined> = found.map(|stack| alone(&stack)).collect();
            if all.is_empty() {
                return Err(Error::Failed("no disk with a queue; name a device".to_owned()));
            }
            Ok(all)
        }
        Some(name) => {
            let plain = name.strip_prefix("/dev/").unwrap_or(name);
            if let Some(stack) = number(roots, plain).and_then(stack) {
                return Ok(vec![alone(&stack)]);
            }
            let Some(cgroup) = Cgroup::find(roots, name) else {
                if !Path::new(name).exists() {
                    let name = if name.is_empty() { "''" } else { name };
                    return Err(Error::Usage(format!(
                        "{name}: no such device or file, and no control group (version 2) of a running unit or container; \
                         write /dev/sda, a directory, NAME.service, or at least six digits of a container's identifier"
                    )));
                }
                let number = device_below(Path::new(name))?;
                let stack = Stack::below(&roots.root.join("sys"), number, home)?;
                return Ok(vec![alone(&stack)]);
            };
            let numbers = cgroup.devices(roots);
            if numbers.is_empty() {
                return Err(Error::Failed(format!(
                    "{name}: {} used no device since it started, or the io controller is off and its processes have no file of a device open; name the device \
                     instead",
                    cgroup.path
                )));
            }
            let stacks: Vec<Stack> = numbers.into_iter().filter_map(stack).collect();
            // The kernel counts the requests of a mapped device or an array for its disks as well.
            let is_below = |one: &Stack| {
                let number = one.itself().number;
                stacks.iter().any(|other| other.itself().number != number && other.contains(number))
            };
            let highest = stacks.iter().filter(|stack| !is_below(stack));
            let of_group = |stack: &Stack| {
                let limits = limits::findings(roots, &cgroup, &stacks, stack, home);
                of_one(roots, stack, Some(&cgroup), limits)
            };
            Ok(highest.map(of_group).collect())
        }
    }
}

/// The number of a device by its name: a disk, or a partition of one.
fn number(roots: &Roots, name: &str) -> Option<Number> {
    let name = name.replace('/', "!");
    let text = roots
        .read(&format!("sys/class/block/{name}/dev"))
        .or_else(|| roots.read(&format!("sys/block/{name}/dev")))?;
    capture::number(&text)
}

/// `findings` are those that concern no queue.
fn of_one(roots: &Roots, stack: &Stack, cgroup: Option<&Cgroup>, mut findings: Vec<Finding>) -> Examined {
    let devices = Device::with_each_queue(roots, stack);
    for device in &devices {
        let of_group = cgroup.filter(|_| device.orders());
        let of_group = of_group.map(|cgroup| of_cgroup(roots, cgroup, device)).unwrap_or_default();
        for finding in
            of_group.into_iter().chain(of_device(roots, device)).chain(udev::findings(roots, device))
        {
            // Some concern all members of an array.
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        }
    }
    findings.sort_by_key(|finding| finding.level);
    let group = cgroup.map(|cgroup| format!("cgroup {}", cgroup.path));
    let mounts = devices.first().into_iter().flat_map(|device| &device.mounts);
    let mounts = beside(&mounts.map(ToString::to_string).collect::<Vec<_>>());
    let path: Vec<String> = group.into_iter().chain(mounts).chain([stack.describe()]).collect();
    let settings = |device: &Device| {
        let each: Vec<String> =
            device.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{}: {}", device.leaf.name, each.join(" "))
    };
    let settings = devices.iter().map(settings).collect::<Vec<_>>().join("\n");
    Examined { path: path.join(" > "), settings, findings }
}

fn as_json(examined: &[Examined]) -> Value {
    let one = |one: &Examined| json!({"path": one.path, "settings": one.settings, "findings": one.findings});
    examined.iter().map(one).collect()
}

fn bundle(roots: &Roots, examined: &[Examined]) -> Value {
    json!({
        "program": env!("CARGO_PKG_VERSION"), "kernel": roots.read("proc/version"), "examined": as_json(examined),
        "files": roots.files().iter().map(|(path, text)| (path.display().to_string(), Value::from(text.as_str()))).collect::<serde_json::Map<_, _>>(),
    })
}

fn in_words(examined: &[Examined]) -> String {
    let mut text = String::new();
    for Examined { path, settings, findings } in examined {
        text += &format!("{path}\n{settings}\n");
        if findings.is_empty() {
            text += "  ok: no broken link\n";
        }
        for Finding { level, link, what, fix } in findings {
            let level = match level {
                Level::Problem => "PROBLEM",
                Level::Warning => "warning",
                Level::Note => "note",
            };
            text += &format!("  {level} ({link}): {what}\n    {fix}\n");
        }
    }
    text
}

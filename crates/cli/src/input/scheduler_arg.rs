//! Schedulers on the command line: `stream(deadline){stream_time_slice=50ms}`, or a TOML file with the same content.

use std::collections::BTreeMap;

use elevator::Value;
use evaluation::scheduler_page::scheduler_page;
use evaluation::text_file;
use kernel_host::Elevator;
use schedulers::registry::{self, Catalogue};
use schedulers::{Listing, Spec};

use crate::error::Error;

/// The scheduler that `text` names.
pub(crate) fn spec(catalogue: Catalogue, text: &str) -> Result<Spec, Error> {
    if is_page(text) {
        let page = text_file::read(text, "scheduler file")?;
        return Ok(scheduler_page(catalogue, text, &page)?);
    }
    Spec::parse_in(catalogue, text).map_err(|error| Error::Usage(error.to_string()))
}

/// The policy that is this scheduler of the kernel, or this elevator of Dwell's module, with settings as the kernel writes them:
/// `bfq{slice_idle=0}`. `None` if there is none, or if it lacks a setting.
pub(crate) fn of_kernel(catalogue: Catalogue, text: &str) -> Option<Spec> {
    let (name, settings) = text.split_once('{').unwrap_or((text, ""));
    let module = Elevator::named(name);
    let policy = module.map_or(if name == "none" { "noop" } else { name }, |module| module.spec);
    let plain = Spec::parse_in(catalogue, policy).ok()?;
    let settings: Vec<&str> = settings.trim_end_matches('}').split(',').map(str::trim).collect();
    if settings.iter().all(|setting| setting.is_empty()) {
        return Some(plain);
    }
    // The module's elevators take values with units, as policies do.
    let settings: Option<Vec<String>> = match module {
        Some(_) => Some(settings.iter().map(|setting| (*setting).to_owned()).collect()),
        None => settings.iter().map(|setting| setting_of_kernel(&plain, setting)).collect(),
    };
    Spec::parse_in(catalogue, &format!("{policy}{{{}}}", settings?.join(", "))).ok()
}

/// A setting with the policy's name and unit: the kernel has milliseconds, unless the name ends in a unit, and kilobytes.
fn setting_of_kernel(policy: &Spec, text: &str) -> Option<String> {
    let (name, value) = text.split_once('=')?;
    let units = [("_nsec", "ns"), ("_us", "us")];
    let unit = units.into_iter().find_map(|(end, unit)| Some((name.strip_suffix(end)?, unit)));
    let (name, unit) = unit.unwrap_or((name, "ms"));
    match policy.listing().tunable(name)?.default {
        Value::Span(_) => Some(format!("{name}={value}{unit}")),
        Value::Sectors(_) if name == "back_seek_max" => {
            Some(format!("{name}={}", value.parse::<u64>().ok()?.checked_mul(2)?))
        }
        _ => Some(format!("{name}={value}")),
    }
}

/// Rejects a scheduler with a part above the block layer.
pub(crate) fn without_split_hooks(spec: Spec) -> Result<Spec, Error> {
    let hint = "'dwell run' and 'dwell serve --attach --causes' have them";
    spec.at_the_block().map_err(|error| Error::Usage(format!("{}; {hint}", error.kind)))
}

/// The scheduler that `text` names. Rejects schedulers that need an array or hooks above the block layer.
pub(crate) fn for_one_device(catalogue: Catalogue, text: &str) -> Result<Spec, Error> {
    without_array(without_split_hooks(spec(catalogue, text)?)?)
}

/// The scheduler that `text` names, for a device whose causes are observed. Rejects schedulers that need an array.
pub(crate) fn for_device_with_causes(catalogue: Catalogue, text: &str) -> Result<Spec, Error> {
    without_array(spec(catalogue, text)?)
}

/// The scheduler that `text` names, for a member of an array.
pub(crate) fn for_member(catalogue: Catalogue, text: &str) -> Result<Spec, Error> {
    without_split_hooks(spec(catalogue, text)?)
}

/// A served stream that broke is tried again after so many slices. A real host is sometimes late by tens of milliseconds, which breaks
/// streams that are worth waiting for; in the model, where the policy's default is the paper's (never again), nothing is late. For the same
/// reason members accept late children.
const RETRY_SLICES: u64 = 4;

/// What `stream(X)` and `dwell` become on an array: `array-stream(X)` and `array-stream(dwell)`, which add the coordinator. `None` for other
/// schedulers.
pub(crate) fn coordinated(catalogue: Catalogue, spec: &Spec) -> Result<Option<Spec>, Error> {
    let name = spec.to_string();
    if spec.listing().is_coordinated {
        return self::spec(catalogue, &format!("array-stream({name}){{retry_slices={RETRY_SLICES}}}"))
            .map(Some);
    }
    let Some(inside) = name.strip_prefix("stream(").filter(|_| !spec.listing().needs_array()) else {
        return Ok(None);
    };
    let before = inside.strip_suffix('}').map_or_else(|| format!("{inside}{{"), |it| format!("{it},"));
    self::spec(catalogue, &format!("array-stream({before}retry_slices={RETRY_SLICES},late_child=on}}"))
        .map(Some)
}

fn without_array(spec: Spec) -> Result<Spec, Error> {
    if spec.listing().needs_array() {
        return Err(Error::Usage(format!(
            "{spec} coordinates the members of an array, and this is a single device; use stream(...)"
        )));
    }
    Ok(spec)
}

/// The full name with settings, for a server that cannot read the TOML file.
pub(crate) fn full_name(catalogue: Catalogue, text: &str) -> Result<String, Error> {
    if is_page(text) { spec(catalogue, text).map(|spec| spec.to_string()) } else { Ok(text.to_owned()) }
}

/// Where schedulers run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Host {
    /// In front of one device.
    Disk,
    /// In front of the members of an array.
    Array,
    /// On a machine with system calls and a page cache.
    Machine,
}

/// Built-in policies that run by default: the schedulers of current kernels (`none` is called `noop`), and policies that no kernel has. The
/// other policies are historical and need `--all`.
const BY_DEFAULT: [&str; 7] = ["noop", "mq-deadline", "kyber", "bfq", "cooperative", "stream", "dwell"];

fn runs_by_default(listing: &Listing) -> bool {
    let is_own = !registry::all().any(|known| known == listing);
    is_own || listing.needs_array() || BY_DEFAULT.contains(&listing.name)
}

/// The schedulers with these names; without names, those that run by default and fit the host, or all that fit it.
pub(crate) fn specs(
    catalogue: Catalogue,
    names: &[String],
    host: Host,
    all: bool,
) -> Result<Vec<Spec>, Error> {
    let on_array = host == Host::Array;
    if names.is_empty() {
        let fits = catalogue.all().filter(|listing| !listing.split && (on_array || !listing.needs_array()));
        return Ok(fits.filter(|listing| all || runs_by_default(listing)).map(Spec::of).collect());
    }
    let checked = |name| {
        let spec = spec(catalogue, name)?;
        let spec = if host == Host::Disk { without_split_hooks(spec)? } else { spec };
        if on_array && spec.is_split() {
            return Err(Error::Usage(format!(
                "{spec} also schedules system calls and the page cache, which needs one queue, and an array has a queue \
                 for each member; omit --array, or choose a scheduler of the block layer only"
            )));
        }
        if spec.listing().needs_array() && !on_array {
            return Err(Error::Usage(format!(
                "{spec} coordinates the members of an array; add --array, or use stream(...)"
            )));
        }
        Ok(spec)
    };
    names.iter().map(|name: &String| checked(name)).collect()
}

/// The HZ values of schedulers that count time in jiffies, in one line.
pub(crate) fn ticks(specs: &[Spec]) -> Option<String> {
    let mut by_rate: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for spec in specs {
        if let Some(Value::Count(hz)) = spec.listing().tunable("hz").map(|hz| spec.value(hz)) {
            by_rate.entry(hz).or_default().push(spec.to_string());
        }
    }
    let rates = by_rate.into_iter().map(|(hz, names)| format!("{hz} for {}", names.join(", ")));
    let rates = rates.collect::<Vec<_>>().join("; ");
    (!rates.is_empty()).then(|| format!("ticks a second (HZ): {rates}"))
}

fn is_page(text: &str) -> bool {
    text.ends_with(".toml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_kernel_have_its_units() {
        let of = |text: &str| of_kernel(Catalogue::default(), text).map(|spec| spec.to_string());
        let is = |text: &str| Some(text.to_owned());
        assert_eq!(of("none"), is("noop"));
        assert_eq!(of("bfq{low_latency=0, slice_idle_us=4000}"), is("bfq{low_latency=off, slice_idle=4ms}"));
        assert_eq!(
            of("mq-deadline{read_expire=80}").as_deref().map(|t| t.contains("read_expire=80ms")),
            Some(true)
        );
        assert_eq!(of("kyber{read_lat_nsec=1000000}"), is("kyber{read_lat=1ms}"));
        assert_eq!(of("bfq{nr_requests=8}"), None, "a setting of the queue");
        assert_eq!(of("no-such{a=1}"), None);
    }

    #[test]
    fn stream_and_dwell_are_coordinated_on_an_array_and_others_are_not() {
        let of = |text: &str| {
            let given = spec(Catalogue::default(), text).unwrap();
            coordinated(Catalogue::default(), &given).unwrap().map(|spec| spec.to_string())
        };
        let is = |text: &str| Some(text.to_owned());
        assert_eq!(
            of("stream(deadline)"),
            is("array-stream(deadline-2.6.32){retry_slices=4, late_child=on}")
        );
        assert_eq!(
            of("stream(noop){stream_time_slice=50ms}"),
            is("array-stream(noop){stream_time_slice=50ms, retry_slices=4, late_child=on}")
        );
        assert_eq!(
            of("stream(deadline{fifo_batch=1})"),
            is("array-stream(deadline-2.6.32{fifo_batch=1}){retry_slices=4, late_child=on}")
        );
        assert_eq!(of("dwell{light_share=50%}"), is("array-stream(dwell{light_share=50%}){retry_slices=4}"));
        assert_eq!(of("array-stream(noop)"), None);
        assert_eq!(of("bfq"), None);
    }
}

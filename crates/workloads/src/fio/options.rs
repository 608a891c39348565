//! The options of fio that are known: applied, without effect on the requests, or rejected.

use elevator::text::did_you_mean;

/// What happens to an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Support {
    /// Applied; the text names limits.
    Applied(&'static str),
    /// Accepted with a note, whose text gives the reason: the option changes neither the requests nor their times.
    NoEffect(&'static str),
    /// Only these values are accepted: they describe the behaviour of the model. The text gives the reason.
    Only(&'static [&'static str], &'static str),
    /// Rejected; the text is the advice to the user.
    Rejected(&'static str),
}

use Support::{Applied, NoEffect, Only, Rejected};

const NONE: &str = "";
const REPORT: &str = "only affects fio's report";
const CONTENT: &str = "only affects the content of buffers";
const LOCAL: &str = "only affects the machine that runs fio";
const FILE: &str = "files exist with their full length when the run begins";
const VERIFY: &str = "only verification after each pass is supported; remove it";
const ZONES: &str = "zones are not supported; use random_distribution=zoned for hot and cold regions";
const TARGET: &str = "closed loops on latency are not supported";
const MIN_RATE: &str = "a job is not aborted when it misses a rate; remove the option";
const REPLAY: &str = "give the I/O log itself as the workload";

/// Every known option, aliases included.
pub const OPTIONS: &[(&str, Support)] = &[
    ("filename", Applied("several files with `:` between them")),
    ("rw", Applied("read, write, trim, rw, trimwrite, and their random forms, with `:N` behind them")),
    ("readwrite", Applied("as `rw`")),
    ("rw_sequencer", Applied("sequential, identical")),
    ("bs", Applied("multiples of 512 bytes, by direction")),
    ("blocksize", Applied("as `bs`")),
    ("bsrange", Applied("by direction")),
    ("blocksize_range", Applied("as `bsrange`")),
    ("bssplit", Applied("by direction")),
    ("bs_is_seq_rand", Applied(NONE)),
    ("blockalign", Applied("by direction")),
    ("ba", Applied("as `blockalign`")),
    ("size", Applied("bytes, or a percentage of the device or of `filesize`; without it, the whole device")),
    ("filesize", Applied("bytes")),
    ("io_size", Applied("bytes, or a percentage of `size`")),
    ("io_limit", Applied("as `io_size`")),
    ("number_ios", Applied(NONE)),
    ("loops", Applied(NONE)),
    ("offset", Applied("multiples of 512 bytes, or a percentage of the device or of `filesize`")),
    ("offset_increment", Applied("as `offset`")),
    ("offset_align", Applied("for percentages")),
    ("numjobs", Applied("1 to 4096")),
    ("iodepth", Applied("except in `dwell run`, where system calls wait for each other")),
    (
        "ioengine",
        Applied(
            "sync, psync, vsync, pvsync, pvsync2, libaio, io_uring, posixaio, io_uring_cmd; mmap as buffered reads and writes",
        ),
    ),
    ("direct", Applied(NONE)),
    ("buffered", Applied(NONE)),
    ("sync", Applied("`dsync` counts as `sync`")),
    ("rwmixread", Applied(NONE)),
    ("rwmixwrite", Applied(NONE)),
    ("percentage_random", Applied("by direction")),
    ("random_distribution", Applied("random, zipf, pareto, normal, zoned, zoned_abs")),
    ("norandommap", Applied(NONE)),
    ("randseed", Applied("the sequence differs from fio's for the same seed")),
    ("rate", Applied("by direction")),
    ("rate_iops", Applied("by direction")),
    ("rate_process", Applied("linear, poisson")),
    ("rate_ignore_thinktime", Applied(NONE)),
    ("thinktime", Applied(NONE)),
    ("thinktime_spin", Applied("at most `thinktime`; spinning and sleeping take the same time here")),
    ("thinktime_blocks", Applied("requests count when they are issued")),
    ("thinktime_iotime", Applied(NONE)),
    ("runtime", Applied(NONE)),
    ("timeout", Applied("as `runtime`")),
    ("time_based", Applied(NONE)),
    (
        "startdelay",
        Applied("a time, or a range from which each clone draws one; counted from the start of the run"),
    ),
    ("start_delay", Applied("as `startdelay`")),
    ("stonewall", Applied(NONE)),
    ("wait_for_previous", Applied("as `stonewall`")),
    ("wait_for", Applied("the name of a job before it")),
    ("exitall", Applied("when one job has ended, all others end; a job in a pause within 10 ms")),
    ("exit_what", Applied("group, stonewall, all")),
    ("new_group", Applied("for `exitall`; results are by job")),
    ("nrfiles", Applied("1 to 100000; without effect if `filename` is given")),
    ("nr_files", Applied("as `nrfiles`")),
    ("openfiles", Applied(NONE)),
    ("file_service_type", Applied("roundrobin, sequential, random, with `:N` behind them")),
    ("fsync", Applied(NONE)),
    ("fdatasync", Applied(NONE)),
    ("end_fsync", Applied(NONE)),
    ("fsync_on_close", Applied(NONE)),
    ("prio", Applied(NONE)),
    ("prioclass", Applied(NONE)),
    ("ramp_time", Applied("lengthens `runtime`; the results include it")),
    ("iodepth_batch", Applied(NONE)),
    ("iodepth_batch_submit", Applied("as `iodepth_batch`")),
    ("iodepth_batch_complete", Applied("as `iodepth_batch_complete_min`")),
    ("iodepth_batch_complete_min", Applied("at the level of requests")),
    ("iodepth_low", Applied("at the level of requests")),
    (
        "verify",
        Applied("the job reads what it has written after each pass, unless `time_based`; all methods alike"),
    ),
    ("do_verify", Applied(NONE)),
    ("iodepth_batch_complete_max", NoEffect("all completed requests are reaped at once")),
    (
        "thinktime_blocks_type",
        Only(&["issue", "complete"], "requests count when they are issued, with either value"),
    ),
    ("io_submit_mode", Only(&["inline"], "requests are submitted by the job itself")),
    ("kb_base", Only(&["1024"], "sizes are read with 1024; write the sizes in bytes")),
    ("bs_unaligned", Only(&["0"], "block sizes are multiples of 512 bytes")),
    ("zonemode", Only(&["none"], ZONES)),
    ("pre_read", Only(&["0"], "the page cache is empty when the run begins")),
    ("create_only", Only(&["0"], "files exist when the run begins")),
    ("fill_device", Only(&["0"], "give the size")),
    ("group_reporting", NoEffect(REPORT)),
    ("unified_rw_reporting", NoEffect(REPORT)),
    ("stats", NoEffect(REPORT)),
    ("name", NoEffect("the section's name is used")),
    ("description", NoEffect(REPORT)),
    ("disable_lat", NoEffect(REPORT)),
    ("disable_clat", NoEffect(REPORT)),
    ("disable_slat", NoEffect(REPORT)),
    ("disable_bw_measurement", NoEffect(REPORT)),
    ("lat_percentiles", NoEffect(REPORT)),
    ("clat_percentiles", NoEffect(REPORT)),
    ("slat_percentiles", NoEffect(REPORT)),
    ("percentile_list", NoEffect(REPORT)),
    ("significant_figures", NoEffect(REPORT)),
    ("log_avg_msec", NoEffect(REPORT)),
    ("log_hist_msec", NoEffect(REPORT)),
    ("log_max_value", NoEffect(REPORT)),
    ("log_offset", NoEffect(REPORT)),
    ("per_job_logs", NoEffect(REPORT)),
    ("bwavgtime", NoEffect(REPORT)),
    ("iopsavgtime", NoEffect(REPORT)),
    ("write_bw_log", NoEffect(REPORT)),
    ("write_lat_log", NoEffect(REPORT)),
    ("write_iops_log", NoEffect(REPORT)),
    ("write_hist_log", NoEffect(REPORT)),
    ("write_iolog", NoEffect(REPORT)),
    ("gtod_reduce", NoEffect(REPORT)),
    ("clocksource", NoEffect(REPORT)),
    ("unit_base", NoEffect(REPORT)),
    ("status-interval", NoEffect(REPORT)),
    ("eta", NoEffect(REPORT)),
    ("error_dump", NoEffect(REPORT)),
    ("continue_on_error", NoEffect("the modelled drive does not fail")),
    ("ignore_error", NoEffect("the modelled drive does not fail")),
    ("buffer_pattern", NoEffect(CONTENT)),
    ("buffer_compress_percentage", NoEffect(CONTENT)),
    ("buffer_compress_chunk", NoEffect(CONTENT)),
    ("dedupe_percentage", NoEffect(CONTENT)),
    ("refill_buffers", NoEffect(CONTENT)),
    ("zero_buffers", NoEffect(CONTENT)),
    ("scramble_buffers", NoEffect(CONTENT)),
    ("mem", NoEffect(LOCAL)),
    ("iomem", NoEffect(LOCAL)),
    ("iomem_align", NoEffect(LOCAL)),
    ("mem_align", NoEffect(LOCAL)),
    ("lockmem", NoEffect(LOCAL)),
    ("thread", NoEffect(LOCAL)),
    ("nice", NoEffect(LOCAL)),
    ("cpus_allowed", NoEffect(LOCAL)),
    ("cpus_allowed_policy", NoEffect(LOCAL)),
    ("cpumask", NoEffect(LOCAL)),
    ("numa_cpu_nodes", NoEffect(LOCAL)),
    ("numa_mem_policy", NoEffect(LOCAL)),
    ("hipri", NoEffect("polling is not modelled")),
    ("registerfiles", NoEffect(LOCAL)),
    ("fixedbufs", NoEffect(LOCAL)),
    ("sqthread_poll", NoEffect(LOCAL)),
    ("sqthread_poll_cpu", NoEffect(LOCAL)),
    ("uid", NoEffect(LOCAL)),
    ("gid", NoEffect(LOCAL)),
    ("directory", NoEffect("files lie in one directory of the modelled disk")),
    ("filename_format", NoEffect("files lie in one directory of the modelled disk")),
    ("unique_filename", NoEffect("files lie in one directory of the modelled disk")),
    ("lockfile", NoEffect("the modelled kernel locks files for writes itself")),
    ("allow_file_create", NoEffect(FILE)),
    ("create_on_open", NoEffect(FILE)),
    ("create_serialize", NoEffect(FILE)),
    ("create_fsync", NoEffect(FILE)),
    ("overwrite", NoEffect(FILE)),
    ("file_append", Rejected("appending is not supported; a script's `write` step can append")),
    ("fallocate", NoEffect(FILE)),
    ("unlink", NoEffect("the modelled files do not outlast the run")),
    ("invalidate", NoEffect("the page cache is empty when the run begins")),
    ("fadvise_hint", NoEffect("posix_fadvise is not modelled")),
    ("randrepeat", NoEffect("the sequence depends only on `randseed` and a study's seed")),
    ("allrandrepeat", NoEffect("the sequence depends only on `randseed` and a study's seed")),
    ("random_generator", NoEffect("one generator is used")),
    ("softrandommap", NoEffect("the map always fits in memory")),
    ("exec_prerun", Rejected("programs are not run; remove the option")),
    ("exec_postrun", Rejected("programs are not run; remove the option")),
    ("rate_min", Rejected(MIN_RATE)),
    ("rate_iops_min", Rejected(MIN_RATE)),
    ("rate_cycle", Rejected(MIN_RATE)),
    ("max_latency", Rejected("a job is not aborted for a latency; remove the option")),
    ("latency_target", Rejected(TARGET)),
    ("latency_window", Rejected(TARGET)),
    ("latency_percentile", Rejected(TARGET)),
    ("latency_run", Rejected(TARGET)),
    ("zonesize", Rejected(ZONES)),
    ("zonerange", Rejected(ZONES)),
    ("zoneskip", Rejected(ZONES)),
    ("verify_backlog", Rejected(VERIFY)),
    ("trim_percentage", Rejected("discards within a write job are not supported; add a job with rw=trim")),
    ("read_iolog", Rejected(REPLAY)),
    ("replay_redirect", Rejected(REPLAY)),
    ("replay_no_stall", Rejected(REPLAY)),
    ("flow", Rejected("jobs do not pace each other; use rate_iops")),
    ("cmdprio_percentage", Rejected("one priority per job is supported; write one job per priority")),
    ("disk_util", NoEffect(REPORT)),
    ("block_error_percentiles", NoEffect(REPORT)),
    ("log_alternate_epoch", NoEffect(REPORT)),
    ("log_alternate_epoch_clock_id", NoEffect(REPORT)),
    ("log_unix_epoch", NoEffect(REPORT)),
    ("log_compression", NoEffect(REPORT)),
    ("log_compression_cpus", NoEffect(REPORT)),
    ("log_store_compressed", NoEffect(REPORT)),
    ("log_entries", NoEffect(REPORT)),
    ("log_hist_coarseness", NoEffect(REPORT)),
    ("log_prio", NoEffect(REPORT)),
    ("dedupe_global", NoEffect(CONTENT)),
    ("dedupe_mode", NoEffect(CONTENT)),
    ("dedupe_working_set_percentage", NoEffect(CONTENT)),
    ("verify_pattern", NoEffect(CONTENT)),
    ("verify_offset", NoEffect(CONTENT)),
    ("verify_interval", NoEffect("verification reads all that was written")),
    ("trim_verify_zero", NoEffect(CONTENT)),
    ("verify_async", NoEffect(LOCAL)),
    ("verify_async_cpus", NoEffect(LOCAL)),
    ("verify_dump", NoEffect(LOCAL)),
    ("verify_fatal", NoEffect(LOCAL)),
    ("verify_state_save", NoEffect(LOCAL)),
    ("verify_state_load", NoEffect(LOCAL)),
    ("verifysort", NoEffect(LOCAL)),
    ("gtod_cpu", NoEffect(LOCAL)),
    ("hugepage-size", NoEffect(LOCAL)),
    ("allow_mounted_write", NoEffect(LOCAL)),
    ("unlink_each_loop", NoEffect(FILE)),
    ("exitall_on_error", NoEffect("the modelled drive does not fail")),
    ("write_hint", NoEffect("write hints are not modelled")),
    ("verify_backlog_batch", Rejected(VERIFY)),
    ("verify_only", Rejected(VERIFY)),
    ("experimental_verify", Rejected(VERIFY)),
    ("read_beyond_wp", Rejected(ZONES)),
    ("max_open_zones", Rejected(ZONES)),
    ("job_max_open_zones", Rejected(ZONES)),
    ("ignore_zone_limits", Rejected(ZONES)),
    ("zone_reset_threshold", Rejected(ZONES)),
    ("zone_reset_frequency", Rejected(ZONES)),
    ("zonecapacity", Rejected(ZONES)),
    ("read_iolog_chunked", Rejected(REPLAY)),
    ("replay_align", Rejected(REPLAY)),
    ("replay_scale", Rejected(REPLAY)),
    ("replay_skip", Rejected(REPLAY)),
    ("replay_time_scale", Rejected(REPLAY)),
    ("merge_blktrace_file", Rejected(REPLAY)),
    ("merge_blktrace_scalars", Rejected(REPLAY)),
    ("merge_blktrace_iters", Rejected(REPLAY)),
    ("flow_id", Rejected("jobs do not pace each other; use rate_iops")),
    ("flow_sleep", Rejected("jobs do not pace each other; use rate_iops")),
    ("cgroup", Rejected("control groups are not modelled; use prio or prioclass")),
    ("cgroup_weight", Rejected("control groups are not modelled; use prio or prioclass")),
    ("cgroup_nodelete", Rejected("control groups are not modelled; use prio or prioclass")),
    ("ioscheduler", Rejected("name schedulers with --scheduler")),
    ("steadystate", Rejected("a job does not end at a steady state; give it a runtime")),
    ("steadystate_duration", Rejected("a job does not end at a steady state; give it a runtime")),
    ("steadystate_ramp_time", Rejected("a job does not end at a steady state; give it a runtime")),
    ("sync_file_range", Rejected("use fsync or fdatasync")),
    ("write_barrier", Rejected("use fsync or fdatasync")),
    ("trim_backlog", Rejected("discards within a write job are not supported; add a job with rw=trim")),
    ("trim_backlog_batch", Rejected("discards within a write job are not supported; add a job with rw=trim")),
    (
        "serialize_overlap",
        Rejected("overlapping requests are not serialised; remove norandommap or lower iodepth"),
    ),
    ("atomic", Rejected("atomic writes are not modelled")),
    ("opendir", Rejected("name the files with filename")),
    ("profile", Rejected("write the profile as jobs")),
];

const UNKNOWN: &str = "is not a supported option; remove it if the result does not depend on it";

/// What happens to an option.
///
/// # Errors
/// The option is unknown; the text proposes a similar one.
pub(super) fn support(name: &str) -> Result<Support, String> {
    match OPTIONS.iter().find(|(known, _)| *known == name) {
        Some((_, support)) => Ok(*support),
        None => Err(UNKNOWN.to_owned() + &did_you_mean(name, OPTIONS.iter().map(|(name, _)| *name))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_listed_once_and_mistyped_ones_are_recognised() {
        for (index, (name, _)) in OPTIONS.iter().enumerate() {
            assert!(OPTIONS[..index].iter().all(|(other, _)| other != name), "{name} is listed twice");
        }
        assert!(support("iodepht").unwrap_err().contains("; did you mean 'iodepth'"));
        assert_eq!(support("quite_different").unwrap_err(), UNKNOWN);
    }

    /// The table in `docs/fio.md` is this one.
    #[test]
    fn the_documentation_lists_every_option() {
        let page = include_str!("../../../../docs/fio.md");
        let line = |(name, support): &(&str, Support)| {
            let (what, text) = match support {
                Applied(text) => ("applied", (*text).to_owned()),
                NoEffect(text) => ("no effect", (*text).to_owned()),
                Only(values, text) => ("only", format!("{}: {text}", values.join(", "))),
                Rejected(text) => ("rejected", (*text).to_owned()),
            };
            format!("| `{name}` | {what} | {text} |")
        };
        let table: Vec<String> = OPTIONS.iter().map(line).collect();
        let documented: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(documented, table, "expected table:\n{}\n", table.join("\n"));
    }
}

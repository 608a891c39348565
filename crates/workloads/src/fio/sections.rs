//! From the sections of a job file to jobs, and what relates sections: the shared device, groups and waiting, names, and the places of files.

use std::collections::{BTreeMap, BTreeSet};

use elevator::Sector;

use super::draft::Draft;
use super::job::Job;
use super::parse::{JobFileError, Section, Setting};

pub(super) fn jobs(
    file: &str,
    sections: &[Section],
    device_bytes: Option<u64>,
    notes: &mut Vec<String>,
) -> Result<Vec<Job>, JobFileError> {
    let mut globals: Vec<Setting> = Vec::new();
    let (mut drafts, mut problems) = (Vec::new(), Vec::new());
    for section in sections {
        // fio compares the first six letters.
        if section.name.starts_with("global") {
            globals.extend(section.settings.iter().cloned());
            continue;
        }
        let settings: Vec<&Setting> = globals.iter().chain(&section.settings).collect();
        match Draft::read(file, section, &settings, device_bytes, notes) {
            Ok(draft) => drafts.push(draft),
            Err(found) => problems.extend(found),
        }
    }
    if let Some(all) = JobFileError::together(problems) {
        return Err(all);
    }
    if drafts.is_empty() {
        let problem = "has no job: add a section beside [global]".to_owned();
        return Err(JobFileError { file: file.to_owned(), line: 1, problem });
    }
    let error = |draft: &Draft, problem: String| {
        let problem = format!("[{}] {problem}", draft.job.name);
        JobFileError { file: file.to_owned(), line: draft.line, problem }
    };
    share_device(&mut drafts).map_err(|(index, problem)| error(&drafts[index], problem))?;
    relate(&mut drafts).map_err(|(index, problem)| error(&drafts[index], problem))?;
    let mut jobs = Vec::new();
    for draft in &drafts {
        jobs.extend(draft.clones(jobs.len() as u64).map_err(|problem| error(draft, problem))?);
    }
    place(&mut jobs);
    number_names(&mut jobs);
    Ok(jobs)
}

/// The file of jobs that cover the device and name no file.
const DEVICE: &str = "device";

/// The number of a draft, and what is wrong with it.
type Problem = (usize, String);

/// Jobs without a file of their own share the device, if a job covers it. The device is then the only file.
fn share_device(drafts: &mut [Draft]) -> Result<(), Problem> {
    let Some(of_device) = drafts.iter().find(|draft| draft.is_of_device) else { return Ok(()) };
    let mut named = of_device.files.iter().chain(drafts.iter().flat_map(|draft| &draft.files));
    let device = named.next().cloned().unwrap_or_else(|| DEVICE.to_owned());
    let has_other = |draft: &Draft| draft.file_count() > 1 || draft.files.iter().any(|name| *name != device);
    if let Some(other) = drafts.iter().position(has_other) {
        let covers = &of_device.job.name;
        let what = if drafts[other].file_count() > 1 { "several files" } else { "another file" };
        let problem =
            format!("uses {what}, but [{covers}] has no size and covers the whole device: give it a size");
        return Err((other, problem));
    }
    drafts.iter_mut().for_each(|draft| draft.files = vec![device.clone()]);
    Ok(())
}

/// Works out what depends on other sections: groups, who waits for whom, and who ends with whom.
fn relate(drafts: &mut [Draft]) -> Result<(), Problem> {
    let exits = drafts.iter().any(|draft| draft.exits);
    let mut group = 0;
    for index in 0..drafts.len() {
        let (before, from) = drafts.split_at_mut(index);
        let draft = &mut from[0];
        group += u32::from(index > 0 && (draft.new_group || draft.job.stonewall));
        draft.job.group = group;
        draft.job.section = index;
        // As in fio, the option of one job counts for all.
        draft.job.ends = exits.then_some(draft.exit_what);
        let Some(name) = &draft.wait_for else { continue };
        let mut named = before.iter().enumerate().filter(|(_, other)| other.job.name == *name);
        let found = named.next().map(|(number, _)| number);
        if named.next().is_some() {
            return Err((index, format!("wait_for={name}: several jobs before it have this name")));
        }
        if found.is_none() {
            return Err((index, format!("wait_for={name}: no job before it has this name")));
        }
        draft.job.waits_for = found;
    }
    Ok(())
}

/// Appends numbers to the names of jobs, clones or sections, that share a name: fio reports each job by itself, and results
/// are collected by name.
fn number_names(jobs: &mut [Job]) {
    let mut named: BTreeMap<String, u64> = BTreeMap::new();
    for job in &*jobs {
        *named.entry(job.name.clone()).or_default() += 1;
    }
    let single: BTreeSet<String> =
        named.iter().filter(|&(_, &jobs)| jobs == 1).map(|(name, _)| name.clone()).collect();
    // From here on the number that each name was given last.
    named.values_mut().for_each(|jobs| *jobs = 0);
    for job in jobs.iter_mut().filter(|job| !single.contains(&job.name)) {
        let Some(number) = named.get_mut(&job.name) else { continue };
        *number += 1;
        while single.contains(&format!("{}-{number}", job.name)) {
            *number += 1;
        }
        job.name = format!("{}-{number}", job.name);
    }
}

/// Lays the files out one after the other. Jobs of the same file share it.
fn place(jobs: &mut [Job]) {
    let mut lengths: BTreeMap<String, u64> = BTreeMap::new();
    for region in jobs.iter().flat_map(|job| &job.regions) {
        let length = lengths.entry(region.file.clone()).or_default();
        *length = (region.file_offset / 512 + region.bytes.div_ceil(512)).max(*length);
    }
    let (mut bases, mut end) = (BTreeMap::new(), 0_u64);
    for region in jobs.iter_mut().flat_map(|job| &mut job.regions) {
        let base = *bases.entry(region.file.clone()).or_insert_with_key(|file| {
            let base = end;
            end = end.saturating_add(lengths[file]);
            base
        });
        region.offset = Sector(base.saturating_add(region.file_offset / 512));
    }
}

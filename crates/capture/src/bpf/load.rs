//! Loads BPF objects, for the back end of [`Capture`](crate::Capture) and for [`causes`](crate::causes).

use std::io;

use aya::programs::{BtfTracePoint, ProgramError, RawTracePoint};
use aya::{Btf, Ebpf, EbpfError};

use crate::error::Error;

const PERMISSION: &str = "root, or CAP_BPF and CAP_PERFMON";

/// Lines of the verifier's output that a message has: the last ones have the reason.
const VERIFIER_LINES: usize = 8;

/// The types of the running kernel.
pub(crate) fn kernel_types() -> Result<Btf, Error> {
    Btf::from_sys_fs()
        .map_err(|error| Error::kernel("reading the kernel's types (/sys/kernel/btf/vmlinux)", error))
}

/// Loads a program and attaches it to its tracepoint.
pub(crate) fn attach(ebpf: &mut Ebpf, name: &str, tracepoint: &str, btf: &Btf) -> Result<(), Error> {
    let program = ebpf.program_mut(name).and_then(|program| <&mut BtfTracePoint>::try_from(program).ok());
    let Some(program) = program else { unreachable!("the object has the program {name}") };
    let what = program_at(tracepoint);
    program.load(tracepoint, btf).map_err(|error| refused(&format!("loading {what}"), error.into()))?;
    let attached = program.attach();
    attached.map(drop).map_err(|error| refused(&format!("attaching {what}"), error.into()))
}

/// Loads a program for a tracepoint that may be in a module, whose types the program does not use.
pub(crate) fn load_raw(ebpf: &mut Ebpf, name: &str, tracepoint: &str) -> Result<(), Error> {
    let loaded = raw(ebpf, name).load();
    loaded.map_err(|error| refused(&format!("loading {}", program_at(tracepoint)), error.into()))
}

/// Attaches a program that was loaded by [`load_raw`].
pub(crate) fn attach_raw(ebpf: &mut Ebpf, name: &str, tracepoint: &str) -> Result<(), Error> {
    let attached = raw(ebpf, name).attach(tracepoint);
    attached
        .map(drop)
        .map_err(|error| refused(&format!("attaching {}", program_at(tracepoint)), error.into()))
}

fn raw<'e>(ebpf: &'e mut Ebpf, name: &str) -> &'e mut RawTracePoint {
    let program = ebpf.program_mut(name).and_then(|program| program.try_into().ok());
    let Some(program) = program else { unreachable!("the object has the program {name}") };
    program
}

fn program_at(tracepoint: &str) -> String {
    format!("a BPF program at the tracepoint {tracepoint}")
}

/// Takes a map of the object.
pub(crate) fn map(ebpf: &mut Ebpf, name: &str) -> Result<aya::maps::Map, Error> {
    ebpf.take_map(name).ok_or_else(|| Error::kernel(format!("BPF map {name}"), "is missing from the object"))
}

/// Distinguishes a missing permission from a missing feature, and both from a program that the kernel's verifier rejects.
pub(crate) fn refused(what: &str, error: EbpfError) -> Error {
    if let EbpfError::ProgramError(ProgramError::LoadError { verifier_log, .. }) = &error {
        let log = verifier_log.to_string();
        let lines: Vec<_> = log.lines().filter(|line| !line.is_empty()).collect();
        if !lines.is_empty() {
            let last = lines[lines.len().saturating_sub(VERIFIER_LINES)..].join("; ");
            return Error::kernel(what, format!("the kernel's verifier rejected it: {last}"));
        }
    }
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    let mut messages = Vec::new();
    while let Some(current) = cause {
        let system = current.downcast_ref::<io::Error>();
        if system.is_some_and(|system| system.kind() == io::ErrorKind::PermissionDenied) {
            return Error::Permission { what: what.to_owned(), needs: PERMISSION };
        }
        messages.push(current.to_string());
        cause = current.source();
    }
    messages.dedup();
    Error::kernel(what, messages.join(": "))
}

//! `disksim_disk`: buffer, overheads, bus and queue.

use super::experiment::Host;
use super::fields::Fields;
use super::hosts::HostSource;
use super::model::model;
use super::parser::Block;
use super::{Note, ParsedDrive, ReadError, Resolver, hosts};
use crate::parameters::{
    AfterReadOrWrite, BufferParameters, BusParameters, Caching, ExtraDisconnect, FastWrite, Fidelity,
    KeepRequested, LONGEST_MS, OverheadParameters, Preseek, QueueOrder, QueueParameters, ReadAhead,
    RotatingParameters, SCALE_MAX, SECTOR_MS_MAX,
};
use crate::rotating::SEGMENTS_MAX;

type ReadResult<T> = Result<T, ReadError>;

/// DiskSim limits a segment by the drive's size; this limit bounds memory and prevents overflow.
const SECTORS_MAX: u32 = 1 << 30;

/// The drive of a block, with its host if known.
pub(super) fn drive(block: Block, host: Option<HostSource>, open: Resolver<'_>) -> ReadResult<ParsedDrive> {
    let (name, file) = (block.name.clone(), block.place.file.clone());
    let mut fields = Fields::of(block, "disksim_disk")?;
    let model = model(fields.block("Model")?, open)?;
    // The slower side of the bus determines the time, so that a negative time has the effect of 0.
    let sector_ms = fields.number("Bulk sector transfer time", -SECTOR_MS_MAX, SECTOR_MS_MAX)?.max(0.0);
    let host = match host {
        None if sector_ms == 0.0 => Some(hosts::find(&name, &file, open)),
        given => given,
    };
    let parameters = RotatingParameters {
        name: name.clone(),
        layout: model.layout,
        mechanics: model.mechanics,
        buffer: buffer(&mut fields)?,
        overheads: overheads(&mut fields)?,
        bus: bus(&mut fields, sector_ms, host.as_ref().map_or_else(Host::default, |found| found.host))?,
        queue: queue(&mut fields)?,
        fidelity: Fidelity::default(),
    };
    let why = "sectors that pass before the wanted ones are not kept";
    fields.without_effect("Read any free blocks", &[0.0], why)?;
    fields.without_effect("Print stats", &[0.0, 1.0], "")?;
    fields.optional_number("Avg sectors per cylinder", 0.0, f64::MAX)?;
    fields.without_effect("Calc sector by sector", &[0.0, 1.0], "")?;
    let mut notes = model.notes;
    notes.extend(fields.done()?);
    Ok(ParsedDrive { parameters, host: host.map(|found| found.origin), notes })
}

fn buffer(f: &mut Fields) -> ReadResult<BufferParameters> {
    let place = f.place_of("Number of buffer segments");
    let stated = f.whole("Number of buffer segments", 1, SECTORS_MAX)?;
    let segments = stated.min(SEGMENTS_MAX);
    if segments != stated {
        let text = format!("'Number of buffer segments = {stated}': the model has {segments}");
        f.notes.push(Note { place, text });
    }
    Ok(BufferParameters {
        segments,
        write_segments: f.whole("Maximum number of write segments", 1, stated)?.min(segments),
        segment_sectors: f.whole("Segment size (in blks)", 1, SECTORS_MAX)?,
        memory_sectors: 0,
        separate_write_segment: f.flag("Use separate write segment")?,
        caching: match f.whole("Enable caching in buffer", 0, 2)? {
            0 => Caching::None,
            _ => Caching::All,
        },
        read_ahead: match f.whole("Buffer continuous read", 0, 4)? {
            0 => ReadAhead::None,
            1 => ReadAhead::Track,
            2 => ReadAhead::Cylinder,
            3 => ReadAhead::Segment,
            _ => ReadAhead::TrackAhead,
        },
        read_ahead_min: f.whole("Minimum read-ahead (blks)", 0, SECTORS_MAX)?,
        read_ahead_max: f.whole("Maximum read-ahead (blks)", 0, SECTORS_MAX)?,
        keep_requested: match f.number("Read-ahead over requested", -1.0, 1.0)? {
            1.0 => KeepRequested::PushOut,
            -1.0 => KeepRequested::KeepAll,
            _ => KeepRequested::Keep,
        },
        read_ahead_on_hit: f.flag("Read-ahead on idle hit")?,
        hit_stops_read_ahead: true,
        immediate_read: f.flag("Immediate buffer read")?,
        immediate_write: f.flag("Immediate buffer write")?,
        fast_write: match f.whole("Fast write level", 0, 2)? {
            0 => FastWrite::None,
            1 => FastWrite::Sequential,
            _ => FastWrite::All,
        },
        combine_writes: f.flag("Combine seq writes")?,
        read_hits_on_writes: f.flag("Allow read hits on write data")?,
        almost_read_hits: f.flag("Allow almost read hits")?,
        sneaky_full_read_hits: f.flag("Allow sneaky full read hits")?,
        sneaky_partial_read_hits: f.flag("Allow sneaky partial read hits")?,
        sneaky_intermediate_read_hits: f.flag("Allow sneaky intermediate read hits")?,
        prebuffer_writes: f.flag("Allow write prebuffering")?,
        stop_in_sector: f.flag("Stop prefetch in sector")?,
        write_hit_stops_read_ahead: f.flag("Write hit stop prefetch")?,
        transfer_partial_hit: f.flag("Immed transfer partial hit")?,
        write_watermark: f.number("Low (write) water mark", 0.0, 1.0)?,
        read_watermark: f.number("High (read) water mark", 0.0, 1.0)?,
        watermark_of_request: f.flag("Set watermark by reqsize")?,
    })
}

fn overheads(f: &mut Fields) -> ReadResult<OverheadParameters> {
    let mut after = |read, write| -> ReadResult<AfterReadOrWrite> {
        Ok(AfterReadOrWrite { after_read_ms: f.ms(read)?, after_write_ms: f.ms(write)? })
    };
    let read_hit = after("Read hit over. after read", "Read hit over. after write")?;
    let read_miss = after("Read miss over. after read", "Read miss over. after write")?;
    let write_hit = after("Write hit over. after read", "Write hit over. after write")?;
    let write_miss = after("Write miss over. after read", "Write miss over. after write")?;
    let read_disconnect = after("Read disconnect afterread", "Read disconnect afterwrite")?;
    Ok(OverheadParameters {
        request_ms: f.ms("Per-request overhead time")?,
        scale: f.number("Time scale for overheads", 0.0, SCALE_MAX)?,
        read_hit,
        read_miss,
        write_hit,
        write_miss,
        read_completion_ms: f.ms("Read completion overhead")?,
        write_completion_ms: f.ms("Write completion overhead")?,
        data_preparation_ms: f.ms("Data preparation overhead")?,
        first_reselect_ms: f.ms("First reselect overhead")?,
        other_reselect_ms: f.ms("Other reselect overhead")?,
        read_disconnect,
        write_disconnect_ms: f.ms("Write disconnect overhead")?,
        extra_disconnect: extra_disconnect(f)?,
        minimum_seek_delay_ms: f.ms("Minimum seek delay")?,
    })
}

fn extra_disconnect(f: &mut Fields) -> ReadResult<Option<ExtraDisconnect>> {
    let extra = ExtraDisconnect {
        command_ms: f.ms("Extradisc command overhead")?,
        disconnect_ms: f.ms("Extradisc disconnect overhead")?,
        between_ms: f.ms("Extradisc inter-disconnect delay")?,
        second_disconnect_ms: f.ms("Extradisc 2nd disconnect overhead")?,
        seek_delta_ms: f.number("Extradisc seek delta", -1000.0, LONGEST_MS)?,
    };
    Ok(f.flag("Extra write disconnect")?.then_some(extra))
}

fn bus(f: &mut Fields, sector_ms: f64, host: Host) -> ReadResult<BusParameters> {
    f.without_effect("Read directly to buffer", &[1.0], "a sector counts once all of it was read")?;
    let why = "a write always leaves the bus when its data is in the buffer";
    f.without_effect("Disconnect write if seek", &[0.0], why)?;
    Ok(BusParameters {
        sector_ms,
        host_read_sector_ms: host.read_sector_ms,
        host_write_sector_ms: host.write_sector_ms,
        hold_for_read: f.flag("Hold bus entire read xfer")?,
        hold_for_write: f.flag("Hold bus entire write xfer")?,
        never_disconnect: f.flag("Never disconnect")?,
        preseek: match f.whole("Preseeking level", 0, 2)? {
            0 => Preseek::None,
            1 => Preseek::AtCompletion,
            _ => Preseek::AfterMedium,
        },
    })
}

fn queue(f: &mut Fields) -> ReadResult<QueueParameters> {
    let depth = f.whole("Max queue length", 1, 32)?;
    let mut s = Fields::of(f.block("Scheduler")?, "disksim_ioqueue")?;
    let weight = s.number("Timeout time/weight", 0.0, 1e6)?;
    let place = s.place_of("Scheduling policy");
    let policy = s.whole("Scheduling policy", 1, 28)?;
    let order = match policy {
        1 => QueueOrder::Fcfs,
        // With one command there is no choice.
        5..=7 | 9..=13 | 15.. if depth == 1 => QueueOrder::Fcfs,
        9 => QueueOrder::PositioningTimeOrBuffer { ageing: 0.0 },
        15 => QueueOrder::PositioningTimeOrBuffer { ageing: weight / 1000.0 },
        // DiskSim's variant with priority for urgent requests; no request is marked as urgent here.
        20 => QueueOrder::PositioningTime { ageing: 0.0 },
        21 => QueueOrder::PositioningTimeOrBuffer { ageing: 0.0 },
        2 => QueueOrder::Look,
        3 => QueueOrder::CLook,
        4 => QueueOrder::Sstf,
        8 => QueueOrder::PositioningTime { ageing: 0.0 },
        14 => QueueOrder::PositioningTime { ageing: weight / 1000.0 },
        _ => {
            let known = "1 (FCFS), 2 (LOOK), 3 (C-LOOK), 4 (SSTF), 8, 14, 20 (SPTF) and 9, 15, 21 (SPCTF)";
            let what =
                format!("'Scheduling policy = {policy}' is not modelled for {depth} commands; {known} are");
            return Err(ReadError::at(&place, what));
        }
    };
    for name in ["Write initiation delay", "Read initiation delay"] {
        s.neutral(name, 0.0)?;
    }
    for name in [
        "Sequential stream scheme",
        "Overlapping request scheme",
        "Scheduling timeout scheme",
        "Scheduling priority scheme",
    ] {
        among_several(&mut s, name, depth)?;
    }
    for name in [
        "Cylinder mapping strategy",
        "Maximum concat size",
        "Sequential stream diff maximum",
        "Timeout scheduling",
        "Priority scheduling",
    ] {
        // Each qualifies a scheme that is off, or a policy by cylinder, which is rejected above.
        s.optional_number(name, 0.0, f64::MAX)?;
    }
    f.notes.extend(s.done()?);
    Ok(QueueParameters { depth, order, ..QueueParameters::default() })
}

/// A field that has an effect only with several commands, for which it is not modelled.
fn among_several(f: &mut Fields, name: &'static str, depth: u32) -> ReadResult<()> {
    match depth {
        1 => f.without_effect(name, &[0.0], "the drive takes one command at a time"),
        _ => f.neutral(name, 0.0),
    }
}

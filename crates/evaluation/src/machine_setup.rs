//! The modelled machine with its device: a drive behind one queue, or an array with a queue for each member.

use disks::{Drive, SkewedClock};
use elevator::Span;
use elevator::array::Coordinator;
use elevator::queue::{Observer, Options};
use machine::{ArrayMember, ArraySetup, Machine, Setup};
use schedulers::{Spec, SpecError};

use crate::device::Device;

/// What an observer observes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Observed {
    /// The queue of the only drive.
    Queue,
    /// The queue of the array's member with this number, whose submissions are parts of requests.
    Member(u32),
    /// The array: submissions of whole requests and their completions.
    Array,
}

/// Returns an observer.
pub type Listeners<'a> = dyn FnMut(Observed) -> Option<Box<dyn Observer>> + 'a;

/// A machine on this device with the scheduler in each queue and its coordinator above them, if it has one. The drives were switched
/// on `before` the start, which sets the phase of the platters.
///
/// # Errors
/// The scheduler cannot be built for this device.
pub fn machine(
    device: &Device,
    spec: &Spec,
    options: Options,
    before: Span,
    listeners: &mut Listeners<'_>,
) -> Result<Machine, SpecError> {
    let options = Options { barriers: device.barriers(options.barriers), ..options };
    let environment = &device.environment(&options.limits);
    let (Some(array), Some(geometry)) = (device.array(), device.geometry()) else {
        let (scheduler, drive) = (spec.build(environment)?, earlier(device.build(), before));
        return Ok(Machine::new(Setup { options, scheduler, drive, observer: listeners(Observed::Queue) }));
    };
    let member = |(index, drive)| {
        let observer = listeners(Observed::Member(index));
        Ok(ArrayMember { scheduler: spec.build(environment)?, drive: earlier(drive, before), observer })
    };
    let members = (0..).zip(device.build_members(array)).map(member).collect::<Result<_, _>>()?;
    let coordinator = spec.build_coordinator(environment, array.members)?;
    Ok(Machine::with_array(ArraySetup {
        geometry,
        failed: array.failed,
        stripe_cache: array.stripe_cache(),
        options,
        members,
        coordinator: coordinator.map(|coordinator| coordinator as Box<dyn Coordinator>),
        observer: listeners(Observed::Array),
    }))
}

fn earlier(drive: Box<dyn Drive>, before: Span) -> Box<dyn Drive> {
    if before == Span::ZERO { drive } else { Box::new(SkewedClock::earlier(drive, before)) }
}

//! A script's distributed store: one machine per datanode.

use std::cell::RefCell;

use machine::Machine;
use machine::kernel::Kernel;
use workloads::store::Store;

use super::{Outcome, Ran, RunSetup, Vmstat, thinned};
use crate::error::Error;
use crate::interrupt;

impl RunSetup {
    /// Runs a store; measurements at the device are those of the first datanode.
    pub(super) fn run_store(
        &self,
        store: &Store,
        mut machines: Vec<Machine>,
        vmstat: &RefCell<Vmstat>,
    ) -> Result<Ran, Error> {
        let ended = store.run(&mut machines, self.until(), interrupt::requested);
        let (seen, failure) = match ended {
            Ok(seen) => (seen, None),
            Err(failure) => (Default::default(), Some(failure.to_string())),
        };
        let Some(node) = machines.first_mut() else {
            return Err(Error::Failed("a store needs at least one node".to_owned()));
        };
        let outcome = Outcome {
            seen,
            transactions: Default::default(),
            vmstat: vmstat.borrow().clone(),
            kernel: node.kernel().map(|kernel| thinned(&kernel.samples())).unwrap_or_default(),
            tagging: node.kernel().map(Kernel::tagging).unwrap_or_default(),
            cut: true,
            failure,
        };
        let (measured, distributions, names) = (node.measured(), node.distributions(), node.names());
        Ok(Ran { outcome, measured, distributions, names })
    }
}

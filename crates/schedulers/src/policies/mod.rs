//! The block-level policies, one file or folder each. A file begins with the policy's idea, its state, the order of its
//! decisions and the differences from its source.

pub mod anticipatory;
pub mod bfq;
pub mod c_scan;
pub mod cfq_2003;
pub mod cfq_2_6_32;
pub mod cfq_2_6_9;
pub mod cooperative;
pub mod deadline;
pub mod dwell;
pub mod elevator_2_4;
pub mod kyber;
pub mod look;
pub mod mq_deadline;
pub mod noop;
pub mod sptf;
pub mod sstf;
pub mod stream;

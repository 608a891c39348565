//! The formats, one module each. Every module's page has the columns, the units and the traps.

use std::fmt;

use serde::Serialize;

pub mod alibaba;
pub mod blkparse;
pub mod blktrace;
pub mod cloudphysics;
pub mod disksim;
pub mod disksim_validate;
pub mod dwell;
pub mod fio;
pub mod ftrace;
pub mod mqsim;
pub mod msr;
pub mod spc;
pub mod srt;
pub mod tencent;
pub mod vscsi;

macro_rules! formats {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $words:literal;)+) => {
        /// A format that can be read.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
        pub enum Format {
            $($(#[$doc])* #[serde(rename = $name)] $variant),+
        }

        impl Format {
            /// Every one.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Its name on a command line.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// Its name in a sentence.
            #[must_use]
            pub const fn words(self) -> &'static str {
                match self { $(Self::$variant => $words),+ }
            }
        }
    };
}

formats! {
    /// See [`ftrace`].
    Ftrace = "ftrace", "ftrace text";
    /// See [`blkparse`].
    Blkparse = "blkparse", "blkparse text";
    /// See [`blktrace`].
    Blktrace = "blktrace", "blktrace binary";
    /// See [`fio`].
    Fio = "fio", "fio iolog";
    /// See [`msr`].
    Msr = "msr", "MSR Cambridge CSV";
    /// See [`cloudphysics`].
    CloudPhysics = "cloudphysics", "CloudPhysics CSV";
    /// See [`vscsi`].
    Vscsi = "vscsi", "CloudPhysics vSCSI binary";
    /// See [`alibaba`].
    Alibaba = "alibaba", "Alibaba CSV";
    /// See [`tencent`].
    Tencent = "tencent", "Tencent CSV";
    /// See [`spc`].
    Spc = "spc", "SPC";
    /// See [`disksim`].
    DiskSim = "disksim", "DiskSim ASCII";
    /// See [`disksim_validate`].
    DiskSimValidate = "disksim-validate", "DiskSim validation trace";
    /// See [`srt`].
    Srt = "srt", "HP SRT";
    /// See [`mqsim`].
    MqSim = "mqsim", "MQSim";
    /// See [`dwell`].
    Dwell = "dwell", "Dwell's own";
}

impl Format {
    /// The format with that command line name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| format.name().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.words())
    }
}

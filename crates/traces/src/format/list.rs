//! The list of formats. It depends on nothing, so that options and contexts can name a format.

/// Calls a macro with every format and its module, in the order in which detection compares lines with them.
macro_rules! formats {
    ($declare:ident) => {
        $declare! {
            /// See [`ftrace`](super::ftrace).
            Ftrace = ftrace;
            /// See [`blkparse`](super::blkparse).
            Blkparse = blkparse;
            /// See [`blktrace`](super::blktrace).
            Blktrace = blktrace;
            /// See [`fio`](super::fio).
            Fio = fio;
            /// See [`msr`](super::msr).
            Msr = msr;
            /// See [`cloudphysics`](super::cloudphysics).
            CloudPhysics = cloudphysics;
            /// See [`vscsi`](super::vscsi).
            Vscsi = vscsi;
            /// See [`alibaba`](super::alibaba).
            Alibaba = alibaba;
            /// See [`tencent`](super::tencent).
            Tencent = tencent;
            /// See [`spc`](super::spc).
            Spc = spc;
            /// See [`disksim`](super::disksim).
            DiskSim = disksim;
            /// See [`disksim_validate`](super::disksim_validate).
            DiskSimValidate = disksim_validate;
            /// See [`srt`](super::srt).
            Srt = srt;
            /// See [`mqsim`](super::mqsim).
            MqSim = mqsim;
            /// See [`dwell`](super::dwell).
            Dwell = dwell;
            /// See [`parquet`](mod@super::parquet).
            Parquet = parquet;
        }
    };
}
pub(super) use formats;

macro_rules! names {
    ($($(#[$doc:meta])* $variant:ident = $module:ident;)+) => {
        /// A format that can be read and written.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum Format {
            $($(#[$doc])* $variant),+
        }

        impl Format {
            /// Every format, in the order in which detection compares lines with them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
        }
    };
}

formats!(names);

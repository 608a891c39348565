//! The reasons that schedulers state with their decisions. Logs, plots and the checker use them.

use core::fmt;

macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum $name {
            $(#[doc = concat!("`", $text, "`")] $variant,)+
            /// A reason of a policy outside this workspace, as logs print it.
            Custom(&'static str),
        }

        impl $name {
            /// Every reason of the policies in this workspace, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The reason as logs print it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Custom(text) => text,
                }
            }

            /// A number for digests: the place in [`ALL`](Self::ALL); for a custom reason the length of its text above that.
            #[cfg(feature = "testing")]
            pub(crate) const fn code(self) -> u64 {
                enum Code { $($variant,)+ Custom }
                match self {
                    $(Self::$variant => Code::$variant as u64,)+
                    Self::Custom(text) => Code::Custom as u64 + text.len() as u64,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

reasons! {
    /// Why a scheduler dispatched this request and no other.
    Reason {
        FirstCome = "first come",
        SectorOrder = "next in sector order",
        NewSweep = "new sweep",
        NewBatch = "first of a batch",
        Batch = "batch goes on",
        Expired = "expired",
        Starved = "writes starved long enough",
        NearestSector = "nearest sector",
        ShortestPositioning = "shortest positioning time",
        Priority = "higher priority class",
        Aged = "aged in a lower class",
        RoundRobin = "its process's turn",
        SliceOwner = "owner of the slice",
        NewSlice = "new slice",
        Cooperator = "close cooperator",
        Anticipated = "the awaited request",
        CloseEnough = "close enough to end the wait",
        WaitOver = "the wait was over",
        WaitUseless = "waiting would not pay",
        Child = "child of the stream",
        StreamBroken = "the stream broke",
        StreamSliceOver = "the stream's slice is over",
        Urgent = "urgent",
        Budget = "budget left",
        NewBudget = "new budget",
        Injected = "injected into another's idle time",
        Domain = "its domain's batch",
        Share = "least service for its share",
        Flush = "flush",
        GivenBack = "sent again after the device gave it back",
    }
}

reasons! {
    /// Why a scheduler leaves the device idle although requests are queued.
    HoldReason {
        AwaitCompletion = "waits for the completion after which to anticipate",
        AwaitProcess = "anticipates the process's next request",
        AwaitGroup = "anticipates the group's next request",
        AwaitChild = "anticipates the stream's next request",
        AwaitSliceOwner = "idles for the owner of the slice",
        BatchChange = "drains the old direction's batch",
        SyncFirst = "asynchronous requests wait for synchronous ones in flight",
        ClassWaits = "waits for a higher priority class in flight",
        DepthLimit = "the policy keeps the device's queue short",
        NoToken = "no token left in its domain",
        Plugged = "plugged: more is about to come",
        Barrier = "waits for everything before a barrier",
        Directed = "directed to wait",
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    #[test]
    fn a_custom_reason_prints_its_own_text() {
        assert_eq!(format!("{:>10}", Reason::Custom("because")), "   because");
        assert_eq!(HoldReason::Custom("not yet").as_str(), "not yet");
    }

    #[test]
    fn every_reason_has_a_text_of_its_own() {
        for (n, reason) in Reason::ALL.iter().enumerate() {
            assert!(Reason::ALL[..n].iter().all(|before| before.as_str() != reason.as_str()), "{reason}");
        }
    }
}

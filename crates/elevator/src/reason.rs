//! Why a scheduler decided as it did, in words that logs, pictures and checkers share.

use core::fmt;

macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum $name {
            $(#[doc = $text] $variant),+
        }

        impl $name {
            /// Every one, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// In words, as logs print it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
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
    /// Why this request and no other was dispatched.
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
    /// Why the device is to wait although something is queued.
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

//! Array specifications: `raid0:5x64k`, `raid5:8x256k{failed=2, link=400}`.

use elevator::text::did_you_mean;
use elevator::{Sector, Sectors};

use super::geometry::{Geometry, Level, MEMBERS_MAX};
use super::stripe_cache::StripeCache;
use crate::overrides;

/// Stripe units are multiples of 8 sectors: md requires multiples of a page.
const UNIT_STEP: u32 = 8;
/// The largest stripe unit, in sectors: 64 MiB.
const UNIT_MAX: u32 = 1 << 17;
/// Default of `stripe_cache`: md's default.
const STRIPE_CACHE: u32 = 256;
/// Maximum of `stripe_cache`: md's maximum.
const STRIPE_CACHE_MAX: u64 = 32_768;
/// Default of `slowness`, in percent.
const SLOWNESS: u64 = 200;

/// An array of equal drives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArrayDescription {
    /// RAID level.
    pub level: Level,
    /// Number of members.
    pub members: u32,
    /// The stripe unit: a multiple of 8 sectors, at most 2^17.
    pub unit: Sectors,
    /// The failed member, from 0; only for RAID 5.
    pub failed: Option<u32>,
    /// A slow member, from 0, and its service times in percent of the others'; 100 to 10,000.
    pub slow: Option<(u32, u64)>,
    /// Rate of the members' common controller in bytes per second.
    pub link: Option<u64>,
    /// Stripes of one page per member that are cached while a member is failed; 0: no cache. At most 32,768.
    pub stripe_cache: u32,
}

/// An invalid array specification.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "array '{text}': {problem}; examples: raid0:5x64k, raid5:5x64k{{failed=2, slow=3, slowness=200, link=400}}"
)]
pub struct ArrayError {
    /// The specification.
    pub text: String,
    /// The reason.
    pub problem: ArrayProblem,
}

/// Why an array specification is invalid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArrayProblem {
    /// The braces do not have the form `{name=value,…}`.
    #[error("the braces do not have the form {{name=value,…}}")]
    Braces,
    /// There is no colon between level and members.
    #[error("there is no ':' between level and members")]
    NoColon,
    /// There is no `x` between members and stripe unit.
    #[error("there is no 'x' between members and stripe unit")]
    NoUnit,
    /// The level is unknown.
    #[error("the level '{0}' is unknown; levels are raid0 and raid5")]
    Level(String),
    /// The number of members is out of range.
    #[error("{members} members; {level} takes {} to {MEMBERS_MAX}", .level.members_min())]
    Members {
        /// RAID level.
        level: Level,
        /// The number.
        members: u64,
    },
    /// A whole number is expected.
    #[error("'{0}' is not a whole number")]
    Number(String),
    /// The stripe unit has no suffix.
    #[error("stripe unit '{0}': end it with k or m")]
    UnitSuffix(String),
    /// The stripe unit is out of range.
    #[error("stripe unit '{0}': it must be a multiple of 4k, at most 64m")]
    UnitRange(String),
    /// A setting occurs twice.
    #[error("'{0}' occurs twice")]
    Twice(String),
    /// A setting is unknown.
    #[error("the setting '{0}' is unknown; settings are {settings}{hint}", settings = SETTINGS.join(", "), hint = did_you_mean(.0, SETTINGS))]
    Setting(String),
    /// A member does not exist.
    #[error("there is no member {member}; members are 0 to {}", .members - 1)]
    NoMember {
        /// The member.
        member: u64,
        /// Number of members.
        members: u32,
    },
    /// RAID 0 with a failed member.
    #[error("RAID 0 does not survive a failed member")]
    NotRedundant,
    /// A rate of zero.
    #[error("link=0; it must be at least 1")]
    Link,
    /// The stripe cache is too large.
    #[error("stripe_cache={0}; md keeps at most {STRIPE_CACHE_MAX}")]
    StripeCache(u64),
    /// `slowness` without `slow`.
    #[error("slowness without a slow member")]
    NoSlowMember,
    /// `slowness` is out of range.
    #[error("slowness={0}; it is a percentage from 100 to 10000")]
    Slowness(u64),
}

const SETTINGS: [&str; 5] = ["failed", "slow", "slowness", "link", "stripe_cache"];

impl ArrayDescription {
    /// Parses a specification: level, number of members and stripe unit (`k`: KiB, `m`: MiB), then optionally in braces `failed=N`
    /// and `slow=N` (members, from 0), `slowness=PERCENT` (default 200), `link=N` (10⁶ bytes per second) and `stripe_cache=N` (default
    /// 256).
    ///
    /// # Errors
    /// If the specification is malformed or a value is out of range.
    pub fn parse(text: &str) -> Result<Self, ArrayError> {
        Self::read(text).map_err(|problem| ArrayError { text: text.to_owned(), problem })
    }

    fn read(text: &str) -> Result<Self, ArrayProblem> {
        let (shape, settings) = overrides::split(text).ok_or(ArrayProblem::Braces)?;
        let (level, rest) = shape.split_once(':').ok_or(ArrayProblem::NoColon)?;
        let level = match level {
            "raid0" => Level::Raid0,
            "raid5" => Level::Raid5,
            other => return Err(ArrayProblem::Level(other.to_owned())),
        };
        let (members, unit) = rest.split_once('x').ok_or(ArrayProblem::NoUnit)?;
        let members = number(members)?;
        if !(u64::from(level.members_min())..=u64::from(MEMBERS_MAX)).contains(&members) {
            return Err(ArrayProblem::Members { level, members });
        }
        let members = members as u32;
        let (unit, stripe_cache) = (unit_of(unit)?, STRIPE_CACHE);
        let mut array = Self { level, members, unit, failed: None, slow: None, link: None, stripe_cache };
        let mut slowness = None;
        for (i, setting) in settings.iter().enumerate() {
            if settings[..i].iter().any(|before| before.key == setting.key) {
                return Err(ArrayProblem::Twice(setting.key.clone()));
            }
            let value = number(&setting.value)?;
            match setting.key.as_str() {
                "failed" => array.failed = Some(array.member(value)?),
                "slow" => array.slow = Some((array.member(value)?, SLOWNESS)),
                "slowness" => slowness = Some(value),
                "link" => array.link = Some(value.saturating_mul(1_000_000)),
                "stripe_cache" if value > STRIPE_CACHE_MAX => return Err(ArrayProblem::StripeCache(value)),
                "stripe_cache" => array.stripe_cache = value as u32,
                other => return Err(ArrayProblem::Setting(other.to_owned())),
            }
        }
        array.check(slowness)
    }

    fn member(&self, member: u64) -> Result<u32, ArrayProblem> {
        let members = self.members;
        let valid = u32::try_from(member).ok().filter(|&member| member < members);
        valid.ok_or(ArrayProblem::NoMember { member, members })
    }

    fn check(mut self, slowness: Option<u64>) -> Result<Self, ArrayProblem> {
        if self.failed.is_some() && self.level == Level::Raid0 {
            return Err(ArrayProblem::NotRedundant);
        }
        if self.link == Some(0) {
            return Err(ArrayProblem::Link);
        }
        match (&mut self.slow, slowness) {
            (None, Some(_)) => return Err(ArrayProblem::NoSlowMember),
            (Some(_), Some(percent)) if !(100..=10_000).contains(&percent) => {
                return Err(ArrayProblem::Slowness(percent));
            }
            (Some((_, slow)), Some(percent)) => *slow = percent,
            (_, None) => {}
        }
        Ok(self)
    }

    /// The cache for reads, if a member is failed and stripes are cached.
    #[must_use]
    pub fn stripe_cache(&self) -> Option<StripeCache> {
        self.failed
            .filter(|_| self.stripe_cache > 0)
            .map(|_| StripeCache::new(self.members, self.stripe_cache))
    }

    /// The layout with members of that size.
    #[must_use]
    pub fn geometry(&self, member_capacity: Sector) -> Geometry {
        Geometry::new(self.level, self.members, self.unit, member_capacity)
    }

    /// The members that are not failed.
    pub fn present(&self) -> impl Iterator<Item = u32> + use<> {
        let failed = self.failed;
        (0..self.members).filter(move |&member| Some(member) != failed)
    }
}

/// The specification, as [`parse`](ArrayDescription::parse) reads it.
impl std::fmt::Display for ArrayDescription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}x{}k", self.level, self.members, self.unit.bytes() >> 10)?;
        let failed = self.failed.map(|member| format!("failed={member}"));
        let slow = self.slow.map(|(member, percent)| format!("slow={member}, slowness={percent}"));
        let link = self.link.map(|rate| format!("link={}", rate / 1_000_000));
        let kept = self.stripe_cache;
        let stripe_cache = (kept != STRIPE_CACHE).then(|| format!("stripe_cache={kept}"));
        let settings: Vec<String> = [failed, slow, link, stripe_cache].into_iter().flatten().collect();
        if settings.is_empty() { Ok(()) } else { write!(f, "{{{}}}", settings.join(", ")) }
    }
}

fn number(text: &str) -> Result<u64, ArrayProblem> {
    text.trim().parse().map_err(|_| ArrayProblem::Number(text.to_owned()))
}

fn unit_of(text: &str) -> Result<Sectors, ArrayProblem> {
    let shift = if text.ends_with(['k', 'K']) { 10 } else { 20 };
    let digits = text.strip_suffix(['k', 'K', 'm', 'M']);
    let digits = digits.ok_or_else(|| ArrayProblem::UnitSuffix(text.to_owned()))?;
    let sectors = number(digits)?.saturating_mul(1 << shift) / 512;
    let fits = u32::try_from(sectors).ok().filter(|&s| s > 0 && s <= UNIT_MAX && s.is_multiple_of(UNIT_STEP));
    fits.map(Sectors).ok_or_else(|| ArrayProblem::UnitRange(text.to_owned()))
}

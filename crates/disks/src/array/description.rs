//! Arrays by name: `raid0:5x64k`, `raid5:8x256k{failed=2, link=400}`.

use elevator::text::did_you_mean;
use elevator::{Sector, Sectors};

use super::geometry::{Geometry, Level, MEMBERS_MAX};
use super::stripe_cache::StripeCache;
use crate::overrides;

/// A stripe unit is a multiple of this: a page, as md asks.
const UNIT_STEP: u32 = 8;
/// The largest stripe unit: 64 MiB.
const UNIT_MAX: u32 = 1 << 17;

/// An array as it is asked for; its members are any drives of one kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArrayDescription {
    /// How data is laid out.
    pub level: Level,
    /// How many members.
    pub members: u32,
    /// The stripe unit.
    pub unit: Sectors,
    /// The member that is gone; only of RAID 5.
    pub failed: Option<u32>,
    /// The slow member, and what everything takes it, as a percentage of what it takes the others.
    pub slow: Option<(u32, u64)>,
    /// What the card that they share can move, in bytes a second.
    pub link: Option<u64>,
    /// Stripes of a page of each member that are kept while a member is gone; 0 keeps none.
    pub stripe_cache: u32,
}

/// As md has it.
const STRIPE_CACHE: u32 = 256;
/// As md has it.
const STRIPE_CACHE_MAX: u64 = 32_768;

/// What is wrong with an array's name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "array '{text}': {problem}; arrays are written raid0:5x64k or raid5:5x64k{{failed=2, slow=3, slowness=200, link=400}}"
)]
pub struct ArrayError {
    /// The name.
    pub text: String,
    /// What is wrong.
    pub problem: String,
}

/// What may stand in the braces.
const SETTINGS: [&str; 5] = ["failed", "slow", "slowness", "link", "stripe_cache"];

impl ArrayDescription {
    /// Reads a name: level, members, stripe unit (`k` for KiB, `m` for MiB), then in braces `failed=N` and `slow=N`
    /// (members, from 0), `slowness=PERCENT` (200 by default), `link=N` (10⁶ bytes a second) and `stripe_cache=N` (stripes
    /// kept by RAID 5 while a member is gone, 256 by default).
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, ArrayError> {
        Self::read(text).map_err(|problem| ArrayError { text: text.to_owned(), problem })
    }

    fn read(text: &str) -> Result<Self, String> {
        let (shape, settings) = overrides::split(text).ok_or("the braces are not {name=value,…}")?;
        let (level, rest) = shape.split_once(':').ok_or("there is no ':'")?;
        let level = match level {
            "raid0" => Level::Raid0,
            "raid5" => Level::Raid5,
            other => return Err(format!("'{other}' is no level; levels are raid0 and raid5")),
        };
        let (members, unit) =
            rest.split_once('x').ok_or("there is no 'x' between members and stripe unit")?;
        let members = number(members)?;
        if !(u64::from(level.members_min())..=u64::from(MEMBERS_MAX)).contains(&members) {
            return Err(format!("{members} members; {level} takes {} to {MEMBERS_MAX}", level.members_min()));
        }
        let members = members as u32;
        let (unit, stripe_cache) = (unit_of(unit)?, STRIPE_CACHE);
        let mut array = Self { level, members, unit, failed: None, slow: None, link: None, stripe_cache };
        let mut slowness = None;
        for (i, setting) in settings.iter().enumerate() {
            if settings[..i].iter().any(|before| before.key == setting.key) {
                return Err(format!("'{}' is there twice", setting.key));
            }
            let value = number(&setting.value)?;
            match setting.key.as_str() {
                "failed" => array.failed = Some(array.member(value)?),
                "slow" => array.slow = Some((array.member(value)?, 200)),
                "slowness" => slowness = Some(value),
                "link" => array.link = Some(value.saturating_mul(1_000_000)),
                "stripe_cache" if value > STRIPE_CACHE_MAX => {
                    return Err(format!("stripe_cache={value}; md keeps at most {STRIPE_CACHE_MAX}"));
                }
                "stripe_cache" => array.stripe_cache = value as u32,
                other => return Err(unknown(other)),
            }
        }
        array.check(slowness)
    }

    fn member(&self, number: u64) -> Result<u32, String> {
        let within = u32::try_from(number).ok().filter(|&number| number < self.members);
        within.ok_or_else(|| format!("there is no member {number}; members are 0 to {}", self.members - 1))
    }

    fn check(mut self, slowness: Option<u64>) -> Result<Self, String> {
        if self.failed.is_some() && self.level == Level::Raid0 {
            return Err("RAID 0 does not survive a failed member".to_owned());
        }
        if self.link == Some(0) {
            return Err("a link that moves nothing".to_owned());
        }
        match (&mut self.slow, slowness) {
            (None, Some(_)) => return Err("slowness without a slow member".to_owned()),
            (Some(_), Some(percent)) if !(100..=10_000).contains(&percent) => {
                return Err(format!("slowness={percent}; it is a percentage from 100 to 10000"));
            }
            (Some((_, slow)), Some(percent)) => *slow = percent,
            (_, None) => {}
        }
        Ok(self)
    }

    /// The cache that reads go through, if a member is gone and stripes are kept.
    #[must_use]
    pub fn stripe_cache(&self) -> Option<StripeCache> {
        self.failed
            .filter(|_| self.stripe_cache > 0)
            .map(|_| StripeCache::new(self.members, self.stripe_cache))
    }

    /// Its shape, of members with so many sectors.
    #[must_use]
    pub fn geometry(&self, member_capacity: Sector) -> Geometry {
        Geometry::new(self.level, self.members, self.unit, member_capacity)
    }

    /// Those that are there.
    pub fn present(&self) -> impl Iterator<Item = u32> + use<> {
        let failed = self.failed;
        (0..self.members).filter(move |&member| Some(member) != failed)
    }
}

/// As it is read.
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

fn number(text: &str) -> Result<u64, String> {
    text.trim().parse().map_err(|_| format!("'{text}' is no number"))
}

fn unit_of(text: &str) -> Result<Sectors, String> {
    let shift = if text.ends_with(['k', 'K']) { 10 } else { 20 };
    let digits = text
        .strip_suffix(['k', 'K', 'm', 'M'])
        .ok_or_else(|| format!("stripe unit '{text}': end it with k or m"))?;
    let sectors = number(digits)?.saturating_mul(1 << shift) / 512;
    let fits = u32::try_from(sectors).ok().filter(|&s| s > 0 && s <= UNIT_MAX && s.is_multiple_of(UNIT_STEP));
    fits.map(Sectors).ok_or_else(|| format!("stripe unit '{text}': it is a multiple of 4k, up to 64m"))
}

fn unknown(key: &str) -> String {
    let hint = did_you_mean(key, SETTINGS);
    format!("'{key}' is no setting; settings are {}{hint}", SETTINGS.join(", "))
}

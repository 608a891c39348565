//! Places for clients that have finished their negotiation: a limit in all and a limit for one address.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Where a client comes from, as limits and logs distinguish clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::nbd) enum Origin {
    /// The user at the other end of a unix socket.
    User(u32),
    /// An IPv4 address, also one that IPv6 maps (`::ffff:192.0.2.1`).
    V4([u8; 4]),
    /// A /64 network of IPv6: one machine usually has all of its 2^64 addresses.
    V6([u8; 8]),
}

impl From<IpAddr> for Origin {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.octets()),
            IpAddr::V6(address) => {
                let octets = address.octets();
                Self::V6(std::array::from_fn(|n| octets[n]))
            }
        }
    }
}

/// Why a client gets no place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::nbd) enum Shortage {
    /// So many places are taken, which are all.
    Total(usize),
    /// The client's address has so many places, which is the limit for one address.
    Address(usize),
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Total(places) => write!(f, "all {places} places for clients are taken"),
            Self::Address(places) => write!(f, "its address has reached the limit for one address, {places}"),
        }
    }
}

/// The places of one kind of listener.
#[derive(Debug)]
pub(in crate::nbd) struct Places {
    total: usize,
    per_address: usize,
    /// The origin of each client that has a place.
    taken: Mutex<Vec<Origin>>,
    freed: Condvar,
}

impl Places {
    pub(in crate::nbd) fn new(total: usize, per_address: usize) -> Arc<Self> {
        Arc::new(Self { total, per_address, taken: Mutex::default(), freed: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Origin>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place.
    pub(in crate::nbd) fn take(self: &Arc<Self>, origin: Origin) -> Result<Place, Shortage> {
        self.take_locked(origin, &mut self.lock())
    }

    /// Takes a place as soon as one is free, until `until` at the latest.
    pub(in crate::nbd) fn wait(self: &Arc<Self>, origin: Origin, until: Instant) -> Result<Place, Shortage> {
        let mut taken = self.lock();
        loop {
            let place = self.take_locked(origin, &mut taken);
            let left = until.saturating_duration_since(Instant::now());
            if place.is_ok() || left.is_zero() {
                return place;
            }
            taken = self.freed.wait_timeout(taken, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn take_locked(self: &Arc<Self>, origin: Origin, taken: &mut Vec<Origin>) -> Result<Place, Shortage> {
        if count(taken, origin) >= self.per_address && !matches!(origin, Origin::User(_)) {
            return Err(Shortage::Address(self.per_address));
        }
        if taken.len() >= self.total {
            return Err(Shortage::Total(self.total));
        }
        taken.push(origin);
        Ok(Place { places: self.clone(), origin })
    }

    /// Places that clients of this origin have.
    pub(in crate::nbd) fn count(&self, origin: Origin) -> usize {
        count(&self.lock(), origin)
    }

    /// Whether no client has a place.
    pub(in crate::nbd) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }
}

fn count(taken: &[Origin], origin: Origin) -> usize {
    taken.iter().filter(|&&other| other == origin).count()
}

/// A client's place, free again when this is dropped.
#[derive(Debug)]
pub(in crate::nbd) struct Place {
    places: Arc<Places>,
    origin: Origin,
}

impl Place {
    pub(in crate::nbd) const fn places(&self) -> &Arc<Places> {
        &self.places
    }

    pub(in crate::nbd) const fn origin(&self) -> Origin {
        self.origin
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        if let Some(index) = taken.iter().position(|&origin| origin == self.origin) {
            taken.swap_remove(index);
        }
        self.places.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    const ONE: Origin = Origin::V4([192, 0, 2, 1]);
    const OTHER: Origin = Origin::V4([192, 0, 2, 2]);

    #[test]
    fn one_address_cannot_take_all_places() {
        let places = Places::new(4, 3);
        let mut taken: Vec<Place> = (0..3).map(|_| places.take(ONE).unwrap()).collect();
        assert_eq!(places.take(ONE).unwrap_err(), Shortage::Address(3));
        taken.push(places.take(OTHER).unwrap());
        assert_eq!(places.take(OTHER).unwrap_err(), Shortage::Total(4));
        taken.swap_remove(0);
        assert_eq!((places.count(ONE), places.count(OTHER)), (2, 1));
        places.take(ONE).unwrap();
    }

    #[test]
    fn one_user_may_have_all_places_of_unix_sockets() {
        let places = Places::new(4, 1);
        let taken: Vec<Place> = (0..4).map(|_| places.take(Origin::User(0)).unwrap()).collect();
        assert_eq!(places.take(Origin::User(0)).unwrap_err(), Shortage::Total(4));
        drop(taken);
        assert!(places.is_empty());
    }

    #[test]
    fn addresses_of_one_ipv6_network_and_mapped_ones_are_one_origin() {
        let origin = |text: &str| Origin::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(origin("2001:db8::1"), origin("2001:db8::ffff:1"));
        assert_ne!(origin("2001:db8::1"), origin("2001:db8:0:1::1"));
        assert_eq!(origin("::ffff:192.0.2.1"), ONE);
    }

    #[test]
    fn a_client_that_waits_gets_the_next_free_place() {
        let places = Places::new(1, 1);
        let soon = || Instant::now() + Duration::from_millis(20);
        let place = places.take(ONE).unwrap();
        assert!(places.wait(OTHER, soon()).is_err());
        let waiting = {
            let places = places.clone();
            thread::spawn(move || places.wait(OTHER, Instant::now() + Duration::from_secs(20)).is_ok())
        };
        thread::sleep(Duration::from_millis(20));
        drop(place);
        assert!(waiting.join().unwrap());
    }

    #[test]
    fn a_shortage_names_the_limit_that_is_reached() {
        assert_eq!(Shortage::Total(16).to_string(), "all 16 places for clients are taken");
        let text = Shortage::Address(12).to_string();
        assert_eq!(text, "its address has reached the limit for one address, 12");
    }

    #[test]
    fn a_place_keeps_its_origin() {
        let places = Places::new(2, 2);
        let place = places.take(ONE).unwrap();
        assert!(place.origin() == ONE && Arc::ptr_eq(place.places(), &places) && !places.is_empty());
    }
}

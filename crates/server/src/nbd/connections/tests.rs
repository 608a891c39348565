//! Clients in memory, with a limit of the memory of all, in front of a disk in memory. The tests pass all times.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc::channel;

use elevator::queue::{Options, Queue};
use schedulers::{Environment, Spec};

use super::*;
use crate::backend::Memory;
use crate::device::Device;
use crate::nbd::budget::Division;
use crate::nbd::memory::{Arrivals, Channel, Pipe};
use crate::nbd::negotiation::Agreed;
use crate::nbd::places::Places;
use crate::operation::FrontEndEvent;
use crate::poller::Poller;
use crate::statistics::Watch;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const IDLE: Span = Span::from_secs(2);

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;

fn header(command: u16, cookie: u64, length: usize) -> Vec<u8> {
    let (magic, flags, offset) = (0x2560_9513u32, 0u16, 0u64);
    [
        &magic.to_be_bytes()[..],
        &flags.to_be_bytes(),
        &command.to_be_bytes(),
        &cookie.to_be_bytes(),
        &offset.to_be_bytes(),
        &(length as u32).to_be_bytes(),
    ]
    .concat()
}

/// The connections, and the device that they share.
struct Served {
    connections: Connections<Pipe>,
    device: Device,
    poller: Poller,
    arrivals: Arrivals,
    now: Time,
}

type Client = (usize, Rc<RefCell<Channel>>);

impl Served {
    /// Each client may hold 4 KiB, and all of them 1 MiB beyond that.
    fn new() -> Self {
        let scheduler = Spec::parse("noop").unwrap().build(&Environment::default()).unwrap();
        let options = Options { depth: 8, ..Options::default() };
        let queue = Queue::observed(options, scheduler, Watch::new(None));
        let division = Division { own: 4 * KIB, common: MIB, ..Division::default() };
        Self {
            connections: Connections::new(Budget::new(division)),
            device: Device::new(queue, Box::new(Memory::new(16 << 20, 8))),
            poller: Poller::new().unwrap(),
            arrivals: Arrivals::new(),
            now: Time::ZERO,
        }
    }

    fn with<R>(&mut self, call: impl FnOnce(&mut Connections<Pipe>, &mut Host<'_>) -> R) -> R {
        let mut host = Host { device: &mut self.device, poller: &self.poller, front: 0, now: self.now };
        call(&mut self.connections, &mut host)
    }

    /// A client at this place, or at one that no other client shares.
    fn connect(&mut self, place: Option<(&Arc<Places>, Origin)>) -> Client {
        let channel = self.arrivals.connect(Agreed::default());
        let mut greeted = self.arrivals.next().unwrap();
        if let Some((places, origin)) = place {
            greeted.place = Arc::new(places.take(origin).unwrap());
        }
        let index = self.with(|connections, host| connections.adopt(greeted, None, host)).unwrap();
        (index, channel)
    }

    /// The client sends these bytes, which the server receives. The device does nothing.
    fn sends(&mut self, client: &Client, bytes: &[u8]) {
        client.1.borrow_mut().to_server.push(bytes);
        self.with(|connections, host| {
            connections.readable(client.0, host);
            connections.flush(host);
        });
    }

    /// The device executes everything that it has.
    fn executes(&mut self) {
        self.device.advance(self.now);
        while let Some(event) = self.device.next_event(self.now) {
            self.with(|connections, host| match event {
                FrontEndEvent::Answer(answer) => connections.answered(answer, host),
                FrontEndEvent::Woken(woken) => connections.woken(woken.cookie),
            });
        }
        self.with(|connections, host| connections.flush(host));
    }

    /// Whether a client is disconnected because it holds the memory of all.
    fn reclaims(&mut self) -> bool {
        self.with(|connections, host| connections.reclaim(IDLE, host)).is_some()
    }

    /// The client whose place a client of this origin gets.
    fn makes_room(&mut self, places: &Arc<Places>, origin: Origin, shortage: Shortage) -> Option<String> {
        let (reply, _answer) = channel();
        let wanted = Wanted { places: places.clone(), origin, shortage, reply };
        self.with(|connections, host| connections.make_room(&wanted, IDLE, host))
            .map(|displaced| displaced.from)
    }
}

#[test]
fn a_client_that_holds_the_common_memory_without_progress_is_disconnected_for_one_that_waits() {
    for sends_more in [false, true] {
        let mut served = Served::new();
        let [hoards, waits] = [(); 2].map(|()| served.connect(None));
        served.sends(&hoards, &header(WRITE, 1, MIB));
        served.now = Time::ZERO + Span::from_secs(1);
        served.sends(&waits, &header(WRITE, 1, MIB));
        // By now one has waited for the idle time, and the other one has sent the data that counts as progress, or not.
        for _ in 0..2 {
            served.now += Span::from_secs(1);
            if sends_more {
                served.sends(&hoards, &[1; 256 * KIB]);
            }
        }
        assert_eq!(served.reclaims(), !sends_more);
        served.with(|connections, host| connections.flush(host));
        assert_eq!(hoards.1.borrow().ended, !sends_more);
        assert!(!waits.1.borrow().ended);
        // The client that waits gets the memory: of the one that is gone, or of the one whose write is complete.
        if sends_more {
            served.sends(&hoards, &[1; 512 * KIB]);
            served.executes();
        }
        served.sends(&waits, &[2; MIB]);
        served.executes();
        assert_eq!(waits.1.borrow().to_client.as_slice().len(), 16, "the reply");
    }
}

#[test]
fn a_client_is_not_disconnected_for_memory_while_its_request_is_in_the_device() {
    let mut served = Served::new();
    let [reads, waits] = [(); 2].map(|()| served.connect(None));
    served.sends(&reads, &header(READ, 1, MIB));
    served.sends(&waits, &header(READ, 1, MIB));
    served.now = Time::ZERO + Span::from_secs(60);
    assert!(!served.reclaims());
    served.executes();
    served.executes();
    for client in [reads, waits] {
        assert_eq!(client.1.borrow().to_client.as_slice().len(), 16 + MIB);
    }
}

#[test]
fn an_idle_client_leaves_its_place_to_a_client_of_the_same_listeners() {
    let [one, other] = [(); 2].map(|()| Places::new(1, 1));
    let [near, far] = [1, 2].map(|host| Origin::V4([192, 0, 2, host]));
    for (places, origin, shortage, expected) in [
        (&one, far, Shortage::Total(1), true),
        (&one, near, Shortage::Address(1), true),
        (&one, far, Shortage::Address(1), false),
        (&other, far, Shortage::Total(1), false),
        (&other, near, Shortage::Address(1), false),
    ] {
        let mut served = Served::new();
        let client = served.connect(Some((&one, near)));
        assert_eq!(served.makes_room(places, origin, shortage), None, "it has just connected");
        served.now = Time::ZERO + IDLE;
        let displaced = expected.then(|| "simulation".to_string());
        assert_eq!(served.makes_room(places, origin, shortage), displaced, "{origin:?}, {shortage:?}");
        served.with(|connections, host| connections.flush(host));
        assert_eq!(client.1.borrow().ended, expected);
    }
}

#[test]
fn requests_after_a_disconnect_request_are_ignored() {
    let mut served = Served::new();
    let client = served.connect(None);
    let requests = [header(READ, 1, 512), header(DISCONNECT, 2, 0), header(READ, 3, 512)];
    served.sends(&client, &requests.concat());
    served.executes();
    let channel = client.1.borrow();
    assert!(channel.ended);
    assert_eq!(channel.to_client.as_slice().len(), 16 + 512, "one reply");
}

#[test]
fn a_client_that_sends_without_end_leaves_the_others_their_turn() {
    let mut served = Served::new();
    let client = served.connect(None);
    // Of a request that is refused, as the disk has 16 MiB, the data is received and discarded.
    let refused = [header(WRITE, 1, 20 << 20), vec![0; 20 << 20]].concat();
    let length = refused.len();
    served.sends(&client, &refused);
    let received = length - client.1.borrow().to_server.as_slice().len();
    assert!((4 * MIB..=5 * MIB).contains(&received), "{received} bytes");
    for _ in 0..5 {
        served.sends(&client, &[]);
    }
    let channel = client.1.borrow();
    assert_eq!((channel.to_server.as_slice().len(), channel.to_client.as_slice().len()), (0, 16));
}

/// The receive memory of 128 KiB then ends within a request.
#[test]
fn more_small_requests_than_the_receive_memory_holds_are_all_answered() {
    const REQUESTS: usize = 5000;
    let mut served = Served::new();
    let client = served.connect(None);
    let requests = (0..REQUESTS).flat_map(|cookie| header(READ, cookie as u64, 512));
    client.1.borrow_mut().to_server.push(&requests.collect::<Vec<_>>());
    for _ in 0..REQUESTS {
        served.sends(&client, &[]);
        served.executes();
    }
    let channel = client.1.borrow();
    assert!(!channel.ended, "the client was disconnected");
    assert_eq!(channel.to_client.as_slice().len(), REQUESTS * (16 + 512));
}

#[test]
fn a_stopping_server_waits_until_its_replies_are_sent() {
    let mut served = Served::new();
    let client = served.connect(None);
    client.1.borrow_mut().capacity = 0;
    served.sends(&client, &header(READ, 1, 512));
    served.executes();
    served.with(|connections, _| connections.shut_down());
    served.with(|connections, host| connections.flush(host));
    assert!(!served.connections.is_empty() && !client.1.borrow().ended);
    client.1.borrow_mut().capacity = usize::MAX;
    served.with(|connections, host| connections.flush(host));
    assert!(served.connections.is_empty() && client.1.borrow().ended);
    assert_eq!(client.1.borrow().to_client.as_slice().len(), 16 + 512);
}

/// Otherwise its further requests would fill the receive memory.
#[test]
fn a_client_whose_request_waits_for_memory_is_not_read_further() {
    const SMALL: usize = 6000;
    let mut served = Served::new();
    let [writes, waits] = [(); 2].map(|()| served.connect(None));
    served.sends(&writes, &header(WRITE, 1, MIB));
    let small = (0..SMALL).flat_map(|cookie| header(READ, cookie as u64, 512));
    served.sends(&waits, &header(READ, 0, MIB).into_iter().chain(small).collect::<Vec<_>>());
    for _ in 0..3 {
        served.sends(&waits, &[]);
    }
    assert!(!waits.1.borrow().to_server.as_slice().is_empty() && !waits.1.borrow().ended);
    served.sends(&writes, &[1; MIB]);
    for _ in 0..SMALL {
        served.executes();
        served.sends(&waits, &[]);
    }
    assert_eq!(waits.1.borrow().to_client.as_slice().len(), 16 + MIB + SMALL * (16 + 512));
}

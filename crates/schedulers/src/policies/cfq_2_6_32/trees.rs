//! The two orders of queues with requests: by turn, and by the position of the next request.

use alloc::collections::VecDeque;

use elevator::{PriorityClass, Sector};

use super::queue::{QueueId, Turn};

/// All queues with requests, in the order of their turns (`service_tree`).
#[derive(Default)]
pub(super) struct ServiceTree {
    turns: VecDeque<(Turn, QueueId)>,
    numbers: u64,
}

impl ServiceTree {
    /// The number of queues with requests (`busy_queues`).
    pub(super) fn len(&self) -> u32 {
        self.turns.len() as u32
    }

    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// The queue whose turn is next.
    pub(super) fn first(&self) -> Option<(Turn, QueueId)> {
        self.turns.front().copied()
    }

    /// The queue whose turn is last.
    pub(super) fn last(&self) -> Option<(Turn, QueueId)> {
        self.turns.back().copied()
    }

    /// Adds a queue, behind others of the same key.
    pub(super) fn add(&mut self, class: PriorityClass, key: i64, queue: QueueId) -> Turn {
        self.numbers += 1;
        let turn = Turn { class, key, number: self.numbers };
        let place = self.turns.partition_point(|(other, _)| *other < turn);
        self.turns.insert(place, (turn, queue));
        turn
    }

    /// Removes a queue.
    pub(super) fn remove(&mut self, turn: Turn) {
        if let Ok(place) = self.turns.binary_search_by_key(&turn, |(other, _)| *other) {
            self.turns.remove(place);
        }
    }
}

/// Queues by the position of their next requests, one per position (`prio_trees`).
#[derive(Default)]
pub(super) struct PositionTree {
    positions: VecDeque<(Sector, QueueId)>,
}

impl PositionTree {
    fn place(&self, sector: Sector) -> Result<usize, usize> {
        self.positions.binary_search_by_key(&sector, |(other, _)| *other)
    }

    /// Adds a queue whose next request begins there, unless there is one already.
    pub(super) fn add(&mut self, sector: Sector, queue: QueueId) -> bool {
        let Err(place) = self.place(sector) else { return false };
        self.positions.insert(place, (sector, queue));
        true
    }

    /// Removes the queue at that position.
    pub(super) fn remove(&mut self, sector: Sector) {
        if let Ok(place) = self.place(sector) {
            self.positions.remove(place);
        }
    }

    /// The queue whose next request begins there; or the nearest above and below.
    pub(super) fn around(&self, sector: Sector) -> Result<QueueId, [Option<QueueId>; 2]> {
        let queue = |place: usize| self.positions.get(place).map(|(_, queue)| *queue);
        match self.place(sector) {
            Ok(place) => Ok(self.positions[place].1),
            Err(place) => Err([queue(place), place.checked_sub(1).and_then(queue)]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PriorityClass::{BestEffort, Idle, RealTime};
    use alloc::vec::Vec;

    #[test]
    fn turns_go_by_class_then_key_then_age() {
        let mut tree = ServiceTree::default();
        let turns = [(BestEffort, 5), (Idle, 1), (BestEffort, 5), (RealTime, 90), (BestEffort, -3)];
        let turns: Vec<Turn> = turns
            .iter()
            .enumerate()
            .map(|(n, &(class, key))| tree.add(class, key, QueueId(n as u32)))
            .collect();
        assert_eq!(tree.last().map(|(_, queue)| queue), Some(QueueId(1)));
        tree.remove(turns[4]);
        let mut order = Vec::new();
        while let Some((turn, queue)) = tree.first() {
            tree.remove(turn);
            order.push(queue.0);
        }
        assert_eq!(order, [3, 0, 2, 1]);
    }

    #[test]
    fn positions_are_found_exactly_or_between_neighbours() {
        let mut tree = PositionTree::default();
        assert!(tree.add(Sector(100), QueueId(1)) && tree.add(Sector(300), QueueId(3)));
        assert!(!tree.add(Sector(100), QueueId(2)));
        assert_eq!(tree.around(Sector(100)), Ok(QueueId(1)));
        assert_eq!(tree.around(Sector(200)), Err([Some(QueueId(3)), Some(QueueId(1))]));
        tree.remove(Sector(100));
        assert_eq!(tree.around(Sector(200)), Err([Some(QueueId(3)), None]));
    }
}

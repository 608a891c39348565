//! B-WF2Q+: the order of service in which each queue gets a share of the service by its weight.
//!
//! Every queue is an entity with a budget. Virtual time advances by the service given, divided by the sum of all weights. In virtual time,
//! an entity starts at the end of its last budget and finishes `budget / weight` later. Among the entities whose start is not after the
//! present virtual time, the one with the earliest finish is served next. A queue that ran empty keeps its finish time on the idle tree
//! until virtual time has passed it, so that it gains nothing by leaving and returning.
//!
//! Each of the three classes has a scheduler of this kind. A lower class is served if the higher ones are empty;
//! the idle class also once per 200 ms.

use alloc::vec::Vec;

use elevator::{PriorityClass, Span, Time};

use super::queue::QueueId;
use super::tree::{Nodes, Tree, is_later};
use super::weights::Weights;

/// The idle class gets one budget after it has waited for this time.
const IDLE_CLASS_TIMEOUT: Span = Span::from_millis(200);

/// Virtual time in units of 2⁻²² sector per unit of weight.
const VIRTUAL_SHIFT: u32 = 22;

const CLASSES: usize = 3;

/// The position of an entity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// On no tree, without a pending finish time.
    Nowhere,
    /// Waiting to be served.
    Active,
    /// Empty, with a finish time that virtual time has not reached.
    Idle,
    /// Being served, on no tree.
    InService,
}

/// The virtual time at which an entity that becomes active starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Start {
    /// The present virtual time, but not before the last finish.
    AtVirtualTime,
    /// The last finish, although virtual time has passed it: the entity did not lose its turn by its own fault.
    AtLastFinish,
}

/// Whether a change of the order is part of the end of a slot. If so, virtual time may jump as if no entity were in service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Slot {
    Unchanged,
    Ends,
}

/// Which changed data of an entity take effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Changes {
    /// The weight; the entity may be on a tree of its class.
    Weight,
    /// Weight and class; the entity is on no tree.
    WeightAndClass,
}

/// The data of a queue for the order of service.
#[derive(Clone, Copy)]
pub(super) struct Entity {
    start: u64,
    finish: u64,
    /// Sectors of one budget.
    pub(super) budget: u64,
    /// Sectors charged to this budget, in service or by injection.
    pub(super) service: u64,
    pub(super) weight: u32,
    /// Its weight without raising.
    pub(super) base_weight: u32,
    /// Factor on the weight; 1 unless raised.
    pub(super) raising: u32,
    pub(super) class: PriorityClass,
    /// Base weight and class that apply from its next insertion on.
    pub(super) new_weight: u32,
    pub(super) new_class: PriorityClass,
    /// A change of weight, raising or class has not been applied yet.
    pub(super) changed: bool,
    /// Has requests, or is in service.
    pub(super) busy: bool,
    place: Place,
    /// The weight with which it is counted; 0 if it is not counted.
    counted: u32,
    /// Neighbours in the list of active entities.
    newer: Option<QueueId>,
    older: Option<QueueId>,
}

impl Entity {
    pub(super) const fn new(weight: u32, class: PriorityClass) -> Self {
        Self {
            start: 0,
            finish: 0,
            budget: 0,
            service: 0,
            weight,
            base_weight: weight,
            raising: 1,
            class,
            new_weight: weight,
            new_class: class,
            changed: true,
            busy: false,
            place: Place::Nowhere,
            counted: 0,
            newer: None,
            older: None,
        }
    }

    /// The virtual time at which it has received `sectors` of service since its start.
    fn after(&self, sectors: u64) -> u64 {
        self.start.wrapping_add(virtual_length(sectors, u64::from(self.weight)))
    }

    /// The rest of its budget in sectors; negative if a request exceeded it.
    pub(super) const fn budget_left(&self) -> i64 {
        self.budget as i64 - self.service as i64
    }
}

#[derive(Clone, Copy, Default)]
struct Class {
    active: Tree,
    idle: Tree,
    /// Virtual time.
    now: u64,
    /// Sum over all entities that are on a tree or in service.
    weight_sum: u64,
    busy: u32,
}

/// The order of service.
#[derive(Default)]
pub(super) struct Service {
    entities: Vec<Entity>,
    nodes: Nodes,
    classes: [Class; CLASSES],
    in_service: Option<QueueId>,
    /// The next entity, if nothing changes until the end of the one in service, and that one is then empty.
    next: Option<QueueId>,
    idle_class_served: Time,
    weights: Weights,
    newest_active: Option<QueueId>,
    /// Entities that left all trees: their queues may be freed.
    released: Vec<QueueId>,
}

fn virtual_length(sectors: u64, weight: u64) -> u64 {
    (sectors << VIRTUAL_SHIFT) / weight.max(1)
}

impl Service {
    pub(super) fn add(&mut self, id: QueueId, entity: Entity) {
        if id.index() == self.entities.len() {
            self.entities.push(entity);
        } else {
            self.entities[id.index()] = entity;
        }
    }

    pub(super) fn get(&self, id: QueueId) -> &Entity {
        &self.entities[id.index()]
    }

    pub(super) fn get_mut(&mut self, id: QueueId) -> &mut Entity {
        &mut self.entities[id.index()]
    }

    pub(super) fn is_somewhere(&self, id: QueueId) -> bool {
        self.get(id).place != Place::Nowhere || self.in_service == Some(id)
    }

    pub(super) const fn in_service(&self) -> Option<QueueId> {
        self.in_service
    }

    pub(super) fn next_released(&mut self) -> Option<QueueId> {
        self.released.pop()
    }

    /// Queues that have requests or are in service.
    pub(super) fn busy(&self) -> u32 {
        self.classes.iter().map(|class| class.busy).sum()
    }

    pub(super) fn set_busy(&mut self, id: QueueId, busy: bool) {
        let entity = &mut self.entities[id.index()];
        debug_assert_ne!(entity.busy, busy);
        entity.busy = busy;
        let count = &mut self.classes[entity.class as usize].busy;
        *count = if busy { *count + 1 } else { *count - 1 };
    }

    /// Whether the shares of queues differ; with `id`, also whether that queue's share is more than the least.
    pub(super) fn is_asymmetric(&self, id: Option<QueueId>) -> bool {
        let is_least = id.is_some_and(|id| {
            let counted = self.get(id).counted;
            counted != 0 && Some(counted) == self.weights.least()
        });
        let classes_busy = self.classes.iter().filter(|class| class.busy > 0).count();
        (!is_least && self.weights.vary()) || classes_busy > 1
    }

    /// The sum of weights of the class and those above, scaled so that a low level of a higher class counts more
    /// than a high level of a lower one.
    pub(super) fn weight_sum_down_to(&self, class: PriorityClass) -> u64 {
        let classes = &self.classes[..=class as usize];
        classes.iter().fold(0, |sum: u64, class| sum.saturating_mul(8).saturating_add(class.weight_sum))
    }

    /// Active entities, the latest to become active first.
    pub(super) fn active(&self) -> impl Iterator<Item = QueueId> + '_ {
        core::iter::successors(self.newest_active, |&id| self.get(id).older)
    }

    /// Counts the entity's weight, once.
    pub(super) fn count_weight(&mut self, id: QueueId) {
        let entity = &mut self.entities[id.index()];
        if entity.counted == 0 {
            entity.counted = entity.weight;
            self.weights.add(entity.weight);
        }
    }

    pub(super) fn uncount_weight(&mut self, id: QueueId) {
        let counted = core::mem::take(&mut self.entities[id.index()].counted);
        if counted != 0 {
            self.weights.remove(counted);
        }
    }

    /// The entity received `sectors` of service.
    pub(super) fn served(&mut self, id: QueueId, sectors: u64) {
        let entity = &mut self.entities[id.index()];
        entity.service += sectors;
        let class = entity.class as usize;
        let class_state = &mut self.classes[class];
        class_state.now = class_state.now.wrapping_add(virtual_length(sectors, class_state.weight_sum));
        self.forget_idle(class);
    }

    /// Inserts an entity into the order: one in service or active by its service and its new budget,
    /// any other as a newly busy one, from `start`.
    pub(super) fn activate_or_requeue(&mut self, id: QueueId, start: Start, slot: Slot, now: Time) {
        if self.in_service == Some(id) || self.get(id).place == Place::Active {
            self.requeue(id);
        } else {
            self.activate(id, start);
        }
        self.update_next(Some(id), slot, now);
    }

    fn activate(&mut self, id: QueueId, start: Start) {
        let entity = *self.get(id);
        let class = &mut self.classes[entity.class as usize];
        let is_backshifted = start == Start::AtLastFinish && is_later(class.now, entity.finish);
        let earliest = if is_backshifted { entity.finish } else { class.now };
        let start = if entity.place == Place::Idle {
            self.nodes.remove(&mut class.idle, id);
            if is_later(earliest, entity.finish) { earliest } else { entity.finish }
        } else {
            class.weight_sum += u64::from(entity.weight);
            earliest
        };
        self.get_mut(id).start = start;
        self.enqueue(id, is_backshifted);
    }

    fn requeue(&mut self, id: QueueId) {
        if self.get(id).place == Place::Active {
            self.extract_active(id);
        }
        if self.in_service == Some(id) {
            let entity = self.get_mut(id);
            entity.start = entity.after(entity.service);
        }
        self.enqueue(id, false);
    }

    /// Sets the entity's finish time and inserts it into the active tree. If its start was shifted back, the finish is moved forward so that it is
    /// not before the present; otherwise such entities would monopolise the device. The finish of raised entities is moved by
    /// less.
    fn enqueue(&mut self, id: QueueId, is_backshifted: bool) {
        self.apply_changes(id, Changes::WeightAndClass);
        let entity = &mut self.entities[id.index()];
        let class = &mut self.classes[entity.class as usize];
        entity.finish = entity.after(entity.budget);
        if is_backshifted && is_later(class.now, entity.finish) {
            let push = class.now.wrapping_sub(entity.finish) / u64::from(entity.raising);
            entity.start = entity.start.wrapping_add(push);
            entity.finish = entity.finish.wrapping_add(push);
        }
        entity.place = Place::Active;
        entity.older = self.newest_active;
        entity.newer = None;
        self.nodes.insert(&mut class.active, id, entity.finish, entity.start);
        if let Some(older) = self.newest_active.replace(id) {
            self.get_mut(older).newer = Some(id);
        }
    }

    fn extract_active(&mut self, id: QueueId) {
        let Entity { class, newer, older, .. } = *self.get(id);
        self.nodes.remove(&mut self.classes[class as usize].active, id);
        self.get_mut(id).place = Place::Nowhere;
        match newer {
            Some(newer) => self.get_mut(newer).older = older,
            None => self.newest_active = older,
        }
        if let Some(older) = older {
            self.get_mut(older).newer = newer;
        }
    }

    pub(super) fn apply_changes(&mut self, id: QueueId, changes: Changes) {
        let entity = *self.get(id);
        if !entity.changed {
            return;
        }
        let class = match changes {
            Changes::Weight => entity.class,
            Changes::WeightAndClass => entity.new_class,
        };
        let weight = entity.new_weight * entity.raising;
        self.classes[entity.class as usize].weight_sum -= u64::from(entity.weight);
        self.classes[class as usize].weight_sum += u64::from(weight);
        if weight != entity.weight {
            self.uncount_weight(id);
        }
        self.change_class(id, class);
        let changed = self.get_mut(id);
        changed.base_weight = entity.new_weight;
        changed.weight = weight;
        changed.changed = class != entity.new_class;
        if weight != entity.weight && entity.raising == 1 {
            self.count_weight(id);
        }
    }

    fn change_class(&mut self, id: QueueId, class: PriorityClass) {
        let entity = &mut self.entities[id.index()];
        if class != entity.class {
            let busy = u32::from(entity.busy);
            self.classes[entity.class as usize].busy -= busy;
            self.classes[class as usize].busy += busy;
            entity.class = class;
            entity.start = self.classes[class as usize].now;
        }
    }

    /// The entity became empty. Its finish time stays on the idle tree until virtual time has passed it.
    pub(super) fn deactivate(&mut self, id: QueueId, slot: Slot, now: Time) {
        let place = self.get(id).place;
        if place == Place::Nowhere {
            return;
        }
        self.leave(id, place);
        let Entity { class, finish, start, .. } = *self.get(id);
        let class = &mut self.classes[class as usize];
        if is_later(finish, class.now) {
            self.nodes.insert(&mut class.idle, id, finish, start);
            self.get_mut(id).place = Place::Idle;
        } else {
            self.forget(id);
        }
        if self.next == Some(id) {
            self.update_next(None, slot, now);
        }
    }

    fn leave(&mut self, id: QueueId, place: Place) {
        let in_service = self.in_service == Some(id);
        let entity = self.get_mut(id);
        // An entity out of service may have received service through injection.
        entity.finish = entity.after(entity.service);
        if in_service {
            self.in_service = None;
        } else {
            entity.service = 0;
        }
        match place {
            Place::Active => self.extract_active(id),
            Place::Idle => {
                let class = self.get(id).class as usize;
                self.nodes.remove(&mut self.classes[class].idle, id);
            }
            Place::Nowhere | Place::InService => {}
        }
    }

    fn forget(&mut self, id: QueueId) {
        let entity = &mut self.entities[id.index()];
        entity.place = Place::Nowhere;
        self.classes[entity.class as usize].weight_sum -= u64::from(entity.weight);
        self.released.push(id);
    }

    /// Removes one idle entity whose finish time has passed; one per call suffices, because entities become idle one by one.
    /// If no entity is active, virtual time first returns to the last finish time, as in the source.
    fn forget_idle(&mut self, class: usize) {
        let state = &mut self.classes[class];
        let finish = |id: QueueId| self.entities[id.index()].finish;
        if state.active.is_empty()
            && let Some(last) = self.nodes.last(&state.idle)
            && is_later(state.now, finish(last))
        {
            state.now = finish(last);
        }
        if let Some(first) = self.nodes.first(&state.idle)
            && !is_later(finish(first), state.now)
        {
            self.nodes.remove(&mut state.idle, first);
            self.forget(first);
        }
    }

    /// Determines the next entity. A newly inserted entity is compared with the previous next one; every other change needs a search of
    /// the trees.
    fn update_next(&mut self, placed: Option<QueueId>, slot: Slot, now: Time) {
        if let Some(id) = placed.filter(|&id| self.next != Some(id))
            && self.next.is_none_or(|next| self.goes_before(id, next))
        {
            self.next = Some(id);
            return;
        }
        self.next = self.look_up(slot, now);
    }

    fn goes_before(&self, id: QueueId, next: QueueId) -> bool {
        let (entity, next) = (self.get(id), self.get(next));
        entity.class == next.class
            && !is_later(entity.start, self.classes[entity.class as usize].now)
            && is_later(next.finish, entity.finish)
    }

    fn look_up(&mut self, slot: Slot, now: Time) -> Option<QueueId> {
        let idle = PriorityClass::Idle as usize;
        let mut first_class = 0;
        if self.idle_class_served + IDLE_CLASS_TIMEOUT < now {
            if !self.classes[idle].active.is_empty() {
                first_class = idle;
            }
            self.idle_class_served = now;
        }
        let may_jump = self.in_service.is_none() || slot == Slot::Ends;
        (first_class..CLASSES).find_map(|class| self.look_up_in(class, may_jump))
    }

    /// The first eligible entity of a class. If no entity is in service, virtual time jumps until one is eligible.
    fn look_up_in(&mut self, class: usize, may_jump: bool) -> Option<QueueId> {
        let least = self.nodes.least_start(&self.classes[class].active)?;
        let now = self.classes[class].now;
        let time = if is_later(least, now) { least } else { now };
        if may_jump && time != now {
            self.classes[class].now = time;
            self.forget_idle(class);
        }
        self.nodes.first_eligible(&self.classes[class].active, time)
    }

    /// Puts the next entity in service.
    pub(super) fn begin_next(&mut self, now: Time) -> Option<QueueId> {
        let id = self.next?;
        self.in_service = Some(id);
        self.extract_active(id);
        self.get_mut(id).place = Place::InService;
        self.update_next(None, Slot::Unchanged, now);
        Some(id)
    }

    /// Ends service: no entity is in service.
    pub(super) const fn end(&mut self) {
        self.in_service = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order of service of three entities with different weights, if virtual time begins at `begins`.
    fn order(begins: u64) -> Vec<QueueId> {
        let mut service = Service::default();
        service.classes[PriorityClass::BestEffort as usize].now = begins;
        for (n, weight) in (0..).zip([10, 20, 40]) {
            service.add(QueueId(n), Entity::new(weight, PriorityClass::BestEffort));
            service.get_mut(QueueId(n)).budget = 100;
            service.activate_or_requeue(QueueId(n), Start::AtVirtualTime, Slot::Unchanged, Time::ZERO);
        }
        let serve = |_| {
            let id = service.begin_next(Time::ZERO).expect("three are active");
            service.served(id, 100);
            service.activate_or_requeue(id, Start::AtVirtualTime, Slot::Ends, Time::ZERO);
            service.get_mut(id).service = 0;
            service.end();
            id
        };
        (0..140).map(serve).collect()
    }

    #[test]
    fn virtual_time_may_wrap_around() {
        let of = |id| order(0).iter().filter(|served| served.0 == id).count();
        assert_eq!([0, 1, 2].map(of), [20, 40, 80]);
        assert_eq!(order(u64::MAX - (2_000 << VIRTUAL_SHIFT) / 70), order(0));
    }
}

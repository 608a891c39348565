//! A writer and the pipeline of its block.

use std::collections::VecDeque;

use elevator::Random;
use elevator::{Span, Time};

/// Transfer times.
#[derive(Clone, Copy)]
pub(super) struct Network {
    pub(super) latency: Span,
    /// Transfer time of a packet.
    pub(super) packet: Span,
}

/// A datanode of the pipeline.
struct Stage {
    node: u32,
    /// Arrival times of packets not taken yet.
    arrives: VecDeque<Time>,
    /// Packets written.
    wrote: u64,
}

/// A writer and its block.
pub(super) struct Pipeline {
    tenant: usize,
    /// Number of datanodes, and of replicas.
    nodes: (u32, usize),
    /// Packets of a block.
    packets: u64,
    window: u64,
    network: Network,
    random: Random,
    block: u64,
    stages: Vec<Stage>,
    /// Packets of the block sent.
    sent: u64,
    /// When the writer had sent the last of them.
    left: Time,
    /// Packets of the block written by all replicas.
    acked: u64,
    /// Packets of earlier blocks.
    done: u64,
}

impl Pipeline {
    pub(super) fn new(
        tenant: usize,
        nodes: (u32, usize),
        packets: u64,
        window: u64,
        network: Network,
        random: Random,
    ) -> Self {
        let mut pipeline = Self {
            tenant,
            nodes,
            packets,
            window,
            network,
            random,
            block: 0,
            stages: Vec::new(),
            sent: 0,
            left: Time::ZERO,
            acked: 0,
            done: 0,
        };
        pipeline.next_block(Time::ZERO);
        pipeline
    }

    pub(super) const fn tenant(&self) -> usize {
        self.tenant
    }

    /// Packets written by all replicas.
    pub(super) const fn acknowledged(&self) -> u64 {
        self.done + self.acked
    }

    /// The block that a datanode receives and its stage in the pipeline.
    pub(super) fn stage(&self, node: u32) -> Option<(u64, usize)> {
        let stage = self.stages.iter().position(|stage| stage.node == node)?;
        Some((self.block, stage))
    }

    /// Takes the next packet of a stage, if it has arrived, and forwards it.
    pub(super) fn take(&mut self, stage: usize, now: Time) -> bool {
        let arrives = &mut self.stages[stage].arrives;
        if arrives.front().is_none_or(|&at| at > now) {
            return false;
        }
        arrives.pop_front();
        if let Some(next) = self.stages.get_mut(stage + 1) {
            next.arrives.push_back(now + self.network.latency + self.network.packet);
        }
        true
    }

    /// Counts a written packet. When all replicas have written it, the writer sends another.
    pub(super) fn wrote(&mut self, stage: usize, now: Time) {
        self.stages[stage].wrote += 1;
        let acked = self.stages.iter().map(|stage| stage.wrote).min().unwrap_or(0);
        if acked == self.acked {
            return;
        }
        self.acked = acked;
        if acked < self.packets {
            self.send(now + self.network.latency);
        } else {
            self.next_block(now + self.network.latency);
        }
    }

    fn next_block(&mut self, now: Time) {
        self.done += self.acked;
        (self.block, self.sent, self.acked) = (self.block + 1, 0, 0);
        let (nodes, replicas) = self.nodes;
        let mut free: Vec<u32> = (0..nodes).collect();
        let draw = |_| free.swap_remove(self.random.below(free.len() as u64) as usize);
        let stages = (0..replicas).map(draw);
        self.stages = stages.map(|node| Stage { node, arrives: VecDeque::new(), wrote: 0 }).collect();
        self.send(now);
    }

    /// Sends packets up to the window.
    fn send(&mut self, now: Time) {
        while self.sent < self.packets && self.sent < self.acked + self.window {
            self.sent += 1;
            self.left = self.left.max(now) + self.network.packet;
            self.stages[0].arrives.push_back(self.left + self.network.latency);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Time {
        Time::ZERO + Span::from_micros(us)
    }

    #[test]
    fn a_packet_is_acknowledged_when_all_replicas_have_written_it() {
        let network = Network { latency: Span::from_micros(100), packet: Span::from_micros(1000) };
        let mut writer = Pipeline::new(0, (3, 2), 2, 1, network, Random::new(1));
        assert!(!writer.take(0, at(1099)) && writer.take(0, at(1100)));
        assert!(!writer.take(0, at(5000)), "the window is one packet");
        assert!(!writer.take(1, at(2199)) && writer.take(1, at(2200)));
        writer.wrote(0, at(1500));
        assert_eq!(writer.acknowledged(), 0);
        writer.wrote(1, at(3000));
        assert_eq!(writer.acknowledged(), 1);
        assert!(
            !writer.take(0, at(4199)) && writer.take(0, at(4200)),
            "acknowledgement, packet and latency later"
        );
        let (block, _) = (0..3).find_map(|node| writer.stage(node)).unwrap();
        assert!(writer.take(1, at(6000)));
        writer.wrote(0, at(6000));
        writer.wrote(1, at(6500));
        assert_eq!(writer.acknowledged(), 2);
        let nodes: Vec<u32> = (0..3).filter(|&node| writer.stage(node).is_some()).collect();
        assert_eq!(nodes.len(), 2, "two of three");
        assert_eq!(writer.stage(nodes[0]).unwrap().0, block + 1, "of the next block");
    }
}

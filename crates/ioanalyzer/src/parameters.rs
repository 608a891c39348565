//! The parameters, under the paper's names where it has any.

use elevator::{Span, tunables};

tunables! {
    /// The parameters. Defaults are the paper's unless stated otherwise.
    pub struct Parameters {
        /// Length of a window, after which one decision is made (paper: t = 5 s). Shorter: faster choice, more CPU. Longer: fewer matches, longer until every scheduler is tried.
        t: Span = Span::from_secs(5), Span::from_millis(100), Span::from_secs(3600);
        /// Buckets that a window is reduced to (paper: x = 1000); 0 keeps every jump. More: more hits, more CPU and memory.
        x: Count = 1000, 0, 100_000;
        /// Clusters are compared only if their number of requests is within this of the window's (paper: ±10%).
        iops_within: Percent = 10, 0, 100;
        /// A window belongs to the nearest cluster if 1 - distance/maxdifference is at least this (paper: 0.8).
        similarity: Percent = 80, 0, 100;
        /// Latest values of the metric kept for each cluster and scheduler (paper: 20).
        values: Count = 20, 1, 1000;
        /// How many windows the dynamic pattern probability chain looks ahead (paper: depth d = 2).
        d: Count = 2, 1, 16;
        /// Clusters kept; beyond them the least recently used one is removed (paper: 6000).
        clusters: Count = 6000, 1, 1_000_000;
        /// FastDTW's radius (paper: silent; 1 is the algorithm's own default).
        radius: Count = 1, 1, 100;
        /// 0: FastDTW, as in the paper. Otherwise exact warping in a band of this part of x on each side. It decides differently, takes a third of the time at 10%, and needs x above 0.
        band: Percent = 0, 0, 100;
        /// A scheduler not tried for so many hits of a cluster counts as untested again; 0: never ("periodically, we check all different schedulers"; the paper gives no period).
        recheck: Count = 200, 0, 1_000_000;
        /// Probability that the armed bandit approaches for the best scheduler (paper's example: NOOP 80%). At 95 a workload that never hits loses less (docs/tuner-evidence.md).
        bandit_best: Percent = 95, 1, 98;
        /// The same for the second best (paper's example: DL 10%); the others share the rest.
        bandit_second: Percent = 3, 1, 50;
        /// The part of the way to these probabilities that each update goes (paper: silent).
        bandit_rate: Percent = 20, 1, 100;
    }
}

impl Parameters {
    /// The band's width in points, if warping is exact.
    pub const fn band_width(&self) -> Option<usize> {
        if self.band == 0 { None } else { Some((self.x * self.band / 100) as usize) }
    }

    /// Whether the parameters are in range and fit together.
    ///
    /// # Errors
    /// The message names the invalid parameter and its range.
    pub fn check(&self) -> Result<(), String> {
        for tunable in Self::TABLE {
            let value = self.get(tunable.name).expect("a tunable of this table");
            tunable.check(value).map_err(|error| error.to_string())?;
        }
        if self.band > 0 && self.x == 0 {
            return Err(
                "band: exact warping compares windows of one length, so x must be above 0".to_string()
            );
        }
        if self.bandit_best + self.bandit_second > 99 {
            return Err("bandit_best and bandit_second leave nothing for the other schedulers".to_string());
        }
        Ok(())
    }
}

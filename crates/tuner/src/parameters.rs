//! The analyser's parameters, under the paper's names where it has any.

use elevator::{Span, tunables};

tunables! {
    /// What can be set. Defaults are the paper's but where the text says so.
    pub struct Parameters {
        /// Length of a window, in which one decision is made (paper: t = 5 s). Shorter: faster choice, more CPU. Longer: fewer matches, longer until every scheduler was tried.
        t: Span = Span::from_secs(5), Span::from_millis(100), Span::from_secs(3600);
        /// Buckets that a window is reduced to (paper: x = 1000); 0 keeps every jump. More: more hits, more CPU and memory.
        x: Count = 1000, 0, 100_000;
        /// Clusters are compared only if their number of requests is within this of the window's (paper: ±10%).
        iops_within: Percent = 10, 0, 100;
        /// A window belongs to the nearest cluster if 1 - distance/maxdifference is at least this (paper: 0.8).
        similarity: Percent = 80, 0, 100;
        /// Latest values of the metric kept for each cluster and scheduler (paper: 20).
        values: Count = 20, 1, 1000;
        /// How many windows ahead the dynamic pattern probability chain looks (paper: depth d = 2).
        d: Count = 2, 1, 16;
        /// Clusters kept; beyond them the least recently used one goes (paper: 6000).
        clusters: Count = 6000, 1, 1_000_000;
        /// FastDTW's radius (paper: not given; 1 is the algorithm's own default).
        radius: Count = 1, 1, 100;
        /// 0: FastDTW, as in the paper. Otherwise exact warping in a band of this part of x on each side; decides differently, and needs x above 0.
        band: Percent = 0, 0, 100;
        /// Leave out comparisons that cannot find the nearest cluster. The nearest stays the same, but maxdifference then learns only from comparisons that were finished, so it grows less. Not in the paper.
        prune: Flag = false, false, true;
        /// Measure a jump from the end of the access before instead of from its first sector (paper: silent). From the first sector, request size shows in the jumps of sequential access.
        jump_from_end: Flag = false, false, true;
        /// A scheduler not tried for so many hits of a cluster counts as untested again, 0 never ("periodically, we check all different schedulers"; the paper gives no period).
        recheck: Count = 200, 0, 1_000_000;
        /// A window's value counts for the cluster that its scheduler was chosen for, too, wherever the window is found. Not in the paper, which notes it for the window's own cluster alone; where a scheduler changes how much is asked, that is another one: trials are made for ever, and a wrong belief is never put right.
        credit_choices: Flag = false, false, true;
        /// A window that is not similar by warping belongs to the cluster whose jumps are distributed most alike, whatever their order, if that is similar enough. Not in the paper, which leaves random windows to the bandit; needs x above 0.
        distribution: Flag = false, false, true;
        /// The kind of load decides, which is told by what is asked for and not by its order, and trials are made as rarely as they are dear. Not in the paper, whose clusters, chain and bandit decide where this is off; it has beaten them (docs/tuner.md).
        kinds: Flag = true, false, true;
        /// Probability that the armed bandit aims at for the best scheduler (paper's example: NOOP 80%). At 95 a workload that never hits loses less, and was as good or better from the first run on wherever both were measured (docs/tuner.md).
        bandit_best: Percent = 95, 1, 98;
        /// The same for the second best (paper's example: DL 10%); the others share the rest.
        bandit_second: Percent = 3, 1, 50;
        /// How much of the way to those aims the probabilities go at each update (paper: silent).
        bandit_rate: Percent = 20, 1, 100;
        /// Use the armed bandit alone, without patterns (the paper's section V, "RANDOM" in its figure 6).
        bandit_alone: Flag = false, false, true;
    }
}

impl Parameters {
    /// The paper's way: its clusters, chain and bandit decide, with the defaults for what it does not say.
    #[must_use]
    pub fn by_clusters() -> Self {
        Self { kinds: false, ..Self::default() }
    }

    /// The same with the bandit of its example.
    #[must_use]
    pub fn of_the_paper() -> Self {
        Self { bandit_best: 80, bandit_second: 10, ..Self::by_clusters() }
    }

    /// The band's width in points, if warping is to be exact.
    #[must_use]
    pub const fn band_width(&self) -> Option<usize> {
        if self.band == 0 { None } else { Some((self.x * self.band / 100) as usize) }
    }

    /// Whether the parameters fit together.
    ///
    /// # Errors
    /// Says which do not.
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
        if self.distribution && self.x == 0 {
            return Err("distribution: compares windows of one length, so x must be above 0".to_string());
        }
        if self.bandit_best + self.bandit_second > 99 {
            return Err("bandit_best and bandit_second leave nothing for the other schedulers".to_string());
        }
        Ok(())
    }
}

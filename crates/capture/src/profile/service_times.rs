//! The service times as the kernel module takes them: `iosched/service_times`.

use super::Profile;

/// A write to a file of sysfs is at most a page, of which the kernel needs a byte.
const PAGE_MAX: usize = 4095;

impl Profile {
    /// Lines `DISTANCE_SECTORS NANOSECONDS` and `transfer NANOSECONDS_PER_SECTOR`. Points are left out evenly until the text fits into a page;
    /// the nearest and the farthest stay.
    pub fn service_times_of_the_module(&self) -> String {
        let super::ServiceTime { points, transfer_per_sector } = &self.service_time;
        within_a_page(points, *transfer_per_sector)
    }
}

fn within_a_page(points: &[(u64, u64)], transfer: u64) -> String {
    let mut texts = (1..).map(|step| lines(points, step, transfer));
    texts.find(|text| text.len() <= PAGE_MAX).unwrap_or_default()
}

fn lines(points: &[(u64, u64)], step: usize, transfer: u64) -> String {
    let last = points.len().saturating_sub(1);
    let kept = points.iter().enumerate().filter(|(i, _)| i % step == 0 || *i == last);
    let points: String = kept.map(|(_, (distance, nanos))| format!("{distance} {nanos}\n")).collect();
    format!("{points}transfer {transfer}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_holds_the_nearest_and_the_farthest_point() {
        assert_eq!(lines(&[(0, 90_000), (8, 100_000)], 1, 4_500), "0 90000\n8 100000\ntransfer 4500\n");
        let many: Vec<(u64, u64)> = (0..1_000).map(|n| (n * 900_000, 1_000_000 + n)).collect();
        let text = within_a_page(&many, 1);
        assert!(text.len() <= PAGE_MAX && text.len() > PAGE_MAX / 2, "{}", text.len());
        assert!(
            text.starts_with("0 1000000\n") && text.ends_with("899100000 1000999\ntransfer 1\n"),
            "{text}"
        );
    }
}

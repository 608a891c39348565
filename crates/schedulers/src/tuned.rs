//! The part of the contract that is the same in every policy with tunables.

/// Inside an `impl Scheduler` or `impl WorkConserving`: the tunables are those of a type declared with
/// [`elevator::tunables!`], and live in that field.
///
/// ```text
/// impl WorkConserving for Deadline {
///     tuned!(self.tunables: Tunables);
/// ```
macro_rules! tuned {
    (self.$field:ident: $table:ty) => {
        fn tunables(&self) -> &'static [elevator::Tunable] {
            <$table>::TABLE
        }

        fn tunable(&self, name: &str) -> Option<elevator::Value> {
            self.$field.get(name)
        }

        fn tune(&mut self, name: &str, value: elevator::Value) -> Result<(), elevator::TuneError> {
            self.$field.set(name, value)
        }
    };
}

//! TEMPORARY
pub(crate) fn run(_: &crate::arguments::DrivesArguments) -> Result<(), crate::Error> {
    Ok(())
}

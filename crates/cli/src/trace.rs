//! TEMPORARY
pub(crate) fn run(_: &crate::arguments::TraceArguments) -> Result<(), crate::Error> {
    Ok(())
}

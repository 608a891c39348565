//! Errors of a machine description and of its boot.

use elevator::text::did_you_mean;

use super::fs::{ImageError, MakeError};

/// Why a machine cannot be built from its description and image.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BootError {
    /// A value in the description is out of range.
    #[error("machine '{machine}': {field}: {problem}")]
    Description {
        /// The machine's name.
        machine: String,
        /// Section and field.
        field: &'static str,
        /// What is wrong and which values are accepted.
        problem: String,
    },
    /// The description is not valid TOML, or lacks a field.
    #[error("machine description: {0}")]
    Syntax(String),
    /// No built-in machine has this name.
    #[error("unknown machine '{name}'; built-in machines: {}{}", .known.join(", "), did_you_mean(name, .known.iter().copied()))]
    Unknown {
        name: String,
        /// The built-in machines.
        known: Vec<&'static str>,
    },
    /// The file system cannot be made on this device.
    #[error("machine '{machine}': file-system: {problem}")]
    FileSystem {
        /// The machine's name.
        machine: String,
        /// Why.
        problem: MakeError,
    },
    /// A step of the image failed.
    #[error("image: {0}")]
    Image(#[from] ImageError),
}

//! The file system against what is expected of layouts, and against a slow, obvious one under random operations.

mod layouts;
mod model;

//! Layouts, and random operations against a simple model.

mod layouts;
mod model;

//! The test bed: real components, built and started on one machine.

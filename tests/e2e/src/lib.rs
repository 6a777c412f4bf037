//! Scenarios on the real cluster of the test bed.

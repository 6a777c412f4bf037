//! The peer-to-peer ring.

//! The compatibility matrix: products, engine builds, support rows, and the decision.
